"""Every head: its NumPy restatement, padding, packed form, serialising, precision, dropout, and what is refused."""

from __future__ import annotations

import pathlib
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.head_config import HEADS, HeadConfig
from albert_tf.modeling.conditional_span import ConditionalSpanHead
from albert_tf.modeling.dropout import dropout_seed
from albert_tf.modeling.encoder import Form
from albert_tf.modeling.head_model import AlbertHeadModel
from albert_tf.modeling.models import MODELS, AlbertClassifierModel, make_model
from tests.modeling.small_models import HEAD_CASES, batch_for, make_config, randomize
from tests.reference import heads_numpy

CONDITIONAL = HEAD_CASES["conditional_span"]


def made(head: HeadConfig, *, dtype: str = "float32", **changes: Any) -> AlbertHeadModel:
    """A model of two layers with random weights, biases and LayerNorm included."""
    model = make_model(make_config(**{"num_hidden_layers": 2, **changes}), head, dtype=dtype)
    randomize(model.named_weights())
    return model


def arrays(outputs: dict[str, tf.Tensor]) -> dict[str, np.ndarray]:
    return {name: np.asarray(value) for name, value in outputs.items()}


def test_there_is_a_model_and_a_case_for_each_head() -> None:
    assert tuple(MODELS) == HEADS
    assert {head.head for head in HEAD_CASES.values()} == set(HEADS)
    for name, head in HEAD_CASES.items():
        assert name.startswith(head.head)


def test_float64_model_equals_the_restatement(any_head: HeadConfig) -> None:
    model = made(any_head, dtype="float64")
    weights = {name: weight.numpy() for name, weight in model.named_weights().items()}
    batch = batch_for(any_head.head)
    expected = heads_numpy.forward(model.config, any_head, weights, batch)
    for outputs in (model(batch), model.forward(batch)):
        assert outputs.keys() == expected.keys()
        for name, value in outputs.items():
            # float64 rounds at 1e-16; a few hundred sums of values up to 30 stay below 1e-10
            np.testing.assert_allclose(value, expected[name], rtol=1e-12, atol=1e-10, err_msg=name)


def test_conditional_span_in_training_equals_the_restatement() -> None:
    model = made(CONDITIONAL, dtype="float64")
    weights = {name: weight.numpy() for name, weight in model.named_weights().items()}
    batch = {**batch_for("conditional_span"), "start_positions": np.array([3, 0, 12, 7, 1], np.int32)}
    expected = heads_numpy.forward(model.config, CONDITIONAL, weights, batch)
    assert expected["end_log_probs"].shape == (5, 13)
    for starts in (batch["start_positions"], batch["start_positions"][:, None]):
        outputs = model.forward({**batch, "start_positions": starts})
        assert outputs.keys() == expected.keys()
        for name, value in outputs.items():
            np.testing.assert_allclose(value, expected[name], rtol=1e-12, atol=1e-10, err_msg=name)


def test_padding_changes_nothing(any_head: HeadConfig) -> None:
    """Neither what stands at padding, nor how much of it there is."""
    model = made(any_head)
    batch = batch_for(any_head.head)
    mask = batch["input_mask"]
    other = {**batch, "input_ids": np.where(mask > 0, batch["input_ids"], 96 - batch["input_ids"])}
    pad = [(0, 0)] * (mask.ndim - 1) + [(0, 3)]
    longer = {
        key: value if key == "masked_lm_positions" else np.pad(value, pad, constant_values=int(key == "p_mask"))
        for key, value in other.items()
    }
    expected = arrays(model.forward(batch))
    rows = mask.any(-1).reshape(len(mask), -1).all(1)  # a text of padding alone attends to padding
    for one, tolerance in ((other, 0.0), (longer, 1e-5)):  # exp(-10000) is 0 in float32; other lengths, other sums
        for name, value in arrays(model.forward(one)).items():
            actual, wanted = value, expected[name]
            if name in ("sequence_output", "start_logits", "end_logits") or any_head.head == "token_classifier":
                actual, wanted = actual[:, :13][mask > 0], wanted[mask > 0]
            else:
                actual, wanted = actual[rows], wanted[rows]
            np.testing.assert_allclose(actual, wanted, rtol=1e-6 if tolerance else 0, atol=tolerance, err_msg=name)


