"""What is installed for a TPU, looked up in made-up metadata: what is refused, what is said, and before what."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest

from albert_tf.tpu import requirements
from setup import environment
from tests.conftest import ROOT


def install(folder: pathlib.Path, **versions: str) -> list[str]:
    """Metadata of these distributions in `folder`, as an installer leaves it; "_" stands for "-" in a name."""
    for name, version in versions.items():
        info = folder / f"{name}-{version}.dist-info"
        info.mkdir(parents=True)
        text = f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n"
        (info / "METADATA").write_text(text, encoding="utf-8")
    return [str(folder)]


@pytest.mark.parametrize("libtpu", ["0.0.21", "0.0.21.1"])
@pytest.mark.parametrize("is_local", [True, False])
def test_the_pins_are_accepted(tmp_path: pathlib.Path, is_local: bool, libtpu: str) -> None:
    path = install(tmp_path, tensorflow_tpu="2.20.0", libtpu=libtpu)
    requirements.check_installed(is_local=is_local, path=path)


@pytest.mark.parametrize("is_local", [True, False])
@pytest.mark.parametrize("libtpu", ["0.0.20", "0.0.52"])
def test_another_libtpu_is_refused(tmp_path: pathlib.Path, is_local: bool, libtpu: str) -> None:
    path = install(tmp_path, tensorflow_tpu="2.20.0", libtpu=libtpu)
    message = f"libtpu {libtpu} is installed, but tensorflow-tpu 2.20.0 needs 0.0.21 or 0.0.21.1 "
    with pytest.raises(ValueError, match=f"^{re.escape(message)}.*; pip install libtpu==0.0.21") as caught:
        requirements.check_installed(is_local=is_local, path=path)
    assert "\n" not in str(caught.value)


def test_a_missing_libtpu_is_refused(tmp_path: pathlib.Path) -> None:
    path = install(tmp_path, tensorflow_tpu="2.20.0")
    with pytest.raises(ValueError, match=r"libtpu is not installed, but .*; pip install libtpu==0\.0\.21"):
        requirements.check_installed(is_local=True, path=path)


def test_a_tensorflow_over_that_for_tpus_is_refused(tmp_path: pathlib.Path) -> None:
    path = install(tmp_path, tensorflow_tpu="2.20.0", tensorflow="2.20.0", libtpu="0.0.21")
    with pytest.raises(ValueError, match=r"tensorflow 2\.20\.0 .* beside tensorflow-tpu 2\.20\.0 .*`make env-tpu`"):
        requirements.check_installed(is_local=False, path=path)


def test_a_tensorflow_without_tpus_does_for_a_tpu_elsewhere_only(tmp_path: pathlib.Path) -> None:
    path = install(tmp_path, tensorflow="2.21.0", libtpu="0.0.52")
    requirements.check_installed(is_local=False, path=path)
    with pytest.raises(ValueError, match=r"tpu=local needs .*tensorflow-tpu, but tensorflow 2\.21\.0 .*`make env-tpu`"):
        requirements.check_installed(is_local=True, path=path)
    with pytest.raises(ValueError, match="but no TensorFlow is installed"):
        requirements.check_installed(is_local=True, path=[str(tmp_path / "empty")])


def run_door(folder: pathlib.Path, tpu: str) -> tuple[subprocess.CompletedProcess[str], bool]:
    """The door with --strategy=tpu where `folder` is searched for packages first; whether it loaded TensorFlow."""
    code = (
        "import runpy, sys\n"
        "try:\n    runpy.run_module('albert_tf.pretrain', run_name='__main__', alter_sys=True)\n"
        "finally:\n    print('tensorflow' in sys.modules)"
    )
    needed = ("--data_dir=none", "--output_dir=none", "--num_train_steps=3", "--learning_rate=0.01")
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-c", code, *needed, "--strategy=tpu", f"--tpu={tpu}"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
    return done, done.stdout.splitlines()[-1] == "True"


@pytest.mark.parametrize(
    ("installed", "tpu", "words"),
    [
        ({"tensorflow_tpu": "2.20.0", "libtpu": "0.0.52"}, "local", "libtpu 0.0.52 is installed, but tensorflow-tpu"),
        ({"tensorflow_tpu": "2.20.0", "libtpu": "0.0.52"}, "far", "libtpu 0.0.52 is installed, but tensorflow-tpu"),
        ({}, "local", "tpu=local needs the package tensorflow-tpu, but tensorflow 2."),
    ],
)
def test_the_door_refuses_before_it_loads_tensorflow(
    tmp_path: pathlib.Path, installed: dict[str, str], tpu: str, words: str
) -> None:
    install(tmp_path, **installed)
    done, has_tensorflow = run_door(tmp_path, tpu)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("albert_tf.pretrain: error: ")
    assert words in line
    assert not has_tensorflow


# --- The requirement files ---


def pins(name: str) -> dict[str, set[str]]:
    """Package -> versions that a requirement file pins."""
    found: dict[str, set[str]] = {}
    for line in (ROOT / name).read_text(encoding="utf-8").splitlines():
        if requirement := line.partition("#")[0].partition(";")[0].strip():
            package, _, version = requirement.partition("==")
            found.setdefault(package, set()).add(version)
    return found


def test_the_file_for_tpus_pins_what_the_check_accepts() -> None:
    found = pins("requirements-tpu.txt")
    (release,) = found["tensorflow-tpu"]
    assert found["libtpu"] == set(requirements.NEEDED[release])
    assert "tensorflow" not in found


def test_the_file_for_tpus_differs_from_that_for_tensorflow_220_in_tensorflow_alone() -> None:
    found, expected = pins("requirements-tpu.txt"), pins("requirements-tf220.txt")
    del found["libtpu"]
    assert found.pop("tensorflow-tpu") == expected.pop("tensorflow")
    assert found == expected


def test_nothing_but_the_listed_packages_is_installed_for_tpus() -> None:
    # tensorflow-text and keras-hub ask for the package tensorflow: resolving would bring it.
    assert not environment.ENVIRONMENTS["tpu"].resolves
    assert "tensorflow" not in pins("constraints.txt")
