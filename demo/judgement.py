"""What the model has learned, on held-out text: is it off the unigram plateau?

A masked-LM model first learns word frequencies and stays there for a while. Its loss over all selected positions looks
better than that at once, since a fifth of them show their own or a random piece; so only positions whose input is
[MASK] count here. Two comparisons at the same positions:

* the context-free bound: what the frequencies of the training labels (add-one smoothed) would cost, the best a model
  without context could expect;
* the model's own loss with contexts permuted across the batch: each row keeps its positions and labels and shows the
  tokens of another row around them. Only a model that uses the context loses by it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from albert_tf import features

ENOUGH_POSITIONS = 10_000
ENOUGH_NATS = 0.1
ENOUGH_ERRORS = 5.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Judgement:
    """Figures over the held-out positions that show [MASK]. Losses in nats per position.

    Attributes:
      positions: how many.
      loss: of the model.
      bound: of the training labels' frequencies.
      permuted: of the model with contexts permuted.
      below_bound, below_permuted: how far `loss` is below them.
      below_bound_error, below_permuted_error: standard errors of these means. Positions of one example share their
        context, so examples are what is counted as independent.
      accuracy: share of positions where the likeliest piece is the right one.
      frequent_accuracy: the same for the most frequent training label.
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
    frequent_accuracy: float
    order_accuracy: float
    order_majority: float

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


def label_frequencies(batches: Iterable[Mapping[str, np.ndarray]], vocab_size: int) -> np.ndarray:
    """Add-one-smoothed probability of each piece as a label, float64 [V]."""
    counts = np.ones(vocab_size, np.float64)
    for batch in batches:
        used = batch[features.MASKED_LM_WEIGHTS] > 0
        counts += np.bincount(batch[features.MASKED_LM_IDS][used], minlength=vocab_size)
    return counts / counts.sum()


def shows_mask(batch: Mapping[str, np.ndarray], mask_id: int) -> np.ndarray:
    """Which predictions count and have [MASK] as their input, bool [B, P]."""
    shown = np.take_along_axis(batch[features.INPUT_IDS], batch[features.MASKED_LM_POSITIONS], axis=1)
    return (batch[features.MASKED_LM_WEIGHTS] > 0) & (shown == mask_id)


def permute_contexts(batch: Mapping[str, np.ndarray], mask_id: int, generator: np.random.Generator) -> dict[str, Any]:
    """Model inputs with each row's context taken from another row.

    A row keeps its [MASK]s where they are; ids, segments and padding of all other positions are those of the row before
    it in a drawn circle through the whole batch, so that no row keeps its own.

    Returns:
      `input_ids`, `input_mask`, `segment_ids` int32 [B, S] and `masked_lm_positions` int32 [B, P].
    """
    ids = batch[features.INPUT_IDS]
    circle = generator.permutation(len(ids))
    source = np.empty_like(circle)
    source[circle] = np.roll(circle, 1)
    here = np.zeros(ids.shape, bool)
    rows, columns = np.nonzero(shows_mask(batch, mask_id))
    here[rows, batch[features.MASKED_LM_POSITIONS][rows, columns]] = True
    return {
        features.INPUT_IDS: np.where(here, mask_id, ids[source]),
        features.INPUT_MASK: np.where(here, 1, batch[features.INPUT_MASK][source]),
        features.SEGMENT_IDS: np.where(here, batch[features.SEGMENT_IDS], batch[features.SEGMENT_IDS][source]),
        features.MASKED_LM_POSITIONS: batch[features.MASKED_LM_POSITIONS],
    }


def mean_with_error(values: np.ndarray, groups: np.ndarray) -> tuple[float, float]:
    """Mean of `values` [N] and its standard error, where values of one group (int [N]) are not independent."""
    mean = float(values.mean())
    deviations = np.bincount(groups, weights=values - mean)
    deviations = deviations[np.bincount(groups) > 0]
    count = len(deviations)
    error = np.sqrt(np.sum(deviations**2) * count / max(1, count - 1)) / len(values)
    return mean, float(error)


class Judge:
    """Adds up held-out batches."""

    def __init__(self, frequencies: np.ndarray, mask_id: int) -> None:
        self._bound = -np.log(frequencies)
        self._most_frequent = int(np.argmax(frequencies))
        self._mask_id = mask_id
        self._columns: list[np.ndarray] = []  # each float64 [6, N]
        self._orders: list[np.ndarray] = []  # each int [2, B]
        self._examples = 0

    def add(
        self, batch: Mapping[str, np.ndarray], logits: np.ndarray, order_logits: np.ndarray, permuted: np.ndarray
    ) -> None:
        """Takes in one batch.

        Args:
          batch: what the model was given, with labels; rows whose `example_weight` is 0 are left out.
          logits: float32 [B, P, V], the model's.
          order_logits: float32 [B, 2].
          permuted: float32 [B, P, V], the model's with `permute_contexts`.
        """
        rows, columns = np.nonzero(shows_mask(batch, self._mask_id))
        labels = batch[features.MASKED_LM_IDS][rows, columns]
        own = logits[rows, columns]
        self._columns.append(
            np.stack(
                [
                    cross_entropy(own, labels),
                    self._bound[labels],
                    cross_entropy(permuted[rows, columns], labels),
                    own.argmax(-1) == labels,
                    labels == self._most_frequent,
                    rows + self._examples,
                ]
            ).astype(np.float64)
        )
        real = batch["example_weight"] > 0
        orders = np.stack([order_logits.argmax(-1), batch[features.SENTENCE_ORDER_LABEL]])
        self._orders.append(orders[:, real])
        self._examples += len(real)

    def result(self) -> Judgement:
        """Figures over everything added."""
        loss, bound, permuted, right, frequent, example = np.concatenate(self._columns, axis=1)
        predicted, order = np.concatenate(self._orders, axis=1)
        examples = example.astype(np.int64)
        below_bound, below_bound_error = mean_with_error(bound - loss, examples)
        below_permuted, below_permuted_error = mean_with_error(permuted - loss, examples)
        swapped = float(order.mean())
        return Judgement(
            positions=len(loss),
            loss=float(loss.mean()),
            bound=float(bound.mean()),
            permuted=float(permuted.mean()),
            below_bound=below_bound,
            below_bound_error=below_bound_error,
            below_permuted=below_permuted,
            below_permuted_error=below_permuted_error,
            accuracy=float(right.mean()),
            frequent_accuracy=float(frequent.mean()),
            order_accuracy=float((predicted == order).mean()),
            order_majority=max(swapped, 1.0 - swapped),
        )


def cross_entropy(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Negative log probability of `labels` int [N] under `logits` [N, V], float64 [N]."""
    logits = logits.astype(np.float64)
    largest = logits.max(-1)
    normaliser = largest + np.log(np.exp(logits - largest[:, np.newaxis]).sum(-1))
    return normaliser - np.take_along_axis(logits, labels[:, np.newaxis], axis=1)[:, 0]
