"""Micro-batches: k of them make the step of one batch."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import keras
import numpy as np
import pytest

from albert_tf.training import optimizers
from tests.training import steps

STEPS = 4


@pytest.fixture
def float64() -> Iterator[None]:
    before = keras.config.floatx()
    keras.config.set_floatx("float64")
    yield
    keras.config.set_floatx(before)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(
    ("optimizer_class", "form", "rematerialize"),
    [(optimizers.Lamb, "packed", False), (optimizers.AdamWeightDecay, "unrolled", True)],
)
def test_micro_batches_equal_one_batch(optimizer_class: type, form: str, rematerialize: bool) -> None:
    batches = [steps.make_batch(seed, dtype="float64") for seed in range(STEPS)]
    results = []
    for pieces in (1, 4):
        trainer = steps.make_trainer(
            dtype="float64",
            optimizer_class=optimizer_class,
            form=form,
            micro_batches=pieces,
            rematerialize=rematerialize and pieces > 1,
        )
        results.append((steps.train(trainer, batches), steps.weights_of(trainer)))
    (whole, expected), (pieced, found) = results
    np.testing.assert_allclose(pieced, whole, rtol=0, atol=1e-9)
    assert (whole[:, -1] > 0.3).all()  # each step was clipped
    for name, value in expected.items():
        # float64 rounds at 1e-16; LAMB divides by the root of tiny second moments, which enlarges that
        np.testing.assert_allclose(found[name], value, rtol=0, atol=1e-9, err_msg=name)


def test_micro_batches_draw_different_dropout_masks() -> None:
    """Two equal halves under equal masks would have the loss of one."""
    config = dataclasses.replace(steps.CONFIG, hidden_dropout_prob=0.4)
    half = {name: value[:6] for name, value in steps.make_batch().items()}
    twice = {name: np.concatenate([value, value]) for name, value in half.items()}
    alone = steps.train(steps.make_trainer(config), [half])[0, 0]
    both = steps.train(steps.make_trainer(config, micro_batches=2), [twice])[0, 0]
    assert abs(alone - both) > 1e-3
