"""The whole model against its NumPy restatement, in every way of sharing parameters; serialising; precision."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.modeling.dropout import dropout_seed
from albert_tf.modeling.models import AlbertPretrainingModel
from albert_tf.randomness import stateless_seed
from tests.modeling.small_models import make_batch, make_config, randomize
from tests.reference import albert_numpy

OUTPUTS = ("masked_lm_logits", "sentence_order_logits")


def test_float64_model_equals_the_restatement(any_config):
    model = AlbertPretrainingModel(any_config, dtype="float64")
    weights = randomize(model.named_weights())
    batch = make_batch()
    expected = albert_numpy.forward(any_config, weights, batch)
    outputs = model({key: tf.constant(value) for key, value in batch.items()})
    for name in OUTPUTS:
        assert outputs[name].dtype == tf.float64
        # float64 rounds at 1e-16; a few hundred sums of values up to 30 stay below 1e-10
        np.testing.assert_allclose(outputs[name], expected[name], atol=1e-10, err_msg=name)


def test_every_layer_equals_the_restatement(any_config):
    from albert_tf.modeling.encoder import AlbertEncoder

    encoder = AlbertEncoder(any_config, return_all_encoder_outputs=True, dtype="float64")
    weights = randomize(encoder.named_weights())
    heads = AlbertPretrainingModel(any_config, seed=1).named_weights()
    batch = make_batch()
    expected = albert_numpy.forward(any_config, {**{k: v.numpy() for k, v in heads.items()}, **weights}, batch)
    outputs = encoder({key: batch[key] for key in ("input_ids", "input_mask", "segment_ids")})
    assert len(outputs["encoder_outputs"]) == any_config.num_hidden_layers
    for name in ("embedding_output", "encoder_outputs", "sequence_output", "pooled_output"):
        np.testing.assert_allclose(np.array(outputs[name]), expected[name], atol=1e-10, err_msg=name)


def test_functional_call_and_forward_agree(any_config):
    model = AlbertPretrainingModel(any_config, seed=7)
    batch = make_batch()
    called, forward = model(batch), model.forward(batch)
    for name in OUTPUTS:
        np.testing.assert_array_equal(called[name], forward[name])


@pytest.mark.representatives("all", "none", "groups_attention")
def test_saved_model_gives_equal_outputs(any_config, tmp_path):
    model = AlbertPretrainingModel(any_config, seed=7)
    randomize(model.named_weights())
    batch = make_batch()
    expected = model(batch)
    path = str(tmp_path / "model.keras")
    model.save(path)
    loaded = keras.models.load_model(path)
    copied = AlbertPretrainingModel.from_config(model.get_config())
    copied.set_weights(model.get_weights())
    for other in (loaded, copied):
        assert other.config == any_config
        assert len(other.weights) == len(model.weights)
        for name in OUTPUTS:
            np.testing.assert_array_equal(other(batch)[name], expected[name])


def test_named_weights_hold_every_weight_once(any_config):
    model = AlbertPretrainingModel(any_config, seed=7)
    named = model.named_weights()
    assert {id(v) for v in named.values()} == {id(v) for v in model.weights}
    assert len(named) == len(model.weights)


def test_seed_decides_the_weights():
    config = make_config()
    first, again, other = (AlbertPretrainingModel(config, seed=seed).named_weights() for seed in (3, 3, 4))
    for name, variable in first.items():
        np.testing.assert_array_equal(variable, again[name], err_msg=name)
        if len(variable.shape) == 2:
            assert (variable.numpy() != other[name].numpy()).any(), name
            # cut off at two standard deviations of 0.3
            assert np.abs(variable.numpy()).max() <= 0.6, name
    table = first["encoder/embeddings/word_embeddings"].numpy()
    # a normal distribution cut off at 2 has 0.8796 of its deviation; 97 x 8 draws, 4 standard errors
    assert abs(table.std() / 0.3 - 0.8796) < 4 * 0.8796 / np.sqrt(2 * table.size)


def test_padding_and_masked_ids_change_nothing():
    model = AlbertPretrainingModel(make_config(), seed=7)
    batch = make_batch()
    other = {**batch, "input_ids": np.where(batch["input_mask"] > 0, batch["input_ids"], 96 - batch["input_ids"])}
    real = batch["input_mask"].any(1)
    for name in OUTPUTS:
        # exp(-10000) is 0 in float32: equal to the last bit
        np.testing.assert_array_equal(model(batch)[name].numpy()[real], model(other)[name].numpy()[real])


@pytest.mark.parametrize("form", ["unrolled", "packed"])
def test_bfloat16_is_finite_and_near_float32(form):
    # the original's initial weights; outputs are of size 1 or less, bfloat16 keeps 8 bits
    config = make_config(initializer_range=0.02)
    models = [AlbertPretrainingModel(config, seed=7, dtype=dtype) for dtype in ("float32", "mixed_bfloat16")]
    # rows with tokens only: LayerNorm's gradient at an empty row's constant 0 is a million times its input's error
    batch = {key: tf.constant(value) for key, value in make_batch(rows=("1111111", "1000000", "1101000")).items()}
    results = []
    for model in models:
        with tf.GradientTape() as tape:
            outputs = model.forward(batch, form=form, training=True)
            loss = sum(tf.reduce_mean(tf.nn.log_softmax(outputs[name])[..., 1]) for name in OUTPUTS)
        gradients = tape.gradient(loss, [v.value for v in model.trainable_weights])
        results.append((outputs, [tf.convert_to_tensor(g) for g in gradients]))
    (outputs, gradients), (rough_outputs, rough_gradients) = results
    for name in OUTPUTS:
        assert rough_outputs[name].dtype == tf.float32
        np.testing.assert_allclose(rough_outputs[name], outputs[name], atol=3e-2, err_msg=name)
    for exact, rough in zip(gradients, rough_gradients, strict=True):
        assert np.isfinite(rough).all()
        scale = max(1.0, np.abs(exact).max())
        np.testing.assert_allclose(rough, exact, atol=3e-2 * scale)


def test_dropout_follows_its_seed():
    model = AlbertPretrainingModel(make_config(hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.1), seed=7)
    batch = make_batch()

    def run(*words, form="unrolled"):
        with dropout_seed(stateless_seed(*words)):
            return model.forward(batch, form=form, training=True)["masked_lm_logits"].numpy()

    np.testing.assert_array_equal(run(1, 2), run(1, 2))
    assert (run(1, 2) != run(1, 3)).any()
    np.testing.assert_array_equal(run(1, 2, form="packed"), run(1, 2, form="packed"))
    assert (run(1, 2) != model(batch)["masked_lm_logits"].numpy()).any()


def test_model_is_a_part_of_a_users_own():
    encoder = AlbertPretrainingModel(make_config(hidden_dropout_prob=0.1), seed=7).encoder
    score = keras.layers.Dense(1)(encoder(dict(encoder.input))["pooled_output"])
    model = keras.Model(encoder.input, score)
    model.compile(optimizer="sgd", loss="mse")
    batch = {key: make_batch()[key] for key in ("input_ids", "input_mask", "segment_ids")}
    before = encoder.embeddings.word_embeddings.numpy()
    history = model.fit(batch, np.arange(5.0), batch_size=2, epochs=1, verbose=0)
    assert np.isfinite(history.history["loss"]).all()
    assert (encoder.embeddings.word_embeddings.numpy() != before).any()


def test_a_model_of_ones_own_loads_in_another_process(tmp_path: pathlib.Path) -> None:
    """As README says: the import of the class is all that it takes."""
    encoder = AlbertPretrainingModel(make_config(), seed=3).encoder
    own = keras.Model(encoder.input, keras.layers.Dense(3)(encoder(dict(encoder.input))["pooled_output"]))
    own.save(tmp_path / "own.keras")
    given = make_batch()
    batch: dict[str, Any] = {name: given[name] for name in ("input_ids", "input_mask", "segment_ids")}
    np.savez(tmp_path / "batch.npz", expected=own.predict(batch, verbose=0), **batch)
    program = f"""
from albert_tf import AlbertEncoder
import keras, numpy as np
batch = dict(np.load({str(tmp_path / "batch.npz")!r}))
expected = batch.pop("expected")
model = keras.models.load_model({str(tmp_path / "own.keras")!r})
np.testing.assert_array_equal(model.predict(batch, verbose=0), expected)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
