"""Where a text's pieces stand in it: from a piece back to the characters it was made from.

A tokenizer changes letters before it cuts: accents go, capitals become small, one character may become three. Pieces
are therefore placed word by word, between white space; inside a word by the characters that each of its characters
becomes, where the lengths of its pieces say so, else all of them at the whole word.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

from albert_tf.tokenizer import WORD_BOUNDARY, AlbertTokenizer
from albert_tf.tokenizer_base import Tokenizer
from albert_tf.wordpiece import CONTINUATION

_WORD = re.compile(r"\S+")


@dataclasses.dataclass(frozen=True)
class PlacedPieces:
    """Ids of a text, and the characters `text[begin:end]` of each; `places` is None where they cannot be told."""

    ids: list[int]
    places: list[tuple[int, int]] | None


def place_pieces(text: str, tokenizer: Tokenizer) -> PlacedPieces:
    """Ids of a text, the same as `Tokenizer.encode` gives, with their places.

    Raises:
      ValueError: for text that is not valid Unicode.
    """
    ids = tokenizer.encode(text)
    words = [(match.start(), match.group()) for match in _WORD.finditer(text)]
    of_words = tokenizer.encode_batch([word for _, word in words])
    if [piece for pieces in of_words for piece in pieces] != ids:  # pieces that hold white space
        return PlacedPieces(ids, None)
    places: list[tuple[int, int]] = []
    for (begin, word), pieces in zip(words, of_words, strict=True):
        places += ((begin + first, begin + last) for first, last in _places_in_word(word, pieces, tokenizer))
    return PlacedPieces(ids, places)


def _places_in_word(word: str, ids: list[int], tokenizer: Tokenizer) -> Iterator[tuple[int, int]]:
    """Characters of each piece of a word."""
    lengths = _piece_lengths(word, ids, tokenizer)
    origins = [number for number, character in enumerate(word) for _ in _without_spaces(tokenizer.normalize(character))]
    if len(ids) == 1 or sum(lengths) != len(origins):
        yield from ((0, len(word)) for _ in ids)
        return
    at = 0
    for length in lengths:
        if length:
            yield origins[at], origins[at + length - 1] + 1
        else:  # a bare boundary mark
            place = origins[at] if at < len(origins) else len(word)
            yield place, place
        at += length


def _piece_lengths(word: str, ids: list[int], tokenizer: Tokenizer) -> list[int]:
    """Characters of each piece after normalisation; those of SentencePiece's unknown stretches too."""
    if isinstance(tokenizer, AlbertTokenizer):
        shown = [piece.replace(WORD_BOUNDARY, "") for piece in tokenizer.tokenize(word)]
    else:
        shown = [tokenizer.id_to_piece(i).removeprefix(CONTINUATION) for i in ids]
    return [len(piece) for piece in shown] if len(shown) == len(ids) else []


def _without_spaces(text: str) -> str:
    return "".join(text.split())
