"""A model's logits to what is said of each example: labels with probabilities, numbers, or a label for each word."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from absl import logging

from albert_tf.tasks.features import EncodedExamples
from albert_tf.tasks.task import Example, Task
from albert_tf.tasks.windows import join_texts, join_words

Logits = np.ndarray | Sequence[np.ndarray]
THRESHOLD = 0.5  # probability from which a label of several counts
NO_WORD_LABEL = "O"  # of words that were cut off, where labels name entities; else ""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Prediction:
    """What a model says of one example.

    Attributes:
      label: a name, a number (regression), names (multi-label: a set, sorted) or one a word (tagging).
      probabilities: float32 [C] in [0, 1], of each label; for tagging [words, C], not a number (nan) for words that
        were cut off; None for regression.
    """

    label: str | float | tuple[str, ...]
    probabilities: np.ndarray | None = None


def predict(logits: Logits, encoded: EncodedExamples, examples: Sequence[Example], task: Task) -> list[Prediction]:
    """Predictions for examples out of the logits of their rows.

    Of windows' probabilities (of regression: values) the mean counts; of a word the window that shows most around it.

    Args:
      logits: float [n, C] for the rows of `encoded`; [n] or [n, 1] for regression; for tagging one [T_i, C] a row.
      encoded: what the model was given.
      examples: what was encoded.
      task: whose labels the logits are for.

    Raises:
      ValueError: if there are not as many logits as rows or labels.
    """
    if len(logits) != len(encoded):
        raise ValueError(f"logits must have {len(encoded)} rows, as many as the examples have, got {len(logits)}")
    if task.head == "regression":
        values = join_texts(np.asarray(logits).reshape(len(encoded)), encoded.example_of, len(examples))
        return [Prediction(label=float(value)) for value in values]
    labels = task.labels or ()
    if len(logits) and np.shape(logits[0])[-1] != len(labels):
        raise ValueError(f"logits must be of {len(labels)} labels, got {np.shape(logits[0])[-1]}")
    if task.head == "token_classifier":
        return _predict_words([softmax(row) for row in logits], encoded, examples, labels)
    values = np.asarray(logits).reshape(len(encoded), len(labels))
    rows = sigmoid(values) if task.is_multi_label else softmax(values)
    joined = join_texts(rows, encoded.example_of, len(examples))
    if task.is_multi_label:
        chosen = [tuple(sorted(labels[i] for i in np.flatnonzero(row >= THRESHOLD))) for row in joined]
        return [Prediction(label=names, probabilities=row) for names, row in zip(chosen, joined, strict=True)]
    best = joined.argmax(-1) if len(joined) else []
    return [Prediction(label=labels[i], probabilities=row) for i, row in zip(best, joined, strict=True)]


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities float32 [..., C] of classes that exclude each other."""
    shifted = np.asarray(logits, np.float32)
    powers = np.exp(shifted - shifted.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """Probabilities float32 [..., C] of labels that do not exclude each other."""
    return 0.5 * (1.0 + np.tanh(0.5 * np.asarray(logits, np.float32)))


def _predict_words(
    rows: Sequence[np.ndarray], encoded: EncodedExamples, examples: Sequence[Example], labels: tuple[str, ...]
) -> list[Prediction]:
    if encoded.word_of is None:
        raise ValueError("encoded examples must say where words are (word_of), as those of tagging do")
    joined = join_words(rows, encoded.word_of, encoded.example_of, [len(example.texts) for example in examples])
    missing = NO_WORD_LABEL if NO_WORD_LABEL in labels else ""
    predictions = []
    cut = 0
    for probabilities in joined:
        is_seen = ~np.isnan(probabilities).any(-1)
        best = np.nan_to_num(probabilities).argmax(-1)
        cut += int(len(is_seen) - is_seen.sum())
        names = tuple(labels[i] if seen else missing for i, seen in zip(best, is_seen, strict=True))
        predictions.append(Prediction(label=names, probabilities=probabilities))
    if cut:
        words = sum(len(example.texts) for example in examples)
        logging.warning("%d of %d words were cut off and have no prediction; a stride reads all of a text", cut, words)
    return predictions
