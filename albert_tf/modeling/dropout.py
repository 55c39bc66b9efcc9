"""Dropout with stateless seeds.

Keras' own Dropout draws from a SeedGenerator, which gives every replica the same mask under MirroredStrategy, another
mask in the backward pass of a rematerialised block, and a state that `tf.train.Checkpoint(model=...)` does not hold.
Here a training step names its seed once:

    with dropout_seed(stateless_seed(seed, step, replica)):
        outputs = model(inputs, training=True)

and each Dropout call inside draws from its own stream, derived from that seed and the number of the call. Equal seeds
give equal masks, in another process and after a resume too.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf


class _SeedStack(threading.local):
    """Open `dropout_seed` blocks of one thread, innermost last (replicas trace in threads of their own)."""

    def __init__(self) -> None:
        self.open: list[_SeedStream] = []


class _SeedStream:
    """Seeds derived from one: the n-th call adds n to its second word.

    Seeds of steps and replicas are hashes, so streams do not meet; and the generator behind `tf.random.stateless_*` is
    made for keys that differ in one bit. A hash for each call would be a quarter of a training step's graph.
    """

    def __init__(self, seed: tf.Tensor) -> None:
        self._seed = seed
        self._calls = 0

    def take(self) -> tf.Tensor:
        self._calls += 1
        return self._seed + tf.constant([0, self._calls])

    def reserve(self, count: int) -> tf.Tensor:
        first = self._seed + tf.constant([0, self._calls])
        self._calls += count
        return first


_stack = _SeedStack()


@contextlib.contextmanager
def dropout_seed(seed: tf.Tensor) -> Iterator[None]:
    """Makes `seed` (int32 [2]) the source of every Dropout mask drawn inside the block. Blocks nest."""
    _stack.open.append(_SeedStream(tf.convert_to_tensor(seed, tf.int32)))
    try:
        yield
    finally:
        _stack.open.pop()


def take_seed() -> tf.Tensor:
    """Next seed, int32 [2], of the innermost `dropout_seed` block; outside of any, a fresh one at every run."""
    if _stack.open:
        return _stack.open[-1].take()
    return tf.random.uniform([2], minval=tf.int32.min, maxval=tf.int32.max, dtype=tf.int32)


def reserve_seeds(count: int) -> tf.Tensor:
    """Sets the next `count` seeds of the innermost `dropout_seed` block aside and returns where they begin, int32 [2].

    `dropout_seed(begin + [0, n])` then gives the seeds from the n-th on, as often as wanted.
    """
    if _stack.open:
        return _stack.open[-1].reserve(count)
    return take_seed()


@keras.saving.register_keras_serializable("albert_tf")
class Dropout(keras.layers.Layer):
    """Sets a share `rate` of its input to 0 while training and scales the rest by 1 / (1 - rate).

    Args:
      rate: probability in [0, 1) that an element is dropped.

    Call arguments:
      inputs: float, any shape.
      training: whether to drop anything; False returns `inputs` as they are.

    Raises:
      ValueError: if `rate` is outside [0, 1).
    """

    def __init__(self, rate: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not 0.0 <= rate < 1.0:
            raise ValueError(f"rate must be in [0, 1), got {rate}")
        self.rate = rate
        self.supports_masking = True

    def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        if not training or self.rate == 0.0:
            return inputs
        draws = tf.random.stateless_uniform(tf.shape(inputs), take_seed(), dtype=tf.float32)
        scaled = inputs * tf.cast(1.0 / (1.0 - self.rate), inputs.dtype)
        return tf.where(draws >= self.rate, scaled, tf.zeros_like(scaled))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "rate": self.rate}
