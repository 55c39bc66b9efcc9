"""Batches of examples that are in memory, in an order that is a pure function of (seed, epoch, step).

Each epoch takes the rows in a drawn order; epochs follow each other without a break. So that rows of like length meet,
some batches at a time (a pool) are sorted by length, cut, and taken in a drawn order; no pool holds more than a quarter
of an epoch. Draws come from the integer hash of `albert_tf.randomness`: where step n begins is computed, and a resume
reads nothing before it.

All of it is TensorFlow operations, so that no Python runs between two steps.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import keras
import numpy as np
import tensorflow as tf

from albert_tf import features, randomness
from albert_tf.data.batches import EPOCH, EXAMPLE
from albert_tf.data.reading import as_it_is
from albert_tf.training.finetuning_objectives import LABELS, NO_LABEL

if TYPE_CHECKING:
    from albert_tf.tasks.features import EncodedExamples

LARGEST_POOL = 32  # batches
_ROW_ORDER, _BATCH_ORDER = 201, 202  # what a draw is for: one word of its hash


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExampleOrder:
    """The order of rows under a seed.

    Attributes:
      lengths: int32 [n], tokens of each row.
      batch_size: rows of a step, over all replicas; at most n.
      seed: of the run.
      bucket_by_length: whether rows of like length meet.
    """

    lengths: np.ndarray
    batch_size: int
    seed: int
    bucket_by_length: bool = True

    @property
    def pool(self) -> int:
        """Batches that are sorted by length together."""
        quarter = len(self.lengths) // (4 * self.batch_size)
        return min(max(quarter, 1), LARGEST_POOL) if self.bucket_by_length else 1

    def steps(self, step: int) -> tf.data.Dataset:
        """Endless dataset of (rows, epochs), int64 [batch_size] each, from step `step` (counted from 0) on."""
        count, pool, size = len(self.lengths), self.pool, self.batch_size
        lengths = tf.constant(self.lengths, tf.int32)

        def permutation(epoch: tf.Tensor) -> tf.Tensor:
            draws = randomness.mix(self.seed, epoch, _ROW_ORDER, tf.range(count))
            return tf.argsort(tf.cast(draws, tf.int64), stable=True)

        @as_it_is
        def make_pool(number: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            positions = number * (pool * size) + tf.range(pool * size, dtype=tf.int64)
            epochs, places = positions // count, positions % count
            first = epochs[0]  # a pool has rows of two epochs at most
            rows = tf.where(
                epochs == first,
                tf.gather(permutation(first), places),
                tf.gather(permutation(first + 1), places),
            )
            by_length = tf.argsort(tf.gather(lengths, rows), stable=True) if pool > 1 else tf.range(pool * size)
            # Inside a batch the drawn order again: replicas and micro-batches get short and long rows alike.
            members = tf.sort(tf.reshape(by_length, [pool, size]), axis=1)
            draws = randomness.mix(self.seed, number, _BATCH_ORDER, tf.range(pool))
            members = tf.gather(members, tf.argsort(tf.cast(draws, tf.int64), stable=True))
            return tf.cast(tf.gather(rows, members), tf.int64), tf.gather(epochs, members)

        pools = tf.data.Dataset.range(step // pool, np.iinfo(np.int64).max).map(make_pool)
        return pools.prefetch(1).unbatch().skip(step % pool)


def training_batches(
    examples: EncodedExamples,
    order: ExampleOrder,
    *,
    step: int,
    seq_length: int | None = None,
    num_pipelines: int = 1,
    pipeline: int = 0,
    num_replicas: int = 1,
) -> tf.data.Dataset:
    """Endless dataset of batches from step `step` (counted from 0) on.

    Args:
      examples: rows with labels.
      order: of these rows.
      step: steps done before.
      seq_length: length that all batches are padded to, for devices that need static shapes; None pads to the longest
        row of each batch.
      num_pipelines: input pipelines that share a step's rows, one for each worker.
      pipeline: number of this one.
      num_replicas: replicas this pipeline feeds; each gets one element of the dataset in turn.

    Returns:
      Dict of the model's inputs, int32 [B / replicas, S], `labels` as the examples have them, and `example` (number of
      the row) and `epoch`, int64 [B / replicas].

    Raises:
      ValueError: if the examples have no labels, or are fewer than a batch.
    """
    if examples.labels is None:
        raise ValueError("training needs examples with labels")
    if order.batch_size > len(examples):
        raise ValueError(
            f"train_batch_size must be at most the number of examples, {len(examples)}, got {order.batch_size}"
        )
    make_batch = _Rows(examples, seq_length).batch
    share = order.batch_size // num_pipelines
    begin, each = pipeline * share, share // num_replicas

    @as_it_is
    def take_share(rows: tf.Tensor, epochs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        rows, epochs = (tf.reshape(part[begin : begin + share], [num_replicas, each]) for part in (rows, epochs))
        return rows, epochs

    steps = order.steps(step).map(take_share).unbatch()
    return steps.map(as_it_is(make_batch), num_parallel_calls=2, deterministic=True).prefetch(2)


class _Rows:
    """The rows as tensors, to gather batches from."""

    def __init__(self, examples: EncodedExamples, seq_length: int | None) -> None:
        self._seq_length = seq_length
        self._lengths = tf.constant(examples.lengths, tf.int32)
        self._ids, self._segments = _ragged(examples.input_ids), _ragged(examples.segment_ids)
        self._labels: tf.Tensor | tf.RaggedTensor
        if isinstance(examples.labels, np.ndarray):
            is_whole = np.issubdtype(examples.labels.dtype, np.integer)
            self._labels = tf.constant(examples.labels, tf.int32 if is_whole else keras.config.floatx())
        else:
            self._labels = _ragged(examples.labels or [])

    def batch(self, rows: tf.Tensor, epochs: tf.Tensor) -> dict[str, tf.Tensor]:
        """Model's inputs and labels of `rows`, int64 [B]."""
        shape = [rows.shape[0], self._seq_length]
        padded = tf.gather(self._ids, rows).to_tensor(0, shape=shape)
        labels = tf.gather(self._labels, rows)
        if isinstance(labels, tf.RaggedTensor):
            labels = labels.to_tensor(NO_LABEL, shape=shape)
        return {
            features.INPUT_IDS: padded,
            features.INPUT_MASK: tf.sequence_mask(tf.gather(self._lengths, rows), tf.shape(padded)[1], tf.int32),
            features.SEGMENT_IDS: tf.gather(self._segments, rows).to_tensor(0, shape=shape),
            LABELS: labels,
            EXAMPLE: rows,
            EPOCH: epochs,
        }


def _ragged(rows: list[np.ndarray]) -> tf.RaggedTensor:
    """int32 [n, T_i] as one tensor."""
    lengths = [len(row) for row in rows]
    return tf.RaggedTensor.from_row_lengths(np.concatenate(rows).astype(np.int32), np.array(lengths, np.int64))
