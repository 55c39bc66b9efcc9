"""The watch on the clock: a training that cannot be done in time is ended, with the steps that can."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest

from demo import pretraining, settings, workspace
from demo.commands import Command

# Notes a step every 20 ms until step 400, like a training of 50 steps a second.
TRAINING = """
import json, sys, time
with open(sys.argv[1], "a") as file:
    for step in range(int(sys.argv[2]), 400):
        file.write(json.dumps({"step": step, "kind": "train"}) + "\\n")
        file.flush()
        time.sleep(0.02)
"""


@pytest.fixture(autouse=True)
def quick_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pretraining, "_SECONDS_TO_MEASURE", 0.5)
    monkeypatch.setattr(pretraining, "_POLL_SECONDS", 0.05)


def watch(path: pathlib.Path, first_step: int, seconds_left: float) -> tuple[pretraining.Pace, int]:
    """A watched training from `first_step`; the watch, and the training's exit code."""
    pace = pretraining.Pace(str(path), 400, lambda: seconds_left)
    process = subprocess.Popen([sys.executable, "-c", TRAINING, str(path), str(first_step)])
    pace.watch(process)
    if pace.affordable_steps is None:
        process.kill()
    return pace, process.wait()


def test_training_that_is_fast_enough_is_left_alone(tmp_path: pathlib.Path) -> None:
    pace, _ = watch(tmp_path / "metrics.jsonl", 1, seconds_left=1000.0)
    assert pace.affordable_steps is None
    # 50 steps a second asked for; sleeping takes longer on a busy machine.
    assert 5 < pace.rate < 51


def test_training_that_is_too_slow_is_ended_with_the_steps_that_fit(tmp_path: pathlib.Path) -> None:
    pace, code = watch(tmp_path / "metrics.jsonl", 1, seconds_left=0.5)
    assert pace.affordable_steps == int(0.5 * pace.rate)
    assert code == 0
    assert pretraining.last_step(str(tmp_path / "metrics.jsonl")) < 400


def test_training_that_goes_on_is_not_begun_anew(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 100, "kind": "train"}\n')
    pace, _ = watch(path, 101, seconds_left=0.5)
    assert pace.affordable_steps is None


def test_metrics_leave_out_a_line_that_is_being_written(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "metrics.jsonl"
    assert pretraining.read_metrics(str(path)) == []
    assert pretraining.last_step(str(path)) == 0
    path.write_text('{"step": 20}\n{"step": 40}\n{"ste')
    assert pretraining.read_metrics(str(path)) == [{"step": 20}, {"step": 40}]
    assert pretraining.last_step(str(path)) == 40


def test_fewer_steps_are_noted_and_kept(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = settings.DemoSettings(num_train_steps=1000, warmup_share=0.1, evaluations=4)
    commands: list[Command] = []

    def run(room: workspace.Workspace, command: Command, *, watch: object = None) -> None:
        commands.append(command)
        if watch is not None and len(commands) == 1:
            pace = watch.__self__  # type: ignore[attr-defined]
            pace.rate, pace.affordable_steps = 3.0, 300

    monkeypatch.setattr(pretraining, "run", run)
    with workspace.open_workspace(str(tmp_path)) as room:
        (tmp_path / "training").mkdir()
        assert pretraining.pretrain(room, recipe, lambda: 99.0) == {"steps": 300, "reduced": True}
        assert not (tmp_path / "training").exists()
        assert pretraining.pretrain(room, recipe, lambda: 99.0) == {"steps": 300, "reduced": True}
    flags = [command.flags for command in commands]
    assert [flag["num_train_steps"] for flag in flags] == [1000, 300, 300]
    assert [flag["num_warmup_steps"] for flag in flags] == [100, 30, 30]
    assert [flag["eval_steps"] for flag in flags] == [250, 75, 75]
    written = json.loads((tmp_path / "albert_config.json").read_text())
    assert written["vocab_size"] == recipe.vocab_size == 4000
