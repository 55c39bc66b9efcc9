"""Tables of weight names: one entry for each weight, read in both directions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

Shape = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Transform:
    """How a foreign tensor lies in memory beside ours. All of them only move numbers: both ways give equal bits.

    Attributes:
      name: for reports.
      to_ours: foreign array to ours.
      to_theirs: our array to the foreign one.
      their_shape: our shape to the foreign one.
    """

    name: str
    to_ours: Callable[[np.ndarray], np.ndarray]
    to_theirs: Callable[[np.ndarray], np.ndarray]
    their_shape: Callable[[Shape], Shape]


def _same(value: np.ndarray) -> np.ndarray:
    return value


SAME = Transform("as it is", _same, _same, tuple)
TRANSPOSED = Transform("transposed", np.transpose, np.transpose, lambda shape: tuple(reversed(shape)))


def reshaped(theirs: Shape, ours: Shape) -> Transform:
    """The same numbers in the same order under another shape, such as [H, N, H/N] for [H, H]."""
    return Transform(
        "reshaped",
        lambda value: value.reshape(ours),
        lambda value: value.reshape(theirs),
        lambda _: theirs,
    )


@dataclasses.dataclass(frozen=True)
class Entry:
    """One weight: its canonical name, the dialect's name, and how the two lie in memory."""

    ours: str
    theirs: str
    transform: Transform = SAME
