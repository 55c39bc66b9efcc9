"""The WordPiece tokenizer in a graph gives the ids of the tokenizer, for real and odd texts and for every character."""

from __future__ import annotations

import functools
import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.marked_text import MarkedTextEncoder
from albert_tf.model_directory import save_model_directory
from albert_tf.modeling.models import AlbertPretrainingModel
from albert_tf.wordpiece import WordPieceConfig, WordPieceTokenizer
from export import parity
from export.artifacts import ENCODER_INPUTS
from export.runners import SavedModelRunner, load_tflite_runner
from export.saved_model import export_saved_model
from export.text_graph import make_text_graph
from export.tflite import export_tflite
from export.token_graph import TextGraph
from tests import wordpiece_toys
from tests.export.conftest import spread_weights, tiny_config
from tests.export.test_text_graph import CHARACTERS, assert_equal_ids
from tests.export.texts import ODD_TEXTS
from tests.test_wordpiece import ODD_TEXTS as ODD_WORDS
from tests.test_wordpiece import random_texts

TEXTS = [*wordpiece_toys.SENTENCES, *ODD_TEXTS, *ODD_WORDS, *random_texts(1200, seed=7)]


@functools.cache
def rich(lower_case: bool) -> tuple[WordPieceTokenizer, TextGraph]:
    """Tokenizer that knows most words of `TEXTS`, with its graph."""
    pieces = wordpiece_toys.make_vocabulary(TEXTS, lower_case=lower_case)
    tokenizer = WordPieceTokenizer(wordpiece_toys.to_bytes(pieces), config=WordPieceConfig(lower_case=lower_case))
    return tokenizer, make_text_graph(tokenizer, 64)


@pytest.mark.parametrize("lower_case", [True, False])
def test_odd_and_random_texts(lower_case: bool) -> None:
    tokenizer, graph = rich(lower_case)
    assert_equal_ids(graph, tokenizer, TEXTS)
    assert_equal_ids(graph, tokenizer, [" ".join(TEXTS[at : at + 3]) for at in range(0, 900, 3)])


def test_real_texts(reference_data: pathlib.Path) -> None:
    lines = (reference_data / "data" / "corpora" / "chinese.txt").read_text(encoding="utf-8").split("\n")
    golden = json.loads((reference_data / "golden" / "features" / "tokenization_en.json").read_text("utf-8"))
    texts = lines + [row["text"] for row in golden]
    tokenizer = WordPieceTokenizer(
        wordpiece_toys.to_bytes(wordpiece_toys.make_vocabulary(texts, words=4000, endings=1500))
    )
    assert_equal_ids(make_text_graph(tokenizer, 64), tokenizer, texts)


@pytest.mark.representatives("True")
@pytest.mark.slow
@pytest.mark.parametrize("lower_case", [True, False])
def test_every_character(lower_case: bool) -> None:
    # Known ones and unknown ones: half of all letters are in the vocabulary, alone and inside words.
    changed = [c for n, c in enumerate(CHARACTERS) if n % 2 and c.isprintable() and not c.isspace()]
    pieces = dict.fromkeys([*wordpiece_toys.SPECIAL, "a", "##b", "##" + "B", *changed, *(f"##{c}" for c in changed)])
    tokenizer = WordPieceTokenizer(wordpiece_toys.to_bytes(pieces), config=WordPieceConfig(lower_case=lower_case))
    graph = make_text_graph(tokenizer, 64)
    for form in ("a{}B", "{}", "{0}b {0}"):
        assert_equal_ids(graph, tokenizer, [form.format(c) for c in CHARACTERS])


def test_faulty_utf8_is_dropped_as_replacement_characters_are() -> None:
    tokenizer, graph = rich(True)
    texts = [b"a\xffb", b"\xc3( done", b"end\xe2\x82"]
    expected = tokenizer.encode_batch([text.decode("utf-8", "replace") for text in texts])
    assert graph.tokenize(tf.constant(texts)).to_list() == expected == tokenizer.encode_batch(["ab", "( done", "end"])


def test_marked_texts() -> None:
    tokenizer, graph = rich(True)
    texts = [
        "我们[MASK]系统",
        "[MASK]",
        "",
        "[MASK][MASK]s",
        "no marker",
        "a[MASK]b [MASK] [MASK],c",
        " [mask] [MASK] ",
    ]
    encoder = MarkedTextEncoder(tokenizer)
    found = graph.tokenize_marked(tf.constant(texts)).to_list()
    assert found == [encoder.encode(text) for text in texts]
    assert [ids.count(tokenizer.mask_id) for ids in found] == [1, 1, 0, 2, 0, 3, 1]
    assert [tokenizer.id_to_piece(i) for i in found[0]] == ["我", "们", "[MASK]", "系", "统"]
    assert [tokenizer.id_to_piece(i) for i in found[3]] == ["[MASK]", "[MASK]", "s"]


def test_no_texts() -> None:
    _, graph = rich(True)
    none = tf.zeros([0], tf.string)
    encoded = graph.encode(graph.tokenize_marked(none), graph.tokenize(none))
    assert {tuple(value.shape) for value in encoded.values()} == {(0, 1)}


def test_other_tokenizers_are_refused() -> None:
    with pytest.raises(TypeError, match="no graph restates a str"):
        make_text_graph("tokenizer", 64)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> tuple[pathlib.Path, AlbertPretrainingModel]:
    """Model directory with a vocab.txt, and its model."""
    tokenizer = wordpiece_toys.tokenizer()
    made = AlbertPretrainingModel(tiny_config(tokenizer))
    spread_weights(made)
    path = tmp_path_factory.mktemp("wordpiece") / "model"
    save_model_directory(path, made, tokenizer)
    return path, made


def test_model_directories_are_exported(
    directory: tuple[pathlib.Path, AlbertPretrainingModel], tmp_path: pathlib.Path
) -> None:
    path, model = directory
    tokenizer = wordpiece_toys.tokenizer()
    assert (path / "vocab.txt").read_bytes() == tokenizer.vocabulary
    assert not (path / "spiece.model").exists()
    report = export_saved_model(path, tmp_path / "exported", top_k=7)
    signatures = tf.saved_model.load(report.text_folder).signatures
    texts = [*wordpiece_toys.SENTENCES, "", "l" * 201]
    outputs = signatures["serving_default"](text=tf.constant(texts))
    batch = parity.make_batch([tokenizer.encode_pair(tokenizer.encode(text), None, 70) for text in texts])
    for name in ENCODER_INPUTS:
        np.testing.assert_array_equal(outputs[name], batch[name], err_msg=name)
    expected = [parity.source_outputs(model, batch)]
    actual = {name: outputs[name].numpy() for name in ("sequence_output", "pooled_output")}
    parity.check(parity.agreement(expected, [actual], [batch]), parity.Bound(relative=1e-5), artefact="test")

    export_tflite(path, tmp_path / "model.tflite", quantization="float32")
    question = "使用 Debian [MASK]的[MASK]户"
    answers = [
        runner.fill_mask(question, top_k=3)
        for runner in (SavedModelRunner(report.text_folder), load_tflite_runner(tmp_path / "model.tflite", path))
    ]
    assert [answer.position for answer in answers[0]] == [4, 6]
    for one, other in zip(*answers, strict=True):
        assert one.position == other.position
        assert [c.piece for c in one.candidates] == [c.piece for c in other.candidates]
        assert all(tokenizer.id_to_piece(c.id) == c.piece for c in one.candidates)
        np.testing.assert_allclose(
            [c.probability for c in one.candidates], [c.probability for c in other.candidates], rtol=1e-4
        )
