"""A moving average of the weights (Polyak and Juditsky 1992), often better than the last weights.

    average = decay * average + (1 - decay) * weight,    decay = min(given decay, (1 + n) / (10 + n)) in step n

The rise of the decay lets the average forget the initial weights soon.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

import keras
import tensorflow as tf

from albert_tf.training import interrupts


class WeightAverage:
    """Averages of variables. Make it in the strategy's scope, before the first step.

    Args:
      weights: variables by name.
      decay: share of the old average in the new one, in (0, 1).
    """

    def __init__(self, weights: Mapping[str, keras.Variable], decay: float) -> None:
        self.decay = decay
        self._weights = list(weights.values())
        self.values = {
            name: tf.Variable(weight.numpy(), trainable=False, dtype=weight.dtype, name=f"average/{name}")
            for name, weight in weights.items()
        }

    def update(self, step: tf.Tensor, is_sound: tf.Tensor) -> None:
        """Moves the averages on, in replica context.

        Args:
          step: steps done with this one, int scalar.
          is_sound: bool scalar; where False nothing moves.
        """

        def move(average: tf.Variable, weight: tf.Tensor, keep: tf.Tensor) -> None:
            average.assign_sub((1.0 - tf.cast(keep, average.dtype)) * (average - tf.convert_to_tensor(weight)))

        def update(strategy: tf.distribute.Strategy, keep: tf.Tensor) -> None:
            for average, weight in zip(self.values.values(), self._weights, strict=True):
                strategy.extended.update(average, move, args=(weight.value, keep), group=False)

        count = tf.cast(step, self._weights[0].dtype)
        keep = tf.minimum(tf.cast(self.decay, count.dtype), (1.0 + count) / (10.0 + count))
        keep = tf.where(is_sound, keep, tf.ones_like(keep))
        tf.__internal__.distribute.interim.maybe_merge_call(update, tf.distribute.get_strategy(), keep)

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Puts the averages in the place of the weights while the block runs."""
        kept = [weight.numpy() for weight in self._weights]
        try:
            with interrupts.held_back():
                self._assign([average.numpy() for average in self.values.values()])
            yield
        finally:
            with interrupts.held_back():  # a half exchanged model must not get into a checkpoint
                self._assign(kept)

    def _assign(self, values: list) -> None:
        for weight, value in zip(self._weights, values, strict=True):
            weight.assign(value)
