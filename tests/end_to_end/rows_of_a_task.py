"""Files of a task for doors that are run: made-up texts, random labels."""

from __future__ import annotations

import pathlib

import numpy as np

from tests.data import toy
from tests.training import task_rows


def write_rows(path: pathlib.Path, count: int, seed: int) -> None:
    """A TSV file of `count` rows with the columns "text" and "label"."""
    generator = np.random.default_rng(seed)
    lines = ["text\tlabel"]
    for _ in range(count):
        words = ["".join(generator.choice(toy.SYLLABLES, size=2)) for _ in range(generator.integers(2, 7))]
        lines.append(f"{' '.join(words)}\t{generator.choice(task_rows.LABELS)}")
    path.write_text("\n".join(lines) + "\n")
