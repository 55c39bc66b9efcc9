"""Every door answers `--help` and a missing flag without loading TensorFlow."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.test_imports import TENSORFLOW, is_door, modules

DOORS = [name.removesuffix(".__main__") for name in modules() if is_door(name)]

# Runs a door as `python -m` does, and tells on standard error what was loaded by its end.
RUN = """
import runpy, sys
module = sys.argv[1]
sys.argv = sys.argv[1:]
try:
    runpy.run_module(module, run_name="__main__", alter_sys=True)
finally:
    print("loaded:", *sorted({name.split(".")[0] for name in sys.modules}), file=sys.stderr)
"""


def run(door: str, folder: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # From another folder: the doors run from anywhere.
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{RUN}"
    command = [sys.executable, "-c", code, door, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def loaded(stderr: str) -> set[str]:
    return set(stderr.splitlines()[-1].removeprefix("loaded:").split())


def test_there_are_doors() -> None:
    assert {"albert_tf.pretrain", "pipelines.build_pretraining_data", "export.saved_model"} <= set(DOORS)


@pytest.mark.parametrize("door", DOORS)
def test_help(door: str, tmp_path: pathlib.Path) -> None:
    done = run(door, tmp_path, "--help")
    assert done.returncode == 0
    assert loaded(done.stderr) & (TENSORFLOW | {"apache_beam"}) == set()
    # It teaches: a first line that says what it does, an example, and words for each flag.
    assert re.search(rf"python -m {re.escape(door)}( |$)", done.stdout.split("\n", 1)[1], re.MULTILINE)
    flags = re.findall(r"^  --(\S+)\n      (\S.*)$", done.stdout, re.MULTILINE)
    assert flags
    assert [name for name, words in flags if len(words.split()) < 3] == []
    # A backslash at the end of an example's line is there, not eaten by Python with the line's end.
    assert not re.search(r"python -m .* {2,}--", done.stdout)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("door", DOORS)
def test_unknown_flag(door: str, tmp_path: pathlib.Path) -> None:
    done = run(door, tmp_path, "--no_such_flag_anywhere=1")
    assert done.returncode == 2
    assert loaded(done.stderr) & (TENSORFLOW | {"apache_beam"}) == set()
    assert "error: unknown flag --no_such_flag_anywhere" in done.stderr.splitlines()[0]
    assert list(tmp_path.iterdir()) == []
