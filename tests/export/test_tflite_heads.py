"""TFLite: every head gives the numbers of Keras, at any batch size and length; what a file says of itself."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

from albert_tf.head_config import HEADS, LABELLED, HeadConfig
from albert_tf.model_directory import save_model_directory
from albert_tf.modeling.head_model import AlbertHeadModel
from albert_tf.modeling.models import make_model
from albert_tf.tasks.task_config import TASK_CONFIG_NAME, TaskConfig
from albert_tf.tokenizer import AlbertTokenizer
from export import flatbuffer, parity, tflite
from export.tflite_metadata import read_metadata
from tests.export.conftest import tiny_config
from tests.export.texts import real_batches

OUTPUTS = {
    "pretraining": ["masked_lm_logits", "sentence_order_logits"],
    "masked_lm": ["masked_lm_logits"],
    "encoder": ["pooled_output", "sequence_output"],
    "span": ["end_logits", "start_logits"],
    "conditional_span": [
        "cls_logits",
        "end_top_index",
        "end_top_log_probs",
        "start_top_index",
        "start_top_log_probs",
    ],
}
LABELS = ("bad", "middling", "good é")


def head_model(tokenizer: AlbertTokenizer, head: str, **changes) -> AlbertHeadModel:
    """Every weight as it starts, of a small model."""
    labels = {"labels": LABELS} if head in LABELLED else {}
    head_config = HeadConfig(head=head, start_n_top=2, end_n_top=3, **labels)  # type: ignore[arg-type]
    return make_model(tiny_config(tokenizer, num_hidden_layers=2, **changes), head_config, seed=5)


def agreement_of(content: bytes, model: AlbertHeadModel, tokenizer: AlbertTokenizer) -> dict[str, parity.Agreement]:
    """Agreement with Keras over real texts of 3 to 70 tokens in mixed batches."""
    batches = real_batches(tokenizer, longest=model.config.max_position_embeddings, count=8)
    inputs = [parity.head_inputs(model.head_config, batch) for batch in batches]
    interpreter = tflite.make_interpreter(content)
    actual = [tflite.run(interpreter, one) for one in inputs]
    return parity.agreement(
        [parity.source_outputs(model, one) for one in inputs], actual, batches, head=model.head_config.head
    )


@pytest.mark.representatives("classifier", "conditional_span", "multiple_choice")
@pytest.mark.parametrize("head", HEADS)
def test_every_head_agrees_with_keras(tokenizer: AlbertTokenizer, head: str) -> None:
    model = head_model(tokenizer, head)
    for quantization in ("float32", "int8"):
        content = tflite.convert(model, quantization=quantization)
        runner = tflite.make_interpreter(content).get_signature_runner(tflite.SIGNATURE)
        assert set(runner.get_input_details()) == set(model.INPUTS)
        outputs = OUTPUTS.get(head, ["logits"])
        assert sorted(runner.get_output_details()) == outputs
        found = agreement_of(content, model, tokenizer)
        assert sorted(found) == [name for name in outputs if not name.endswith("_index")]
        parity.check(found, tflite.bound_of(quantization), artefact=f"{head} {quantization}")
        assert flatbuffer.count_tensors(content, [model.config.vocab_size, 16]) == 1


def test_layers_with_weights_of_their_own(tokenizer: AlbertTokenizer) -> None:
    model = head_model(tokenizer, "classifier", parameter_sharing="none")
    content = tflite.convert(model, quantization="float32")
    parity.check(agreement_of(content, model, tokenizer), tflite.bound_of("float32"), artefact="test")


@pytest.fixture(scope="module")
def content(tokenizer: AlbertTokenizer) -> bytes:
    """An 8-bit token classifier without metadata."""
    return tflite.convert(head_model(tokenizer, "token_classifier"), quantization="int8")


def rows(ids: np.ndarray) -> parity.Batch:
    return {"input_ids": ids.astype(np.int32), "input_mask": np.ones_like(ids, np.int32), "segment_ids": 0 * ids}


@pytest.mark.parametrize("ids", [np.full([1, 71], 9, np.int32), np.array([[2, 10**6]]), np.array([[2, -1]])])
def test_inputs_out_of_range_are_refused(content: bytes, ids: np.ndarray) -> None:
    interpreter = tflite.make_interpreter(content)
    before = tflite.run(interpreter, rows(np.array([[2, 9, 3]], np.int32)))["logits"]
    with pytest.raises(ValueError, match="an input is out of range"):
        tflite.run(interpreter, rows(ids.astype(np.int32)))
    after = tflite.run(interpreter, rows(np.array([[2, 9, 3]], np.int32)))["logits"]
    np.testing.assert_array_equal(after, before)


def test_fewer_tokens_than_starts_are_refused(tokenizer: AlbertTokenizer) -> None:
    content = tflite.convert(head_model(tokenizer, "conditional_span"), quantization="int8")
    batch = rows(np.array([[2, 3]], np.int32))
    with pytest.raises(ValueError, match="an input is out of range"):
        tflite.run(tflite.make_interpreter(content), {**batch, "p_mask": 0 * batch["input_ids"]})


def test_door_writes_labels_and_task_into_the_file(tokenizer: AlbertTokenizer, tmp_path: pathlib.Path) -> None:
    model = head_model(tokenizer, "classifier")
    config = TaskConfig(task="classification", options={"labels": LABELS, "multi_label": True}, max_seq_length=40)
    directory = tmp_path / "model"
    save_model_directory(
        directory, model, tokenizer, training={"max_seq_length": 40}, files={TASK_CONFIG_NAME: config.to_json()}
    )
    report = tflite.export_tflite(directory, tmp_path / "file.tflite")
    assert list(report.agreement) == ["logits"]
    content = (tmp_path / "file.tflite").read_bytes()
    assert len(content) == report.bytes
    found = read_metadata(content)
    assert found == report.metadata
    assert found.to_dict() == {
        "head": "classifier",
        "labels": LABELS,
        "task": "classification",
        "is_multi_label": True,
        "sentence_objective": None,
        "takes_pairs": False,
        "max_seq_length": 40,
        "quantization": "int8",
        "tokenizer": "outside",
    }
    with pytest.raises(ValueError, match="has the head 'classifier', whose outputs all go into the file"):
        tflite.export_tflite(directory, tmp_path / "other.tflite", head="encoder")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "file.card.md",
        "file.report.json",
        "file.tflite",
        "model",
    ]


def test_a_file_without_metadata_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"has no metadata 'albert_tf': export\.tflite did not write it"):
        read_metadata(content)
    with pytest.raises(ValueError, match="not a TFLite file"):
        read_metadata(b"nothing of the kind")


def test_metadata_changes_no_number(content: bytes) -> None:
    batch = rows(np.array([[2, 9, 8, 3]], np.int32))
    described = flatbuffer.add_metadata(content, "name", b"value")
    assert flatbuffer.metadata(described, "name") == b"value"
    first, second = (tflite.run(tflite.make_interpreter(one), batch)["logits"] for one in (content, described))
    np.testing.assert_array_equal(first, second)
