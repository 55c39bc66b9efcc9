"""The check of the machine and the building of the environment, with stand-ins for machine and pip."""

from __future__ import annotations

import dataclasses
import itertools
import json
import pathlib
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence

import pytest

from setup import environment as setup
from tests.conftest import ROOT

GIB = 2**30
SMALL = setup.Environment(folder=".venv", requirements=("requirements.txt", "requirements-dev.txt"))


@pytest.fixture
def repository(tmp_path: pathlib.Path) -> pathlib.Path:
    """A repository with what the set-up reads, in a folder with a space."""
    root = tmp_path / "my clone"
    (root / "setup").mkdir(parents=True)
    for name in ("requirements.txt", "requirements-dev.txt", "constraints.txt", "pyproject.toml"):
        (root / name).write_text(f"# {name}\n", encoding="utf-8")
    return root


class Calls:
    """Stands for running commands: notes them, makes the folder that venv would make, fails on demand."""

    def __init__(self, root: pathlib.Path, *, fails_at: str = "") -> None:
        self.root, self.fails_at = root, fails_at
        self.done: list[str] = []

    def __call__(self, command: Sequence[str], what: str) -> None:
        assert setup.missing(SMALL, self.root)  # never ready before the last command
        self.done.append(what)
        if self.fails_at and self.fails_at in what:
            raise setup.SetupError(f"could not {what}")
        if "venv" in command:
            (self.root / ".venv" / "bin").mkdir(parents=True)
            (self.root / ".venv" / "bin" / "python").write_text("", encoding="utf-8")


# --- The check ---


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (setup.platform_problem(system="win32", machine="AMD64"), ["unsupported platform win32 AMD64", "WSL 2"]),
        (setup.platform_problem(system="darwin", machine="x86_64"), ["unsupported platform darwin x86_64"]),
        (setup.platform_problem(system="linux", machine="x86_64", is_64_bit=False), ["32-bit Python"]),
        (
            setup.wheel_problem(setup.ENVIRONMENTS["tpu"], system="darwin", machine="arm64"),
            [".venv-tpu needs Linux on x86-64, this is darwin arm64"],
        ),
        (setup.libc_problem(system="linux", libc=("", "")), ["glibc", "Alpine"]),
        (setup.libc_problem(system="linux", libc=("glibc", "2.17")), ["glibc 2.17 is too old", "2.28"]),
        (setup.processor_problem(machine="x86_64", cpuinfo="flags : fpu sse sse2\n"), ["no AVX", "-cpu host"]),
        (setup.disk_problem(pathlib.Path("/data"), 4 * GIB, free=GIB), ["1.0 GiB free at /data", "4.0 GiB needed"]),
        (setup.memory_problem(3 * GIB, total=2 * GIB), ["too little memory: 2.0 GiB, 3.0 GiB needed", "swap"]),
        (setup.folder_problem(pathlib.Path("/a:b")), ["the path /a:b has a ':'", "move the repository"]),
        (setup.folder_problem(pathlib.Path("/no/such/folder")), ["/no/such/folder is not writable"]),
    ],
)
def test_a_problem_says_what_is_wrong_and_what_to_do(problem: str, words: list[str]) -> None:
    assert [word for word in words if word not in problem] == []
    assert "\n" not in problem


@pytest.mark.parametrize(
    "problem",
    [
        setup.platform_problem(system="linux", machine="x86_64"),
        setup.platform_problem(system="darwin", machine="arm64"),
        setup.wheel_problem(setup.ENVIRONMENTS["main"], system="darwin", machine="arm64"),
        setup.wheel_problem(setup.ENVIRONMENTS["tpu"], system="linux", machine="x86_64"),
        setup.libc_problem(system="darwin"),
        setup.libc_problem(system="linux", libc=("glibc", "2.28")),
        setup.processor_problem(machine="x86_64", cpuinfo="processor : 0\nflags : fpu avx avx2\nbugs :\n"),
        setup.processor_problem(machine="x86_64", cpuinfo=""),  # unknown: let it try
        setup.processor_problem(machine="aarch64", cpuinfo="Features : fp asimd\n"),
        setup.disk_problem(pathlib.Path("/"), 4 * GIB, free=4 * GIB),
        setup.memory_problem(3 * GIB, total=3 * GIB),
    ],
)
def test_no_problem(problem: str) -> None:
    assert problem == ""


def test_this_machine_is_fit() -> None:
    assert setup.problems(SMALL, ROOT) == []


