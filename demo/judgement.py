"""What the model has learned, on held-out text: is it off the unigram plateau?

A masked-LM model first learns word frequencies and stays there for a while. Its loss over all selected positions looks
better than that at once, since a fifth of them show their own or a random piece; so only positions whose input is
[MASK] count here. Two comparisons at the same positions:

* the context-free bound: what the frequencies of the training labels (add-one smoothed) cost, the best that a model
  without context could expect;
* the model's own loss with contexts permuted across the batch: each row keeps its [MASK]s and labels and shows the
  tokens of another row around them. Only a model that uses the context loses by it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from albert_tf import features
from albert_tf.data.manifest import DataDirectory
from albert_tf.modeling.models import AlbertPretrainingModel
from albert_tf.training.evaluation import Evaluator, count_labels
from albert_tf.training.report import ENOUGH_ERRORS, ENOUGH_NATS

ENOUGH_POSITIONS = 10_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Judgement:
    """Figures over the held-out positions that show [MASK]. Losses in nats per position.

    Attributes:
      positions: how many.
      loss: of the model.
      bound: of the training labels' frequencies.
      permuted: of the model with contexts permuted.
      below_bound, below_permuted: how far `loss` is below them.
      below_bound_error, below_permuted_error: standard errors of these, examples counted as independent. The second is
        the sum of two, which the true one cannot exceed.
      accuracy: share of positions where the likeliest piece is the right one.
      bound_accuracy: the same for the most frequent training label.
      order_accuracy: share of held-out pairs whose order is recognised.
      order_majority: share of the more frequent order.
    """

    positions: int
    loss: float
    bound: float
    permuted: float
    below_bound: float
    below_bound_error: float
    below_permuted: float
    below_permuted_error: float
    accuracy: float
    bound_accuracy: float
    order_accuracy: float
    order_majority: float

    @classmethod
    def of(cls, own: Mapping[str, float], permuted: Mapping[str, float]) -> Judgement:
        """From the figures of `Evaluator` with the examples as they are and with contexts permuted.

        Raises:
          ValueError: if the two do not count the same positions.
        """
        if own["positions_at_mask"] != permuted["positions_at_mask"]:
            raise ValueError(
                f"permuted must count the positions of own, {own['positions_at_mask']}, got "
                f"{permuted['positions_at_mask']}"
            )
        below_bound, error = own["gain_over_context_free_at_mask"], own["gain_over_context_free_at_mask_error"]
        return cls(
            positions=int(own["positions_at_mask"]),
            loss=own["masked_lm_loss_at_mask"],
            bound=own["context_free_loss_at_mask"],
            permuted=permuted["masked_lm_loss_at_mask"],
            below_bound=below_bound,
            below_bound_error=error,
            below_permuted=below_bound - permuted["gain_over_context_free_at_mask"],
            below_permuted_error=error + permuted["gain_over_context_free_at_mask_error"],
            accuracy=own["masked_lm_accuracy_at_mask"],
            bound_accuracy=own["context_free_accuracy_at_mask"],
            order_accuracy=own["sentence_order_accuracy"],
            order_majority=own["sentence_order_majority"],
        )

    @property
    def learned(self) -> bool:
        """Whether the model is surely off the plateau: both differences at least 0.1 nats and 5 standard errors."""
        differences = (
            (self.below_bound, self.below_bound_error),
            (self.below_permuted, self.below_permuted_error),
        )
        return self.positions >= ENOUGH_POSITIONS and all(
            nats >= max(ENOUGH_NATS, ENOUGH_ERRORS * error) for nats, error in differences
        )

    def to_dict(self) -> dict[str, Any]:
        """All figures, ready for JSON."""
        return dataclasses.asdict(self)


def permute_contexts(batch: Mapping[str, tf.Tensor], mask_id: int) -> dict[str, tf.Tensor]:
    """Batch with each row's context taken from the row half a batch away.

    Args:
      batch: features of an evaluation batch.
      mask_id: id of [MASK].

    Returns:
      The batch with other `input_ids`, `input_mask` and `segment_ids`, int32 [B, S]: the positions where a row predicts
      and shows [MASK] stay, all others are another row's. `masked_lm_weights` are 0 for the other predictions, since
      the other row may happen to show its [MASK] there.
    """
    ids, positions = batch[features.INPUT_IDS], batch[features.MASKED_LM_POSITIONS]
    B, S = ids.shape
    shown = tf.gather(ids, positions, batch_dims=1)  # [B, P]
    counts = (batch[features.MASKED_LM_WEIGHTS] > 0) & (shown == mask_id)
    stays = tf.reduce_max(tf.one_hot(tf.where(counts, positions, S), S), axis=1) > 0  # [B, S]
    changed = {
        name: tf.where(stays, batch[name], tf.roll(batch[name], B // 2, axis=0))
        for name in (features.INPUT_IDS, features.INPUT_MASK, features.SEGMENT_IDS)
    }
    return {**batch, **changed, features.MASKED_LM_WEIGHTS: tf.cast(counts, tf.float32)}


class PermutedEvaluator(Evaluator):
    """Evaluator that shows the model each row with another row's context."""

    def replica_sums(self, batch: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Sums over a replica's rows, as those of `Evaluator`."""
        return super().replica_sums(permute_contexts(batch, self._mask_id))


def judge(
    model: AlbertPretrainingModel, training: DataDirectory, held_out: DataDirectory, *, batch_size: int
) -> Judgement:
    """Judgement of `model` over all examples of `held_out`; `training` gives the frequencies."""
    labels = count_labels(training)
    strategy = tf.distribute.get_strategy()
    own, permuted = (
        evaluator(model, strategy, held_out, labels, batch_size=batch_size).run()
        for evaluator in (Evaluator, PermutedEvaluator)
    )
    return Judgement.of(own, permuted)
