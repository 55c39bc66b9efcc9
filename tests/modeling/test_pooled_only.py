"""`pooled_only`: a last layer that computes the first position alone gives the same vector and the same gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.modeling.encoder import AlbertEncoder, Form
from albert_tf.modeling.layers import FeedForward
from tests.modeling.small_models import make_batch, make_config, randomize


def pooled_and_gradients(
    encoder: AlbertEncoder, *, form: Form, training: bool, pooled_only: bool
) -> tuple[np.ndarray, list[np.ndarray]]:
    batch = {name: tf.constant(value) for name, value in make_batch().items()}
    weight = np.random.default_rng(2).standard_normal((len(batch["input_ids"]), 24))
    mask = batch["input_mask"].numpy()[:, :1]
    variables = [variable.value for variable in encoder.trainable_weights]
    with tf.GradientTape() as tape:
        pooled = encoder.encode(batch, form=form, training=training, pooled_only=pooled_only)["pooled_output"]
        # A row without tokens is nothing that a head reads.
        loss = tf.reduce_sum(pooled * tf.constant(weight * mask, pooled.dtype))
    gradients = [tf.convert_to_tensor(one).numpy() for one in tape.gradient(loss, variables)]
    return np.where(mask, pooled.numpy(), 0), gradients


@pytest.mark.representatives("all-*", "inner_blocks-packed-True", "none-unrolled-False")
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("form", ["unrolled", "packed"])
def test_vector_and_gradients_are_those_of_the_whole_layer(
    any_config: AlbertConfig, form: Form, training: bool
) -> None:
    encoder = AlbertEncoder(any_config, dtype="float64")
    randomize(encoder.named_weights())
    whole, its_gradients = pooled_and_gradients(encoder, form=form, training=training, pooled_only=False)
    pooled, gradients = pooled_and_gradients(encoder, form=form, training=training, pooled_only=True)
    # float64 rounds at 1e-16; four layers, and sums in another order
    np.testing.assert_allclose(pooled, whole, rtol=0, atol=1e-12)
    for variable, gradient, expected in zip(encoder.trainable_weights, gradients, its_gradients, strict=True):
        scale = max(1.0, np.abs(expected).max())
        np.testing.assert_allclose(gradient, expected, rtol=0, atol=1e-11 * scale, err_msg=variable.path)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("form", ["loop", "packed_loop"])
def test_loops(form: Form, groups: int) -> None:
    encoder = AlbertEncoder(make_config(num_hidden_groups=groups), dtype="float64")
    randomize(encoder.named_weights())
    batch = make_batch()
    pooled = encoder.encode(batch, form=form, pooled_only=True)["pooled_output"]
    expected = encoder.encode(batch, form="packed")["pooled_output"]
    rows = batch["input_mask"][:, 0] > 0
    np.testing.assert_allclose(pooled.numpy()[rows], expected.numpy()[rows], rtol=0, atol=1e-12)


def test_the_last_layers_feed_forward_gets_one_position_of_each_row(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    call = FeedForward.call

    def spy(self: FeedForward, hidden_states: tf.Tensor, *args: Any, **kwargs: Any) -> tf.Tensor:
        seen.append(tuple(hidden_states.shape[:-1]))
        return call(self, hidden_states, *args, **kwargs)

    encoder, batch = AlbertEncoder(make_config()), make_batch()
    monkeypatch.setattr(FeedForward, "call", spy)
    encoder.encode(batch, form="packed", pooled_only=True)
    size, tokens = len(batch["input_ids"]), int(batch["input_mask"].sum())
    assert seen == [(tokens,)] * 3 + [(size, 1)]


@pytest.mark.parametrize("arguments", [{"pooler": False}, {"return_all_encoder_outputs": True}])
def test_what_it_does_not_go_with(arguments: dict[str, Any]) -> None:
    encoder = AlbertEncoder(make_config(), **arguments)
    with pytest.raises(ValueError, match="pooled_only needs a pooler, and gives no other outputs"):
        encoder.encode(make_batch(), pooled_only=True)
