"""Held-out losses and accuracies, and what they are to be judged by.

Over all masked positions a model without any context already beats the frequencies of the pieces, because 10 % of the
positions show their own piece. So everything is also given at the positions whose input is [MASK], beside two
yardsticks at the same positions:

* the context-free bound: loss and accuracy of the training labels' frequencies, each count plus one;
* the model's own loss with contexts permuted: the prediction for the k-th masked position of another row, scored
  against this row's k-th label. A model that knew frequencies only would lose nothing by that.

Differences come with standard errors that count sequences, not positions, as independent.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping

import numpy as np
import tensorflow as tf
from absl import logging

from albert_tf import features
from albert_tf.data.batches import EXAMPLE_WEIGHT, evaluation_batches
from albert_tf.data.manifest import DataDirectory
from albert_tf.files import write_whole
from albert_tf.modeling.encoder import Form
from albert_tf.modeling.models import AlbertPretrainingModel
from albert_tf.training import interrupts, losses

# Examples whose labels are counted for the context-free bound.
LABEL_SAMPLE = 50_000

_POSITION_SUMS = ("count", "loss", "right", "context_free_loss", "context_free_right")
_DIFFERENCE_SUMS = ("count", "first", "second", "squares", "products", "row_squares")
_SETS = ("all", "mask")


def count_labels(data: DataDirectory, *, batch_size: int = 256, max_examples: int = LABEL_SAMPLE) -> np.ndarray:
    """How often each piece is a label, int64 [V], in the first `max_examples` examples of `data`."""
    counts = np.zeros(data.vocab_size, np.int64)
    batch_size = min(batch_size, data.num_examples)
    for batch in evaluation_batches(data, batch_size=batch_size, max_examples=max_examples):
        used = batch[features.MASKED_LM_WEIGHTS].numpy() > 0
        counts += np.bincount(batch[features.MASKED_LM_IDS].numpy()[used], minlength=data.vocab_size)
    return counts


def stored_label_counts(folder: str, data: DataDirectory, *, writes: bool) -> np.ndarray:
    """Counts of the labels of `data`, int64 [V], from label_counts.npy in `folder`, written there if `writes`."""
    path = os.path.join(folder, "label_counts.npy")
    if tf.io.gfile.exists(path):
        with tf.io.gfile.GFile(path, "rb") as stream:
            content = stream.read()
        try:
            counts: np.ndarray = np.load(io.BytesIO(content))
            if counts.shape == (data.vocab_size,):
                return counts
        except (ValueError, EOFError, OSError):
            pass  # counted anew
        logging.warning("%s is damaged; the labels are counted again", path)
    counts = count_labels(data)
    if writes:
        written = io.BytesIO()
        np.save(written, counts)
        write_whole(path, written.getvalue())
    return counts


class Evaluator:
    """Evaluates a model on a data directory; made once, run as often as wanted.

    Args:
      model: what is evaluated; dropout is off.
      strategy: the devices.
      data: held-out data directory.
      label_counts: int64 [V], of the training labels.
      batch_size: examples of a batch over all replicas, at least two for each.
      max_examples: how many examples to use, from the beginning; None for all.
      form: of the model's forward pass.

    Raises:
      ValueError: if `batch_size` is no multiple of the number of replicas or too small.
    """

    def __init__(
        self,
        model: AlbertPretrainingModel,
        strategy: tf.distribute.Strategy,
        data: DataDirectory,
        label_counts: np.ndarray,
        *,
        batch_size: int,
        max_examples: int | None = None,
        form: Form = "packed",
    ) -> None:
        replicas = strategy.num_replicas_in_sync
        if batch_size % replicas or batch_size < 2 * replicas:
            raise ValueError(
                f"eval_batch_size must be a multiple of the {replicas} replicas, at least 2 for each, got {batch_size}"
            )
        self._model = model
        self._strategy = strategy
        self._form = form
        self._examples = data.num_examples if max_examples is None else min(max_examples, data.num_examples)
        self._mask_id = data.special_ids["mask"]
        smoothed = label_counts.astype(np.float64) + 1.0
        self._context_free_losses = tf.constant(-np.log(smoothed / smoothed.sum()), tf.float32)  # [V]
        self._commonest = int(np.argmax(label_counts))
        self._data = data
        self._batch_size = batch_size
        self._step = tf.function(self._batch_sums, autograph=False)

    def run(self) -> dict[str, float]:
        """The figures over all held-out examples, losses in nats; `_at_mask` where the input is [MASK]."""
        totals: dict[str, np.ndarray] = {}
        for batch in self._distributed():
            with interrupts.held_back():  # TensorFlow does not bear an exception while it builds a graph
                for name, values in self._step(batch).items():
                    totals[name] = totals.get(name, 0.0) + values.numpy().astype(np.float64)
        if int(totals["order"][0]) != self._examples:
            raise ValueError(f"{self._data.path}: {int(totals['order'][0])} examples read, {self._examples} expected")
        return summarize(totals)

    def _distributed(self) -> tf.distribute.DistributedDataset:
        each = self._batch_size // self._strategy.num_replicas_in_sync
        count = -(-self._examples // each)

        def pipeline(context: tf.distribute.InputContext) -> tf.data.Dataset:
            dataset = evaluation_batches(self._data, batch_size=each, max_examples=self._examples)
            return _take_turns(dataset, count, context)

        return self._strategy.distribute_datasets_from_function(pipeline)

    def _batch_sums(self, batch: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        per_replica = self._strategy.run(self.replica_sums, args=(batch,))
        return {
            name: self._strategy.reduce(tf.distribute.ReduceOp.SUM, value, axis=None)
            for name, value in per_replica.items()
        }

    def replica_sums(self, batch: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Sums over a replica's rows, vectors whose entries `summarize` knows."""
        outputs = self._model.forward(batch, form=self._form, training=False)
        logits, labels = outputs["masked_lm_logits"], batch[features.MASKED_LM_IDS]
        used = tf.cast(batch[features.MASKED_LM_WEIGHTS] > 0, tf.float32)  # [B, P]
        shown = tf.gather(batch[features.INPUT_IDS], batch[features.MASKED_LM_POSITIONS], batch_dims=1)
        loss = tf.cast(losses.cross_entropy(logits, labels), tf.float32)
        right = tf.cast(tf.argmax(logits, -1, tf.int32) == labels, tf.float32)
        context_free = tf.gather(self._context_free_losses, labels)
        context_free_right = tf.cast(labels == self._commonest, tf.float32)
        # Row i predicts at its own positions; the labels are those of the row half a batch before, which is seldom of
        # the same document.
        shift = labels.shape[0] // 2
        permuted = tf.cast(losses.cross_entropy(logits, tf.roll(labels, shift, axis=0)), tf.float32)
        own = tf.roll(loss, shift, axis=0)
        sums = {}
        for name, chosen in (("all", used), ("mask", used * tf.cast(shown == self._mask_id, tf.float32))):
            each = (tf.ones_like(loss), loss, right, context_free, context_free_right)
            sums[name] = tf.stack([tf.reduce_sum(chosen * value) for value in each])
            sums[f"context_free_{name}"] = _difference_sums(context_free, loss, chosen)
            sums[f"permuted_{name}"] = _difference_sums(permuted, own, chosen * tf.roll(chosen, shift, axis=0))
        order, weights = batch[features.SENTENCE_ORDER_LABEL], tf.cast(batch[EXAMPLE_WEIGHT], tf.float32)
        order_logits = outputs["sentence_order_logits"]
        order_loss = tf.cast(losses.cross_entropy(order_logits, order), tf.float32)
        order_right = tf.cast(tf.argmax(order_logits, -1, tf.int32) == order, tf.float32)
        values = (tf.ones_like(order_loss), order_loss, order_right, tf.cast(order, tf.float32))
        sums["order"] = tf.stack([tf.reduce_sum(weights * value) for value in values])
        return sums


