"""Accuracies as pairs of sums (correct, counted), so that they add up over batches and replicas."""

from __future__ import annotations

import keras
import tensorflow as tf


def accuracy_sums(
    logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None = None
) -> tuple[tf.Tensor, tf.Tensor]:
    """Weight of the rows whose largest logit is the label, and weight of all rows.

    Args:
      logits: float [..., V]. Among equal logits the lowest index counts as the prediction.
      labels: int32 [...], in [0, V).
      weights: float [...] or None for 1 everywhere.

    Returns:
      Two scalars of the default float type.
    """
    dtype = keras.config.floatx()
    correct = tf.cast(tf.equal(tf.argmax(logits, axis=-1, output_type=tf.int32), labels), dtype)
    weights = tf.ones_like(correct) if weights is None else tf.cast(weights, dtype)
    return tf.reduce_sum(weights * correct), tf.reduce_sum(weights)
