"""Dense gradients and the global norm, by hand."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.training import gradients

IDS = [0, 2, 2, 1, 2]


def _compute(counted_by_rows: bool, *, tied: bool = False) -> gradients.Gradients:
    table = keras.Variable(np.ones((3, 2), np.float32), name="table")
    kernel = keras.Variable(np.array([3.0], np.float32), name="kernel")
    with tf.GradientTape() as tape:
        loss = 2.0 * tf.reduce_sum(tf.gather(table.value, IDS)) + tf.reduce_sum(kernel.value**2)
        if tied:
            loss += tf.reduce_sum(table.value)
    return gradients.compute(tape, loss, [kernel, table], counted_by_rows=[table] if counted_by_rows else [])


def test_rows_are_summed_in_the_gradient_and_counted_apart_in_the_norm() -> None:
    found = _compute(True)
    np.testing.assert_array_equal(found.dense[1], [[2, 2], [2, 2], [6, 6]])
    assert found.global_norm().numpy() == pytest.approx(np.sqrt(36 + 5 * 8))  # five look-ups of squared norm 8
    assert _compute(False).global_norm().numpy() == pytest.approx(np.sqrt(36 + 8 + 8 + 72))


def test_a_table_with_another_use_is_counted_summed() -> None:
    assert _compute(True, tied=True).global_norm().numpy() == pytest.approx(np.sqrt(36 + 18 + 18 + 98))


def test_clipping() -> None:
    found = _compute(True)
    clipped, norm = found.clipped(1.0)
    assert norm.numpy() == pytest.approx(np.sqrt(76))
    np.testing.assert_allclose(clipped[0], [6 / np.sqrt(76)], rtol=1e-6)
    np.testing.assert_allclose(clipped[1], np.array([[2, 2], [2, 2], [6, 6]]) / np.sqrt(76), rtol=1e-6)
    np.testing.assert_array_equal(found.clipped(100.0)[0][0], [6.0])  # below the limit nothing changes
    np.testing.assert_array_equal(found.clipped(None)[0][0], [6.0])


def test_an_infinite_norm_is_not_hidden() -> None:
    found = gradients.Gradients(dense=[tf.constant([np.inf, 1.0])], row_squares={})
    clipped, norm = found.clipped(1.0)
    assert np.isinf(norm.numpy())
    assert np.isnan(clipped[0].numpy()).any()


def test_a_variable_outside_of_the_loss_is_named() -> None:
    used, unused = keras.Variable(1.0, name="used"), keras.Variable(1.0, name="unused")
    with tf.GradientTape() as tape:
        loss = used.value * 2.0
    with pytest.raises(ValueError, match="every variable must take part in the loss; unused does not"):
        gradients.compute(tape, loss, [used, unused])
