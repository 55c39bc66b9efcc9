"""TFLite: every output equals Keras, a tied table is stored once, and what it refuses."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

from albert_tf.modeling.models import AlbertPretrainingModel
from albert_tf.tokenizer import AlbertTokenizer
from export import flatbuffer, parity, tflite
from tests.export.conftest import sharing_config, spread_weights, tiny_config
from tests.export.texts import real_batches

ENCODER_OUTPUTS = ["pooled_output", "sequence_output"]
OUTPUTS = {
    "encoder": ENCODER_OUTPUTS,
    "masked_lm": ["masked_lm_logits"],
    "sentence_order": ["sentence_order_logits"],
    "pretraining": ["masked_lm_logits", "sentence_order_logits"],
    "all": ["masked_lm_logits", "pooled_output", "sentence_order_logits", "sequence_output"],
}


def agreement_of(content: bytes, model: AlbertPretrainingModel, tokenizer: AlbertTokenizer, count: int = 20):
    """Agreement with Keras over real texts of 3 to 70 tokens in mixed batches."""
    batches = real_batches(tokenizer, longest=model.config.max_position_embeddings, count=count)
    interpreter = tflite.make_interpreter(content)
    actual = [tflite.run(interpreter, batch) for batch in batches]
    return parity.agreement([parity.source_outputs(model, batch) for batch in batches], actual, batches)


@pytest.fixture(scope="module")
def initial_model(tokenizer: AlbertTokenizer) -> AlbertPretrainingModel:
    """Weights as they start: what 8 bits cost depends on their spread."""
    return AlbertPretrainingModel(tiny_config(tokenizer, initializer_range=0.02), seed=5)


@pytest.fixture(scope="module")
def int8_content(initial_model: AlbertPretrainingModel) -> bytes:
    return tflite.convert(initial_model, quantization="int8", head="all")


@pytest.mark.representatives("none", "two_groups")
@pytest.mark.parametrize("case", ["attention", "ffn", "none", "two_groups", "inner_blocks", "words_alone"])
def test_every_sharing_mode_agrees_with_keras(tokenizer: AlbertTokenizer, case: str) -> None:
    model = AlbertPretrainingModel(sharing_config(tokenizer, case))
    spread_weights(model)
    content = tflite.convert(model, quantization="float32", head="pretraining")
    found = agreement_of(content, model, tokenizer, count=8)
    parity.check(found, tflite.bound_of("float32"), artefact="test")
    assert sorted(found) == OUTPUTS["pretraining"]
    assert flatbuffer.count_tensors(content, [model.config.vocab_size, model.config.embedding_size]) == 1


@pytest.mark.parametrize("head", ["masked_lm", "sentence_order"])
def test_single_heads(initial_model: AlbertPretrainingModel, head: tflite.Head) -> None:
    content = tflite.convert(initial_model, quantization="float32", head=head)
    runner = tflite.make_interpreter(content).get_signature_runner(tflite.SIGNATURE)
    assert sorted(runner.get_output_details()) == OUTPUTS[head]
    assert ("masked_lm_positions" in runner.get_input_details()) == (head == "masked_lm")


def test_8_bits(initial_model: AlbertPretrainingModel, tokenizer: AlbertTokenizer, int8_content: bytes) -> None:
    found = agreement_of(int8_content, initial_model, tokenizer)
    assert sorted(found) == OUTPUTS["all"]
    parity.check(found, tflite.bound_of("int8"), artefact="test")
    assert flatbuffer.count_tensors(int8_content, [initial_model.config.vocab_size, 16]) == 1
    assert len(int8_content) < 1.5 * initial_model.count_params() + 60_000  # a byte a weight, and the graph


def test_16_bits(initial_model: AlbertPretrainingModel, tokenizer: AlbertTokenizer) -> None:
    content = tflite.convert(initial_model, quantization="float16", head="all")
    parity.check(agreement_of(content, initial_model, tokenizer), tflite.bound_of("float16"), artefact="test")
    assert flatbuffer.count_tensors(content, [initial_model.config.vocab_size, 16]) == 1
    assert len(content) < 2 * initial_model.count_params() + 60_000


def test_tables_of_equal_shape_are_not_mistaken_for_tied_ones(tokenizer: AlbertTokenizer) -> None:
    # The position table [P, E] has the shape of the projection's kernel [H, E].
    config = tiny_config(tokenizer, embedding_size=32, max_position_embeddings=48, initializer_range=0.02)
    model = AlbertPretrainingModel(config, seed=5)
    content = tflite.convert(model, quantization="int8", head="pretraining")
    parity.check(agreement_of(content, model, tokenizer), tflite.bound_of("int8"), artefact="test")
    assert flatbuffer.count_tensors(content, [48, 32]) == 2
    assert flatbuffer.count_tensors(content, [config.vocab_size, 32]) == 1


def test_sharing_a_table_changes_no_other_number(
    initial_model: AlbertPretrainingModel, int8_content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flatbuffer, "share_tied_tables", lambda content: content)
    separate = tflite.convert(initial_model, quantization="int8", head="all")
    table = [initial_model.config.vocab_size, 16]
    assert flatbuffer.count_tensors(separate, table) == 2
    assert len(separate) - len(int8_content) > np.prod(table)
    batch = {name: np.array([[2, 9, 8, 3]], np.int32) for name in ("input_ids", "masked_lm_positions")}
    batch |= {"input_mask": np.ones([1, 4], np.int32), "segment_ids": np.zeros([1, 4], np.int32)}
    batch["masked_lm_positions"] = np.array([[1, 2]], np.int32)
    first, second = (tflite.run(tflite.make_interpreter(content), batch) for content in (int8_content, separate))
    for name in ("sequence_output", "pooled_output", "sentence_order_logits"):
        np.testing.assert_array_equal(first[name], second[name], err_msg=name)
    # One scale for the whole table in place of one for each row.
    np.testing.assert_allclose(first["masked_lm_logits"], second["masked_lm_logits"], atol=5e-3)
    assert np.abs(first["masked_lm_logits"]).max() > 0.1


def test_buffers_keep_their_alignment(initial_model: AlbertPretrainingModel, int8_content: bytes) -> None:
    embeddings = initial_model.encoder.embeddings.word_embeddings.numpy()
    step = np.abs(embeddings).max() / 127
    table = np.round(embeddings / step).astype(np.int8).tobytes()
    assert int8_content.count(table[:4096]) == 1
    assert int8_content.index(table[:4096]) % 16 == 0


def test_content_that_is_no_tflite_file_is_refused() -> None:
    for content in (b"", b"not a model", b"\x1c\x00\x00\x00TFL3" + bytes(40)):
        with pytest.raises(ValueError, match="not a TFLite file, or a damaged one"):
            tflite.make_interpreter(content)


def test_door_writes_a_checked_file(directory: pathlib.Path, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "new folder" / "model.tflite"
    report = tflite.export_tflite(directory, path, quantization="float32")
    assert path.stat().st_size == report.bytes
    assert sorted(report.agreement) == OUTPUTS["pretraining"]
    with pytest.raises(ValueError, match="exists; name another file"):
        tflite.export_tflite(directory, path)
    assert path.stat().st_size == report.bytes


def test_disagreement_with_the_source_leaves_nothing(directory: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with pytest.raises(
        ValueError, match=r"masked_lm_logits has cosine 0\.\d+ with the source, at least 1\.0 is needed"
    ):
        tflite.export_tflite(directory, tmp_path / "model.tflite", quantization="int8", min_cosine=1.0)
    assert list(tmp_path.iterdir()) == []


def test_missing_model_and_unknown_settings_leave_nothing(directory: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        tflite.export_tflite(tmp_path / "nowhere", tmp_path / "model.tflite")
    with pytest.raises(ValueError, match="quantization must be one of float32, float16, int8"):
        tflite.export_tflite(directory, tmp_path / "model.tflite", quantization="int4")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
