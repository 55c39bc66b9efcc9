"""Layers in training: the rematerialised gradient is the plain one, to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.modeling.dropout import dropout_seed
from albert_tf.modeling.models import AlbertPretrainingModel
from albert_tf.training.loop import as_written
from tests.modeling.small_models import SHARING_CASES, make_batch, make_config, randomize


def _gradients(
    model: AlbertPretrainingModel, batch: dict[str, tf.Tensor], *, form: Any, rematerialize: bool, seed: int = 3
) -> dict[str, np.ndarray]:
    """The loss and the gradient of each weight, by name, from a graph as a training step builds it."""
    names = model.named_weights()

    @tf.function(autograph=False)
    def step(batch: dict[str, tf.Tensor]) -> list:
        with tf.GradientTape() as tape, dropout_seed(tf.constant([seed, 4])):
            outputs = model.forward(batch, form=form, training=True, rematerialize=rematerialize)
            loss = tf.add_n([tf.reduce_sum(value**2) for value in outputs.values()])
        found = tape.gradient(loss, [weight.value for weight in names.values()])
        return [loss, *map(tf.convert_to_tensor, found)]

    with as_written():
        return dict(zip(["loss", *names], [value.numpy() for value in step(batch)], strict=True))


@pytest.mark.representatives("all-*", "two_groups-*")
@pytest.mark.parametrize(("case", "form"), [("all", "packed"), ("two_groups", "unrolled"), ("ffn", "packed")])
def test_rematerialised_gradient_equals_the_plain_one_bit_for_bit(case: str, form: str) -> None:
    config = make_config(hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1, **SHARING_CASES[case])
    model = AlbertPretrainingModel(config)
    randomize(model.named_weights())
    batch = {name: tf.constant(value) for name, value in make_batch().items()}
    plain, twice = (_gradients(model, batch, form=form, rematerialize=value) for value in (False, True))
    for name, value in plain.items():
        np.testing.assert_array_equal(twice[name], value, err_msg=name)
        assert np.any(value), name


def test_other_dropout_gives_another_gradient() -> None:
    """What the test above would see if the second pass drew other masks."""
    config = make_config(hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1)
    model = AlbertPretrainingModel(config, seed=2)
    batch = {name: tf.constant(value) for name, value in make_batch().items()}
    one, other = (_gradients(model, batch, form="packed", rematerialize=True, seed=seed) for seed in (3, 5))
    assert not any(np.array_equal(one[name], other[name]) for name in one)


def test_dropout_at_one_place_only_keeps_the_count_of_masks() -> None:
    config = make_config(attention_probs_dropout_prob=0.2)
    model = AlbertPretrainingModel(config, seed=2)
    batch = {name: tf.constant(value) for name, value in make_batch().items()}
    plain, twice = (_gradients(model, batch, form="packed", rematerialize=value) for value in (False, True))
    assert all(np.array_equal(plain[name], twice[name]) for name in plain)
    assert model.encoder.layer_blocks[0][0].num_dropouts == 1


def test_rematerialised_layers_cannot_all_be_returned() -> None:
    model = AlbertPretrainingModel(make_config(), seed=2)
    with pytest.raises(ValueError, match="rematerialize keeps the last layer only"):
        model.encoder.encode(make_batch(), training=True, rematerialize=True, all_outputs=True)


def test_all_layers_beside_the_outputs() -> None:
    model = AlbertPretrainingModel(make_config(), seed=2)
    batch = {name: tf.constant(value) for name, value in make_batch().items()}
    outputs = model.forward_with_layers(batch, form="packed")
    expected = model.forward(batch, form="packed")
    layers = [f"encoder/layer_{i}" for i in range(4)]
    assert list(outputs) == ["encoder/embeddings", *layers, "encoder/pooler", *expected]
    for name, value in expected.items():
        np.testing.assert_array_equal(outputs[name], value)
