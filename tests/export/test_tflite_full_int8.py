"""TFLite with 8-bit activations: how near it comes to Keras, what is in 8 bits, what representative data must be."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from albert_tf.modeling.models import AlbertPretrainingModel
from albert_tf.tokenizer import AlbertTokenizer
from export import flatbuffer, parity, tflite
from export.representative_data import read_representative
from export.tflite_graph import input_shapes
from tests.data import toy
from tests.export.conftest import tiny_config
from tests.export.texts import built_in_english, real_batches


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("texts") / "texts.txt"
    path.write_text("\n\n".join(built_in_english()[:24]), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def biased_model(tokenizer: AlbertTokenizer) -> AlbertPretrainingModel:
    """Weights as they start, but for the output's bias, which is 0 then and shows no mistake."""
    made = AlbertPretrainingModel(tiny_config(tokenizer, num_hidden_layers=2), seed=5)
    bias = made.masked_lm_head.output_bias
    bias.assign(np.random.default_rng(2).normal(size=bias.shape))
    return made


@pytest.fixture(scope="module")
def content(biased_model: AlbertPretrainingModel, tokenizer: AlbertTokenizer, texts: pathlib.Path) -> bytes:
    batches = read_representative(texts, tokenizer, 40)
    representative = [{name: batch[name] for name in input_shapes(biased_model, "all")} for batch in batches]
    return tflite.convert(biased_model, quantization="full_int8", head="all", representative=representative)


def test_agreement_with_keras(content: bytes, biased_model: AlbertPretrainingModel, tokenizer: AlbertTokenizer) -> None:
    batches = real_batches(tokenizer, longest=70, count=8)
    interpreter = tflite.make_interpreter(content)
    actual = [tflite.run(interpreter, batch) for batch in batches]
    found = parity.agreement([parity.source_outputs(biased_model, batch) for batch in batches], actual, batches)
    assert len(found) == 4
    parity.check(found, tflite.bound_of("full_int8"), artefact="test")
    assert flatbuffer.count_tensors(content, [biased_model.config.vocab_size, 16]) == 1


def test_tables_keep_rows_that_were_not_looked_up(content: bytes, biased_model: AlbertPretrainingModel) -> None:
    table = biased_model.encoder.embeddings.word_embeddings.numpy()
    step = np.float32(np.abs(table).max() / 127)
    assert np.round(table / step).astype(np.int8).tobytes() in content


def test_products_are_in_8_bits(content: bytes) -> None:
    read = schema.ModelT.InitFromPackedBuf(bytearray(content), 0)
    dense, products = schema.BuiltinOperator.FULLY_CONNECTED, schema.BuiltinOperator.BATCH_MATMUL
    types: dict[int, list[int]] = {dense: [], products: []}
    for graph in read.subgraphs:
        for operator in graph.operators:
            code = read.operatorCodes[operator.opcodeIndex].builtinCode
            if code in types:
                types[code] += [graph.tensors[place].type for place in (*operator.inputs[:2], *operator.outputs)]
    assert set(types[dense]) == set(types[products]) == {schema.TensorType.INT8}
    assert len(types[dense]) == 3 * (1 + 6 + 1 + 2 + 1)  # projection, block, pooler, masked LM, sentence order
    assert len(types[products]) == 3 * 2
    details = tflite.make_interpreter(content).get_signature_runner(tflite.SIGNATURE)
    assert {one["dtype"] for one in details.get_input_details().values()} == {np.int32}
    assert {one["dtype"] for one in details.get_output_details().values()} == {np.float32}


def test_text_lines_become_batches_of_one_shape(tokenizer: AlbertTokenizer, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("One line.\n\n   \n" + "long " * 50 + "\n", encoding="utf-8")
    (batch,) = read_representative(path, tokenizer, 12)
    first = tokenizer.encode_pair(tokenizer.encode("One line."), None, 12)
    second = tokenizer.encode_pair(tokenizer.encode("long " * 50), None, 12)
    assert batch["input_ids"].tolist() == [first[0], second[0]] * 4
    assert batch["input_mask"].tolist() == [first[1], second[1]] * 4


def test_records_become_batches(tmp_path: pathlib.Path) -> None:
    vocabulary = toy.tokenizer()
    rows = toy.random_rows(19, max_seq_length=20, vocab_size=vocabulary.vocab_size, seed=8)
    path = toy.write_directory(tmp_path / "data", [rows[:7], rows[7:]], max_seq_length=20, max_predictions_per_seq=3)
    batches = read_representative(path, vocabulary, 70)
    assert [batch["input_ids"].shape for batch in batches] == [
        (8, batches[0]["input_ids"].shape[1])
    ] * 3  # the last is filled up
    for number, batch in enumerate(batches):
        for row in range(8):
            real = batch["input_ids"][row][batch["input_mask"][row] == 1]
            assert len(real) == len(rows[(8 * number + row) % 19]["segment_tokens"]) + 3
            assert real[0] == vocabulary.cls_id
    with open(next(path.glob("*.tfrecord")), "r+b") as stream:
        stream.seek(40)
        stream.write(b"????")
    with pytest.raises(ValueError, match="build the shards again"):
        read_representative(path, vocabulary, 70)


def test_data_that_is_none_is_refused(tokenizer: AlbertTokenizer, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("\n  \n")
    with pytest.raises(ValueError, match=r"lines\.txt: holds no text"):
        read_representative(path, tokenizer, 12)
    path.write_bytes(b"caf\xe9")
    with pytest.raises(ValueError, match=r"lines\.txt: not UTF-8 at byte 3"):
        read_representative(path, tokenizer, 12)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        read_representative(tmp_path / "nowhere", tokenizer, 12)
    rows = toy.random_rows(3, max_seq_length=20, vocab_size=61, seed=8)
    other = toy.write_directory(tmp_path / "data", [rows], max_seq_length=20, max_predictions_per_seq=3)
    with pytest.raises(ValueError, match="made with another tokenizer than the model's"):
        read_representative(other, tokenizer, 12)


def test_door(directory: pathlib.Path, texts: pathlib.Path, tmp_path: pathlib.Path) -> None:
    output = tmp_path / "a.tflite"
    with pytest.raises(ValueError, match="full_int8 and representative_data go together"):
        tflite.export_tflite(directory, output, quantization="full_int8")
    with pytest.raises(ValueError, match="full_int8 and representative_data go together"):
        tflite.export_tflite(directory, output, representative_data=texts)
    with pytest.raises(ValueError, match="full_int8 goes with the tokenizer outside"):
        tflite.export_tflite(directory, output, quantization="full_int8", tokenizer="inside")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        tflite.export_tflite(directory, output, quantization="full_int8", representative_data=tmp_path / "nowhere")
    assert list(tmp_path.iterdir()) == []


def test_outputs_of_zeros_do_not_agree() -> None:
    outputs = {"cls_logits": np.array([1.0, -2.0], np.float32)}
    batch = {"input_mask": np.ones([2, 3], np.int32)}
    found = parity.agreement([outputs], [{"cls_logits": np.zeros(2)}], [batch], head="conditional_span")
    assert found["cls_logits"].cosine == 0.0
    found = parity.agreement([{"cls_logits": np.zeros(2)}] * 1, [{"cls_logits": np.zeros(2)}], [batch])
    assert found["cls_logits"].cosine == 1.0
