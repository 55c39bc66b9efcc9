"""`tokenizer.json`: an `AlbertTokenizer` for the tokenizers library, without which transformers' tokenizers do not run.

transformers would make one out of `spiece.model` by itself, but not in every environment (its reader needs a protobuf
as new as the one that sentencepiece was made with), and would give other ids: it keeps pieces such as "2010," whole,
takes two apostrophes for a quotation mark, and drops nonspacing marks where the original drops combining characters.
What stands here gives ours. Only where a Greek capital sigma ends a word may they differ: the library knows no other
small one there.

Form of the file: huggingface/tokenizers, tokenizers/src/tokenizer/serialization.rs; conversion out of SentencePiece:
huggingface/transformers, convert_slow_tokenizer.py, AlbertConverter. Fields of a model file: google/sentencepiece,
src/sentencepiece_model.proto.
"""

from __future__ import annotations

import base64
import functools
import itertools
import json
import sys
import unicodedata
from collections.abc import Iterator
from typing import Any

import sentencepiece

from albert_tf.tokenizer import AlbertTokenizer
from albert_tf.tokenizer_base import CLS_PIECE, SEP_PIECE
from albert_tf.wire_format import fields, part
from albert_tf.word_starts import WORD_BOUNDARY

# Field numbers of sentencepiece_model.proto.
_TRAINER_SPEC, _NORMALIZER_SPEC, _MODEL_TYPE, _SPEC_CHARSMAP = 2, 3, 3, 2
_UNIGRAM = 1
# Worse than every other way to cut a text, so that only the parts are taken.
_PENALTY = 100.0


def fast_tokenizer(tokenizer: AlbertTokenizer) -> bytes:
    """Content of `tokenizer.json`.

    Raises:
      ValueError: if the library cannot cut text as the tokenizer does.
    """
    proto = tokenizer.model_proto
    kind = dict(fields(part(proto, _TRAINER_SPEC))).get(_MODEL_TYPE, _UNIGRAM)
    if kind != _UNIGRAM:
        raise ValueError("transformers' ALBERT tokenizer takes a SentencePiece model of the kind unigram only")
    charsmap = part(part(proto, _NORMALIZER_SPEC), _SPEC_CHARSMAP)
    values = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_added(tokenizer, number) for number in _named_ids(tokenizer)],
        "normalizer": {"type": "Sequence", "normalizers": list(_normalizers(tokenizer, charsmap))},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, _metaspace()]},
        "post_processor": _frame(tokenizer),
        "decoder": _metaspace(),
        "model": {
            "type": "Unigram",
            "unk_id": tokenizer.unk_id,
            "vocab": list(_scores(tokenizer)),
            "byte_fallback": False,
        },
    }
    return (json.dumps(values, ensure_ascii=False) + "\n").encode()


def _named_ids(tokenizer: AlbertTokenizer) -> list[int]:
    return sorted((tokenizer.pad_id, tokenizer.unk_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id))


def _added(tokenizer: AlbertTokenizer, number: int) -> dict[str, Any]:
    """A special token, which is looked for in a text before it is cut."""
    edges = {"single_word": False, "lstrip": number == tokenizer.mask_id, "rstrip": False}
    return {"id": number, "content": tokenizer.id_to_piece(number), **edges, "normalized": False, "special": True}


def _normalizers(tokenizer: AlbertTokenizer, charsmap: bytes) -> Iterator[dict[str, Any]]:
    if tokenizer.config.strip_accents:
        yield {"type": "NFKD"}
        yield {"type": "Replace", "pattern": {"Regex": _combining_characters()}, "content": ""}
    if tokenizer.config.lower_case:
        yield {"type": "Lowercase"}
    if charsmap:
        yield {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode()}
    yield {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}


def _metaspace() -> dict[str, Any]:
    return {"type": "Metaspace", "replacement": WORD_BOUNDARY, "prepend_scheme": "always", "split": True}


def _frame(tokenizer: AlbertTokenizer) -> dict[str, Any]:
    """How one text or two become a sequence."""

    def special(piece: str, segment: int) -> dict[str, Any]:
        return {"SpecialToken": {"id": piece, "type_id": segment}}

    def text(name: str, segment: int) -> dict[str, Any]:
        return {"Sequence": {"id": name, "type_id": segment}}

    single = [special(CLS_PIECE, 0), text("A", 0), special(SEP_PIECE, 0)]
    ids = {CLS_PIECE: tokenizer.cls_id, SEP_PIECE: tokenizer.sep_id}
    return {
        "type": "TemplateProcessing",
        "single": single,
        "pair": [*single, text("B", 1), special(SEP_PIECE, 1)],
        "special_tokens": {piece: {"id": piece, "ids": [number], "tokens": [piece]} for piece, number in ids.items()},
    }


def _scores(tokenizer: AlbertTokenizer) -> Iterator[tuple[str, float]]:
    """Each piece with its score, the logarithm of its probability."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model_proto)
    cut = tokenizer.digit_comma_table()
    for number in range(tokenizer.vocab_size):
        score = processor.get_score(number)
        yield tokenizer.id_to_piece(number), score - _PENALTY if number in cut else score


@functools.cache
def _combining_characters() -> str:
    """Regular expression of one or more of them."""
    numbers = [number for number in range(sys.maxunicode + 1) if unicodedata.combining(chr(number))]
    ranges = []
    for _, run in itertools.groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        members = [number for _, number in run]
        ranges.append(f"\\x{{{members[0]:X}}}-\\x{{{members[-1]:X}}}")
    return f"[{''.join(ranges)}]+"
