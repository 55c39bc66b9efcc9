"""The real training step as a TPU's compiler would get it: static shapes, and nothing that leaves the device."""

from __future__ import annotations

import types
from typing import Any

import pytest
import tensorflow as tf

from albert_tf import features
from albert_tf.data import batches
from albert_tf.data.manifest import read_data_directory
from albert_tf.data.reading import Order
from albert_tf.tpu import lowering
from tests.data import toy

CONFIG = toy.CONFIG.replace(hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1)
CLIP = 0.3
BATCH, LENGTH, PREDICTIONS = 4, 20, 3


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tf.Tensor]:
    """A batch of the data pipeline."""
    rows = toy.random_rows(9, max_seq_length=LENGTH, vocab_size=CONFIG.vocab_size, seed=5)
    path = tmp_path_factory.mktemp("data") / "shards"
    toy.write_directory(path, [rows[:5], rows[5:]], max_seq_length=LENGTH, max_predictions_per_seq=PREDICTIONS)
    order = Order(data=read_data_directory(path), seed=2)
    return next(iter(batches.training_batches(order, step=0, batch_size=BATCH)))


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "pieces"), [("float32", 1), ("bfloat16", 1), ("bfloat16", 2)])
def test_the_step_is_static_and_stays_on_the_device(batch: dict[str, tf.Tensor], dtype: str, pieces: int) -> None:
    # In pieces: all that makes loops of a step, too.
    more: dict[str, Any] = {}
    if pieces > 1:
        more = {"gradient_accumulation_steps": pieces, "remat": True, "moving_average_decay": 0.9}
    trainer = lowering.make_trainer(CONFIG, dtype=dtype, optimizer="lamb", clip_norm=CLIP, **more)
    text = lowering.lower(trainer, batch)
    assert lowering.obstacles(text) == []
    for word in ("tensor<?", "set_dimension_size", "infeed", "outfeed", "stablehlo.send", "stablehlo.recv"):
        assert word not in text
    assert "custom_call" not in text
    # It is the whole step: the batch goes in, dropout is drawn, products are in the dtype, weights are written.
    assert f"tensor<{BATCH}x{LENGTH}xi32>" in text
    rows = BATCH // pieces
    assert f"tensor<{rows}x{LENGTH}x{CONFIG.hidden_size}xui32>" in text  # only dropout draws such words
    width = {"float32": "f32", "bfloat16": "bf16"}[dtype]
    assert f"tensor<{rows}x{LENGTH}x{CONFIG.hidden_size}x{width}>" in text
    assert "input_output_alias" in text


@pytest.mark.slow
def test_the_packed_form_is_found_out(batch: dict[str, tf.Tensor]) -> None:
    # It leaves the padding out, so that its shapes depend on the batch: the test above would see it.
    trainer = lowering.make_trainer(CONFIG.replace(num_hidden_layers=1), clip_norm=CLIP, form="packed")
    found = lowering.obstacles(lowering.lower(trainer, batch))
    assert "set_dimension_size" in found
    assert any(item.startswith("tensor<?") for item in found)


def test_the_example_is_like_a_batch_of_the_pipeline(batch: dict[str, tf.Tensor]) -> None:
    example = lowering.example_batch(batch_size=BATCH, max_seq_length=LENGTH, max_predictions_per_seq=PREDICTIONS)
    assert {name: (value.dtype, value.shape) for name, value in example.items()} == {
        name: (value.dtype, value.shape) for name, value in batch.items()
    }


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("%1 = stablehlo.add %0, %0 : tensor<3x5xf32>", []),
        ("%1 = stablehlo.dynamic_slice %0, %a, sizes = [2] : (tensor<7xf32>, tensor<i32>) -> tensor<2xf32>", []),
        ("%1 = stablehlo.custom_call @mhlo.erf(%0) : (tensor<3xf32>) -> tensor<3xf32>", []),
        ("%1 = stablehlo.abs %0 : tensor<?xf32>", ["tensor<?xf32>"]),
        ("%1 = stablehlo.abs %0 : tensor<3x?x5xf32>", ["tensor<3x?x5xf32>"]),
        ('%1 = "stablehlo.set_dimension_size"(%0, %s) : (tensor<3xf32>, tensor<i32>)', ["set_dimension_size"]),
        ('%1 = "stablehlo.infeed"(%0) : (!stablehlo.token)', ["stablehlo.infeed"]),
        ('"stablehlo.outfeed"(%0, %t)', ["stablehlo.outfeed"]),
        ('%1 = "stablehlo.send"(%0, %t) <{is_host_transfer = true}>', ["stablehlo.send"]),
        ('%1:2 = "stablehlo.recv"(%t)', ["stablehlo.recv"]),
        (
            "%1 = stablehlo.custom_call @xla_python_cpu_callback(%0) : (tensor<3xf32>) -> tensor<3xf32>",
            ["custom_call @xla_python_cpu_callback"],
        ),
    ],
)
def test_obstacles(line: str, found: list[str]) -> None:
    assert lowering.obstacles(line) == found


def test_a_step_that_calls_python_cannot_be_lowered() -> None:
    def replica_step(batch: dict[str, tf.Tensor]) -> tf.Tensor:
        return tf.py_function(lambda x: x, [batch[features.INPUT_IDS]], tf.int32)

    trainer: Any = types.SimpleNamespace(replica_step=replica_step)
    with pytest.raises(ValueError, match=r"the step cannot be lowered for a TPU: .*EagerPyFunc"):
        lowering.lower(trainer, {features.INPUT_IDS: tf.zeros((2, 3), tf.int32)})
