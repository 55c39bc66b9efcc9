"""Model, losses and optimizer against values of the original TF1 ALBERT and of transformers.

Tolerances: float32 on a CPU rounds at 6e-8 relative; three layers of products of width 48 to 96 and a softmax keep
forward values within 1e-5, and three training steps within 1e-4, of the same computation in another order.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.model_directory import assign_weights
from albert_tf.modeling.encoder import AlbertEncoder
from albert_tf.modeling.models import AlbertPretrainingModel
from albert_tf.training import gradients, losses, optimizers, schedules
from tests.golden import original

pytestmark = pytest.mark.golden
FORWARD, TRAINED = 1e-5, 1e-4
CLIP_NORM = 1.0
SETS = ("tf1_shared_lamb", "tf1_two_groups")


def load(folder):
    """Model with the reference weights, its encoder with all outputs, and the arrays of forward.npz."""
    config = AlbertConfig.from_json((folder / "albert_config.json").read_text())
    model = AlbertPretrainingModel(config)
    assign_weights(model.named_weights(), original.read_weights(folder / "model.ckpt-0"), source=str(folder))
    return model, dict(np.load(folder / "forward.npz"))


def pretraining_losses(model, batch, form="unrolled"):
    outputs = model.forward(batch, form=form, training=True)
    masked_lm = losses.masked_lm_loss(outputs["masked_lm_logits"], batch["masked_lm_ids"], batch["masked_lm_weights"])
    labels = tf.reshape(batch["next_sentence_labels"], [-1])
    return masked_lm, losses.sentence_order_loss(outputs["sentence_order_logits"], labels)


def compute_gradients(tape, loss, model):
    segments = [model.encoder.embeddings.token_type_embeddings]
    return gradients.compute(tape, loss, model.trainable_variables, counted_by_rows=segments)


@pytest.mark.parametrize("name", SETS)
def test_hidden_states(reference_data, name):
    model, expected = load(reference_data / "golden" / name)
    encoder = AlbertEncoder(model.config, return_all_encoder_outputs=True)
    encoder.set_weights(model.encoder.get_weights())
    outputs = encoder({key: expected[key] for key in ("input_ids", "input_mask", "segment_ids")})
    for key, value in {
        "embedding_output": outputs["embedding_output"],
        "all_encoder_layers": tf.stack(outputs["encoder_outputs"]),
        "sequence_output": outputs["sequence_output"],
        "pooled_output": outputs["pooled_output"],
    }.items():
        np.testing.assert_allclose(value, expected[key], rtol=0, atol=FORWARD, err_msg=key)


@pytest.mark.parametrize("form", ["functional", "unrolled", "loop"])
@pytest.mark.parametrize("name", SETS)
def test_head_probabilities(reference_data, name, form):
    model, expected = load(reference_data / "golden" / name)
    inputs = {key: tf.constant(expected[key]) for key in model.input}
    outputs = model(inputs) if form == "functional" else model.forward(inputs, form=form)
    masked_lm = tf.nn.log_softmax(tf.reshape(outputs["masked_lm_logits"], [-1, model.config.vocab_size]))
    sentence_order = tf.nn.log_softmax(outputs["sentence_order_logits"])
    np.testing.assert_allclose(masked_lm, expected["masked_lm_log_probs"], rtol=0, atol=FORWARD)
    np.testing.assert_allclose(sentence_order, expected["sentence_order_log_probs"], rtol=0, atol=FORWARD)


@pytest.mark.parametrize("form", ["unrolled", "packed"])
@pytest.mark.parametrize("name", SETS)
def test_losses_and_gradient_norm(reference_data, name, form):
    model, expected = load(reference_data / "golden" / name)
    batch = {key: tf.constant(value) for key, value in expected.items()}
    with tf.GradientTape() as tape:
        masked_lm, sentence_order = pretraining_losses(model, batch, form)
        loss = masked_lm + sentence_order
    np.testing.assert_allclose(sentence_order, expected["sentence_order_loss"], rtol=0, atol=FORWARD)
    np.testing.assert_allclose(
        compute_gradients(tape, loss, model).global_norm(), expected["gradient_global_norm"], rtol=FORWARD
    )
    np.testing.assert_allclose(masked_lm, expected["masked_lm_loss"], rtol=0, atol=FORWARD)


@pytest.mark.parametrize("name", SETS)
def test_three_lamb_steps(reference_data, name):
    folder = reference_data / "golden" / name
    model, expected = load(folder)
    training = json.loads((folder / "train.json").read_text())
    schedule = schedules.WarmupPolynomialDecay(
        training["learning_rate"], training["num_train_steps"], training["num_warmup_steps"]
    )
    optimizer = optimizers.Lamb(schedule)
    variables = model.trainable_variables
    optimizer.build(variables)
    slots = {"adam_m": optimizer.m, "adam_v": optimizer.v}
    for slot, values in slots.items():
        start = original.read_weights(folder / "model.ckpt-0", slot)
        assign_weights(by_name(model, values), start, source=slot)
    batch = {key: tf.constant(value) for key, value in expected.items()}
    pairs = []
    for step in range(training["steps"] + 1):
        with tf.GradientTape() as tape:
            pair = pretraining_losses(model, batch)
            loss = tf.add_n(pair)
        pairs.append([float(value) for value in pair])
        if step < training["steps"]:
            clipped, _ = compute_gradients(tape, loss, model).clipped(CLIP_NORM)
            optimizer.apply_reduced(clipped, variables)
    np.testing.assert_allclose(pairs, training["losses_before_each_step_and_after_last"], rtol=0, atol=TRAINED)

    before = original.read_weights(folder / "model.ckpt-0")
    after = original.read_weights(folder / "model.ckpt-3")
    for key, variable in model.named_weights().items():
        error, change = np.abs(variable.numpy() - after[key]), np.abs(after[key] - before[key])
        assert error.max() <= TRAINED, key
        if key.endswith("attention/key/bias"):
            # Softmax does not see a shift of all keys: the gradient is 0, and what moves this tensor in either
            # implementation is the rounding of that 0, some 1e-8.
            assert max(change.max(), error.max()) < 1e-6, key
        else:
            # not only near: a tensor that had stayed where it was would fail
            assert change.mean() > 1e-5, key
            assert error.mean() <= 0.01 * change.mean(), key
    for slot, values in slots.items():
        expected_slots = original.read_weights(folder / "model.ckpt-3", slot)
        for key, variable in by_name(model, values).items():
            np.testing.assert_allclose(variable, expected_slots[key], rtol=0, atol=TRAINED, err_msg=f"{slot} {key}")


def by_name(model, slots):
    """Optimizer slots by the names of their variables."""
    position = {id(variable): index for index, variable in enumerate(model.trainable_variables)}
    return {name: slots[position[id(variable)]] for name, variable in model.named_weights().items()}


def test_transformers_outputs_and_hidden_states(reference_data):
    folder = reference_data / "golden" / "hf_pretraining"
    theirs = json.loads((folder / "config.json").read_text())
    assert theirs["hidden_act"] == "gelu_new"  # their name for the tanh approximation
    shared = {key: theirs[key] for key in AlbertConfig().to_dict() if key in theirs}
    config = AlbertConfig.from_dict({**shared, "hidden_act": "gelu", "embedding_projection": True})
    expected = np.load(folder / "expected.npz")
    model = AlbertPretrainingModel(config)
    weights = original.read_transformers_weights(folder / "model.safetensors")
    assign_weights(model.named_weights(), weights, source=str(folder))
    batch, length = expected["input_ids"].shape
    inputs = {
        "input_ids": expected["input_ids"],
        "input_mask": expected["attention_mask"],
        "segment_ids": expected["token_type_ids"],
        "masked_lm_positions": np.tile(np.arange(length, dtype=np.int32), (batch, 1)),
    }
    encoder = AlbertEncoder(config, return_all_encoder_outputs=True)
    encoder.set_weights(model.encoder.get_weights())
    hidden = encoder({key: inputs[key] for key in ("input_ids", "input_mask", "segment_ids")})["encoder_outputs"]
    outputs = model(inputs)
    np.testing.assert_allclose(tf.stack(hidden), expected["hidden_states"], rtol=0, atol=FORWARD)
    np.testing.assert_allclose(outputs["masked_lm_logits"], expected["prediction_logits"], rtol=0, atol=FORWARD)
    np.testing.assert_allclose(outputs["sentence_order_logits"], expected["sop_logits"], rtol=0, atol=FORWARD)
