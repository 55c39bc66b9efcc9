"""The moving average of the weights."""

from __future__ import annotations

import numpy as np
import pytest

from albert_tf.training.averages import WeightAverage
from tests.training import steps


def test_equals_its_formula() -> None:
    made: list[WeightAverage] = []

    def average(weights: dict) -> WeightAverage:
        made.append(WeightAverage(weights, 0.25))
        return made[0]

    trainer = steps.make_trainer(average=average)
    expected = steps.weights_of(trainer)
    for step in range(1, 5):
        steps.train(trainer, [steps.make_batch(step)])
        decay = min(0.25, (1 + step) / (10 + step))
        assert (decay < 0.25) == (step < 2)
        for name, value in steps.weights_of(trainer).items():
            expected[name] = decay * expected[name] + (1 - decay) * value
    for name, value in expected.items():
        # float32 sums of values below 1.5
        np.testing.assert_allclose(made[0].values[name].numpy(), value, rtol=0, atol=1e-6, err_msg=name)


def test_in_the_place_of_the_weights_and_back() -> None:
    trainer = steps.make_trainer()
    weights = trainer.model.named_weights()
    average = WeightAverage(weights, 0.5)
    for value in average.values.values():
        value.assign_add(np.ones(value.shape, np.float32))
    before = steps.weights_of(trainer)
    seen: dict[str, np.ndarray] = {}

    def use() -> None:
        with average.in_use():
            seen.update(steps.weights_of(trainer))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        use()
    for name, value in seen.items():
        np.testing.assert_array_equal(value, before[name] + 1.0)
    for name, value in steps.weights_of(trainer).items():
        np.testing.assert_array_equal(value, before[name])
