"""Windows over texts that do not fit into a sequence, in a graph: `albert_tf.tasks.windows` for whole batches.

All windows of a batch stand behind each other, those of the first text first: W in all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from export.token_graph import truncate_pair

CHUNK = 32  # windows that a model runs on at a time: a long text takes time, not memory


class Windows(NamedTuple):
    """Windows over the texts of a batch.

    Attributes:
      owners: int32 [W], which text each is of, ascending.
      starts: int32 [W], its first token, counted in its text.
      lengths: int32 [W], its tokens.
      before: int32 [B + 1], windows of the texts before each, and of all.
    """

    owners: tf.Tensor
    starts: tf.Tensor
    lengths: tf.Tensor
    before: tf.Tensor


def text_windows(lengths: tf.Tensor, rooms: tf.Tensor, stride: int | None) -> Windows:
    """Windows of at most `rooms` tokens, int32 [B], over texts of `lengths`, int32 [B]; without a stride one a text."""
    strides, counts = _steps(lengths, rooms, stride)
    before = tf.concat([[0], tf.cumsum(counts)], axis=0)
    owners = tf.repeat(tf.range(tf.size(lengths)), counts)
    starts = (tf.range(before[-1]) - tf.gather(before, owners)) * tf.gather(strides, owners)
    shown = tf.minimum(tf.gather(rooms, owners), tf.gather(lengths, owners) - starts)
    return Windows(owners, starts, shown, before)


def pair_windows(
    length_a: tf.Tensor, length_b: tf.Tensor, rooms: tf.Tensor, stride: int | None
) -> tuple[Windows, Windows]:
    """Windows over both texts of pairs, int32 [B] each, that share `rooms` tokens; as many over either."""
    if stride is None:
        keep_a, keep_b = truncate_pair(length_a, length_b, rooms)
        return text_windows(length_a, keep_a, None), text_windows(length_b, keep_b, None)
    shorter, longer = tf.minimum(length_a, length_b), tf.maximum(length_a, length_b)
    fits = shorter + longer <= rooms
    kept = tf.where(fits, shorter, tf.minimum(shorter, rooms // 2))
    over_longer = text_windows(longer, tf.where(fits, longer, rooms - kept), stride)
    kept = tf.gather(kept, over_longer.owners)
    over_shorter = over_longer._replace(starts=tf.zeros_like(kept), lengths=kept)
    a_is_longer = tf.gather(length_a > length_b, over_longer.owners)

    def of(is_longer: tf.Tensor) -> Windows:
        starts = tf.where(is_longer, over_longer.starts, over_shorter.starts)
        return over_longer._replace(
            starts=starts, lengths=tf.where(is_longer, over_longer.lengths, over_shorter.lengths)
        )

    return of(a_is_longer), of(~a_is_longer)


class Shown(NamedTuple):
    """Where tokens are read off: `window` int32 [n], its number in the batch; `place` int32 [n] in it; `is_shown`."""

    window: tf.Tensor
    place: tf.Tensor
    is_shown: tf.Tensor


def showing_most(
    positions: tf.Tensor,
    owners: tf.Tensor,
    windows: Windows,
    lengths: tf.Tensor,
    rooms: tf.Tensor,
    stride: int | None,
    *,
    most_room: int,
    size_weight: float = 0.0,
) -> Shown:
    """Of each token the window that shows most on its poorer side; of equal ones the first.

    Args:
      positions: int32 [n], tokens counted in their texts.
      owners: int32 [n], their texts.
      windows: over the texts.
      lengths: int32 [B], of the texts.
      rooms: int32 [B], of their windows.
      stride: as `windows` were made with.
      most_room: greatest of `rooms` that there can be.
      size_weight: what a token more in the window counts, beside those around.

    Returns:
      Where tokens that no window shows stand, is not to be read.
    """
    strides, counts = (tf.gather(values, owners) for values in _steps(lengths, rooms, stride))
    lengths, rooms = tf.gather(lengths, owners), tf.gather(rooms, owners)
    candidates = 1 if stride is None else math.ceil(most_room / stride)
    latest = tf.minimum(positions // strides, counts - 1)  # no later window shows the token
    number = tf.expand_dims(latest, 1) - tf.range(candidates - 1, -1, -1)  # [n, candidates]
    starts = number * tf.expand_dims(strides, 1)
    size = tf.minimum(tf.expand_dims(rooms, 1), tf.expand_dims(lengths, 1) - starts)
    place = tf.expand_dims(positions, 1) - starts
    around = tf.cast(tf.minimum(place, size - 1 - place), tf.float64) + size_weight * tf.cast(size, tf.float64)
    is_shown = (number >= 0) & (place < size)
    best = tf.argmax(tf.where(is_shown, around, -math.inf), axis=1, output_type=tf.int32)

    def of_best(values: tf.Tensor) -> tf.Tensor:
        return tf.gather(values, best, batch_dims=1)

    window = tf.gather(windows.before, owners) + tf.maximum(of_best(number), 0)
    return Shown(window, of_best(place), of_best(is_shown))


def in_chunks(function: Any, rows: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Outputs of a `tf.function` for rows [W, ...] by name, `CHUNK` of them at a time.

    Args:
      function: takes rows by name and gives outputs by name, [W, ...]; all with an input signature.
      rows: what it takes.
    """
    specs = function.get_concrete_function().structured_outputs
    count = tf.shape(next(iter(rows.values())))[0]
    arrays = {
        name: tf.TensorArray(spec.dtype, 0, dynamic_size=True, infer_shape=False, element_shape=spec.shape)
        for name, spec in specs.items()
    }

    def body(number: tf.Tensor, arrays: dict[str, Any]) -> tuple[tf.Tensor, dict[str, Any]]:
        chunk = {name: value[number * CHUNK : (number + 1) * CHUNK] for name, value in rows.items()}
        outputs = function(**chunk)
        return number + 1, {name: array.write(number, outputs[name]) for name, array in arrays.items()}

    # Once at least, so that outputs of no rows have their shapes.
    unfinished: Callable[..., tf.Tensor] = lambda number, _: (number == 0) | (number * CHUNK < count)  # noqa: E731
    _, arrays = tf.while_loop(unfinished, body, [tf.constant(0), arrays])
    return {name: array.concat() for name, array in arrays.items()}


def _steps(lengths: tf.Tensor, rooms: tf.Tensor, stride: int | None) -> tuple[tf.Tensor, tf.Tensor]:
    """Tokens from window to window, and number of windows, of each text, int32 [B]."""
    if stride is None:
        return tf.ones_like(lengths), tf.ones_like(lengths)
    strides = tf.maximum(tf.minimum(stride, rooms), 1)
    more = tf.maximum(lengths - rooms, 0)
    return strides, 1 + (more + strides - 1) // strides
