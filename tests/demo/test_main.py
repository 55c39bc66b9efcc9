"""The run as a whole with three small stages in place of the real ones: resume, reuse, cleaning up."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

# Stages that each append their name to a file; the second waits until it may go on. The summary is left out.
PROGRAM = """
import pathlib, sys, time
from albert_tf import door
import demo.__main__ as entry
from demo import settings, stages

here = pathlib.Path(sys.argv.pop(1))

def stage(name):
    def work(run):
        with open(here / "done", "a") as file:
            file.write(name + " ")
        while name == "two" and not (here / "go").exists():
            time.sleep(0.02)
        (here / f"{name}.txt").touch()
        return {"from": sorted(run.notes)}
    return stages.Stage(name=name, title=f"Stage {name}", work=work, outputs=(str(here / f"{name}.txt"),))

stages.STAGES = (stage("one"), stage("two"), stage("three"))
entry._summary = lambda run, rows, seconds: print(run.notes)
settings.versions = lambda: {"python": "any"}
door.run(entry.main)
"""


def start(folder: pathlib.Path, *flags: str) -> subprocess.Popen[str]:
    """The demo with its output in `folder`/out."""
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder), f"--folder={folder / 'out'}", *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=pathlib.Path(__file__).resolve().parents[2],
    )


def wait_for(path: pathlib.Path, text: str) -> None:
    """Returns when the file holds the text."""
    deadline = time.monotonic() + 60.0  # a start takes a second; a busy machine may need many
    while not path.exists() or path.read_text() != text:
        assert time.monotonic() < deadline, f"{path} does not become {text!r}"
        time.sleep(0.02)


@pytest.mark.parametrize(("ending", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_stopped_run_goes_on_where_it_was(tmp_path: pathlib.Path, ending: signal.Signals, code: int) -> None:
    process = start(tmp_path)
    wait_for(tmp_path / "done", "one two ")
    os.kill(process.pid, ending)
    process.communicate()
    assert process.returncode == code

    (tmp_path / "go").touch()
    second = start(tmp_path)
    output = second.communicate()[0]
    assert second.returncode == 0, output
    assert (tmp_path / "done").read_text() == "one two two three "
    assert output.index("Stage one") < output.index("used again") < output.index("Stage two")
    assert "{'one': {'from': []}, 'two': {'from': ['one']}, 'three': {'from': ['one', 'two']}}" in output

    third = start(tmp_path)
    output = third.communicate()[0]
    assert output.count("used again") == 3
    assert (tmp_path / "done").read_text() == "one two two three "

    (tmp_path / "two.txt").unlink()
    output = start(tmp_path).communicate()[0]
    assert output.count("used again") == 1
    assert (tmp_path / "done").read_text() == "one two two three two three "

    cleaner = start(tmp_path, "--clean")
    assert "removed" in cleaner.communicate()[0]
    assert not (tmp_path / "out").exists()
    assert "was not there" in start(tmp_path, "--clean").communicate()[0]


def test_two_runs_at_once_do_not_share_the_folder(tmp_path: pathlib.Path) -> None:
    process = start(tmp_path)
    wait_for(tmp_path / "done", "one two ")
    second = start(tmp_path)
    output = second.communicate()[0]
    assert second.returncode == 1
    assert "another run of the demo works in this folder" in output
    assert "Traceback" not in output
    (tmp_path / "go").touch()
    output = process.communicate()[0]
    assert process.returncode == 0, output
