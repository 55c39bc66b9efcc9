"""Stateless random words: an integer hash that gives equal bits in TensorFlow, NumPy and on every device.

Everything that is drawn while training (the order of examples, their masks, dropout seeds) is a pure function of words
such as (seed, epoch, example, position). No generator carries a state, so batch size, worker count and a resume change
nothing that is drawn.

The hash is MurmurHash3 (x86, 32 bit, seed 0) over the words taken as little-endian 32-bit blocks; a property that tests
check against published values.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import tensorflow as tf

Words: TypeAlias = "int | np.ndarray | tf.Tensor"

_C1, _C2, _C3 = 0xCC9E2D51, 0x1B873593, 0xE6546B64
_F1, _F2 = 0x85EBCA6B, 0xC2B2AE35
_LOW_32_BITS = 0xFFFFFFFF


def mix(*words: Words) -> tf.Tensor:
    """Hash of `words` as a tensor.

    Args:
      *words: whole numbers or integer tensors that broadcast; of wider words the low 32 bits count.

    Returns:
      uint32, of the words' broadcast shape.
    """
    state = tf.constant(0, tf.uint32)
    for word in words:
        block = tf.constant(word & _LOW_32_BITS, tf.uint32) if isinstance(word, int) else tf.cast(word, tf.uint32)
        block = _rotate_left(block * _word(_C1), 15) * _word(_C2)
        state = _rotate_left(tf.bitwise.bitwise_xor(state, block), 13) * _word(5) + _word(_C3)
    state = tf.bitwise.bitwise_xor(state, _word(4 * len(words)))
    state = _xor_shift(state, 16) * _word(_F1)
    state = _xor_shift(state, 13) * _word(_F2)
    return _xor_shift(state, 16)


def mix_numpy(*words: int | np.ndarray) -> np.ndarray:
    """The same hash in NumPy: uint32, of the words' broadcast shape."""
    state = np.zeros((), np.uint32)
    with np.errstate(over="ignore"):
        for word in words:
            block = (np.asarray(word, np.int64) & _LOW_32_BITS).astype(np.uint32) * np.uint32(_C1)
            block = ((block << np.uint32(15)) | (block >> np.uint32(17))) * np.uint32(_C2)
            state = state ^ block
            state = ((state << np.uint32(13)) | (state >> np.uint32(19))) * np.uint32(5) + np.uint32(_C3)
        state = state ^ np.uint32(4 * len(words))
        state = (state ^ (state >> np.uint32(16))) * np.uint32(_F1)
        state = (state ^ (state >> np.uint32(13))) * np.uint32(_F2)
        return np.asarray(state ^ (state >> np.uint32(16)))


def uniform(*words: Words) -> tf.Tensor:
    """Uniform float32 in [0, 1) drawn from the hash of `words`: 24 bits, each value exactly representable."""
    return tf.cast(tf.bitwise.right_shift(mix(*words), _word(8)), tf.float32) * tf.constant(2.0**-24)


def stateless_seed(*words: Words) -> tf.Tensor:
    """Seed for `tf.random.stateless_*`: int32 [2], drawn from the hash of scalar `words`."""
    return tf.bitcast(tf.stack([mix(0, *words), mix(1, *words)]), tf.int32)


def _word(value: int) -> tf.Tensor:
    return tf.constant(value, tf.uint32)


def _rotate_left(value: tf.Tensor, bits: int) -> tf.Tensor:
    return tf.bitwise.bitwise_or(
        tf.bitwise.left_shift(value, _word(bits)), tf.bitwise.right_shift(value, _word(32 - bits))
    )


def _xor_shift(value: tf.Tensor, bits: int) -> tf.Tensor:
    return tf.bitwise.bitwise_xor(value, tf.bitwise.right_shift(value, _word(bits)))
