"""Several runs that differ in their seed alone: mean and deviation of what they reach, and the best one's model."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import shutil
from collections.abc import Mapping, Sequence

import numpy as np

from albert_tf.files import is_remote, whole_directory, write_whole

SEEDS_FILE = "seeds.json"
COLUMNS = ("seed", "figure", "value", "")


@dataclasses.dataclass(frozen=True)
class Result:
    """What a run has reached.

    Attributes:
      seed: of the run.
      model_path: its model directory.
      figures: of its last evaluation, by name.
      figure: name of the one that decides.
      more_is_better: whether more of it is better.
      collapse: what shows that the model has collapsed; None where nothing does.
      diverged: what was not finite, where the run ended by that; it has no model then.
    """

    seed: int
    model_path: str
    figures: Mapping[str, float]
    figure: str
    more_is_better: bool
    collapse: str | None = None
    diverged: str | None = None

    @property
    def value(self) -> float:
        """The figure that decides; not a number where the run has none."""
        return float(self.figures.get(self.figure, math.nan))


def parse(texts: Sequence[str]) -> list[int]:
    """Seeds of a flag's parts.

    Raises:
      ValueError: if there is none, one is no whole number in [0, 2**31), or two are equal.
    """
    found = []
    for text in texts:
        if not text.strip().isdecimal() or int(text) >= 2**31:
            raise ValueError(f"seeds must be whole numbers in [0, 2**31), got {text!r}")
        found.append(int(text))
    if not found or len(set(found)) < len(found):
        raise ValueError(f"seeds must be one or more that differ, got {','.join(texts)!r}")
    return found


def find_best(results: Sequence[Result]) -> Result:
    """The best result, of equal ones the first; one without a figure is never better."""
    sign = 1.0 if results[0].more_is_better else -1.0
    return max(results, key=lambda result: -math.inf if math.isnan(result.value) else sign * result.value)


def summarize(results: Sequence[Result]) -> tuple[float, float]:
    """Mean of the figure that decides, and its standard deviation from one run to the next (n - 1).

    Runs that diverged have no figure and do not count.
    """
    values = np.array([result.value for result in results if result.diverged is None])
    return float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else 0.0


def rows(results: Sequence[Result]) -> list[tuple[str, str, str, str]]:
    """Table of the results with `COLUMNS`: a row each, then mean and deviation."""
    best = find_best(results)

    def note(result: Result) -> str:
        notes = {"best": result is best, "collapsed": result.collapse, "diverged": result.diverged}
        return ", ".join(word for word, holds in notes.items() if holds)

    def value(result: Result) -> str:
        return "-" if result.diverged else f"{result.value:.4f}"

    mean, deviation = summarize(results)
    left_out = sum(result.diverged is not None for result in results)
    spread = f"standard deviation {deviation:.4f}" + (f", without {left_out} that diverged" if left_out else "")
    each = [(str(result.seed), result.figure, value(result), note(result)) for result in results]
    return [*each, ("mean", best.figure, f"{mean:.4f}", spread)]


def write(output_dir: str, results: Sequence[Result]) -> Result:
    """Writes seeds.json and copies the best model directory to `output_dir`/model; returns the best result.

    Raises:
      OSError: if something cannot be written.
    """
    best = find_best(results)
    mean, deviation = summarize(results)
    with whole_directory(os.path.join(output_dir, "model"), replace=True) as folder:
        _copy(best.model_path, folder)
    content = {
        "figure": best.figure,
        "mean": mean,
        "standard_deviation": deviation,
        "best": best.seed,
        "runs": [
            {
                "seed": result.seed,
                "evaluation": dict(result.figures),
                "collapse": result.collapse,
                "diverged": result.diverged,
            }
            for result in results
        ],
    }
    write_whole(os.path.join(output_dir, SEEDS_FILE), json.dumps(content, indent=2) + "\n")
    return best


def _copy(source: str, folder: str) -> None:
    """Copies the files of a model directory."""
    if not is_remote(source):
        shutil.copytree(source, folder, dirs_exist_ok=True)
        return
    import tensorflow as tf

    for name in tf.io.gfile.listdir(source):
        tf.io.gfile.copy(os.path.join(source, name), os.path.join(folder, name))
