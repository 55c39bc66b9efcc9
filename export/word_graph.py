"""Words of a text between white space, with their places, in a graph: what `str.split` and `re` do in Python."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from export.exact_text import to_utf8
from export.token_graph import rows, spaces, sums_before


class Words(NamedTuple):
    """Words of texts, and the characters that they are made of.

    Attributes:
      texts: string [B], the texts in UTF-8.
      words: string [B, (n)].
      starts: int32 [words], where each begins, in characters (Unicode code points) of its text.
      ends: int32 [words], where it ends.
      characters: int32 [B, (m)], code points of the texts, white space included.
      first: int32 [words], the first character of each word among all characters of the batch.
      behind: int32 [words], the character behind its last one, counted likewise.
    """

    texts: tf.Tensor
    words: tf.RaggedTensor
    starts: tf.Tensor
    ends: tf.Tensor
    characters: tf.RaggedTensor
    first: tf.Tensor
    behind: tf.Tensor


def split_words(texts: tf.Tensor) -> Words:
    """Words of texts, string [B]: what stands between white space as Python knows it."""
    texts = to_utf8(texts)
    characters = tf.strings.unicode_decode(texts, "UTF-8").with_row_splits_dtype(tf.int64)
    codes = characters.flat_values  # [m]
    count = tf.size(codes, tf.int64)
    white = tf.constant(sorted(map(ord, spaces())), tf.int32)
    place = tf.minimum(tf.searchsorted(white, codes), tf.size(white) - 1)
    is_letter = tf.gather(white, place) != codes  # of a word
    text_of = characters.value_rowids()  # [m]
    # A word begins where no letter of the same text stands before.
    is_text_start = tf.concat([[True], text_of[1:] != text_of[:-1]], axis=0)[:count]
    letter_before = tf.concat([[False], is_letter[:-1]], axis=0)[:count] & ~is_text_start
    first = tf.where(is_letter & ~letter_before)[:, 0]  # int64 [words]
    letters_before = sums_before(tf.cast(is_letter, tf.int64))  # [m + 1]
    letters = tf.boolean_mask(codes, is_letter)
    splits = tf.concat([tf.gather(letters_before, first), letters_before[-1:]], axis=0)
    lengths = splits[1:] - splits[:-1]
    words = tf.strings.unicode_encode(rows(letters, splits), "UTF-8")
    words_before = sums_before(tf.cast(is_letter & ~letter_before, tf.int64))
    row_starts = tf.gather(characters.row_starts(), tf.gather(text_of, first))
    starts = tf.cast(first - row_starts, tf.int32)
    return Words(
        texts=texts,
        words=rows(words, tf.gather(words_before, characters.row_splits)),
        starts=starts,
        ends=starts + tf.cast(lengths, tf.int32),
        characters=characters,
        first=tf.cast(first, tf.int32),
        behind=tf.cast(first + lengths, tf.int32),
    )
