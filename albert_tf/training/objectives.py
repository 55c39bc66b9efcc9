"""Pretraining's objective: its loss, what a sentence objective leaves untrained, and how its figures are called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import keras
import tensorflow as tf

from albert_tf import features
from albert_tf.features import SentenceObjective
from albert_tf.modeling.head_model import AlbertHeadModel
from albert_tf.training import losses, metrics

_Value = TypeVar("_Value")

# Figures are computed under the first name, whatever the labels mean.
_COMPUTED = "sentence_order_"
_SHOWN: dict[SentenceObjective, str] = {"sop": "sentence_order_", "nsp": "next_sentence_"}

# Names of weights, by their beginnings, that only a sentence objective reaches.
_PAIR_WEIGHTS = ("encoder/pooler/", "sentence_order/")


def name_figures(figures: Mapping[str, _Value], objective: SentenceObjective) -> dict[str, _Value]:
    """Figures by the names of `objective`: "next_sentence_" for "nsp"; without those of pairs for "none"."""
    if objective == "none":
        return {name: value for name, value in figures.items() if not name.startswith(_COMPUTED)}
    shown = _SHOWN[objective]
    return {
        shown + name.removeprefix(_COMPUTED) if name.startswith(_COMPUTED) else name: value
        for name, value in figures.items()
    }


def is_trained(name: str, objective: SentenceObjective) -> bool:
    """Whether the weight `name` takes part in the loss. With "none" the pooler and the pairs' head keep their values.

    Without a gradient, decay alone would take them to 0: LAMB scales a step to the size of the weights.
    """
    return objective != "none" or not name.startswith(_PAIR_WEIGHTS)


class PretrainingObjective:
    """Masked LM and sentence order; an `Objective` of the loop.

    Args:
      sentence_objective: with "none" the loss is the masked LM's alone.
    """

    metrics: tuple[str, ...] = (
        "masked_lm_loss",
        "sentence_order_loss",
        "masked_lm_accuracy",
        "sentence_order_accuracy",
    )

    def __init__(self, sentence_objective: SentenceObjective = "sop") -> None:
        self._sentence_objective = sentence_objective

    def is_trained(self, name: str) -> bool:
        """Whether the weight `name` takes part in the loss."""
        return is_trained(name, self._sentence_objective)

    def counted_by_rows(self, model: AlbertHeadModel) -> Sequence[keras.Variable]:
        """The segments' table; that of the words is tied to the output as well."""
        return [model.encoder.embeddings.token_type_embeddings]

    def denominators(self, batch: Mapping[str, tf.Tensor]) -> list[tf.Tensor]:
        """Number of predictions and of rows, float scalars."""
        weights, labels = batch[features.MASKED_LM_WEIGHTS], batch[features.SENTENCE_ORDER_LABEL]
        return [tf.reduce_sum(weights), tf.cast(tf.size(labels), weights.dtype)]

    def loss_and_shares(
        self, outputs: Mapping[str, tf.Tensor], batch: Mapping[str, tf.Tensor], totals: Sequence[tf.Tensor]
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """These rows' part of the loss and of `metrics`; `totals` are the denominators of all rows."""
        predictions, rows = totals
        ids, weights = batch[features.MASKED_LM_IDS], batch[features.MASKED_LM_WEIGHTS]
        labels = batch[features.SENTENCE_ORDER_LABEL]
        masked_lm, _ = losses.masked_lm_sums(outputs["masked_lm_logits"], ids, weights)
        order, _ = losses.sentence_order_sums(outputs["sentence_order_logits"], labels)
        masked_lm /= tf.cast(predictions, masked_lm.dtype) + losses.MASKED_LM_DENOMINATOR_OFFSET
        order /= tf.cast(rows, order.dtype)
        right, _ = metrics.accuracy_sums(outputs["masked_lm_logits"], ids, weights)
        right_order, _ = metrics.accuracy_sums(outputs["sentence_order_logits"], labels)
        loss = masked_lm if self._sentence_objective == "none" else masked_lm + order
        return loss, [masked_lm, order, tf.math.divide_no_nan(right, predictions), right_order / rows]
