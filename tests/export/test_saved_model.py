"""SavedModel: every output equals Keras, each weight is stored once, and what it refuses."""

from __future__ import annotations

import json
import os
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.marked_text import MarkedTextEncoder
from albert_tf.modeling.models import AlbertPretrainingModel
from albert_tf.tokenizer import AlbertTokenizer
from export import parity, saved_model_files
from export.artifacts import ENCODER_INPUTS, SIGNATURES_FILE
from export.saved_model import SavedModelReport, export_saved_model
from export.saved_model_files import save, variables_bytes
from export.signatures.making import make_signatures
from export.signatures.signature_maker import Served, WeightsModule
from tests.export.conftest import sharing_config, spread_weights
from tests.export.texts import ODD_TEXTS, ids_outputs, real_batches

# Sums in another order: padding is left out, and products run over other shapes.
BOUND = parity.Bound(relative=1e-5)
ALL_OUTPUTS = ["masked_lm_logits", "pooled_output", "sentence_order_logits", "sequence_output"]


@pytest.fixture(scope="module")
def loaded(exported: SavedModelReport):
    """The SavedModel that takes text."""
    return tf.saved_model.load(exported.text_folder)


def padded(rows: list[list[int]]) -> np.ndarray:
    longest = max(map(len, rows))
    return np.array([row + [0] * (longest - len(row)) for row in rows])


@pytest.mark.representatives("none", "two_groups")
@pytest.mark.parametrize(
    "case", ["attention", "ffn", "none", "two_groups", "inner_blocks", "no_projection", "words_alone"]
)
def test_every_sharing_mode_agrees_with_keras(tokenizer: AlbertTokenizer, tmp_path: pathlib.Path, case: str) -> None:
    model = AlbertPretrainingModel(sharing_config(tokenizer, case))
    spread_weights(model)
    folder = str(tmp_path / "ids")
    batches = real_batches(tokenizer, longest=40, count=8)
    save(WeightsModule(model), make_signatures(Served(model=model)).ids_signatures(), folder, batches[0])
    signatures = tf.saved_model.load(folder).signatures
    expected = [parity.source_outputs(model, batch) for batch in batches]
    found = parity.agreement(expected, [ids_outputs(signatures, batch) for batch in batches], batches)
    assert sorted(found) == ALL_OUTPUTS
    parity.check(found, BOUND, artefact="test")
    parameters = sum(int(np.prod(variable.shape)) for variable in model.named_weights().values())
    # Beside the weights there is the graph of objects, some bytes for each variable.
    assert 4 * parameters <= variables_bytes(folder) < 4 * parameters + 300 * len(model.named_weights())


def test_report_counts_each_weight_once(exported: SavedModelReport, model: AlbertPretrainingModel) -> None:
    assert exported.parameters == sum(int(np.prod(v.shape)) for v in model.named_weights().values())
    assert sorted(exported.agreement) == ALL_OUTPUTS
    for folder in (exported.text_folder, exported.ids_folder):
        assert variables_bytes(folder) / (4 * exported.parameters) < 1.1  # tiny weights, so the graph of objects shows


def test_signatures_are_described(exported: SavedModelReport, loaded) -> None:
    described = json.loads((pathlib.Path(exported.text_folder) / SIGNATURES_FILE).read_text())
    assert described["max_seq_length"] == 70
    assert described["top_k"] == 7
    assert sorted(described["signatures"]) == sorted(loaded.signatures)
    assert described["signatures"]["pair"]["inputs"] == {"text": "string [None]", "text_b": "string [None]"}
    for name in ("serving_default", "pair", "fill_mask"):
        assert "cut" in described["signatures"][name]["description"].lower()


