"""Checks of token ids in a graph, which would otherwise end in an error about some inner shape, or in none at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

from albert_tf import features
from albert_tf.config import AlbertConfig


def checked(config: AlbertConfig, inputs: Mapping[str, tf.Tensor], *, least_length: int = 1) -> dict[str, tf.Tensor]:
    """A model's inputs, int32, there once they are known to fit the model and each other.

    On a CPU a look-up of an id that there is not fails without saying whose fault it is; on a GPU it gives zeros.

    Args:
      config: of the model.
      inputs: int32 [..., S] by name, and `masked_lm_positions` [B, P].
      least_length: least S.
    """
    checks = list(_checks(config, inputs, least_length))
    with tf.control_dependencies([check for check in checks if check is not None]):
        return {name: tf.identity(value) for name, value in inputs.items()}


def _checks(config: AlbertConfig, inputs: Mapping[str, tf.Tensor], least: int) -> Iterator[Any]:
    ids = inputs[features.INPUT_IDS]
    length = tf.shape(ids)[-1]
    longest = config.max_position_embeddings
    wanted = "one position" if least == 1 else f"{least} positions"
    yield tf.debugging.assert_greater_equal(length, least, f"input_ids must have at least {wanted}")
    yield tf.debugging.assert_less_equal(length, longest, f"input_ids must have at most {longest} positions")
    limits = {
        features.INPUT_IDS: config.vocab_size,
        features.INPUT_MASK: 2,
        features.SEGMENT_IDS: config.type_vocab_size,
        features.P_MASK: 2,
    }
    for name, value in inputs.items():
        if name == features.MASKED_LM_POSITIONS:
            yield tf.debugging.assert_equal(
                tf.shape(value)[0], tf.shape(ids)[0], f"{name} must be of as many rows as input_ids"
            )
            yield from _in_range(name, value, length, "the length of input_ids")
            continue
        yield tf.debugging.assert_equal(tf.shape(value), tf.shape(ids), f"{name} must be shaped as input_ids")
        yield from _in_range(name, value, limits[name], str(limits[name]))


def _in_range(name: str, value: tf.Tensor, limit: tf.Tensor | int, shown: str) -> Iterator[Any]:
    """Checks that all of `value` are at least 0 and less than `limit`."""
    message = f"{name} must be at least 0 and less than {shown}, at padding too"
    yield tf.debugging.assert_non_negative(tf.reduce_min(value), message)
    yield tf.debugging.assert_less(tf.reduce_max(value), limit, message)
