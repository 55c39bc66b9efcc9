"""metrics.jsonl and example_ids.tsv: lines by step, without doubles after a restart; TensorBoard beside them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.training.loop import SCALE

METRICS_FILE = "metrics.jsonl"
EXAMPLES_FILE = "example_ids.tsv"


class LineFile:
    """A text file of lines that each belong to a step; what was written after the checkpoint is dropped at a restart.

    Args:
      path: the file, local or remote.
      after: step of the checkpoint; lines of later steps go, and a last line without its end.
      step_of: reads the step of a line.
    """

    def __init__(self, path: str, *, after: int, step_of: Callable[[str], int]) -> None:
        self._path = path
        self.kept: list[str] = []  # lines up to `after`, found when the file was opened
        if tf.io.gfile.exists(path):
            with tf.io.gfile.GFile(path, "r") as stream:
                lines = stream.read().split("\n")[:-1]
            kept = [line for line in lines if _is_kept(line, after, step_of)]
            self.kept = kept
            temporary = f"{path}.partial"
            with tf.io.gfile.GFile(temporary, "w") as stream:
                stream.write("".join(line + "\n" for line in kept))
            tf.io.gfile.rename(temporary, path, overwrite=True)

    def append(self, text: str) -> None:
        """Adds whole lines."""
        with tf.io.gfile.GFile(self._path, "a") as stream:
            stream.write(text)


def _is_kept(line: str, after: int, step_of: Callable[[str], int]) -> bool:
    try:
        return step_of(line) <= after
    except (ValueError, KeyError, TypeError):
        return False


class MetricsLog:
    """Writes figures of training and evaluation to metrics.jsonl and TensorBoard, and example numbers if wanted."""

    def __init__(self, directory: str, *, after: int, log_example_ids: bool) -> None:
        self._lines = LineFile(
            os.path.join(directory, METRICS_FILE), after=after, step_of=lambda line: int(json.loads(line)["step"])
        )
        self._examples = None
        if log_example_ids:
            path = os.path.join(directory, EXAMPLES_FILE)
            self._examples = LineFile(path, after=after, step_of=lambda line: int(line.split("\t", 1)[0]))
        self._writers = {
            kind: tf.summary.create_file_writer(os.path.join(directory, "tensorboard", kind))
            for kind in ("train", "eval")
        }

    def has_line(self, step: int, kind: str) -> bool:
        """Whether there is a line of that step and kind from before."""
        return any((line["step"], line.get("kind")) == (step, kind) for line in map(json.loads, self._lines.kept))

    def figures(self, kind: str, name: str) -> list[float]:
        """Figures of a name in the lines that were there from before."""
        found = (json.loads(line) for line in self._lines.kept)
        return [line[name] for line in found if line.get("kind") == kind and name in line]

    def write(self, step: int, kind: str, figures: Mapping[str, Any]) -> None:
        """One line and one point per figure; `kind` is "train" or "eval"."""
        rounded = {name: value if isinstance(value, int) else float(f"{value:.7g}") for name, value in figures.items()}
        self._lines.append(json.dumps({"step": step, "kind": kind, **rounded}) + "\n")
        writer = self._writers[kind]
        with writer.as_default(step=step):
            for name, value in figures.items():
                tf.summary.scalar(name, value)
        writer.flush()

    def write_examples(self, first_step: int, epochs: np.ndarray, examples: np.ndarray) -> None:
        """Lines "step<TAB>epoch:example ..." of the steps from `first_step` on, counted from 1."""
        if self._examples is None:
            return
        lines = []
        for offset, (epoch, example) in enumerate(zip(epochs, examples, strict=True)):
            pairs = " ".join(f"{e}:{n}" for e, n in zip(epoch, example, strict=True))
            lines.append(f"{first_step + offset}\t{pairs}\n")
        self._examples.append("".join(lines))


def means_of_steps(reported: Sequence[np.ndarray], names: Sequence[str]) -> dict[str, float]:
    """Means of what steps reported (each float, as many as `names`, the trainer's metrics), by name.

    Where a loss scale is used, its last value, and how many steps it has spoilt: these are left out of the means.
    """
    sound = [values for values in reported if np.isfinite(values).all()]
    scale = {"loss_scale": float(reported[-1][SCALE])}
    spoilt = {"skipped_steps": len(reported) - len(sound)}
    if not sound:
        return scale | spoilt
    means = np.mean(sound, axis=0).astype(float)
    figures = dict(zip(names, means.tolist(), strict=True))
    if not any(spoilt.values()) and figures["loss_scale"] == 1.0:  # without a scale
        del figures["loss_scale"]
        return figures
    return figures | scale | spoilt