def test_text_equals_tokenizer_and_keras(loaded, model: AlbertPretrainingModel, tokenizer: AlbertTokenizer) -> None:
    texts = [*parity.SENTENCES, *ODD_TEXTS]
    outputs = loaded.signatures["serving_default"](text=tf.constant(texts))
    rows = [tokenizer.encode_pair(tokenizer.encode(text), None, 70) for text in texts]
    batch = parity.make_batch(rows)
    for name in ENCODER_INPUTS:
        np.testing.assert_array_equal(outputs[name], batch[name], err_msg=name)
    assert batch["input_mask"].sum(axis=1).max() == 70  # one is cut
    expected = [parity.source_outputs(model, batch)]
    actual = {name: outputs[name].numpy() for name in ("sequence_output", "pooled_output")}
    parity.check(parity.agreement(expected, [actual], [batch]), BOUND, artefact="test")


def test_pairs_equal_tokenizer_and_keras(loaded, model: AlbertPretrainingModel, tokenizer: AlbertTokenizer) -> None:
    texts = [parity.SENTENCES[0], parity.SENTENCES[3], parity.SENTENCES[1], "alone"]
    others = [parity.SENTENCES[2], parity.SENTENCES[3], "short", ""]
    outputs = loaded.signatures["pair"](text=tf.constant(texts), text_b=tf.constant(others))
    rows = [
        tokenizer.encode_pair(tokenizer.encode(a), tokenizer.encode(b) or None, 70)
        for a, b in zip(texts, others, strict=True)
    ]
    batch = parity.make_batch(rows)
    for name in ENCODER_INPUTS:
        np.testing.assert_array_equal(outputs[name], batch[name], err_msg=name)
    expected = parity.source_outputs(model, batch)
    actual = {name: outputs[name].numpy() for name in ("sequence_output", "pooled_output")}
    parity.check(parity.agreement([expected], [actual], [batch]), BOUND, artefact="test")
    order = loaded.signatures["sentence_order"](text=tf.constant(texts), text_b=tf.constant(others))
    probabilities = tf.nn.softmax(expected["sentence_order_logits"]).numpy()
    np.testing.assert_allclose(order["in_order"], probabilities[:, 0], rtol=1e-5)
    np.testing.assert_allclose(order["exchanged"], probabilities[:, 1], rtol=1e-5)


def test_tokenize(loaded, tokenizer: AlbertTokenizer) -> None:
    texts = ["In 2010, they (all) sat.", "", "a longer one, of more words, and so on"]
    outputs = loaded.signatures["tokenize"](text=tf.constant(texts))
    for row, text in enumerate(texts):
        ids = tokenizer.encode(text)
        assert outputs["lengths"][row] == len(ids)
        padding = outputs["ids"].shape[1] - len(ids)
        assert outputs["ids"][row].numpy().tolist() == ids + [-1] * padding
        pieces = [piece.decode() for piece in outputs["pieces"][row].numpy()]
        assert pieces == [tokenizer.id_to_piece(i) for i in ids] + [""] * padding


def test_fill_mask_equals_keras(loaded, model: AlbertPretrainingModel, tokenizer: AlbertTokenizer) -> None:
    texts = ["The [MASK] is a [MASK].", "no mask here", "[MASK]"]
    outputs = loaded.signatures["fill_mask"](text=tf.constant(texts))
    encoder = MarkedTextEncoder(tokenizer)
    batch = parity.make_batch([tokenizer.encode_pair(encoder.encode(text), None, 70) for text in texts])
    positions = [np.flatnonzero(row == tokenizer.mask_id) for row in batch["input_ids"]]
    assert [len(row) for row in positions] == [2, 0, 1]
    for row, expected_positions in enumerate(positions):
        found = outputs["positions"][row].numpy()
        np.testing.assert_array_equal(found[found >= 0], expected_positions)
        for mask in range(2):
            ids, probabilities = outputs["ids"][row, mask].numpy(), outputs["probabilities"][row, mask].numpy()
            pieces = [piece.decode() for piece in outputs["pieces"][row, mask].numpy()]
            if mask >= len(expected_positions):
                assert (ids.tolist(), probabilities.tolist(), pieces) == ([-1] * 7, [0.0] * 7, [""] * 7)
                continue
            batch["masked_lm_positions"] = np.full([3, 1], expected_positions[mask], np.int32)
            logits = parity.source_outputs(model, batch)["masked_lm_logits"][row, 0]
            np.testing.assert_array_equal(ids, np.argsort(-logits)[:7])
            np.testing.assert_allclose(probabilities, tf.nn.softmax(logits).numpy()[ids], rtol=1e-4)
            assert pieces == [tokenizer.id_to_piece(i) for i in ids]


