"""AlbertEncoder: one shared block, published parameter counts, and its three forms."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.modeling.encoder import AlbertEncoder
from albert_tf.modeling.layers import FeedForward, SelfAttention, TransformerEncoderBlock
from tests.modeling.small_models import MASK_ROWS, make_batch, make_config, randomize

INPUTS = ("input_ids", "input_mask", "segment_ids")


def blocks_of(encoder):
    return [layer for layer in encoder.layers if isinstance(layer, TransformerEncoderBlock)]


def test_encoder_is_functional_and_calls_one_block_l_times():
    encoder = AlbertEncoder(make_config())
    assert isinstance(encoder, keras.Model)
    symbolic = [keras.Input((None,), dtype="int32", name=name) for name in INPUTS]
    outputs = encoder(dict(zip(INPUTS, symbolic, strict=True)))
    assert isinstance(outputs["sequence_output"], keras.KerasTensor)
    (block,) = blocks_of(encoder)
    assert [block] * 4 == [blocks[0] for blocks in encoder.layer_blocks]
    # a node of the functional graph for each of the 4 calls
    operations = [node.operation for nodes in encoder._nodes_by_depth.values() for node in nodes]
    assert operations.count(block) == 4


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("base", 11_683_584),
        ("large", 17_683_968),
        pytest.param("xlarge", 58_724_864, marks=pytest.mark.slow),
        pytest.param("xxlarge", 222_595_584, marks=pytest.mark.slow),
    ],
)
def test_published_parameter_counts(name, parameters):
    assert AlbertEncoder(AlbertConfig.named(name)).count_params() == parameters


def test_parameters_do_not_depend_on_depth():
    counts = {AlbertEncoder(make_config(num_hidden_layers=depth)).count_params() for depth in (1, 2, 5)}
    assert len(counts) == 1


@pytest.mark.parametrize(
    ("sharing", "attention", "feed_forward"), [("all", 1, 1), ("attention", 1, 4), ("ffn", 4, 1), ("none", 4, 4)]
)
def test_sharing_decides_the_number_of_sublayers(sharing, attention, feed_forward):
    encoder = AlbertEncoder(make_config(parameter_sharing=sharing))
    sublayers = {id(layer): layer for block in blocks_of(encoder) for layer in (block.attention, block.feed_forward)}
    kinds = [type(layer) for layer in sublayers.values()]
    assert kinds.count(SelfAttention) == attention
    assert kinds.count(FeedForward) == feed_forward
    h, i = 24, 40
    one_attention, one_feed_forward = 4 * (h * h + h) + 2 * h, h * i + i + i * h + h + 2 * h
    rest = (97 + 17 + 2) * 8 + 2 * 8 + 8 * h + h + h * h + h
    assert encoder.count_params() == rest + attention * one_attention + feed_forward * one_feed_forward


@pytest.mark.parametrize("changes", [{}, {"num_hidden_groups": 2}, {"num_hidden_groups": 3, "inner_group_num": 2}])
def test_loop_form_equals_the_unrolled_one(changes):
    encoder = AlbertEncoder(make_config(**changes))
    randomize(encoder.named_weights())
    batch = make_batch()
    expected, loop = encoder(batch_of(batch)), encoder.encode(batch_of(batch), form="loop")
    for name in ("sequence_output", "pooled_output"):
        np.testing.assert_array_equal(loop[name], expected[name])  # the same operations in the same order


def batch_of(batch):
    return {key: tf.constant(batch[key]) for key in INPUTS}


@pytest.mark.representatives("all-*", "two_groups-*", "*-rows1")
@pytest.mark.parametrize("rows", [MASK_ROWS, ("1111111", "1000000", "1111000"), ("0000000", "0000000")])
def test_packed_form_equals_the_padded_one(any_config, rows):
    encoder = AlbertEncoder(any_config)
    randomize(encoder.named_weights())
    batch = make_batch(rows=rows)
    mask = batch["input_mask"]
    generator = np.random.default_rng(2)
    weight = generator.standard_normal((*mask.shape, 24)).astype(np.float32) * mask[..., None]
    pooled_weight = generator.standard_normal((len(mask), 24)).astype(np.float32) * mask[:, :1]

    def run(inputs, form):
        with tf.GradientTape() as tape:
            outputs = encoder.encode(inputs, form=form)
            loss = tf.reduce_sum(outputs["sequence_output"] * weight)
            loss += tf.reduce_sum(outputs["pooled_output"] * pooled_weight)
        gradients = tape.gradient(loss, [v.value for v in encoder.trainable_weights])
        return outputs, [tf.convert_to_tensor(g) for g in gradients]

    (padded, padded_gradients), (packed, packed_gradients) = (run(batch_of(batch), f) for f in ("unrolled", "packed"))
    difference = np.abs(padded["sequence_output"] - packed["sequence_output"])
    # LayerNorm keeps values at order 1, float32 rounds at 1e-7, four layers: 1e-5 is ample
    assert difference[mask > 0].max(initial=0.0) < 1e-5
    assert not packed["sequence_output"].numpy()[mask == 0].any()
    first = mask[:, 0] > 0
    np.testing.assert_allclose(
        packed["pooled_output"].numpy()[first], padded["pooled_output"].numpy()[first], atol=1e-5
    )
    assert not packed["pooled_output"].numpy()[~first].any()
    for name, padded_gradient, packed_gradient in zip(
        encoder.trainable_weights, padded_gradients, packed_gradients, strict=True
    ):
        assert np.isfinite(packed_gradient).all(), name.path
        scale = max(1.0, np.abs(padded_gradient).max())
        assert np.abs(padded_gradient - packed_gradient).max() < 1e-4 * scale, name.path


def test_packed_form_gives_every_dense_layer_the_real_tokens_only(monkeypatch):
    encoder = AlbertEncoder(make_config())
    rows = []
    call = keras.layers.Dense.call

    def spy(self, inputs, *args, **kwargs):
        if self is not encoder.get_layer("pooler").dense:
            rows.append((self.name, tuple(inputs.shape[:-1])))
        return call(self, inputs, *args, **kwargs)

    monkeypatch.setattr(keras.layers.Dense, "call", spy)
    batch = make_batch()
    encoder.encode(batch_of(batch), form="packed")
    tokens = int(batch["input_mask"].sum())
    assert tokens < batch["input_mask"].size
    assert len(rows) == 1 + 4 * 6  # the projection, and six dense layers in each of four calls
    assert {shape for _, shape in rows} == {(tokens,)}


def test_packed_form_takes_every_length_in_one_graph():
    encoder = AlbertEncoder(make_config())
    spec = {key: tf.TensorSpec([None, None], tf.int32) for key in INPUTS}
    run = tf.function(lambda x: encoder.encode(x, form="packed"), input_signature=[spec])
    for rows in (MASK_ROWS, ("10", "11", "00")):
        batch = batch_of(make_batch(rows=rows))
        expected = encoder(batch)["sequence_output"].numpy()
        real = batch["input_mask"].numpy() > 0
        np.testing.assert_allclose(run(batch)["sequence_output"].numpy()[real], expected[real], atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "arguments", "message"),
    [
        ({}, {"form": "rolled"}, "form must be one of unrolled, loop, packed, packed_loop, got 'rolled'"),
        ({"parameter_sharing": "ffn"}, {"form": "loop"}, 'form "loop" needs parameter_sharing "all"'),
        ({}, {"form": "loop", "training": True}, 'form "loop" is for inference'),
    ],
)
def test_impossible_forms_are_refused(changes, arguments, message):
    encoder = AlbertEncoder(make_config(**changes))
    with pytest.raises(ValueError, match=message):
        encoder.encode(batch_of(make_batch()), **arguments)


def test_block_serialises_alone():
    block = TransformerEncoderBlock(num_attention_heads=3, intermediate_size=40, hidden_act="relu")
    copy = TransformerEncoderBlock.from_config(block.get_config())
    hidden = tf.random.stateless_normal([2, 5, 24], seed=[1, 2])
    mask = tf.constant([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]])
    expected = block(hidden, mask)
    copy(hidden, mask)
    copy.set_weights(block.get_weights())
    np.testing.assert_array_equal(copy(hidden, mask), expected)


def test_heads_that_do_not_divide_the_width_are_refused():
    with pytest.raises(ValueError, match="hidden size 24 is no multiple of 5 attention heads"):
        SelfAttention(num_attention_heads=5, dropout_prob=0.0, initializer_range=0.02).build((None, None, 24))


@pytest.mark.parametrize("call", ["functional", "unrolled", "loop", "packed"])
def test_more_tokens_than_positions_are_refused(call: str) -> None:
    encoder = AlbertEncoder(make_config())
    inputs = {name: np.ones((2, 18), np.int32) for name in ("input_ids", "input_mask", "segment_ids")}
    with pytest.raises(ValueError, match="input_ids are 18 tokens long, the model has max_position_embeddings 17"):
        encoder(inputs) if call == "functional" else encoder.encode(inputs, form=call)  # type: ignore[arg-type]
