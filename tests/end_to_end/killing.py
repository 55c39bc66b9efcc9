"""Pretraining runs that are killed on purpose, as often and at such moments as a test asks for."""

from __future__ import annotations

import dataclasses
import pathlib
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Literal

import numpy as np
import tensorflow as tf

from albert_tf.config import AlbertConfig
from tests.data import toy

# How a run is ended: by SIGKILL at any moment, by SIGKILL while a checkpoint is being written, by SIGTERM.
Kind = Literal["kill", "writing", "term"]

# Large enough that a checkpoint takes a while to write: 9 MB.
CONFIG = AlbertConfig(
    vocab_size=61,
    embedding_size=64,
    hidden_size=224,
    num_hidden_layers=3,
    num_attention_heads=4,
    intermediate_size=896,
    max_position_embeddings=27,
    hidden_dropout_prob=0.1,
    attention_probs_dropout_prob=0.1,
)
BATCH = 16


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """A pretraining run on toy data, with dropout, shuffling and dynamic masks.

    Attributes:
      data_dir: from `write_data`.
      output_dir: its folder.
      num_train_steps: steps of the whole run.
      save_steps: steps between two checkpoints.
    """

    data_dir: pathlib.Path
    output_dir: pathlib.Path
    num_train_steps: int
    save_steps: int

    @property
    def command(self) -> list[str]:
        """What a user types."""
        flags = {
            "config": self.data_dir.parent / "config.json",
            "data_dir": self.data_dir,
            "output_dir": self.output_dir,
            "strategy": "cpu",
            "num_train_steps": self.num_train_steps,
            "num_warmup_steps": 5,
            "learning_rate": 0.01,
            "train_batch_size": BATCH,
            "save_checkpoints_steps": self.save_steps,
            "moving_average_decay": 0.9,
            "shards_in_flight": 2,
            "seed": 3,
        }
        given = [f"--{name}={value}" for name, value in flags.items()]
        return [sys.executable, "-m", "albert_tf.pretrain", *given, "--log_example_ids"]

    @property
    def last_step(self) -> int:
        """Step that was noted last."""
        path = self.output_dir / "example_ids.tsv"
        lines = path.read_text().splitlines() if path.exists() else []
        return int(lines[-1].split("\t")[0]) if lines else 0

    @property
    def newest_checkpoint(self) -> int:
        """Step of the newest whole checkpoint."""
        names = (path.stem for path in (self.output_dir / "checkpoints").glob("step-*.index"))
        return max((int(name.removeprefix("step-")) for name in names), default=0)

    def finish(self) -> str:
        """Runs to the end; its messages."""
        done = subprocess.run(self.command, capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, done.stderr
        return done.stderr

    def kill(self, kind: Kind, target: int) -> str:
        """Starts or resumes the run and ends it at some moment after step `target`; its messages."""
        with subprocess.Popen(self.command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
            deadline = time.monotonic() + 300
            while process.poll() is None and time.monotonic() < deadline:
                if self._is_due(kind, target):
                    process.send_signal(signal.SIGTERM if kind == "term" else signal.SIGKILL)
                    break
                time.sleep(0.0005 if kind == "writing" else 0.005)
            _, messages = process.communicate()
        assert process.returncode == (143 if kind == "term" else -signal.SIGKILL), messages
        return messages

    def _is_due(self, kind: Kind, target: int) -> bool:
        if kind == "writing":
            started = (self.output_dir / "checkpoints").glob("step-*_temp")
            return max((int(path.name[5:-5]) for path in started), default=0) >= target
        if self.last_step < target:
            return False
        time.sleep(random.random() * 0.2)  # a step or two
        return True

    def state(self) -> dict[str, np.ndarray]:
        """All tensors of the last checkpoint: weights, moments, averages, step. TensorFlow's count of saves is none."""
        reader = tf.train.load_checkpoint(str(self.output_dir / "checkpoints" / f"step-{self.num_train_steps}"))
        names = [
            name for name in reader.get_variable_to_shape_map() if not re.match("_CHECKPOINTABLE|save_counter", name)
        ]
        return {name: reader.get_tensor(name) for name in names}


def write_data(folder: pathlib.Path) -> pathlib.Path:
    """Data directory of 110 examples: an epoch ends within every seven steps. The model's shape lies beside it."""
    shards = [toy.random_rows(20 + i, max_seq_length=24, vocab_size=61, seed=i) for i in range(5)]
    toy.write_directory(folder / "data", shards, max_seq_length=24, max_predictions_per_seq=4)
    (folder / "config.json").write_text(CONFIG.to_json())
    return folder / "data"


def kill_again_and_again(run: Run, plan: Sequence[tuple[Kind, int]]) -> list[tuple[str, int, int]]:
    """Kills the run by plan, then lets it end.

    Returns:
      For each kill its kind, the last step noted, and the step that the next start went on from.
    """
    table: list[tuple[str, int, int]] = []
    for kind, target in plan:
        # A checkpoint that is whole by the time the signal comes was not hit while being written: once more.
        for attempt in range(6):
            messages = run.kill(kind, target + attempt * run.save_steps)
            _check_start(messages, table)
            hit = list((run.output_dir / "checkpoints").glob("step-*_temp"))
            table.append((kind if kind != "writing" or hit else "kill", run.last_step, run.newest_checkpoint))
            if kind != "writing" or hit:
                break
        if kind == "term":
            assert run.newest_checkpoint == run.last_step, messages
    _check_start(run.finish(), table)
    return table


def _check_start(messages: str, table: Sequence[tuple[str, int, int]]) -> None:
    """A start goes on from the newest whole checkpoint of the time before."""
    found = re.search(r"goes on from step (\d+) ", messages)
    assert (int(found[1]) if found else 0) == (table[-1][2] if table else 0), messages


def assert_equal_runs(expected: Run, found: Run) -> None:
    """Bit for bit: checkpoint, examples of each step, model directory."""
    one, other = expected.state(), found.state()
    assert one.keys() == other.keys()
    kinds = {name.split("/")[0] for name in one}
    assert kinds >= {"weights", "m", "v", "average", "step"}
    for name, value in one.items():
        np.testing.assert_array_equal(other[name], value, err_msg=name)
    for file in ("example_ids.tsv", "model/model.safetensors"):
        assert (expected.output_dir / file).read_bytes() == (found.output_dir / file).read_bytes(), file
