"""Whether a model has collapsed: it answers the same to everything, or no better than without reading.

Fine-tuning now and then ends so, above all on small sets and with a high learning rate; another seed, a longer warm-up
or a lower rate then help (Mosbach et al. 2021, "On the Stability of Fine-tuning BERT", arXiv 2006.04884).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from albert_tf.head_config import Head

# A loss from this share of chance on counts as chance, and predictions that vary less than this share of the labels
# as all the same.
AT_CHANCE = 0.98
SAME = 0.02


def notice(
    head: Head,
    logits: np.ndarray | Sequence[np.ndarray],
    labels: np.ndarray | Sequence[np.ndarray],
    *,
    is_multi_label: bool = False,
    names: Sequence[str] | None = None,
) -> str | None:
    """What shows that a model has collapsed, in words; None where nothing does.

    Args:
      head: "classifier", "token_classifier" or "regression".
      logits: of all rows: float [n, C], for regression [n], for tagging a list of [T_i, C].
      labels: of all rows, as `EncodedExamples` has them.
      is_multi_label: whether a row may have any number of labels.
      names: of the labels, in the order of their ids, if they are known.
    """
    if head == "regression":
        return _notice_numbers(np.asarray(logits, np.float64), np.asarray(labels, np.float64))
    if is_multi_label:
        return _notice_sets(np.asarray(logits), np.asarray(labels))
    if head != "token_classifier":
        return _notice_labels(np.asarray(logits, np.float64), np.asarray(labels), names)
    scores, wanted = np.concatenate(list(logits)), np.concatenate(list(labels))
    return _notice_labels(scores[wanted >= 0].astype(np.float64), wanted[wanted >= 0], names)


def _notice_labels(logits: np.ndarray, labels: np.ndarray, names: Sequence[str] | None) -> str | None:
    counts = np.bincount(labels, minlength=logits.shape[-1]) / max(len(labels), 1)
    if np.count_nonzero(counts) < 2:
        return None  # one label only: nothing can be told from it
    predicted = np.unique(logits.argmax(-1))
    chance = float(-np.sum(counts[counts > 0] * np.log(counts[counts > 0])))
    loss = float(np.mean(_log_sum_exp(logits) - np.take_along_axis(logits, labels[:, None], -1)[:, 0]))
    found = []
    if len(predicted) == 1:
        name = f"number {predicted[0]}" if names is None else repr(names[predicted[0]])
        found.append(f"it predicts one label only ({name}) for all {len(labels):,}")
    if loss >= AT_CHANCE * chance:
        found.append(f"its loss, {loss:.3f}, is no better than that of the labels' frequencies, {chance:.3f}")
    return "; ".join(found) or None


def _notice_sets(logits: np.ndarray, labels: np.ndarray) -> str | None:
    if (labels == labels[0]).all() or not ((logits > 0) == (logits[0] > 0)).all():
        return None
    return f"it predicts the same {np.count_nonzero(logits[0] > 0)} labels for all {len(labels):,} texts"


def _notice_numbers(numbers: np.ndarray, labels: np.ndarray) -> str | None:
    spread = labels.std()
    if spread == 0.0:
        return None
    if numbers.std() <= SAME * spread:
        return f"it predicts nearly the same number, {numbers.mean():.3g}, for all {len(labels):,} texts"
    return None


def _log_sum_exp(logits: np.ndarray) -> np.ndarray:
    top = logits.max(-1)
    found: np.ndarray = top + np.log(np.exp(logits - top[:, None]).sum(-1))
    return found
