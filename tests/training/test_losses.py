"""Losses and accuracies against hand-written sums, with gradients and masks."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.training import losses, metrics

B, P, V = 3, 5, 11


def _batch() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(1)
    logits = generator.normal(scale=3.0, size=(B, P, V)).astype(np.float32)
    ids = generator.integers(0, V, size=(B, P)).astype(np.int32)
    weights = np.array([[1, 1, 0, 0, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0]], np.float32)
    return logits, ids, weights


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    logits = logits.astype(np.float64)
    return logits - np.log(np.sum(np.exp(logits), axis=-1, keepdims=True))


def test_masked_lm_loss_equals_the_original_formula() -> None:
    logits, ids, weights = _batch()
    each = -np.take_along_axis(_log_softmax(logits), ids[..., None], axis=-1)[..., 0]
    expected = np.sum(weights * each) / (np.sum(weights) + 1e-5)
    assert losses.masked_lm_loss(logits, ids, weights).numpy() == pytest.approx(expected, rel=1e-6)  # float32
    numerator, denominator = losses.masked_lm_sums(logits, ids, weights)
    assert denominator.numpy() == 7.0
    assert numerator.numpy() == pytest.approx(np.sum(weights * each), rel=1e-6)


def test_masked_lm_gradient_is_softmax_minus_label_at_predictions_only() -> None:
    logits, ids, weights = _batch()
    variable = tf.constant(logits)
    with tf.GradientTape() as tape:
        tape.watch(variable)
        loss = losses.masked_lm_loss(variable, ids, weights)
    expected = (np.exp(_log_softmax(logits)) - np.eye(V)[ids]) * weights[..., None] / (7.0 + 1e-5)
    np.testing.assert_allclose(tape.gradient(loss, variable).numpy(), expected, rtol=0, atol=1e-7)


def test_no_prediction_gives_zero_and_no_nan() -> None:
    logits, ids, weights = _batch()
    assert losses.masked_lm_loss(logits, ids, np.zeros_like(weights)).numpy() == 0.0


def test_filling_changes_nothing() -> None:
    logits, ids, weights = _batch()
    wrong_ids = np.where(weights > 0, ids, (ids + 1) % V)
    assert losses.masked_lm_loss(logits, wrong_ids, weights) == losses.masked_lm_loss(logits, ids, weights)


def test_sentence_order_loss() -> None:
    logits = np.array([[2.0, 0.0], [0.0, 1.0], [1.0, 1.0]], np.float32)
    labels = np.array([0, 0, 1], np.int32)
    expected = np.mean([np.log1p(np.exp(-2.0)), np.log1p(np.exp(1.0)), np.log(2.0)])
    assert losses.sentence_order_loss(logits, labels).numpy() == pytest.approx(expected, rel=1e-6)
    total, count = losses.sentence_order_sums(logits, labels)
    assert count.numpy() == 3.0
    assert total.numpy() == pytest.approx(3 * expected, rel=1e-6)


@pytest.mark.parametrize(
    ("given", "computed"), [("bfloat16", "float32"), ("float32", "float32"), ("float64", "float64")]
)
def test_dtype_is_at_least_float32(given: str, computed: str) -> None:
    logits, ids, weights = _batch()
    numerator, denominator = losses.masked_lm_sums(tf.cast(logits, given), ids, weights)
    assert (numerator.dtype.name, denominator.dtype.name) == (computed, computed)


def test_accuracy_sums() -> None:
    logits = np.array([[0.0, 3.0, 1.0], [5.0, 4.0, 0.0], [0.0, 0.0, 1.0], [2.0, 0.0, 0.0]], np.float32)
    labels = np.array([1, 1, 2, 0], np.int32)
    correct, total = metrics.accuracy_sums(logits, labels)
    assert (correct.numpy(), total.numpy()) == (3.0, 4.0)
    correct, total = metrics.accuracy_sums(logits, labels, np.array([1, 1, 0, 1], np.float32))
    assert (correct.numpy(), total.numpy()) == (2.0, 3.0)
