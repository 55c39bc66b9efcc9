"""ALBERT's preparation of text as a normaliser inside the SentencePiece file, so that any client gives the same ids.

`AlbertTokenizer` prepares text in Python (white space, accents, case), and SentencePiece then applies the rules of the
model's own normaliser. Here both are joined into one table of rules, in the form that SentencePiece models hold. A
client in C++, Java or Swift, or the operation in a TensorFlow graph, then needs nothing but the file.

What a table of rules cannot say, and so differs from `AlbertTokenizer`:

* the digit-comma rule, which acts on pieces, after segmentation;
* the Greek capital sigma at the end of a word, which Python lowers to the final form and the table to the other;
* an accent between two letters that compose, as those of Hangul do: Python drops it first, and then they compose.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

import sentencepiece

from albert_tf.tokenizer import TokenizerConfig, normalize_text

_NAME = b"albert"
# Field numbers of sentencepiece_model.proto, and the two kinds of fields it has there besides fixed 32 bits.
_NORMALIZER_SPEC = 3
_SPEC_NAME, _SPEC_CHARSMAP = 1, 2
_VARINT, _BYTES, _FIXED_32 = 0, 2, 5


def bake_normalizer(model_proto: bytes, config: TokenizerConfig) -> bytes:
    """The SentencePiece model with the preparation of `config` in front of its own normaliser's rules.

    Pieces, scores and ids stay. To `AlbertTokenizer` it is the same model: what is prepared already stays as it is.

    Args:
      model_proto: content of a SentencePiece model.
      config: how text is prepared. Its digit-comma rule stays outside.

    Raises:
      ValueError: if the bytes are no SentencePiece model.
    """
    try:
        normalizer = sentencepiece.SentencePieceNormalizer(
            model_proto=model_proto, escape_whitespaces=False, remove_extra_whitespaces=False, add_dummy_prefix=False
        )
    except (RuntimeError, OSError) as error:
        raise ValueError(f"not a SentencePiece model, or a damaged one ({len(model_proto)} bytes)") from error
    sentencepiece.set_min_log_level(2)  # it tells of every table that it compiles
    compiled = sentencepiece.SentencePieceNormalizer(norm_map=sorted(joined_rules(normalizer, config).items()))
    charsmap = {number: value for number, _, value in _fields(compiled.serialized_normalizer_spec())}[_SPEC_CHARSMAP]
    content = bytearray()
    for number, kind, value in _fields(model_proto):
        if number == _NORMALIZER_SPEC:
            kept = [field for field in _fields(value) if field[0] not in (_SPEC_NAME, _SPEC_CHARSMAP)]
            spec = [(_SPEC_NAME, _BYTES, _NAME), (_SPEC_CHARSMAP, _BYTES, charsmap), *kept]
            value = b"".join(_serialize(*field) for field in spec)
        content += _serialize(number, kind, value)
    return bytes(content)


def joined_rules(normalizer: Any, config: TokenizerConfig) -> dict[str, str]:
    """What `normalize_text` and then `normalizer` make of characters and of sequences, by their text.

    Only what changes is in it. At each place of a text the longest entry that fits is to be used.

    Args:
      normalizer: a `SentencePieceNormalizer` that neither adds nor removes white space.
      config: of `normalize_text`.
    """
    own = normalizer.Decompile()
    prepared = _prepared_characters(config, [key for key, _ in own if len(key) == 1])
    single = dict(zip(prepared, normalizer.normalize(list(prepared.values())), strict=True))
    # A rule for a sequence, such as the letters of a Hangul syllable, holds for everything that is prepared to it.
    sources: dict[str, list[str]] = {}
    for character, text in prepared.items():
        sources.setdefault(text, []).append(character)
    targets = {
        sequence: target
        for key, target in own
        if len(key) > 1 and "".join(prepared.get(character, character) for character in key) == key
        for sequence in _sequences(key, sources)
    }
    rules = {character: target for character, target in single.items() if target != character}
    rules |= {
        sequence: target
        for sequence, target in targets.items()
        if target != "".join(single.get(character, character) for character in sequence)
    }
    return rules


def _prepared_characters(config: TokenizerConfig, more: list[str]) -> dict[str, str]:
    """What `normalize_text` makes of every assigned character, and of `more`, inside a text.

    SentencePiece may know characters that this Python's Unicode tables do not know yet: these are `more`.
    """
    characters = (chr(code) for code in range(sys.maxunicode + 1))
    assigned = [character for character in characters if unicodedata.category(character) not in ("Cn", "Co", "Cs")]
    assigned += more
    # The marks keep the spaces that a character stands for or gives.
    return {character: normalize_text(f"|{character}|", config)[1:-1] for character in assigned}


def _sequences(text: str, sources: Mapping[str, list[str]]) -> Iterator[str]:
    """Every sequence of characters whose prepared texts, joined, are `text`."""
    if not text:
        yield ""
    for size in range(1, len(text) + 1):
        for character in sources.get(text[:size], ()):
            for rest in _sequences(text[size:], sources):
                yield character + rest


def _fields(message: bytes) -> Iterator[tuple[int, int, Any]]:
    """(number, kind, value) of each field of a protocol buffer: bytes, or an int for varints."""
    position = 0
    while position < len(message):
        key, position = _read_varint(message, position)
        kind = key & 7
        if kind == _VARINT:
            value: Any
            value, position = _read_varint(message, position)
        else:
            size = 4
            if kind == _BYTES:
                size, position = _read_varint(message, position)
            value = message[position : position + size]
            position += size
        yield key >> 3, kind, value


def _read_varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def _varint(value: int) -> bytes:
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def _serialize(number: int, kind: int, value: Any) -> bytes:
    head = _varint(number << 3 | kind)
    if kind == _VARINT:
        return head + _varint(value)
    return head + (_varint(len(value)) if kind == _BYTES else b"") + value