def test_every_form_equals_the_unrolled_one(any_head: HeadConfig) -> None:
    model = made(any_head)
    batch = batch_for(any_head.head)
    mask = batch["input_mask"]
    rows = (mask[..., 0] > 0).reshape(len(mask), -1).all(1)  # the first position is a token
    expected = arrays(model.forward(batch))
    forms: tuple[Form, ...] = ("packed", "loop", "packed_loop")
    for form in forms:
        actual = arrays(model.forward(batch, form=form))
        assert actual.keys() == expected.keys()
        for name, value in actual.items():
            chosen = mask > 0 if value.ndim > 1 and value.shape[:2] == mask.shape else rows
            # LayerNorm keeps values at order 1, float32 rounds at 1e-7; forbidden positions are 1e30
            np.testing.assert_allclose(value[chosen], expected[name][chosen], rtol=1e-6, atol=3e-5, err_msg=name)


@pytest.mark.representatives("classifier", "conditional_span*", "multiple_choice")
def test_saved_model_gives_equal_outputs(any_head: HeadConfig, tmp_path: pathlib.Path) -> None:
    model = made(any_head)
    batch = batch_for(any_head.head)
    expected = arrays(model(batch))
    model.save(tmp_path / "model.keras")
    copied = type(model).from_config(model.get_config())
    copied.set_weights(model.get_weights())
    for other in (keras.models.load_model(tmp_path / "model.keras"), copied):
        assert type(other) is type(model)
        assert (other.config, other.head_config) == (model.config, any_head)
        for name, value in arrays(other(batch)).items():
            np.testing.assert_array_equal(value, expected[name], err_msg=name)


@pytest.mark.representatives("pretraining", "conditional_span*", "token_classifier")
def test_narrow_policies_give_float32(any_head: HeadConfig) -> None:
    config = make_config(initializer_range=0.02, num_hidden_layers=2)
    batch = batch_for(any_head.head)
    exact = arrays(make_model(config, any_head, seed=7, dtype="float32")(batch))
    for policy in ("bfloat16", "mixed_float16"):
        model = make_model(config, any_head, seed=7, dtype=policy)
        called, packed = model(batch), model.forward(batch, form="packed")
        for name, spec in model.output.items():
            for value in (called[name], packed[name]):
                assert value.dtype.name == spec.dtype == ("int32" if name.endswith("_index") else "float32"), name
                assert np.isfinite(value).all(), name
            if any_head.head != "conditional_span":  # near ties among the best positions
                # values up to 3; bfloat16 keeps 8 bits and loses one or two more over four layers
                np.testing.assert_allclose(called[name], exact[name], atol=0.1, err_msg=name)


def test_every_weight_has_a_gradient(any_head: HeadConfig) -> None:
    """In training, rematerialised too; but for a pooler that the head does not read."""
    model = made(any_head)
    batch = {key: tf.constant(value) for key, value in batch_for(any_head.head).items()}
    if any_head.head == "conditional_span":
        batch["start_positions"] = tf.constant([3, 0, 12, 7, 1])
    named = model.named_weights()
    results = []
    for rematerialize in (False, True):
        with tf.GradientTape() as tape, dropout_seed(tf.constant([5, 6])):
            outputs = model.forward(batch, form="packed", training=True, rematerialize=rematerialize)
            loss = tf.add_n([tf.reduce_sum(value[:3, ..., -1] if value.shape.rank > 1 else value**2)
                             for name, value in outputs.items()])  # fmt: skip
        results.append(tape.gradient(loss, [weight.value for weight in named.values()]))
    for name, plain, twice in zip(named, *results, strict=True):
        unread = "pooler" in name and any_head.head in ("masked_lm", "token_classifier", "span", "conditional_span")
        assert (plain is None) == (twice is None) == unread, name
        if not unread:
            assert np.isfinite(tf.convert_to_tensor(plain)).all(), name
            # the same sums, the loop's in eager mode perhaps by other kernels
            np.testing.assert_allclose(tf.convert_to_tensor(twice), tf.convert_to_tensor(plain), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["classifier", "multiple_choice", "token_classifier", "conditional_span"])
