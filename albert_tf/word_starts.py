"""Where words start in text that SentencePiece cut: by script, or by the original's rule for English.

Masking hides whole words, so it has to know which pieces go on with the word before them. A piece with a word boundary
mark starts one. Of the others, `is_word_start` lets letters, marks and digits go on in every script that puts spaces
between words; `is_word_start_as_original` does so for English letters only.
"""

from __future__ import annotations

import unicodedata

from albert_tf.scripts import is_written_without_spaces
from albert_tf.tokenizer_base import CLS_PIECE, MASK_PIECE, SEP_PIECE

WORD_BOUNDARY = "\u2581"  # SentencePiece writes a space so

# What the original counts as part of an English word.
_PUNCTUATION = frozenset('!"#$%&()*+,-./:;?@[\\]^_`{|}~')
_WORD_CHARACTERS = _PUNCTUATION | frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_ZERO_WIDTH_SPACE = "\u200b"  # stands between words


def is_word_start_as_original(piece: str) -> bool:
    """Whether a word starts at this piece, by the original's rule (`token_boundary` in its records).

    A piece goes on with a word if it has no word boundary mark and holds nothing but English letters and ASCII
    punctuation; a single punctuation mark stands for itself. Digits and other scripts always start a word.
    """
    if piece in (CLS_PIECE, SEP_PIECE, MASK_PIECE) or piece.startswith((WORD_BOUNDARY, "<")):
        return True
    return piece in _PUNCTUATION or not _WORD_CHARACTERS.issuperset(piece)


def is_word_start(piece: str) -> bool:
    """Whether a word starts at this piece, whatever its script.

    For pieces of English letters and ASCII punctuation the same as the original's. Beyond them a piece without a word
    boundary mark goes on with its word if it holds letters, combining marks and digits, in scripts that put spaces
    between words. Digits go on because a number begins with a mark as a word does: "▁19" and "90" are one.

    In scripts written without spaces (`albert_tf.scripts`) each piece starts a word, but for one that begins with a
    combining mark, which belongs to the letter before it (UAX #29, rule WB4). Other punctuation and symbols stand for
    themselves, as they do in the original.
    """
    if piece in (CLS_PIECE, SEP_PIECE, MASK_PIECE) or piece.startswith((WORD_BOUNDARY, "<")):
        return True
    if not is_word_start_as_original(piece) or begins_with_mark(piece):
        return False
    if any(map(is_written_without_spaces, piece)):
        return True
    return piece in _PUNCTUATION or not all(c in _PUNCTUATION or _is_in_word(c) for c in piece)


def begins_with_mark(piece: str) -> bool:
    """Whether the piece begins with a combining mark, which no word starts with."""
    return _is_mark(piece[0])


def ends_without_space(piece: str) -> bool:
    """Whether the piece ends in a script without spaces, so that the one behind it starts a word unmarked.

    As in "\u4f7f\u7528Debian": no boundary mark stands before the foreign word.
    """
    last = next((c for c in reversed(piece) if not _is_mark(c)), None)
    return last is not None and is_written_without_spaces(last)


def _is_mark(character: str) -> bool:
    return unicodedata.category(character)[0] == "M"


def _is_in_word(character: str) -> bool:
    """Whether the character is part of a word: a letter, mark or number, or invisible inside one, as joiners are."""
    category = unicodedata.category(character)
    return category[0] in "LMN" or (category == "Cf" and character != _ZERO_WIDTH_SPACE)
