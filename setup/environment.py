"""Checks the machine, then builds a virtual environment. Standard library only; `prepare.sh` finds the Python for it.

    python setup/environment.py main              builds .venv unless it is ready
    python setup/environment.py main --is-ready   exit code 0 if it is ready

An environment is ready once `ready.json` lies in it, written last, and holds the fingerprint of the requirement files
and of the Python. Anything else in its place, such as what an interrupted run left, is removed and built anew. Where
only pyproject.toml has changed, the package alone is installed again.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

ROOT = pathlib.Path(__file__).resolve().parent.parent
GIB = 2**30
STAMP = "ready.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Environment:
    """A virtual environment: its folder and what is installed into it, relative to the repository's root.

    Attributes:
      folder: where it stands.
      requirements: files of what is installed.
      constraints: file of what those need in turn.
      resolves: whether pip looks for what the requirements need. Else it installs what both files list, and no more:
        for packages that ask for one that would overwrite another.
      with_package: whether this package is installed, too.
      imports: modules that must import in the end.
      download: what pip fetches the first time.
      only_linux_x86: whether there are wheels for Linux on x86-64 only.
    """

    folder: str
    requirements: tuple[str, ...]
    constraints: str = "constraints.txt"
    resolves: bool = True
    with_package: bool = True
    imports: str = "tensorflow_text, apache_beam"
    download: str = "0.9 GB"
    only_linux_x86: bool = False
    # Measured: 2.6 GiB installed, 0.9 GiB of downloads in pip's cache, and as much again in the temporary folder.
    disk_bytes: int = 4 * GIB
    temporary_bytes: int = 2 * GIB
    memory_bytes: int = int(3.5 * GIB)  # what a machine sold with 4 GB shows


ENVIRONMENTS: Mapping[str, Environment] = {
    "main": Environment(folder=".venv", requirements=("requirements.txt", "requirements-dev.txt")),
    "tf220": Environment(folder=".venv-tf220", requirements=("requirements-tf220.txt", "requirements-dev.txt")),
    "tpu": Environment(
        folder=".venv-tpu",
        requirements=("requirements-tpu.txt", "requirements-dev.txt"),
        resolves=False,
        only_linux_x86=True,
    ),
    "tpu-check": Environment(
        folder=".venv-tpu-check",
        requirements=("requirements-tpu-check.txt",),
        with_package=False,
        only_linux_x86=True,
        imports="jax, libtpu",
        download="0.4 GB",
        disk_bytes=2 * GIB,
        temporary_bytes=1 * GIB,
    ),
    "peers": Environment(
        folder=".venv-peers",
        requirements=("requirements.txt", "requirements-dev.txt", "requirements-peers.txt"),
        # PyTorch asks for more of CUDA than its import needs; see requirements-peers.txt.
        resolves=False,
        imports="tensorflow_text, torch, transformers",
        download="3.5 GB",
        disk_bytes=12 * GIB,
        temporary_bytes=5 * GIB,
    ),
}


class SetupError(Exception):
    """What is wrong and what to do, in one line."""


# --- The check before any download ------------------------------------------------------------------------------------


def platform_problem(*, system: str = sys.platform, machine: str = platform.machine(), is_64_bit: bool = True) -> str:
    """Why there are no packages for this platform, or ""."""
    supported = {("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64")}
    if (system, machine) not in supported or not is_64_bit:
        return (
            f"unsupported platform {system} {machine}{'' if is_64_bit else ' with a 32-bit Python'}: "
            "use Linux on x86-64 or ARM64, or macOS on Apple silicon (on Windows: WSL 2)"
        )
    return ""


def wheel_problem(environment: Environment, *, system: str = sys.platform, machine: str = platform.machine()) -> str:
    """Why this environment cannot be had on a platform that others can be had on, or ""."""
    if environment.only_linux_x86 and (system, machine) != ("linux", "x86_64"):
        return f"{environment.folder} needs Linux on x86-64, this is {system} {machine}: libtpu has no other wheels"
    return ""


def libc_problem(*, system: str = sys.platform, libc: tuple[str, str] | None = None) -> str:
    """Why the C library is too old or of another kind, or ""."""
    if system != "linux":
        return ""
    name, version = platform.libc_ver() if libc is None else libc
    if name != "glibc":
        return "unsupported C library: TensorFlow needs glibc, which Alpine Linux has not; use Debian, Ubuntu or Fedora"
    numbers = [int(part) for part in version.split(".")[:2]]
    if numbers < [2, 28]:
        return f"glibc {version} is too old: the packages need 2.28 or newer (Debian 10, Ubuntu 20.04, RHEL 8)"
    return ""


def processor_problem(*, machine: str = platform.machine(), cpuinfo: str | None = None) -> str:
    """Why TensorFlow would die with "Illegal instruction", or "". Only Linux tells the processor's features."""
    if machine != "x86_64":
        return ""
    if cpuinfo is None:
        try:
            cpuinfo = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
    flags = [line.split(":", 1)[1].split() for line in cpuinfo.splitlines() if line.startswith("flags")]
    if flags and "avx" not in flags[0]:
        return (
            "the processor has no AVX, which TensorFlow needs: use another machine, or in a virtual machine pass the "
            "host's processor through (QEMU: -cpu host)"
        )
    return ""


