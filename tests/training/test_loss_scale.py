"""float16: the loss scale moves as it should, spoilt steps move nothing, and the floor ends the run."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.training import loss_scale
from albert_tf.training.loop import SCALE, DivergedError
from albert_tf.training.loss_scale import LossScale
from tests.training import steps


def test_halves_and_doubles() -> None:
    scale = LossScale(8.0, growth_steps=3)
    seen = []
    for is_sound in (True, True, False, True, True, True, True, False, False, False, False, False):
        scale.update(tf.constant(is_sound))
        seen.append(float(scale.value()))
    assert seen == [8, 8, 4, 4, 4, 8, 8, 4, 2, 1, 1, 1]
    top = LossScale(loss_scale.LARGEST, growth_steps=1)
    top.update(tf.constant(True))
    assert float(top.value()) == loss_scale.LARGEST


def test_float16_steps_are_nearly_those_of_float32() -> None:
    batches = [steps.make_batch(seed) for seed in range(3)]
    found = []
    for dtype in ("float32", "mixed_float16"):
        trainer = steps.make_trainer(dtype=dtype, scale=LossScale(2.0**12) if "16" in dtype else None)
        reported = steps.train(trainer, batches)
        found.append((reported[:, 0], reported[:, -1]))
    # float16 has 11 bits: 5e-4 relative in every product of two layers
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=5e-3)
    np.testing.assert_allclose(found[1][1], found[0][1], rtol=2e-2)


def test_a_spoilt_step_moves_nothing_and_halves_the_scale() -> None:
    scale = LossScale(2.0**22)  # times a gradient of the logits, beyond 65,504
    trainer = steps.make_trainer(dtype="mixed_float16", scale=scale)
    before = steps.weights_of(trainer)
    reported = steps.train(trainer, [steps.make_batch(1)])
    assert not np.isfinite(reported[0, -1])
    assert trainer.step == 1  # the data moves on
    assert float(scale.value()) == 2.0**21
    for name, value in steps.weights_of(trainer).items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)
    assert all(not np.any(moment.numpy()) for moment in trainer.optimizer.m)
    reported = steps.train(trainer, [steps.make_batch(seed) for seed in range(2, 16)])
    assert reported[0, SCALE] == 2.0**21
    assert np.isfinite(reported[-1]).all()  # it has come down to where steps are sound
    assert any(np.any(value != before[name]) for name, value in steps.weights_of(trainer).items())


def test_at_the_floor_the_run_ends_in_the_state_before_the_step() -> None:
    scale = LossScale(4.0)
    trainer = steps.make_trainer(dtype="mixed_float16", scale=scale)
    table = trainer.model.encoder.embeddings.word_embeddings
    table.assign(tf.fill(table.shape, np.float32(np.inf)))
    before = steps.weights_of(trainer)
    with pytest.raises(DivergedError, match=r"^step 3 gave values that are not finite: masked_lm_loss nan"):
        steps.train(trainer, [steps.make_batch(seed) for seed in range(6)])
    assert trainer.step == 2  # two halvings, then the step that counts for nothing
    for name, value in steps.weights_of(trainer).items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)
