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
from albert_tf.wire_format import BYTES, field, part, typed_fields

_NAME = b"albert"
# Field numbers of sentencepiece_model.proto.
_NORMALIZER_SPEC = 3
_SPEC_NAME, _SPEC_CHARSMAP = 1, 2


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
    charsmap = part(compiled.serialized_normalizer_spec(), _SPEC_CHARSMAP)
    content = bytearray()
    for number, kind, value in typed_fields(model_proto):
        if number == _NORMALIZER_SPEC and isinstance(value, bytes):
            kept = [one for one in typed_fields(value) if one[0] not in (_SPEC_NAME, _SPEC_CHARSMAP)]
            spec = [(_SPEC_NAME, BYTES, _NAME), (_SPEC_CHARSMAP, BYTES, charsmap), *kept]
            value = b"".join(field(*one) for one in spec)
        content += field(number, kind, value)
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