def disk_problem(folder: pathlib.Path, needed: int, *, free: int | None = None, advice: str = "") -> str:
    """Why the disk that holds `folder` is too full, or ""."""
    free = shutil.disk_usage(folder).free if free is None else free
    if free < needed:
        return (
            f"too little disk: {free / GIB:.1f} GiB free at {folder}, {needed / GIB:.1f} GiB needed; free some"
            f"{advice or ' or move the repository to another disk'}"
        )
    return ""


def memory_problem(needed: int, *, total: int | None = None) -> str:
    """Why there is too little memory, or ""."""
    total = _memory_total() if total is None else total
    if total is not None and total < needed:
        return (
            f"too little memory: {total / GIB:.1f} GiB, {needed / GIB:.1f} GiB needed; use a larger machine, raise the "
            "container's limit or add swap"
        )
    return ""


def folder_problem(root: pathlib.Path) -> str:
    """Why no environment can be made in `root`, or ""."""
    if os.pathsep in str(root):
        return f"the path {root} has a {os.pathsep!r}, with which no virtual environment works: move the repository"
    if not os.access(root, os.W_OK):
        return f"{root} is not writable: give yourself the right, or clone the repository to a folder of yours"
    return ""


def _memory_total() -> int | None:
    """Memory and swap in bytes, at most what a container may use; None where unknown."""
    try:
        lines = pathlib.Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    values = {key: int(rest.split()[0]) * 1024 for key, rest in (line.split(":", 1) for line in lines)}
    total = values.get("MemTotal", 0) + values.get("SwapTotal", 0)
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):  # absent, or the word "max"
            total = min(total, int(pathlib.Path(limit).read_text(encoding="ascii")))
    return total or None


def problems(environment: Environment, root: pathlib.Path) -> list[str]:
    """All that is wrong with this machine, one line each."""
    temporary = pathlib.Path(tempfile.gettempdir())
    needed = environment.disk_bytes
    if os.stat(temporary).st_dev == os.stat(root).st_dev:
        needed += environment.temporary_bytes
        temporary_problem = ""
    else:
        advice = " or set TMPDIR to a folder on another disk"
        temporary_problem = disk_problem(temporary, environment.temporary_bytes, advice=advice)
    found = [
        platform_problem(is_64_bit=sys.maxsize > 2**32),
        wheel_problem(environment),
        libc_problem(),
        processor_problem(),
        folder_problem(root),
        disk_problem(root, needed),
        temporary_problem,
        memory_problem(environment.memory_bytes),
    ]
    return [problem for problem in found if problem]


# --- The environment --------------------------------------------------------------------------------------------------


def fingerprint(environment: Environment, root: pathlib.Path, *, python: str = sys.version) -> str:
    """Hash of all that decides what is installed: requirement files without comments, Python, and the place.

    The place counts since scripts in a virtual environment name it: a moved one is broken.
    """
    digest = hashlib.sha256()
    for part in (python, platform.machine(), str(root)):
        digest.update(part.encode("utf-8", "surrogateescape") + b"\0")
    for name in (*environment.requirements, environment.constraints):
        lines = (line.partition("#")[0].strip() for line in (root / name).read_text(encoding="utf-8").splitlines())
        digest.update("\n".join([name, *filter(None, lines)]).encode() + b"\0")
    return digest.hexdigest()


def package_fingerprint(root: pathlib.Path) -> str:
    """Hash of what decides how this package is installed."""
    return hashlib.sha256((root / "pyproject.toml").read_bytes()).hexdigest()


