"""Batches of pretraining features from the shards of a data directory, in either form of record.

Strings are batched first, then parsed and masked as whole batches. Shapes are static: [B, S] and [B, P].
"""

from __future__ import annotations

import re

import keras
import tensorflow as tf

from albert_tf import features
from albert_tf.data import masking
from albert_tf.data.manifest import DATASET_FILE, DataDirectory
from albert_tf.data.reading import Order, as_it_is, training_records
from albert_tf.data.shards import damage

EXAMPLE = "example"  # number of an example in its data directory, int64 [B]
EPOCH = "epoch"  # epoch it is seen in, int64 [B]
# Keras' default float type, [B]: 0 for rows that only fill up the last batch of an evaluation.
EXAMPLE_WEIGHT = "example_weight"

# Masks of held-out data depend on nothing but the example.
_EVALUATION_SEED, _EVALUATION_EPOCH = 0, 0


def training_batches(
    order: Order, *, step: int, batch_size: int, num_pipelines: int = 1, pipeline: int = 0, num_replicas: int = 1
) -> tf.data.Dataset:
    """Endless dataset of batches from step `step` (counted from 0) on.

    Args:
      order: data directory and seed.
      step: steps done before.
      batch_size: examples of a step, over all replicas.
      num_pipelines: input pipelines that share a step's examples, one for each worker.
      pipeline: number of this one.
      num_replicas: replicas this pipeline feeds; each gets one element of the dataset in turn.

    Returns:
      Dict of the model's inputs and labels for one replica, as `masking.make_batch` returns them, and `example`
      and `epoch`, int64 [B / replicas].
    """
    share = batch_size // num_pipelines
    records = training_records(order, step * batch_size).batch(batch_size, drop_remainder=True)
    if num_pipelines * num_replicas > 1:
        # All pipelines read everything and keep their part, so that the order does not depend on their number.
        begin, each = pipeline * share, share // num_replicas

        @as_it_is
        def take_share(*parts: tf.Tensor) -> tuple[tf.Tensor, ...]:
            return tuple(tf.reshape(part[begin : begin + share], [num_replicas, each]) for part in parts)

        records = records.map(take_share).unbatch()

    @as_it_is
    def to_features(records: tf.Tensor, epochs: tf.Tensor, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        batch = parse_batch(records, order.data, seed=order.seed, epochs=epochs, examples=examples)
        return {**batch, EXAMPLE: examples, EPOCH: epochs}

    return records.map(to_features, num_parallel_calls=2, deterministic=True).prefetch(2)


def evaluation_batches(data: DataDirectory, *, batch_size: int, max_examples: int | None = None) -> tf.data.Dataset:
    """Each example once, in the order of the shards, with the same masks every time.

    The last batch is filled up with rows of weight 0. Elements are those of `training_batches` without `epoch`, with
    `example_weight` [B] in the default float type; `masked_lm_weights` of filling rows are 0.

    Args:
      data: the data directory.
      batch_size: examples of a batch.
      max_examples: how many examples to take from the beginning; None for all.
    """
    count = data.num_examples if max_examples is None else min(max_examples, data.num_examples)
    files = tf.data.Dataset.from_tensor_slices([shard.path for shard in data.shards])
    records = files.flat_map(tf.data.TFRecordDataset).take(count)
    if filling := -count % batch_size:
        records = records.concatenate(tf.data.TFRecordDataset(data.shards[0].path).repeat().take(filling))
    records = records.batch(batch_size, drop_remainder=True)

    @as_it_is
    def to_features(index: tf.Tensor, records: tf.Tensor) -> dict[str, tf.Tensor]:
        examples = index * batch_size + tf.range(batch_size, dtype=tf.int64)
        epochs = tf.fill([batch_size], tf.constant(_EVALUATION_EPOCH, tf.int64))
        batch = parse_batch(records, data, seed=_EVALUATION_SEED, epochs=epochs, examples=examples)
        weights = tf.cast(examples < count, keras.config.floatx())
        batch[features.MASKED_LM_WEIGHTS] *= weights[:, tf.newaxis]
        return {**batch, EXAMPLE: examples, EXAMPLE_WEIGHT: weights}

    return records.enumerate().map(to_features, num_parallel_calls=2, deterministic=True).prefetch(2)


def parse_batch(
    records: tf.Tensor, data: DataDirectory, *, seed: int, epochs: tf.Tensor, examples: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Features of serialised records, string [B], of either form. Raises as `explain` understands."""
    if data.masking == "static":
        return _parse_static(records, data, examples)
    settings = masking.MaskingSettings.of(data)
    spec: dict[str, tf.io.RaggedFeature | tf.io.FixedLenFeature] = {
        feature.name: tf.io.RaggedFeature(tf.int64)
        if feature.length is None
        else tf.io.FixedLenFeature([feature.length], tf.int64)
        for feature in data.features()
    }
    parsed = tf.io.parse_example(records, spec)
    lengths = tf.cast(parsed[features.SEGMENT_LENGTHS], tf.int32)  # [B, 2]
    total = tf.reduce_sum(lengths, axis=1)
    fits = (lengths[:, 0] >= 1) & (total <= settings.room)
    fits &= (lengths[:, 1] == 0) if data.sentence_objective == "none" else (lengths[:, 1] >= 1)
    for name in (features.SEGMENT_TOKENS, features.WORD_STARTS):
        fits &= tf.equal(tf.cast(parsed[name].row_lengths(), tf.int32), total)
    in_vocabulary = parsed[features.SEGMENT_TOKENS].to_tensor(0, shape=[None, settings.room])
    fits &= tf.reduce_all((in_vocabulary >= 0) & (in_vocabulary < data.vocab_size), axis=1)
    with tf.control_dependencies(
        [_check(fits, data.path, examples, "lengths or ids do not fit each other or dataset.json")]
    ):
        tokens = tf.cast(in_vocabulary, tf.int32)  # [B, room]
    word_starts = tf.cast(parsed[features.WORD_STARTS].to_tensor(0, shape=[None, settings.room]), tf.int32)
    labels = None
    if features.NEXT_SENTENCE_LABELS in parsed:
        labels = tf.cast(parsed[features.NEXT_SENTENCE_LABELS][:, 0], tf.int32)
    return masking.make_batch(
        tokens, word_starts, lengths, labels, seed=seed, epochs=epochs, examples=examples, settings=settings
    )


def _parse_static(records: tf.Tensor, data: DataDirectory, examples: tf.Tensor) -> dict[str, tf.Tensor]:
    """Features of records in the original's form; whether words start at a position is not needed any more."""
    spec = {
        feature.name: tf.io.FixedLenFeature([feature.length], tf.as_dtype(feature.dtype))
        for feature in features.static_features(data.max_seq_length, data.max_predictions_per_seq)
        if feature.name != features.TOKEN_BOUNDARY
    }
    parsed = tf.io.parse_example(records, spec)
    ids, positions = parsed[features.INPUT_IDS], parsed[features.MASKED_LM_POSITIONS]
    fits = tf.reduce_all((ids >= 0) & (ids < data.vocab_size), axis=1)
    fits &= tf.reduce_all((positions >= 0) & (positions < data.max_seq_length), axis=1)
    with tf.control_dependencies([_check(fits, data.path, examples, "ids or positions do not fit dataset.json")]):
        batch = {
            name: tf.cast(value, keras.config.floatx() if value.dtype == tf.float32 else tf.int32)
            for name, value in parsed.items()
        }
    batch[features.SENTENCE_ORDER_LABEL] = batch.pop(features.NEXT_SENTENCE_LABELS)[:, 0]
    return batch


def _check(fits: tf.Tensor, path: str, examples: tf.Tensor, message: str) -> tf.Operation:
    """Fails for the first example [B] of a data directory that does not fit."""
    first = tf.gather(examples, tf.argmax(~fits))
    return tf.debugging.Assert(tf.reduce_all(fits), [path, first, message], summarize=1)


def explain(error: tf.errors.OpError, *directories: DataDirectory) -> ValueError | None:
    """What a reading error says to a user: file, record, what is wrong. None where the error is no reading error.

    Args:
      error: raised while batches of `directories` were used.
      directories: training data, and held-out data if there is any.
    """
    message = error.message or ""
    by_path = {data.path: data for data in directories}
    if isinstance(error, tf.errors.DataLossError):
        for shard in (shard for data in directories for shard in data.shards):
            if (found := damage(shard)) is not None:
                return ValueError(f"{found}; build the shards again")
        return ValueError(f"{directories[0].path}: damaged shard: {message.splitlines()[0]}")
    if match := re.search(r"assertion failed: ((?:\[[^\]]*\] ?)+)", message):
        parts = re.findall(r"\[([^\]]*)\]", match[1])
        if parts[0] in by_path:
            return ValueError(f"{by_path[parts[0]].locate(int(parts[1]))}: {parts[2]}")
        return ValueError(" ".join(parts))
    if match := re.search(r"(Key|Feature): (\w+)[^.\n]*", message):
        paths = " or ".join(by_path)
        return ValueError(f"{paths}: a record does not hold what {DATASET_FILE} says: {match[0].rstrip()}")
    return None
