"""The tokenizer in a graph gives the ids of the tokenizer, for odd texts and for every character."""

from __future__ import annotations

import itertools
import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.marked_text import MarkedTextEncoder
from albert_tf.tokenizer import AlbertTokenizer, TokenizerConfig
from albert_tf.tokenizer_base import Tokenizer
from export.text_graph import make_text_graph
from export.token_graph import TextGraph
from tests.export.texts import ODD_TEXTS

SETTINGS = {
    "english": TokenizerConfig(),
    "cased": TokenizerConfig(lower_case=False),
    "accents": TokenizerConfig(strip_accents=False),
    "untouched": TokenizerConfig(lower_case=False, strip_accents=False, split_digit_comma=False),
}


def assert_equal_ids(graph: TextGraph, tokenizer: Tokenizer, texts: list[str]) -> None:
    found = graph.tokenize(tf.constant(texts)).to_list()
    expected = tokenizer.encode_batch(texts)
    assert [(t, e, f) for t, e, f in zip(texts, expected, found, strict=True) if e != f] == []


@pytest.mark.parametrize("config", SETTINGS.values(), ids=SETTINGS)
def test_odd_texts(tokenizer: AlbertTokenizer, config: TokenizerConfig) -> None:
    tokenizer = AlbertTokenizer(tokenizer.model_proto, config=config)
    assert bool(tokenizer.digit_comma_table()) == config.split_digit_comma
    assert_equal_ids(make_text_graph(tokenizer, 64), tokenizer, list(ODD_TEXTS))


def test_golden_texts(reference_data: pathlib.Path) -> None:
    tokenizer = AlbertTokenizer((reference_data / "data" / "albert_en_30k.model").read_bytes())
    golden = json.loads((reference_data / "golden" / "features" / "tokenization_en.json").read_text(encoding="utf-8"))
    found = make_text_graph(tokenizer, 64).tokenize(tf.constant([entry["text"] for entry in golden])).to_list()
    assert len(golden) == 272
    assert found == [entry["ids"] for entry in golden]


CHARACTERS = [chr(code) for code in itertools.chain(range(0xD800), range(0xE000, 0x20000), range(0x2F800, 0x2FA20))]


@pytest.mark.slow
def test_every_character_with_the_published_vocabulary(reference_data: pathlib.Path) -> None:
    tokenizer = AlbertTokenizer((reference_data / "data" / "albert_en_30k.model").read_bytes())
    assert_equal_ids(make_text_graph(tokenizer, 64), tokenizer, [f"a{character}B" for character in CHARACTERS])


@pytest.mark.slow
def test_every_character_with_a_new_vocabulary(tokenizer: AlbertTokenizer) -> None:
    # Its own normaliser knows characters that Python's Unicode version may not.
    assert_equal_ids(make_text_graph(tokenizer, 64), tokenizer, [f"a{character}B" for character in CHARACTERS])


def test_faulty_utf8_is_read_as_replacement_characters(tokenizer: AlbertTokenizer) -> None:
    texts = [b"a\xffb", b"\xc3( done", b"end\xe2\x82"]
    expected = tokenizer.encode_batch([text.decode("utf-8", "replace") for text in texts])
    assert make_text_graph(tokenizer, 64).tokenize(tf.constant(texts)).to_list() == expected


def test_marked_texts(tokenizer: AlbertTokenizer) -> None:
    texts = [
        "the [MASK] is a [MASK].",
        "[MASK]",
        "",
        "[MASK][MASK]s",
        "no marker",
        "a[MASK]b [MASK] [MASK],c",
        "[MASK]\u00a0object",
        '[mask] [MASK]ing, "[MASK]"',
        " [MASK] ",
    ]
    encoder = MarkedTextEncoder(tokenizer)
    found = make_text_graph(tokenizer, 64).tokenize_marked(tf.constant(texts)).to_list()
    assert found == [encoder.encode(text) for text in texts]
    assert [ids.count(tokenizer.mask_id) for ids in found] == [2, 1, 0, 2, 0, 3, 1, 2, 1]
    assert found[4] == tokenizer.encode("no marker")
    # Without a space there is no word boundary behind a mask.
    assert [tokenizer.id_to_piece(i) for i in found[3]] == ["[MASK]", "[MASK]", "s"]
    assert tokenizer.id_to_piece(found[0][-1]) == "."


def test_encode_cuts_pairs_as_the_tokenizer_does(tokenizer: AlbertTokenizer) -> None:
    longest = 23
    graph = make_text_graph(tokenizer, longest)
    lengths = [(a, b) for a in (0, 1, 9, 10, 11, 20, 21, 40) for b in (0, 1, 8, 10, 20, 30)]
    word_id = tokenizer.encode("the")[0]
    ids = [tf.ragged.constant([[word_id] * pair[side] for pair in lengths], tf.int32) for side in (0, 1)]
    found = graph.encode(*(rows.with_row_splits_dtype(tf.int64) for rows in ids))
    for row, (a, b) in enumerate(lengths):
        expected = tokenizer.encode_pair([word_id] * a, [word_id] * b or None, longest)
        for name, values in zip(("input_ids", "input_mask", "segment_ids"), expected, strict=True):
            np.testing.assert_array_equal(found[name][row], values, err_msg=f"{name} of {a} and {b} tokens")


def test_no_texts(tokenizer: AlbertTokenizer) -> None:
    graph = make_text_graph(tokenizer, 64)
    none = tf.zeros([0], tf.string)
    encoded = graph.encode(graph.tokenize_marked(none), graph.tokenize(none))
    assert {name: tuple(value.shape) for name, value in encoded.items()} == {
        "input_ids": (0, 1),
        "input_mask": (0, 1),
        "segment_ids": (0, 1),
    }