def _take_turns(dataset: tf.data.Dataset, count: int, context: tf.distribute.InputContext) -> tf.data.Dataset:
    """What one input pipeline feeds to its replicas, of `count` batches that all replicas take in turn."""
    replicas = context.num_replicas_in_sync
    if replicas == 1:
        return dataset
    if filling := -count % replicas:  # all replicas need equally many
        dataset = dataset.concatenate(dataset.take(1).map(_without_weight).repeat(filling))
    rounds = dataset.batch(replicas // context.num_input_pipelines, drop_remainder=True)
    return rounds.shard(context.num_input_pipelines, context.input_pipeline_id).unbatch()


def _without_weight(batch: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    weights = (features.MASKED_LM_WEIGHTS, EXAMPLE_WEIGHT)
    return {name: tf.zeros_like(value) if name in weights else value for name, value in batch.items()}


def _difference_sums(first: tf.Tensor, second: tf.Tensor, chosen: tf.Tensor) -> tf.Tensor:
    """What mean and standard error of `first - second` over the chosen positions [B, P] need, rows as clusters."""
    counts = tf.reduce_sum(chosen, axis=1)  # [B]
    differences = tf.reduce_sum(chosen * (first - second), axis=1)
    sums = (
        counts,
        tf.reduce_sum(chosen * first, axis=1),
        tf.reduce_sum(chosen * second, axis=1),
        differences**2,
        differences * counts,
        counts**2,
    )
    return tf.stack([tf.reduce_sum(value) for value in sums])


def summarize(totals: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Figures by name from the sums over all batches."""
    figures: dict[str, float] = {}
    for name in _SETS:
        ending = "_at_mask" if name == "mask" else ""
        sums = dict(zip(_POSITION_SUMS, totals[name], strict=True))
        count = max(sums["count"], 1.0)
        figures[f"positions{ending}"] = int(sums["count"])
        figures[f"masked_lm_loss{ending}"] = sums["loss"] / count
        figures[f"masked_lm_accuracy{ending}"] = sums["right"] / count
        figures[f"context_free_loss{ending}"] = sums["context_free_loss"] / count
        figures[f"context_free_accuracy{ending}"] = sums["context_free_right"] / count
        gain, error, _ = _mean_difference(totals[f"context_free_{name}"])
        figures[f"gain_over_context_free{ending}"] = gain
        figures[f"gain_over_context_free{ending}_error"] = error
        gain, error, permuted = _mean_difference(totals[f"permuted_{name}"])
        figures[f"permuted_loss{ending}"] = permuted
        figures[f"gain_over_permuted{ending}"] = gain
        figures[f"gain_over_permuted{ending}_error"] = error
    count, loss, right, exchanged = totals["order"]
    count = max(count, 1.0)
    figures["sentence_order_loss"] = loss / count
    figures["sentence_order_accuracy"] = right / count
    figures["sentence_order_majority"] = max(exchanged, count - exchanged) / count
    figures["examples"] = int(count)
    return {name: value if isinstance(value, int) else float(value) for name, value in figures.items()}


def _mean_difference(totals: np.ndarray) -> tuple[float, float, float]:
    """Mean difference, its standard error, and the mean of the first of the two."""
    sums = dict(zip(_DIFFERENCE_SUMS, totals, strict=True))
    count = max(sums["count"], 1.0)
    mean = (sums["first"] - sums["second"]) / count
    variance = sums["squares"] - 2.0 * mean * sums["products"] + mean**2 * sums["row_squares"]
    return mean, float(np.sqrt(max(variance, 0.0))) / count, sums["first"] / count
