"""Shards to batches, in an order that is a pure function of (seed, epoch, step).

Each epoch puts the shards in a drawn order, takes a few of them at a time (a group), reads each whole and gives the
records of the group in a drawn order. Draws come from the integer hash of `albert_tf.randomness`, and the numbers of
records from dataset.json, so where step n begins is computed, not read: a resume skips to the group that its first
example is in, and no iterator is ever saved. Epochs follow each other without a break; a batch may hold the end of one
and the beginning of the next.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from albert_tf import randomness
from albert_tf.data.manifest import DataDirectory

# Rewriting Python control flow, of which there is none here, would take AutoGraph most of the start-up time.
as_it_is = tf.autograph.experimental.do_not_convert

_SHARD_ORDER, _RECORD_ORDER = 101, 102  # what a draw is for: one word of its hash


@dataclasses.dataclass(frozen=True, kw_only=True)
class Order:
    """The order of a data directory's examples under a seed.

    Attributes:
      data: the data directory.
      seed: of the run.
      group_size: shards that are read and mixed together.
    """

    data: DataDirectory
    seed: int
    group_size: int = 4

    @property
    def _counts(self) -> np.ndarray:
        return np.array([shard.examples for shard in self.data.shards], np.int64)

    @property
    def _offsets(self) -> np.ndarray:
        """Number of each shard's first example."""
        return np.cumsum(self._counts) - self._counts

    def groups(self, epoch: int) -> list[np.ndarray]:
        """Shards of each group of an epoch, in the order they are taken."""
        draws = randomness.mix_numpy(self.seed, epoch, _SHARD_ORDER, np.arange(len(self._counts)))
        order = np.argsort(draws, kind="stable")
        return [order[start : start + self.group_size] for start in range(0, len(order), self.group_size)]

    def examples(self, epoch: int, group: np.ndarray) -> np.ndarray:
        """Numbers of the examples of a group, int64, in the order they are seen."""
        numbers = np.concatenate([np.arange(self._counts[s]) + self._offsets[s] for s in group])
        draws = randomness.mix_numpy(self.seed, epoch, _RECORD_ORDER, numbers)
        return numbers[np.argsort(draws, kind="stable")]

    def locate(self, position: int) -> tuple[int, int, int]:
        """Epoch, number of the group and place in it of the example at `position` of the endless sequence."""
        epoch, left = divmod(position, self.data.num_examples)
        for index, group in enumerate(self.groups(epoch)):
            size = int(self._counts[group].sum())
            if left < size:
                return epoch, index, left
            left -= size
        raise AssertionError("the groups of an epoch hold every example")

    def sequence(self, position: int) -> Iterator[tuple[int, int]]:
        """(epoch, example) from `position` on, without reading anything: what `training_records` yields."""
        epoch, first, skip = self.locate(position)
        while True:
            for group in self.groups(epoch)[first:]:
                for number in self.examples(epoch, group)[skip:]:
                    yield epoch, int(number)
                skip = 0
            epoch, first = epoch + 1, 0


def training_records(order: Order, position: int) -> tf.data.Dataset:
    """Endless dataset of (record, epoch, example): string, int64, int64 scalars, from `position` of the sequence on.

    Reading raises `tf.errors.InvalidArgumentError` for a shard with another number of records than dataset.json says,
    and `tf.errors.DataLossError` for damaged bytes; `explain` says where.
    """
    data = order.data
    paths = tf.constant([shard.path for shard in data.shards])
    counts = tf.constant([shard.examples for shard in data.shards], tf.int64)
    offsets = tf.cumsum(counts, exclusive=True)
    per_epoch = -(-len(data.shards) // order.group_size)
    epoch, group, skip = order.locate(position)

    def shards_of(number: tf.Tensor) -> tf.Tensor:
        draws = randomness.mix(order.seed, number // per_epoch, _SHARD_ORDER, tf.range(len(data.shards)))
        permuted = tf.argsort(tf.cast(draws, tf.int64), stable=True)
        first = (number % per_epoch) * order.group_size
        return permuted[first : first + order.group_size]

    @as_it_is
    def read_group(number: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        epoch = number // per_epoch
        shards = shards_of(number)
        per_shard = tf.map_fn(
            lambda shard: _read_shard(paths[shard], counts[shard]),
            shards,
            fn_output_signature=tf.RaggedTensorSpec([None], tf.string, ragged_rank=0),
        )
        examples = tf.ragged.range(tf.gather(offsets, shards), tf.gather(offsets + counts, shards)).flat_values
        draws = randomness.mix(order.seed, epoch, _RECORD_ORDER, examples)
        permuted = tf.argsort(tf.cast(draws, tf.int64), stable=True)
        epochs = tf.fill(tf.shape(examples), epoch)
        return tf.gather(per_shard.flat_values, permuted), epochs, tf.gather(examples, permuted)

    groups = tf.data.Dataset.range(epoch * per_epoch + group, np.iinfo(np.int64).max).map(read_group)
    groups = groups.prefetch(1)  # the next group is read while this one is used
    return groups.unbatch().skip(skip)


def _read_shard(path: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    """All records of a shard, string [count]."""
    # One more than there should be, so that a shard that is too long shows too.
    whole = tf.data.TFRecordDataset(path, buffer_size=1 << 20).take(count + 1).batch(count + 1)
    records = whole.reduce(tf.zeros([0], tf.string), as_it_is(lambda _, batch: batch))
    found = tf.size(records, out_type=tf.int64)
    message = [path, "must hold", count, "records as dataset.json says, got", found]
    with tf.control_dependencies([tf.debugging.Assert(found == count, message)]):
        return tf.identity(records)
