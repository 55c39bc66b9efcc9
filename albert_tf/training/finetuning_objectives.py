"""Objectives of the tasks, one for each kind of label: what the loss is, and what a step reports beside it.

Denominators are those of the whole batch, over all replicas and micro-batches, so that neither their number nor where
a label stands changes the loss.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from albert_tf.head_config import POOLED, Head
from albert_tf.modeling.head_model import AlbertHeadModel
from albert_tf.training import losses

LABELS = "labels"
NO_LABEL = -1

_POOLER = "encoder/pooler/"


class TaskObjective(abc.ABC):
    """One loss over the labels of a batch, and what share of them is right; base of those below.

    Args:
      head: of the model that is trained.
    """

    metrics: tuple[str, ...] = ("loss", "accuracy")

    def __init__(self, head: Head) -> None:
        self._head = head

    def is_trained(self, name: str) -> bool:
        """Whether the weight `name` takes part in the loss: all but a pooler that the head does not read."""
        return self._head in POOLED or not name.startswith(_POOLER)

    def counted_by_rows(self, model: AlbertHeadModel) -> Sequence[keras.Variable]:
        """The tables of words and segments: no output is tied to that of the words here."""
        embeddings = model.encoder.embeddings
        return [embeddings.word_embeddings, embeddings.token_type_embeddings]

    def denominators(self, batch: Mapping[str, tf.Tensor]) -> list[tf.Tensor]:
        """How many labels there are, a float scalar."""
        return [tf.cast(self._count(batch[LABELS]), keras.config.floatx())]

    def loss_and_shares(
        self, outputs: Mapping[str, tf.Tensor], batch: Mapping[str, tf.Tensor], totals: Sequence[tf.Tensor]
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """These rows' part of the loss and of `metrics`; `totals` are the denominators of all rows."""
        sums = self._sums(outputs["logits"], batch[LABELS])
        shares = [tf.math.divide_no_nan(value, tf.cast(totals[0], value.dtype)) for value in sums]
        return shares[0], shares

    def figures(
        self, logits: np.ndarray | Sequence[np.ndarray], labels: np.ndarray | Sequence[np.ndarray]
    ) -> dict[str, float]:
        """Metrics of predictions: logits and labels of all rows, as the model and the features have them."""
        if self._head == "token_classifier":  # n times [T_i, C] to [1, sum T, C]
            values, wanted = np.concatenate(list(logits))[np.newaxis], np.concatenate(list(labels))[np.newaxis]
        else:
            values, wanted = np.asarray(logits), np.asarray(labels)
        batch = {LABELS: tf.constant(wanted)}
        _, shares = self.loss_and_shares({"logits": tf.constant(values)}, batch, self.denominators(batch))
        return {name: float(share) for name, share in zip(self.metrics, shares, strict=True)}

    def _count(self, labels: tf.Tensor) -> tf.Tensor:
        return tf.size(labels)

    @abc.abstractmethod
    def _sums(self, logits: tf.Tensor, labels: tf.Tensor) -> list[tf.Tensor]:
        """Sums over rows, one for each of `metrics`."""


class LabelObjective(TaskObjective):
    """One label for a text or a token: mean cross-entropy in nats of those that are not `NO_LABEL`."""

    def _count(self, labels: tf.Tensor) -> tf.Tensor:
        return tf.math.count_nonzero(labels >= 0)

    def _sums(self, logits: tf.Tensor, labels: tf.Tensor) -> list[tf.Tensor]:
        loss, _ = losses.label_sums(logits, labels)
        right = tf.argmax(logits, -1, labels.dtype) == labels  # never at NO_LABEL
        return [loss, tf.cast(tf.math.count_nonzero(right), loss.dtype)]


class MultiLabelObjective(TaskObjective):
    """Any number of labels for a text: mean binary cross-entropy in nats, and share of right decisions."""

    def _sums(self, logits: tf.Tensor, labels: tf.Tensor) -> list[tf.Tensor]:
        loss, _ = losses.multi_label_sums(logits, labels)
        right = (logits > 0) == (labels > 0.5)
        return [loss, tf.cast(tf.math.count_nonzero(right), loss.dtype)]


class RegressionObjective(TaskObjective):
    """A number for a text: mean squared error."""

    metrics: tuple[str, ...] = ("loss",)

    def _sums(self, logits: tf.Tensor, labels: tf.Tensor) -> list[tf.Tensor]:
        loss, _ = losses.squared_error_sums(logits, labels)
        return [loss]


def make_objective(head: Head, *, is_multi_label: bool = False) -> TaskObjective:
    """The objective of a head.

    Raises:
      ValueError: for a head that no task here trains.
    """
    if head == "regression":
        return RegressionObjective(head)
    if head == "classifier" and is_multi_label:
        return MultiLabelObjective(head)
    if head in ("classifier", "token_classifier"):
        return LabelObjective(head)
    raise ValueError(f"head must be classifier, regression or token_classifier, got {head!r}")
