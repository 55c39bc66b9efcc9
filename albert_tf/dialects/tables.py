"""Tables of weight names: one entry for each weight, read in both directions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.weight_shapes import Shape


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


def split_into_heads(config: AlbertConfig) -> tuple[Transform, Transform, Transform]:
    """Of attention whose N heads are an axis of their own: input kernels [H, N, H/N], their biases, output kernel."""
    hidden, heads, size = config.hidden_size, config.num_attention_heads, config.head_size
    return (
        reshaped((hidden, heads, size), (hidden, hidden)),
        reshaped((heads, size), (hidden,)),
        reshaped((heads, size, hidden), (hidden, hidden)),
    )


@dataclasses.dataclass(frozen=True)
class Entry:
    """One weight: its canonical name, the dialect's name, and how the two lie in memory."""

    ours: str
    theirs: str
    transform: Transform = SAME