def test_mask_in_either_text_of_a_pair(loaded, tokenizer: AlbertTokenizer) -> None:
    outputs = loaded.signatures["fill_mask_pair"](text=tf.constant(["a [MASK]"]), text_b=tf.constant(["[MASK] b"]))
    # [CLS] a [MASK] [SEP] [MASK] b [SEP]
    assert outputs["positions"].numpy().tolist() == [[2, 4]]


def test_odd_requests(loaded) -> None:
    signatures = loaded.signatures
    none = signatures["serving_default"](text=tf.zeros([0], tf.string))
    assert none["pooled_output"].shape == (0, 48)
    assert signatures["fill_mask"](text=tf.zeros([0], tf.string))["ids"].shape[0] == 0
    assert signatures["tokenize"](text=tf.constant([""]))["lengths"].numpy().tolist() == [0]
    # A row of padding alone gives zeros, not NaN.
    batch = {name: tf.zeros([2, 5], tf.int32) for name in ENCODER_INPUTS}
    outputs = signatures["ids"](**batch)
    assert not np.any(outputs["sequence_output"])
    assert not np.any(outputs["pooled_output"])


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({}, "at most 70 positions"),
        ({"input_mask": (2, 3), "input_ids": (2, 4), "segment_ids": (2, 4)}, "input_mask must be shaped as input_ids"),
        ({"input_mask": (2, 4), "input_ids": (2, 4), "segment_ids": (2, 3)}, "segment_ids must be shaped as input_ids"),
        (dict.fromkeys(ENCODER_INPUTS, (3, 0)), "at least one position"),
    ],
)
def test_wrong_ids_are_refused(loaded, shapes, message: str) -> None:
    batch = {name: tf.ones(shapes.get(name, (1, 71)), tf.int32) for name in ENCODER_INPUTS}
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        loaded.signatures["ids"](**batch)


def test_existing_folder_is_kept(directory: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes").write_text("mine")
    with pytest.raises(ValueError, match="has content already"):
        export_saved_model(directory, tmp_path / "out")
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "notes"]


def test_missing_model_leaves_nothing(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        export_saved_model(tmp_path / "nowhere", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("length", [4, 71])
def test_length_out_of_range_is_refused(directory: pathlib.Path, tmp_path: pathlib.Path, length: int) -> None:
    with pytest.raises(ValueError, match=rf"max_seq_length must be in \[5, 70\].*got {length}"):
        export_saved_model(directory, tmp_path / "out", max_seq_length=length)
    assert list(tmp_path.iterdir()) == []


def test_damaged_weights_leave_nothing(directory: pathlib.Path, tmp_path: pathlib.Path) -> None:
    shutil.copytree(directory, tmp_path / "model")
    weights = (tmp_path / "model" / "model.safetensors").read_bytes()
    (tmp_path / "model" / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    with pytest.raises(ValueError, match=r"model\.safetensors.*cut short"):
        export_saved_model(tmp_path / "model", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_disagreement_with_the_source_leaves_nothing(
    exported: SavedModelReport, directory: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(folders: dict[str, str], *_) -> None:
        for name, folder in folders.items():
            shutil.copytree(os.path.join(os.path.dirname(exported.text_folder), name), folder, dirs_exist_ok=True)

    monkeypatch.setattr(saved_model_files, "write_saved_models", write)
    exact = parity.source_outputs

    def changed(model: AlbertPretrainingModel, batch: parity.Batch) -> dict[str, np.ndarray]:
        return {**exact(model, batch), "pooled_output": exact(model, batch)["pooled_output"] * 1.001}

    monkeypatch.setattr(parity, "source_outputs", changed)
    with pytest.raises(ValueError, match=r"pooled_output differs from the source by 9\.99e-04"):
        export_saved_model(directory, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
