"""Gradients of a step: dense, summed over replicas, clipped by their global norm as the original counts it.

The original looks segments up with a gather, and TensorFlow leaves the gradient of a table that is only gathered from
as separate rows: in the global norm each look-up counts with its own squared norm, not with its part in the row's
sum. The reference values show it (2.1745, where the norm of the summed gradients is 2.1703), so it is counted that way
here, for every strategy, number of replicas and form of the model. The word table is no such table as long as the
masked-LM output is tied to it. The update itself uses the summed gradient.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf


@dataclasses.dataclass(frozen=True, kw_only=True)
class Gradients:
    """Gradients of one replica, or of all of them after `summed`.

    Attributes:
      dense: float tensors, one per variable.
      row_squares: for variables counted by rows, index in `dense` -> sum of the squares of all looked-up rows, a float
        scalar.
    """

    dense: Sequence[tf.Tensor]
    row_squares: Mapping[int, tf.Tensor]

    def summed(self) -> Gradients:
        """The sum over replicas; call it in replica context."""
        context = tf.distribute.get_replica_context()
        if context.num_replicas_in_sync == 1:
            return self
        return self.replaced(context.all_reduce(tf.distribute.ReduceOp.SUM, self.tensors()))

    def tensors(self) -> list[tf.Tensor]:
        """All of it as a flat list, for loops and reductions; `replaced` is the way back."""
        return [*self.dense, *self.row_squares.values()]

    def replaced(self, tensors: Sequence[tf.Tensor]) -> Gradients:
        """The same with other values: `tensors` in the order of `tensors()`."""
        count = len(self.dense)
        return Gradients(dense=tensors[:count], row_squares=dict(zip(self.row_squares, tensors[count:], strict=True)))

    def divided(self, scale: tf.Tensor) -> Gradients:
        """Gradients of the loss itself where it was multiplied by `scale`, a float scalar."""
        squares = {index: value / (scale * scale) for index, value in self.row_squares.items()}
        return Gradients(dense=[gradient / scale for gradient in self.dense], row_squares=squares)

    def global_norm(self) -> tf.Tensor:
        """Norm of all gradients, float scalar."""
        squares = [
            self.row_squares[index] if index in self.row_squares else tf.reduce_sum(tf.square(gradient))
            for index, gradient in enumerate(self.dense)
        ]
        return tf.sqrt(tf.add_n(squares))

    def clipped(self, clip_norm: float | None) -> tuple[list[tf.Tensor], tf.Tensor]:
        """Dense gradients scaled so that their global norm is at most `clip_norm`, and that norm before clipping.

        None or 0 clips nothing. A norm that is not finite gives gradients that are not finite: nothing is hidden.
        """
        norm = self.global_norm()
        if not clip_norm:
            return list(self.dense), norm
        limit = tf.constant(clip_norm, norm.dtype)
        scale = limit / tf.maximum(norm, limit)
        return [gradient * scale for gradient in self.dense], norm


def compute(
    tape: tf.GradientTape,
    loss: tf.Tensor,
    variables: Sequence[keras.Variable],
    *,
    counted_by_rows: Sequence[keras.Variable] = (),
) -> Gradients:
    """Gradients of `loss`, a float scalar that `tape` has recorded.

    Args:
      tape: the recording.
      loss: what to differentiate.
      variables: what is trained.
      counted_by_rows: tables whose look-ups count one by one in the global norm, where the tape leaves them apart.

    Raises:
      ValueError: if the loss does not depend on one of the variables.
    """
    found: list[Any] = tape.gradient(loss, [variable.value for variable in variables])
    missing = [variable.path for variable, gradient in zip(variables, found, strict=True) if gradient is None]
    if missing:
        raise ValueError(f"every variable must take part in the loss; {missing[0]} does not")
    by_rows = {id(variable) for variable in counted_by_rows}
    row_squares = {
        index: tf.reduce_sum(tf.square(found[index].values))
        for index, variable in enumerate(variables)
        if id(variable) in by_rows and isinstance(found[index], tf.IndexedSlices)
    }
    # Dense before anything else: optimizers under tf.distribute get duplicate rows of IndexedSlices wrong.
    return Gradients(dense=[tf.convert_to_tensor(gradient) for gradient in found], row_squares=row_squares)
