"""The optimizers against their NumPy restatement. Two replicas: test_two_devices.py."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.training import optimizers, schedules
from tests.reference import optimizers as reference

SHAPES = {
    "dense/kernel": (3, 5),
    "dense/bias": (7,),
    "LayerNorm/gamma": (2,),
    "zero/kernel": (11,),
    "still/kernel": (13,),
}
EXCLUDED = {"dense/bias", "LayerNorm/gamma"}


def _weights() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(5)
    weights = {name: generator.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}
    weights["zero/kernel"][:] = 0.0  # weight norm 0 before the first step: trust ratio 1
    return weights


def _gradients(steps: int) -> list[dict[str, np.ndarray]]:
    generator = np.random.default_rng(6)
    gradients = [{n: generator.normal(size=s).astype(np.float32) for n, s in SHAPES.items()} for _ in range(steps)]
    for step in gradients:
        step["still/kernel"][:] = 0.0  # moved by the decay alone
    return gradients


def _variables(weights: dict[str, np.ndarray]) -> list[keras.Variable]:
    variables = []
    for name, value in weights.items():
        scope, _, leaf = name.rpartition("/")
        with keras.name_scope(scope):
            variables.append(keras.Variable(value, name=leaf))
    return variables


@pytest.mark.parametrize(("optimizer_class", "adapt"), [(optimizers.Lamb, True), (optimizers.AdamWeightDecay, False)])
def test_equals_restatement(optimizer_class: type, adapt: bool) -> None:
    weights, gradients = _weights(), _gradients(4)
    variables = _variables(weights)
    assert [v.path for v in variables] == list(weights)
    optimizer = optimizer_class(schedules.WarmupPolynomialDecay(0.05, 17, 2))
    optimizer.build(variables)
    for step in gradients:
        optimizer.apply_reduced([tf.constant(step[name]) for name in weights], variables)
    rates = [reference.learning_rate(n, peak=0.05, steps=17, warmup=2) for n in range(1, 5)]
    expected, m, v = reference.run(weights, gradients, rates, excluded=EXCLUDED, adapt=adapt)
    for index, name in enumerate(weights):
        # float32 arithmetic against float64: a few units in the last place of values of size 1
        np.testing.assert_allclose(variables[index].numpy(), expected[name], rtol=0, atol=2e-6, err_msg=name)
        np.testing.assert_allclose(optimizer.m[index].numpy(), m[name], rtol=0, atol=1e-6, err_msg=name)
        np.testing.assert_allclose(optimizer.v[index].numpy(), v[name], rtol=0, atol=1e-7, err_msg=name)
    assert optimizer.iterations.numpy() == 4


def test_first_steps_of_lamb_by_hand() -> None:
    variable = keras.Variable(np.array([3.0, -4.0], np.float32), name="kernel")
    optimizer = optimizers.Lamb(0.1, weight_decay_rate=0.0)
    optimizer.build([variable])
    optimizer.apply_reduced([tf.constant([2.0, 2.0])], [variable])
    # m = 0.2, v = 0.004, u = 0.2 / sqrt(0.004) = sqrt(10) twice; |w| = 5, |u| = sqrt(20): each moves 0.1 * 5 / sqrt(2)
    np.testing.assert_allclose(variable.numpy(), [3.0 - 0.35355339, -4.0 - 0.35355339], rtol=1e-5)


def test_apply_of_keras_is_the_same_on_one_device() -> None:
    weights, gradients = _weights(), _gradients(2)
    pair = []
    for method in ("apply_reduced", "apply"):
        variables = _variables(weights)
        optimizer = optimizers.Lamb(0.05)
        optimizer.build(variables)
        for step in gradients:
            getattr(optimizer, method)([tf.constant(step[name]) for name in weights], variables)
        pair.append([v.numpy() for v in variables])
    for left, right in zip(*pair, strict=True):
        np.testing.assert_array_equal(left, right)


def test_config_round_trip() -> None:
    optimizer = optimizers.Lamb(
        schedules.WarmupPolynomialDecay(0.01, 100, 10), weight_decay_rate=0.02, beta_1=0.8, epsilon=1e-7,
        exclude_from_layer_adaptation=("gamma",),
    )  # fmt: skip
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(optimizer))
    assert isinstance(again, optimizers.Lamb)
    assert again.get_config() == optimizer.get_config()
    assert again.weight_decay_rate == 0.02
    assert again.exclude_from_layer_adaptation == ("gamma",)
    assert isinstance(again._learning_rate, schedules.WarmupPolynomialDecay)


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match=r"beta_1 must be in \[0, 1\), got 1.0"):
        optimizers.Lamb(0.1, beta_1=1.0)
    with pytest.raises(ValueError, match=r"weight_decay_rate must be at least 0, got -0\.5"):
        optimizers.AdamWeightDecay(0.1, weight_decay_rate=-0.5)
    with pytest.raises(ValueError, match="weight_decay must not be given"):
        optimizers.Lamb(0.1, weight_decay=0.01)


def test_schedule() -> None:
    schedule = schedules.WarmupPolynomialDecay(0.4, 20, 5)
    got = [float(schedule(step)) for step in range(22)]
    expected = [reference.learning_rate(n, peak=0.4, steps=20, warmup=5) for n in range(1, 23)]
    np.testing.assert_allclose(got, expected, rtol=0, atol=3e-8)
    assert got[0] == pytest.approx(0.08)  # the first step of the warm-up moves
    assert got[3:5] == pytest.approx([0.32, 0.3])  # onto a line that began at 0.4 at step 0
    assert got[19] == 0.0
    square = schedules.WarmupPolynomialDecay(0.4, 20, end=0.1, power=2.0)
    assert float(square(9)) == pytest.approx(0.1 + 0.3 * 0.25)
    with pytest.raises(ValueError, match=r"num_warmup_steps must be in \[0, num_train_steps = 3\], got 4"):
        schedules.WarmupPolynomialDecay(0.1, 3, 4)