def test_all_problems_are_told_before_anything_is_run(
    repository: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = Calls(repository)
    monkeypatch.setattr(setup, "ROOT", repository)
    monkeypatch.setattr(setup, "call", calls)
    monkeypatch.setattr(setup, "processor_problem", lambda: "no AVX")
    monkeypatch.setattr(setup, "memory_problem", lambda needed: "too little memory")
    assert setup.main(["main"]) == 1
    assert capsys.readouterr().err == "setup: error: no AVX\nsetup: error: too little memory\n"
    assert calls.done == []
    assert not (repository / ".venv").exists()


# --- The stamp ---


def test_ready_only_after_the_last_step(repository: pathlib.Path) -> None:
    calls = Calls(repository)
    setup.build(SMALL, repository, call=calls)
    assert calls.done == [
        "make the virtual environment",
        "install the requirements",
        "install this package",
        "import what was installed",
    ]
    assert setup.missing(SMALL, repository) == ""


def commands(environment: setup.Environment, root: pathlib.Path) -> dict[str, list[str]]:
    """What building runs, by its purpose."""
    done: dict[str, list[str]] = {}

    def call(command: Sequence[str], what: str) -> None:
        done[what] = list(command)
        (root / environment.folder / "bin").mkdir(parents=True, exist_ok=True)
        (root / environment.folder / "bin" / "python").write_text("", encoding="utf-8")

    setup.build(environment, root, call=call)
    assert setup.missing(environment, root) == ""
    return done


def test_pins_are_exact_and_agree() -> None:
    for environment in setup.ENVIRONMENTS.values():
        names = {*environment.requirements, *(() if environment.resolves else (environment.constraints,))}
        pins: dict[str, set[str]] = {}
        for name in names:
            for line in (ROOT / name).read_text(encoding="utf-8").splitlines():
                requirement, _, marker = line.partition("#")[0].strip().partition(";")
                if requirement:
                    package, _, version = requirement.partition("==")
                    assert version, f"{name}: {line}"
                    pins.setdefault(f"{package.lower()};{marker.strip()}", set()).add(version)
        assert {package: versions for package, versions in pins.items() if len(versions) > 1} == {}


def test_requirements_are_resolved_within_the_constraints(repository: pathlib.Path) -> None:
    install = commands(SMALL, repository)["install the requirements"]
    assert "--no-deps" not in install
    assert install[install.index("-c") + 1] == str(repository / "constraints.txt")


def test_without_resolving_the_constraints_are_installed_too(repository: pathlib.Path) -> None:
    # Or what the requirements need in turn would be missing.
    install = commands(dataclasses.replace(SMALL, resolves=False), repository)["install the requirements"]
    files = [after for before, after in itertools.pairwise(install) if before == "-r"]
    names = ("constraints.txt", "requirements.txt", "requirements-dev.txt")
    assert sorted(files) == sorted(str(repository / name) for name in names)
    assert "--no-deps" in install
    assert "-c" not in install


def test_an_environment_without_the_package(repository: pathlib.Path) -> None:
    alone = dataclasses.replace(SMALL, with_package=False, imports="jax")
    done = commands(alone, repository)
    assert "install this package" not in done
    assert done["import what was installed"][-1] == "import jax"
    (repository / "pyproject.toml").write_text("[project]\n", encoding="utf-8")
    assert setup.missing(alone, repository) == ""


@pytest.mark.parametrize("step", ["virtual environment", "requirements", "this package", "import"])
def test_a_failed_step_leaves_it_unready_and_the_next_run_mends_it(repository: pathlib.Path, step: str) -> None:
    with pytest.raises(setup.SetupError, match=step):
        setup.build(SMALL, repository, call=Calls(repository, fails_at=step))
    assert setup.missing(SMALL, repository) == "everything"
    leftover = repository / ".venv" / "leftover"
    leftover.parent.mkdir(exist_ok=True)
    leftover.write_text("", encoding="utf-8")
    setup.build(SMALL, repository, call=Calls(repository))
    assert setup.missing(SMALL, repository) == ""
    assert not leftover.exists()


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt", "constraints.txt"])
def test_changed_requirements_ask_for_a_new_environment(repository: pathlib.Path, name: str) -> None:
    setup.build(SMALL, repository, call=Calls(repository))
    (repository / name).write_text("numpy==2.4.7\n", encoding="utf-8")
    assert setup.missing(SMALL, repository) == "everything"


def test_comments_in_requirements_do_not_count(repository: pathlib.Path) -> None:
    (repository / "requirements.txt").write_text("numpy==2.4.6\n", encoding="utf-8")
    setup.build(SMALL, repository, call=Calls(repository))
    (repository / "requirements.txt").write_text("# arrays\n\nnumpy==2.4.6  # the newest\n", encoding="utf-8")
    assert setup.missing(SMALL, repository) == ""


def test_another_python_asks_for_a_new_environment(repository: pathlib.Path) -> None:
    assert setup.fingerprint(SMALL, repository, python="3.11.7") != setup.fingerprint(
        SMALL, repository, python="3.12.1"
    )


def test_a_moved_repository_asks_for_a_new_environment(repository: pathlib.Path) -> None:
    setup.build(SMALL, repository, call=Calls(repository))
    moved = repository.rename(repository.parent / "moved")
    assert setup.missing(SMALL, moved) == "everything"


def test_a_removed_python_or_damaged_stamp_asks_for_a_new_environment(repository: pathlib.Path) -> None:
    setup.build(SMALL, repository, call=Calls(repository))
    stamp = repository / ".venv" / setup.STAMP
    content = stamp.read_text(encoding="utf-8")
    for damaged in ("", content[:20], "[]", json.dumps({"fingerprint": "x"})):
        stamp.write_text(damaged, encoding="utf-8")
        assert setup.missing(SMALL, repository) == "everything"
    stamp.write_text(content, encoding="utf-8")
    assert setup.missing(SMALL, repository) == ""
    (repository / ".venv" / "bin" / "python").unlink()
    assert setup.missing(SMALL, repository) == "everything"


def test_changed_package_metadata_installs_the_package_alone(
    repository: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = Calls(repository)
    monkeypatch.setattr(setup, "ROOT", repository)
    monkeypatch.setattr(setup, "call", calls)
    assert setup.main(["main"]) == 0
    assert setup.main(["main", "--is-ready"]) == 0
    calls.done.clear()
    (repository / "pyproject.toml").write_text("[project]\n", encoding="utf-8")
    assert setup.main(["main", "--is-ready"]) == 1
    assert setup.main(["main"]) == 0
    assert calls.done == ["install this package"]
    capsys.readouterr()
    assert setup.main(["main"]) == 0  # the second time there is nothing to do or say
    assert capsys.readouterr().err == ""


def test_two_runs_at_once_build_once(
    repository: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = Calls(repository)
    inside, go_on = threading.Event(), threading.Event()

    def slow(command: Sequence[str], what: str) -> None:
        inside.set()
        assert go_on.wait(timeout=60)
        calls(command, what)

    monkeypatch.setattr(setup, "ROOT", repository)
    monkeypatch.setattr(setup, "call", slow)
    say = setup.say

    def said(text: str) -> None:
        say(text)
        if "waiting" in text:
            go_on.set()

    monkeypatch.setattr(setup, "say", said)
    codes: list[int] = []
    # Each has its own descriptor of the locked folder, as two processes would.
    threads = [threading.Thread(target=lambda: codes.append(setup.main(["main"]))) for _ in range(2)]
    threads[0].start()
    assert inside.wait(timeout=60)
    threads[1].start()
    for thread in threads:
        thread.join(timeout=60)
    assert codes == [0, 0]
    assert len(calls.done) == 4
    assert "another run is setting up" in capsys.readouterr().err


def test_a_failed_command_says_what_to_do(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(setup.SetupError, match=r"could not try \(exit code 3.*HTTPS_PROXY"):
        setup.call([sys.executable, "-c", "print('no luck'); raise SystemExit(3)"], "try")
    assert capfd.readouterr().err == "no luck\n"
    setup.call([sys.executable, "-c", "print('noise')"], "try")
    assert capfd.readouterr() == ("", "")


def test_pip_is_called_with_its_own_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    # Index, proxy and constraint of the user stay; what would break a virtual environment does not.
    names = {"PIP_INDEX_URL": "http://index", "HTTPS_PROXY": "http://proxy", "PIP_USER": "1", "PYTHONPATH": "/else"}
    for name, value in names.items():
        monkeypatch.setenv(name, value)
    kept = {"PIP_INDEX_URL": "http://index", "HTTPS_PROXY": "http://proxy", "PIP_USER": "0", "PYTHONPATH": None}
    code = f"import os; assert {{name: os.environ.get(name) for name in {list(kept)}}} == {kept}"
    setup.call([sys.executable, "-c", code], "look at the variables")


# --- The search for a Python ---


class Machine:
    """A folder of programs that is the whole PATH, and a repository whose set-up only tells how it was called."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.programs = folder / "bin"
        self.programs.mkdir()
        for tool in ("dirname", "sh"):
            (self.programs / tool).symlink_to(shutil.which(tool) or tool)
        self.root = folder / "my clone"
        (self.root / "setup").mkdir(parents=True)
        shutil.copy(ROOT / "setup" / "prepare.sh", self.root / "setup")
        told = "import sys; print(sys.argv[1:], sys.flags.isolated)\n"
        (self.root / "setup" / "environment.py").write_text(told, encoding="utf-8")

    def program(self, name: str, script: str) -> pathlib.Path:
        path = self.programs / name
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)
        return path

    def prepare(self, name: str = "main", **variables: str) -> subprocess.CompletedProcess[str]:
        script = str(self.root / "setup" / "prepare.sh")
        settings = {"PATH": str(self.programs), "LANG": "C", **variables}
        return subprocess.run(["/bin/sh", script, name], env=settings, capture_output=True, text=True)


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> Machine:
    return Machine(tmp_path)


REAL = f'exec "{sys.executable}" "$@"'
BROKEN_SHIM = 'echo "pyenv: python3.13: command not found" >&2; exit 127'


def reports(version: str, code: int) -> str:
    return f"echo {version}; exit {code}"


def test_a_broken_shim_is_skipped(machine: Machine) -> None:
    machine.program("python3.13", BROKEN_SHIM)
    machine.program("python3.12", reports("3.12.0", 4))
    machine.program("python3.11", REAL)
    done = machine.prepare()
    assert (done.returncode, done.stdout, done.stderr) == (0, "['main'] 1\n", "")


def test_no_python_at_all(machine: Machine) -> None:
    done = machine.prepare()
    assert done.returncode == 1
    assert done.stderr.startswith(
        "setup: error: no fitting Python: CPython 3.11, 3.12 or 3.13 with venv is needed, none"
    )
    assert "make PYTHON=/path/of/python3.11" in done.stderr
    assert done.stderr.count("\n") == 1


def test_what_was_found_instead_is_told(machine: Machine) -> None:
    machine.program("python3.13", BROKEN_SHIM)
    machine.program("python3.11", reports("3.11.2", 4))
    machine.program("python3", reports("3.9.18", 3))
    # Python 2 does not know -I
    machine.program("python", f'[ "$1" = -I ] && exit 2\n{reports("2.7.18", 3)}')
    done = machine.prepare()
    assert done.returncode == 1
    assert "python3.13 does not run" in done.stderr
    assert "python3.11 (3.11.2) has no venv or ensurepip module" in done.stderr
    assert "apt-get install python3.11-venv" in done.stderr
    assert "python3 is Python 3.9.18" in done.stderr
    assert "python is Python 2.7.18" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_named_python_is_taken_or_refused(machine: Machine) -> None:
    machine.program("python3.13", BROKEN_SHIM)
    odd = machine.programs / "my tools"
    odd.mkdir()
    named = machine.program("my tools/python", REAL)
    assert machine.prepare(PYTHON=str(named)).stdout == "['main'] 1\n"

    machine.program("python3.11", REAL)
    old = machine.program("my tools/old", reports("3.8.1", 3))
    done = machine.prepare(PYTHON=str(old))  # not quietly another one
    assert done.returncode == 1
    assert f"{old} is Python 3.8.1" in done.stderr
    done = machine.prepare(PYTHON="/no/such/python")
    assert done.returncode == 1
    assert "/no/such/python does not exist" in done.stderr


def test_a_ready_environment_is_kept_whichever_python_is_found(machine: Machine) -> None:
    asked = 'echo "$@" >> "$ASKED"; exit 0'
    (machine.root / ".venv" / "bin").mkdir(parents=True)
    python = machine.root / ".venv" / "bin" / "python"
    python.write_text(f"#!/bin/sh\n{asked}\n", encoding="utf-8")
    python.chmod(0o755)
    machine.program("python3.11", REAL)
    log = machine.root / "asked"
    done = machine.prepare(ASKED=str(log))
    assert (done.returncode, done.stdout) == (0, "")
    assert log.read_text(encoding="utf-8").split()[-2:] == ["main", "--is-ready"]
    # a named Python decides anew
    named = machine.programs / "python3.11"
    assert machine.prepare(PYTHON=str(named), ASKED=str(log)).stdout == "['main'] 1\n"
