"""Dropout: share, scale, and masks as a pure function of the seed."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.modeling.dropout import Dropout, dropout_seed
from albert_tf.randomness import stateless_seed


def test_share_and_scale():
    rate = 0.3
    with dropout_seed(stateless_seed(1)):
        dropped = Dropout(rate)(tf.ones([500, 400]), training=True).numpy()
    values = np.unique(dropped)
    np.testing.assert_allclose(values, [0.0, 1 / (1 - rate)], rtol=1e-6)  # one rounding of the scale
    # 4 standard errors of a share over 200,000 draws
    assert abs((dropped == 0).mean() - rate) < 4 * np.sqrt(rate * (1 - rate) / 200_000)


def test_masks_follow_the_seed_and_the_call():
    layer = Dropout(0.5)

    def masks(*words):
        with dropout_seed(stateless_seed(*words)):
            return [layer(tf.ones([7, 11]), training=True).numpy() for _ in range(2)]

    first, second = masks(1, 5)
    again = masks(1, 5)
    other = masks(1, 6)
    np.testing.assert_array_equal(first, again[0])
    np.testing.assert_array_equal(second, again[1])
    assert (first != second).any()
    assert (first != other[0]).any()


def test_blocks_nest():
    layer = Dropout(0.5)
    with dropout_seed(stateless_seed(2)):
        expected = [layer(tf.ones([7, 11]), training=True) for _ in range(2)]
    with dropout_seed(stateless_seed(2)):
        first = layer(tf.ones([7, 11]), training=True)
        with dropout_seed(stateless_seed(3)):
            layer(tf.ones([7, 11]), training=True)
        second = layer(tf.ones([7, 11]), training=True)
    np.testing.assert_array_equal(first, expected[0])
    np.testing.assert_array_equal(second, expected[1])


def test_without_a_seed_each_run_draws_another_mask():
    layer = Dropout(0.5)
    run = tf.function(lambda: layer(tf.ones([7, 11]), training=True))
    assert (run().numpy() != run().numpy()).any()


def test_recomputed_gradient_uses_the_same_mask():
    layer = Dropout(0.5)
    x = tf.random.stateless_normal([7, 11], seed=[1, 2])

    def f(x):
        with dropout_seed(stateless_seed(4)):
            return tf.reduce_sum(layer(x, training=True) ** 2)

    gradients = []
    for function in (f, tf.recompute_grad(f)):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        gradients.append(tape.gradient(y, x))
    np.testing.assert_array_equal(gradients[0], gradients[1])


@pytest.mark.parametrize("training", [False, None])
def test_inference_changes_nothing(training):
    x = tf.random.stateless_normal([3, 5], seed=[1, 2])
    np.testing.assert_array_equal(Dropout(0.9)(x, training=training), x)


@pytest.mark.parametrize("rate", [1.0, -0.1])
def test_rate_out_of_range_is_refused(rate):
    with pytest.raises(ValueError, match=r"rate must be in \[0, 1\)"):
        Dropout(rate)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_dtype_is_kept(dtype):
    with dropout_seed(stateless_seed(5)):
        assert Dropout(0.5, dtype=dtype)(tf.ones([3, 5], dtype), training=True).dtype == dtype
