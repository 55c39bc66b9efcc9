"""Losses of pretraining (Lan et al. 2020, section 3.1) and of the tasks.

Each loss comes as a pair of sums, numerator and denominator, so that a loop can add both over replicas and
micro-batches before it divides, and pretraining's also as the scalar that the original reports. Logits are brought to
float32 at least; float64 logits stay float64. Letters: B batch, P predictions, V vocabulary, S sequence, C labels.
"""

from __future__ import annotations

import tensorflow as tf

# The original adds this to the sum of the weights, so that a batch without any prediction has loss 0, not NaN.
MASKED_LM_DENOMINATOR_OFFSET = 1e-5


def _at_least_float32(values: tf.Tensor) -> tf.Tensor:
    values = tf.convert_to_tensor(values)
    return values if values.dtype == tf.float64 else tf.cast(values, tf.float32)


def cross_entropy(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Negative log probability of each label, in nats.

    Args:
      logits: float [..., V], any float type.
      labels: int32 [...], in [0, V).

    Returns:
      float32 [...] (float64 for float64 logits).
    """
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=_at_least_float32(logits))


def masked_lm_sums(logits: tf.Tensor, ids: tf.Tensor, weights: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Numerator and denominator of the masked-LM loss, without the original's offset.

    Args:
      logits: float [B, P, V].
      ids: int32 [B, P], the original pieces at the masked positions.
      weights: float32 [B, P], 1 for a prediction and 0 for filling.

    Returns:
      `sum(weights * cross entropy)` and `sum(weights)`, both float32 scalars (float64 for float64 logits).
    """
    losses = cross_entropy(logits, ids)  # [B, P]
    weights = tf.cast(weights, losses.dtype)
    return tf.reduce_sum(weights * losses), tf.reduce_sum(weights)


def masked_lm_loss(logits: tf.Tensor, ids: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Masked-LM loss as the original computes it: `sum(w * l) / (sum(w) + 1e-5)`, in nats; arguments as above."""
    numerator, denominator = masked_lm_sums(logits, ids, weights)
    return numerator / (denominator + MASKED_LM_DENOMINATOR_OFFSET)


def sentence_order_sums(logits: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Sum of the sentence order cross-entropies and number of rows.

    Args:
      logits: float [B, 2].
      labels: int32 [B], 1 where the segments are exchanged.

    Returns:
      Two float32 scalars (float64 for float64 logits).
    """
    losses = cross_entropy(logits, labels)  # [B]
    return tf.reduce_sum(losses), tf.cast(tf.size(losses), losses.dtype)


def sentence_order_loss(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Mean sentence order cross-entropy, in nats; arguments as above."""
    total, count = sentence_order_sums(logits, labels)
    return total / count


def label_sums(logits: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Sum of the cross-entropies of labels, and how many labels count.

    Args:
      logits: float [..., C].
      labels: int32 [...], in [0, C), or -1 where none counts.

    Returns:
      Two float32 scalars (float64 for float64 logits).
    """
    counts = labels >= 0
    losses = cross_entropy(logits, tf.maximum(labels, 0))
    counted = tf.where(counts, losses, tf.zeros_like(losses))
    return tf.reduce_sum(counted), tf.reduce_sum(tf.cast(counts, losses.dtype))


def multi_label_sums(logits: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Sum of the binary cross-entropies of all labels of all rows, and how many these are.

    Args:
      logits: float [B, C].
      labels: float [B, C], 1 for a label that a row has and 0 for one that it has not.

    Returns:
      Two float32 scalars (float64 for float64 logits).
    """
    logits = _at_least_float32(logits)
    losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.cast(labels, logits.dtype), logits=logits)
    return tf.reduce_sum(losses), tf.cast(tf.size(losses), losses.dtype)


def squared_error_sums(numbers: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Sum of squared differences and number of rows; both arguments float [B].

    Returns:
      Two float32 scalars (float64 for float64 numbers).
    """
    numbers = _at_least_float32(numbers)
    losses = tf.square(numbers - tf.cast(labels, numbers.dtype))
    return tf.reduce_sum(losses), tf.cast(tf.size(losses), losses.dtype)
