"""The demo's pretraining: `albert_tf.pretrain` with a watch on the clock.

The number of steps is set so that two ordinary cores take about three minutes. On a slower machine the first steps show
how long all would take; then training begins anew with as many as fit, since the learning rate has to fall to 0 over
the steps there are. The number is written down, so that a run that was stopped goes on with it.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from typing import Any

from absl import logging

from albert_tf.files import write_whole
from demo.commands import Command, run
from demo.settings import DemoSettings
from demo.workspace import Workspace

METRICS_FILE = "metrics.jsonl"
FEWEST_STEPS = 200
# Seconds that everything after the training takes on two cores: export, judgement, answers.
SECONDS_AFTER = 80.0
_SECONDS_TO_MEASURE = 10.0
_POLL_SECONDS = 1.0


def pretrain(workspace: Workspace, settings: DemoSettings, seconds_left: Callable[[], float]) -> dict[str, Any]:
    """Trains to the end, or goes on where an earlier run stopped.

    Returns:
      Figures: steps, and "reduced" where they are fewer than the settings say.
    """
    steps = _read_steps(workspace) or settings.num_train_steps
    pace = Pace(workspace.path("training", METRICS_FILE), steps, lambda: seconds_left() - SECONDS_AFTER)
    run(workspace, command(workspace, settings, steps), watch=pace.watch)
    if pace.affordable_steps is not None:
        steps = max(FEWEST_STEPS, min(pace.affordable_steps, settings.num_train_steps))
        logging.warning(
            "This machine makes %.2f steps a second; all %d would take too long. Beginning anew with %d steps.",
            pace.rate,
            settings.num_train_steps,
            steps,
        )
        workspace.clear("training")
        write_whole(workspace.path("steps.json"), json.dumps({"num_train_steps": steps}) + "\n")
        run(workspace, command(workspace, settings, steps))
    return {"steps": steps, "reduced": steps < settings.num_train_steps}


def command(workspace: Workspace, settings: DemoSettings, steps: int) -> Command:
    """The training's command line."""
    write_whole(workspace.path("albert_config.json"), settings.config.to_json())
    evaluate_every = -(-steps // settings.evaluations)  # rounded up, so that the last one is the end
    return Command(
        door="albert_tf.pretrain",
        flags={
            "data_dir": workspace.path("data", "training"),
            "eval_data_dir": workspace.path("data", "held_out"),
            "config": workspace.path("albert_config.json"),
            "output_dir": workspace.path("training"),
            "strategy": "cpu",
            "train_batch_size": settings.train_batch_size,
            "num_train_steps": steps,
            "num_warmup_steps": round(steps * settings.warmup_share),
            "optimizer": settings.optimizer,
            "learning_rate": settings.learning_rate,
            "weight_decay": settings.weight_decay,
            "seed": settings.seed,
            "eval_steps": evaluate_every,
            "max_eval_examples": settings.max_eval_examples,
            "eval_batch_size": 64,
            "save_checkpoints_steps": evaluate_every,
            "log_steps": 20,
        },
    )


def _read_steps(workspace: Workspace) -> int | None:
    """Steps that an earlier run of this folder found affordable."""
    try:
        with open(workspace.path("steps.json"), encoding="utf-8") as file:
            return int(json.load(file)["num_train_steps"])
    except FileNotFoundError:
        return None


class Pace:
    """Watches a training and ends it early where it would not be done in time.

    Args:
      metrics_file: where the training notes its steps.
      steps: it should make.
      seconds_left: for the training from now on.

    Attributes:
      affordable_steps: steps that fit instead; None as long as all do.
      rate: steps a second, as measured; 0 before.
    """

    def __init__(self, metrics_file: str, steps: int, seconds_left: Callable[[], float]) -> None:
        self.affordable_steps: int | None = None
        self.rate = 0.0
        self._metrics_file = metrics_file
        self._steps = steps
        self._seconds_left = seconds_left

    def watch(self, process: subprocess.Popen[bytes]) -> None:
        """Returns when the pace is known and is good enough, the process has ended, or this ended it."""
        begun: tuple[float, int] | None = None
        before = last_step(self._metrics_file)  # of a run that goes on
        while process.poll() is None:
            time.sleep(_POLL_SECONDS)
            step, now = last_step(self._metrics_file), time.monotonic()
            if step <= before:
                continue
            if begun is None:
                begun = now, step  # the first steps, with the graph's construction, are not counted
            elif now - begun[0] >= _SECONDS_TO_MEASURE and step > begun[1]:
                self.rate = (step - begun[1]) / (now - begun[0])
                left = self._seconds_left()
                if (self._steps - step) / self.rate > left and before == 0:
                    self.affordable_steps = int(left * self.rate)
                    _end(process)
                return


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    process.returncode = 0  # it did what was asked of it


def last_step(metrics_file: str) -> int:
    """Last step that a training has noted; 0 if none."""
    records = read_metrics(metrics_file)
    return int(records[-1].get("step", 0)) if records else 0


def read_metrics(metrics_file: str) -> list[dict[str, Any]]:
    """Whole lines of metrics.jsonl; a line that is being written is left out."""
    if not os.path.exists(metrics_file):
        return []
    with open(metrics_file, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.endswith("\n")]