def missing(environment: Environment, root: pathlib.Path) -> str:
    """What has to be done until the environment is ready: "everything", "package" or ""."""
    folder = root / environment.folder
    try:
        stamp = json.loads((folder / STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return "everything"
    python = folder / "bin" / "python"  # a link, broken once the Python behind it is removed
    if not isinstance(stamp, dict) or stamp.get("fingerprint") != fingerprint(environment, root) or not python.exists():
        return "everything"
    if not environment.with_package:
        return ""
    return "" if stamp.get("package") == package_fingerprint(root) else "package"


def write_stamp(environment: Environment, root: pathlib.Path) -> None:
    """Declares the environment ready."""
    stamp = root / environment.folder / STAMP
    content = {
        "fingerprint": fingerprint(environment, root),
        "package": package_fingerprint(root),
        "python": sys.version,
    }
    temporary = stamp.with_suffix(".partial")
    temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    os.replace(temporary, stamp)


@contextlib.contextmanager
def lock(root: pathlib.Path) -> Iterator[None]:
    """Lets one process at a time build; the lock goes with the process, so that none is left over."""
    import fcntl

    handle = os.open(root / "setup", os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another run is setting up; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def build(environment: Environment, root: pathlib.Path, *, call: Callable[[Sequence[str], str], None]) -> None:
    """Builds the environment from nothing. `call(command, what)` runs one command.

    Raises:
      SetupError: if a command fails.
    """
    begun = time.monotonic()
    folder = root / environment.folder
    say(f"Python {platform.python_version()} ({sys.executable}); building {environment.folder}")
    say(f"this takes some minutes, and the first time downloads {environment.download}")
    if folder.is_symlink() or folder.exists():
        say(f"removing {environment.folder}, which is unfinished or made for other requirements")
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            (folder / STAMP).unlink()  # first, so that what a kill leaves of the folder does not count as ready
        if folder.is_symlink() or not folder.is_dir():
            folder.unlink()
        else:
            shutil.rmtree(folder)
    call([sys.executable, "-m", "venv", str(folder)], "make the virtual environment")
    say("installing " + ", ".join(environment.requirements))
    requirements = [part for name in environment.requirements for part in ("-r", str(root / name))]
    constraints = str(root / environment.constraints)
    which = ["-c", constraints, "setuptools", "wheel"] if environment.resolves else ["--no-deps", "-r", constraints]
    call([*_pip_install(folder), *which, *requirements], "install the requirements")
    if environment.with_package:
        install_package(environment, root, call=call)
    say("trying the installation")
    python = str(folder / "bin" / "python")
    call([python, "-c", f"import {environment.imports}"], "import what was installed")
    write_stamp(environment, root)
    say(f"{environment.folder} is ready after {time.monotonic() - begun:.0f} s")


def install_package(
    environment: Environment, root: pathlib.Path, *, call: Callable[[Sequence[str], str], None]
) -> None:
    """Makes this package importable from any folder, its sources staying where they are.

    Raises:
      SetupError: if that fails.
    """
    # Build isolation would download setuptools once more, in a version that nobody pinned.
    options = ["--no-deps", "--no-build-isolation", "--quiet", "-e", str(root)]
    call([*_pip_install(root / environment.folder), *options], "install this package")


def _pip_install(folder: pathlib.Path) -> list[str]:
    return [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--no-input"]


def call(command: Sequence[str], what: str) -> None:
    """Runs `command`, showing its output; that of `python -c` only if it fails.

    Raises:
      SetupError: if it fails.
    """
    # pip's own files and variables count, but --user cannot work inside a virtual environment.
    variables = {"PIP_USER": "0", "PYTHONNOUSERSITE": "1", "KERAS_BACKEND": "tensorflow"}
    # Else libtpu, where there is no TPU, asks Google Cloud's metadata server for minutes before the import is done.
    variables["TPU_SKIP_MDS_QUERY"] = "1"
    dropped = ("PYTHONPATH", "PYTHONHOME", "TF_USE_LEGACY_KERAS", "__PYVENV_LAUNCHER__")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    # pip's progress is for the reader; what an import writes is so only if it fails.
    is_import = command[1] == "-c"
    done = subprocess.run(
        command,
        check=False,
        env={**kept, **variables},
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if is_import else None,
        stderr=subprocess.STDOUT if is_import else None,
    )
    if code := done.returncode:
        sys.stderr.write((done.stdout or b"").decode(errors="replace"))
        raise SetupError(
            f"could not {what} (exit code {code}, its message is above). Behind a proxy set HTTPS_PROXY, for another "
            "package index pip's own configuration (pip config set global.index-url ...); then run make again"
        )


def say(text: str) -> None:
    """One line of what is going on."""
    print(f"setup: {text}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str]) -> int:
    """Exit code: 0 ready, 1 not."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("name", choices=sorted(ENVIRONMENTS), help="which environment")
    parser.add_argument("--is-ready", action="store_true", help="only tell by the exit code whether it is ready")
    parser.add_argument("--check", action="store_true", help="only check the machine")
    flags = parser.parse_args(arguments)
    environment = ENVIRONMENTS[flags.name]
    if flags.is_ready:
        return 1 if missing(environment, ROOT) else 0
    if not flags.check and not missing(environment, ROOT):
        return 0
    found = problems(environment, ROOT)
    for problem in found:
        say(f"error: {problem}")
    if found or flags.check:
        return 1 if found else 0
    try:
        with lock(ROOT):
            what = missing(environment, ROOT)  # asked again: another run may just have built it
            if what == "everything":
                build(environment, ROOT, call=call)
            elif what == "package":
                say("pyproject.toml has changed: installing this package again")
                install_package(environment, ROOT, call=call)
                write_stamp(environment, ROOT)
    except (SetupError, OSError) as error:
        say(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        say("interrupted; the next run begins anew, with what pip has downloaded")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
