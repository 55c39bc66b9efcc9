"""What a model's vectors know of two tasks: are two segments exchanged (SOP), and are they of one document (NSP)?

Source: Lan et al. 2020 (arXiv 1909.11942), section 4.6 and Table 5: models that were trained on one objective, or none,
are measured on all. A model has a head for its own objective only, so here each is asked in the same way: a logistic
regression on the last layer's vector at [CLS], the encoder left as it is, learns the task from a part of the held-out
pairs and is measured on the rest. The parts hold other shards' documents where there are several shards, and are
otherwise the first and the last of the one.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from albert_tf import features
from albert_tf.data.manifest import DataDirectory
from albert_tf.features import SentenceObjective

if TYPE_CHECKING:
    from albert_tf.modeling.encoder import AlbertEncoder

LEAST_PAIRS = 50
_LEARNT_FROM = 0.6  # share of the pairs that the regression learns from


@dataclasses.dataclass(frozen=True, kw_only=True)
class Probe:
    """How well a task can be read from a model's vectors.

    Attributes:
      accuracy: share of the pairs that are told right, in [0, 1].
      standard_error: of it.
      majority: what always the same answer would reach.
      num_pairs: pairs that it was measured on.
    """

    accuracy: float
    standard_error: float
    majority: float
    num_pairs: int

    @property
    def errors_above_chance(self) -> float:
        """Standard errors, those of a guess, between the accuracy and `majority`."""
        spread = math.sqrt(self.majority * (1.0 - self.majority) / self.num_pairs)
        return (self.accuracy - self.majority) / spread if spread else 0.0


def probe(vectors: np.ndarray, labels: np.ndarray) -> Probe:
    """Learns labels from the first part of the vectors, and is measured on the rest.

    Args:
      vectors: float [N, H].
      labels: int [N], 0 or 1.

    Raises:
      ValueError: for too few pairs, or labels that are all the same.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if len(labels) < LEAST_PAIRS:
        raise ValueError(f"must have at least {LEAST_PAIRS} pairs, got {len(labels)}")
    split = round(_LEARNT_FROM * len(labels))
    if len(set(labels[:split].tolist())) < 2 or len(set(labels[split:].tolist())) < 2:
        raise ValueError("both parts of the pairs must have both answers")
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=1000))
    model.fit(vectors[:split], labels[:split])
    count = len(labels) - split
    accuracy = float(np.mean(model.predict(vectors[split:]) == labels[split:]))
    share = float(np.mean(labels[split:]))
    return Probe(
        accuracy=accuracy,
        standard_error=math.sqrt(accuracy * (1.0 - accuracy) / count),
        majority=max(share, 1.0 - share),
        num_pairs=count,
    )


def check_data(data: DataDirectory, objective: SentenceObjective, vocab_size: int, positions: int) -> None:
    """Refuses pairs of another task, or that a model cannot read.

    Raises:
      ValueError: saying what differs.
    """
    if data.sentence_objective != objective:
        raise ValueError(
            f"{data.source}: sentence_objective must be {objective}, got {data.sentence_objective}; build it with "
            f"--sentence_objective={objective}"
        )
    if data.vocab_size != vocab_size:
        raise ValueError(f"{data.source}: vocab_size must be the model's, {vocab_size}, got {data.vocab_size}")
    if data.max_seq_length > positions:
        raise ValueError(
            f"{data.source}: max_seq_length must be at most the {positions} positions of the model, got "
            f"{data.max_seq_length}"
        )


def read_pairs(
    encoder: AlbertEncoder,
    data: DataDirectory,
    *,
    batch_size: int,
    advance: Callable[[int], None] = lambda count: None,
) -> tuple[np.ndarray, np.ndarray]:
    """Vector at [CLS] of each pair, float32 [N, H], and its label, int32 [N], in the order of the shards.

    Args:
      encoder: the encoder.
      data: pairs with labels; masked as held-out data is.
      batch_size: pairs that are computed together.
      advance: is told how many more pairs are done.
    """
    import tensorflow as tf

    from albert_tf.data.batches import EXAMPLE_WEIGHT, evaluation_batches

    names = (features.INPUT_IDS, features.INPUT_MASK, features.SEGMENT_IDS)

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)] * 3, autograph=False)
    def at_cls(*inputs: tf.Tensor) -> tf.Tensor:
        return encoder.encode(dict(zip(names, inputs, strict=True)), form="packed")["sequence_output"][:, 0]

    vectors, labels = [], []
    for batch in evaluation_batches(data, batch_size=batch_size):
        is_real = batch[EXAMPLE_WEIGHT].numpy() > 0
        vectors.append(at_cls(*(tf.cast(batch[name], tf.int32) for name in names)).numpy()[is_real])
        labels.append(np.reshape(batch[features.SENTENCE_ORDER_LABEL].numpy(), -1)[is_real])
        advance(int(is_real.sum()))
    return np.concatenate(vectors), np.concatenate(labels).astype(np.int32)
