"""Where pieces stand in a text: beside the original's places, and for odd texts in every tokenizer."""

from __future__ import annotations

import json
import pathlib

import pytest

from albert_tf.inference.piece_places import place_pieces
from albert_tf.tokenizer import AlbertTokenizer
from albert_tf.tokenizer_base import Tokenizer
from tests import wordpiece_toys
from tests.export.texts import ODD_TEXTS
from tests.inference.conftest import small_tokenizer

TOKENIZERS = {"sentencepiece": small_tokenizer, "wordpiece": wordpiece_toys.tokenizer}
TEXTS = (
    *ODD_TEXTS,
    *wordpiece_toys.SENTENCES,
    "  The  café,\tin 2010,\u00a0was ½ full\n",
    "İİ and ﬁne ﬁﬁ; x\u0301\u0302y",
)


@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("text", TEXTS)
def test_places_are_in_order_and_the_ids_are_the_tokenizers(name: str, text: str) -> None:
    tokenizer: Tokenizer = TOKENIZERS[name]()
    placed = place_pieces(text, tokenizer)
    assert placed.ids == tokenizer.encode(text)
    assert placed.places is not None
    assert len(placed.places) == len(placed.ids)
    before = 0
    for begin, end in placed.places:
        assert before <= begin <= end <= len(text)
        assert text[begin:end] == text[begin:end].strip()
        before = begin


def test_pieces_of_a_word_are_placed_by_its_characters(tokenizer: AlbertTokenizer) -> None:
    text = "The CAFÉS (returned)"
    placed = place_pieces(text, tokenizer)
    assert placed.places is not None
    shown = [
        (tokenizer.id_to_piece(i).replace("▁", ""), text[begin:end])
        for i, (begin, end) in zip(placed.ids, placed.places, strict=True)
    ]
    assert all(tokenizer.normalize(part) == piece for piece, part in shown)
    assert len(shown) > 5


def test_places_are_the_originals(reference_data: pathlib.Path) -> None:
    folder = reference_data / "golden" / "features"
    tokenizer = AlbertTokenizer((reference_data / "data" / "albert_en_30k.model").read_bytes())
    sample = json.loads((folder / "squad_v2_sample.json").read_text(encoding="utf-8"))
    golden = json.loads((folder / "squad_v2_features.json").read_text(encoding="utf-8"))["features"]
    paragraphs = [p for entry in sample["data"] for p in entry["paragraphs"]]
    contexts = [paragraph["context"] for paragraph in paragraphs for _ in paragraph["qas"]]
    firsts = [feature for feature in golden if feature["doc_span_index"] == 0]
    compared = 0
    for context, feature in zip(contexts, firsts, strict=True):
        places = place_pieces(context, tokenizer).places
        assert places is not None
        starts, ends = feature["tok_start_to_orig_index"], feature["tok_end_to_orig_index"]
        for (begin, end), first, last in zip(places, starts, ends, strict=False):  # theirs are of the first window
            theirs = context[first : last + 1]  # with the space before a word
            assert context[begin:end] == theirs.strip()
            compared += 1
    assert compared > 500
