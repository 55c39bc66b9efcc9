"""Characters in a graph as in Python: what ICU treats in another way is kept from it.

ICU composes, decomposes and lowers characters by another Unicode version than Python's `unicodedata`, and with a
Turkish locale makes "ı" of "I". So all characters are compared when the graph is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import tensorflow as tf

# Characters for private use, which no vocabulary holds: one stands for all that the vocabulary does not know, those
# from the second on for single characters while ICU is at work.
UNKNOWN_CHARACTER = "\U0010fffd"
_FIRST_STAND_IN = 0x100000
# Beyond plane 1 there are only ideographs, which nothing changes, but for this block of compatibility forms.
_COMPARED_CHARACTERS = (*range(0xD800), *range(0xE000, 0x20000), *range(0x2F800, 0x2FA20))
_COMPARED_TOGETHER = 256


class ExactNormalizer:
    """A normalisation of texts in ICU's operations, with Python's results: string [B] -> string [B].

    Args:
      in_graph: the normalisation in ICU's operations.
      differences: characters that it treats in another way than Python, each with Python's result.
      is_unknown: whether the vocabulary knows no word with this character, given Python's result for it. Such a
        character needs no care: a single one stands for all of them.
    """

    def __init__(
        self,
        in_graph: Callable[[tf.Tensor], tf.Tensor],
        differences: Iterable[tuple[str, str]],
        is_unknown: Callable[[str, str], bool],
    ) -> None:
        self._in_graph = in_graph
        differences = list(differences)
        self._protected = {c: normalized for c, normalized in differences if not is_unknown(c, normalized)}
        stand_ins = [chr(_FIRST_STAND_IN + number) for number in range(len(self._protected) + 1)]
        self._unknown = [c for c, _ in differences if c not in self._protected] + stand_ins

    def __call__(self, texts: tf.Tensor) -> tf.Tensor:
        texts = tf.strings.regex_replace(texts, class_of(self._unknown), UNKNOWN_CHARACTER)
        if not self._protected:
            return self._in_graph(texts)
        holds_one = tf.strings.regex_full_match(texts, f"(?s).*{class_of(self._protected)}.*")
        return tf.cond(
            tf.reduce_any(holds_one),  # hardly ever
            lambda: self._normalize_protected(texts),
            lambda: self._in_graph(texts),
        )

    def _normalize_protected(self, texts: tf.Tensor) -> tf.Tensor:
        """The normalisation with stand-ins for the characters that it would change in another way than Python."""
        stand_ins = [chr(_FIRST_STAND_IN + number) for number in range(len(self._protected))]
        for character, stand_in in zip(self._protected, stand_ins, strict=True):
            texts = tf.strings.regex_replace(texts, class_of([character]), stand_in)
        texts = self._in_graph(texts)
        for normalized, stand_in in zip(self._protected.values(), stand_ins, strict=True):
            texts = tf.strings.regex_replace(texts, class_of([stand_in]), normalized.replace("\\", r"\\"))
        return texts


def compare_characters(
    in_graph: Callable[[tf.Tensor], tf.Tensor], in_python: Callable[[str], str]
) -> list[tuple[str, str]]:
    """Characters that the graph treats in another way than Python, each with Python's result."""

    def compare(texts: list[str], keys: list[Any]) -> list[tuple[Any, str]]:
        found = in_graph(tf.constant(texts, tf.string)).numpy()
        expected = map(in_python, texts)
        return [(k, e) for k, e, f in zip(keys, expected, found, strict=True) if e.encode() != f]

    characters = [chr(code) for code in _COMPARED_CHARACTERS]
    # Many together first, which is faster; apart from each other, since a letter's neighbours can decide its form.
    starts = range(0, len(characters), _COMPARED_TOGETHER)
    groups = [characters[start : start + _COMPARED_TOGETHER] for start in starts]
    unlike = [group for group, _ in compare(["|".join(group) for group in groups], groups)]
    single = [character for group in unlike for character in group]
    return compare(single, single)


def to_utf8(texts: tf.Tensor) -> tf.Tensor:
    """Texts with U+FFFD in place of each faulty byte: string [B] -> string [B]."""
    return tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")


def lower(texts: tf.Tensor) -> tf.Tensor:
    """Texts in small letters: string [B] -> string [B]."""
    texts = tf.strings.lower(texts)  # ASCII alone first: ICU asks the locale what the small "I" is
    return tf.strings.lower(texts, encoding="utf-8")


def class_of(characters: Iterable[str]) -> str:
    """RE2 character class of `characters`."""
    codes = np.array(sorted(map(ord, characters)))
    runs = np.split(codes, np.flatnonzero(np.diff(codes) != 1) + 1)
    return "[" + "".join(f"\\x{{{run[0]:x}}}-\\x{{{run[-1]:x}}}" for run in runs) + "]"