def test_dropout_acts_in_training_and_follows_its_seed(name: str) -> None:
    head = HEAD_CASES[name]
    model = made(head)
    batch = batch_for(head.head)
    if name == "conditional_span":
        batch["start_positions"] = np.array([3, 0, 12, 7, 1], np.int32)
    output = "cls_logits" if name == "conditional_span" else "logits"

    def run(seed: int, *, training: bool = True) -> np.ndarray:
        with dropout_seed(tf.constant([seed, 2])):
            return np.asarray(model.forward(batch, training=training)[output])

    np.testing.assert_array_equal(run(1), run(1))
    assert (run(1) != run(3)).any()
    assert (run(1) != run(1, training=False)).any()


def test_span_has_no_dropout_unless_it_is_asked_for() -> None:
    assert (HeadConfig(head="span").dropout_prob, HeadConfig(head="classifier", num_labels=2).dropout_prob) == (0, 0.1)
    batch = batch_for("span")
    changed = []
    for head in (HeadConfig(head="span"), HeadConfig(head="span", dropout_prob=0.4)):
        model = made(head)
        still, dropped = (model.forward(batch, training=training)["start_logits"] for training in (False, True))
        changed.append(bool(np.abs(still - dropped).max() > 1e-3))
    assert changed == [False, True]


def test_a_tie_goes_to_the_first_position() -> None:
    """Where fewer positions are allowed than starts are asked for: as the original, which takes them all the same."""
    head = ConditionalSpanHead(6, start_n_top=3, end_n_top=2)
    hidden = tf.random.stateless_normal([1, 7, 6], seed=[1, 2])
    outputs = head(hidden, tf.constant([[1, 1, 1, 1, 0, 1, 1]]))
    np.testing.assert_array_equal(outputs["start_top_index"], [[4, 0, 1]])
    np.testing.assert_array_equal(outputs["end_top_index"], [[4, 0] * 3])
    np.testing.assert_array_equal(outputs["start_top_log_probs"][0, 0], 0.0)


def test_short_sequences_are_refused() -> None:
    batch = {key: value[:, :3] for key, value in batch_for("conditional_span").items()}
    with pytest.raises(ValueError, match="start_n_top must be at most the sequence length, got 4 and 3 tokens"):
        made(CONDITIONAL).forward(batch)
    starts = np.array([0, 1, 2, 0, 1], np.int32)
    assert made(CONDITIONAL).forward({**batch, "start_positions": starts})["end_log_probs"].shape == (5, 3)


@pytest.mark.parametrize(
    ("name", "wrong", "message"),
    [
        (
            "regression",
            "multiple_choice",
            r"albert_regression_model: input_ids must have rank 2, \[B, S\], got",
        ),
        ("multiple_choice", "regression", r"input_ids must have rank 3, \[B, C, S\], got shape \[5, 13\]"),
        ("conditional_span", "span", "albert_conditional_span_model: input 'p_mask' is missing; it takes input_ids, "),
        ("masked_lm", "encoder", "albert_masked_lm_model: input 'masked_lm_positions' is missing"),
    ],
)
def test_wrong_inputs_are_refused(name: str, wrong: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made(HEAD_CASES[name]).forward(batch_for(wrong))


def test_another_heads_configuration_is_refused() -> None:
    with pytest.raises(ValueError, match="AlbertClassifierModel has the head 'classifier', head_config has 'span'"):
        AlbertClassifierModel(make_config(), HEAD_CASES["span"])


def test_layers_without_a_pooler() -> None:
    model = made(HEAD_CASES["span_without_pooler"])
    outputs = model.forward_with_layers(batch_for("span"))
    layers = [f"encoder/layer_{i}" for i in range(2)]
    assert list(outputs) == ["encoder/embeddings", *layers, "start_logits", "end_logits"]
    assert model.encoder.pooler is None
    assert not [name for name in model.named_weights() if "pooler" in name]
