"""Text to words as BERT's tokenizer makes them: what is dropped, where is split, how letters are changed."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from albert_tf.scripts import is_ideograph


def is_dropped(character: str) -> bool:
    """Whether the character is dropped from the text: NUL, U+FFFD and control characters, white space aside."""
    return character in "\0\ufffd" or (unicodedata.category(character) in ("Cc", "Cf") and character not in "\t\n\r")


def is_space(character: str) -> bool:
    """Whether words are split here: what `str.split` takes for white space, unless it is dropped as a control."""
    return character.isspace() and not is_dropped(character)


def is_punctuation(character: str) -> bool:
    """Whether the character is a word of its own: Unicode punctuation and every ASCII sign but letters and digits."""
    if character.isascii():
        return 33 <= ord(character) < 127 and not character.isalnum()
    return unicodedata.category(character)[0] == "P"


def normalize_word(text: str, lower_case: bool) -> str:
    """A word, or a text of words, composed; with `lower_case` in small letters without accents."""
    text = unicodedata.normalize("NFC", text)
    if not lower_case:
        return text
    text = unicodedata.normalize("NFD", text.lower())
    if text.isascii():
        return text
    return "".join(c for c in text if unicodedata.category(c) != "Mn")


def split_punctuation(word: str) -> Iterator[str]:
    """Parts of a word between punctuation, and each punctuation mark."""
    begin = 0
    for at, character in enumerate(word):
        if is_punctuation(character):
            if begin < at:
                yield word[begin:at]
            yield character
            begin = at + 1
    if begin < len(word):
        yield word[begin:]


class _CharacterTable(dict[int, "str | None"]):
    """Table for `str.translate`, filled as characters come up.

    Args:
      spaced: whether ideographs get spaces round them.
    """

    def __init__(self, *, spaced: bool) -> None:
        super().__init__()
        self._spaced = spaced

    def __missing__(self, code: int) -> str | None:
        character = chr(code)
        value: str | None = character
        if is_dropped(character):
            value = None
        elif self._spaced and is_ideograph(character):
            value = f" {character} "
        self[code] = value
        return value


# For `str.translate`: without the characters that are dropped, and with spaces round ideographs besides.
CLEANED, SPACED = _CharacterTable(spaced=False), _CharacterTable(spaced=True)
