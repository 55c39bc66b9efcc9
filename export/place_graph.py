"""Where a text's pieces stand in it, in a graph: `albert_tf.inference.piece_places` for whole batches."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

import tensorflow as tf
import tensorflow_text as tf_text

from albert_tf.tokenizer import WORD_BOUNDARY, AlbertTokenizer
from albert_tf.tokenizer_base import Tokenizer
from albert_tf.wordpiece import CONTINUATION
from export.sentencepiece_graph import SentencePieceGraph
from export.token_graph import TextGraph, rows, sums_before
from export.word_graph import Words, split_words

# Length of a piece that is not known: with it no sum of lengths is that of a word.
_UNKNOWN_LENGTH = 1 << 30
# Categories of characters that nothing changes: not assigned, for private use, surrogates.
_UNTOUCHED = ("Cn", "Co", "Cs")


class Placed(NamedTuple):
    """Tokens of texts, and the characters that each was made from.

    Attributes:
      ids: int32 [B, (n)], as the tokenizer gives them.
      texts: string [B], the texts in UTF-8.
      is_placed: bool [B], whether the places of a text's tokens can be told.
      first: int32 [B], where the places of each text begin in those of all.
      begins: int32 [n + 1], each token's first character, counted in its text; -1 at the end.
      ends: int32 [n + 1], the character behind its last one; -1 at the end.
    """

    ids: tf.RaggedTensor
    texts: tf.Tensor
    is_placed: tf.Tensor
    first: tf.Tensor
    begins: tf.Tensor
    ends: tf.Tensor


class PlaceGraph(tf.Module):
    """Places of pieces, word by word, and inside a word by the characters that each of its characters becomes.

    Args:
      tokenizer: the tokenizer.
      text: the same as a graph.
    """

    def __init__(self, tokenizer: Tokenizer, text: TextGraph) -> None:
        super().__init__(name="place_graph")
        self._text = text
        is_sentencepiece = isinstance(tokenizer, AlbertTokenizer)
        pieces = [tokenizer.id_to_piece(i) for i in range(tokenizer.vocab_size)]
        bare = [p.replace(WORD_BOUNDARY, "") if is_sentencepiece else p.removeprefix(CONTINUATION) for p in pieces]
        lengths = [len(piece) for piece in bare]
        self._shown = None
        if isinstance(tokenizer, AlbertTokenizer):
            # Of pieces as text: an unknown stretch is as long as it stands there.
            self._shown = tf_text.SentencepieceTokenizer(tokenizer.model_proto, out_type=tf.string)
            lengths[tokenizer.unk_id] = _UNKNOWN_LENGTH
        self._piece_lengths = tf.constant(lengths, tf.int64)
        changed = sorted(_changed_lengths(tokenizer))
        self._changed = tf.constant([code for code, _ in changed], tf.int32)
        self._changed_lengths = tf.constant([length for _, length in changed], tf.int64)

    def place(self, texts: tf.Tensor) -> Placed:
        """Tokens of texts, string [B], with their places."""
        words = split_words(texts)
        whole = self._text.tokenize(words.texts)
        ids, lengths = self._measure(words.words.flat_values)
        of_texts = rows(ids.flat_values, tf.gather(ids.row_splits, words.words.row_splits))
        begins, ends = self._places(words, ids, lengths)
        nowhere = tf.constant([-1])
        return Placed(
            ids=whole,
            texts=words.texts,
            is_placed=_are_equal(whole, of_texts),  # else pieces hold white space
            first=tf.cast(of_texts.row_starts(), tf.int32),
            begins=tf.concat([begins, nowhere], axis=0),
            ends=tf.concat([ends, nowhere], axis=0),
        )

    def _measure(self, words: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """Ids of words, int32 [words, (n)], and the characters of each piece after normalisation, int64 [n]."""
        if not isinstance(self._text, SentencePieceGraph) or self._shown is None:
            ids = self._text.tokenize(words)
            return ids, tf.gather(self._piece_lengths, ids.flat_values)
        normalized = self._text.normalize(words)
        tokens = self._text.segment(normalized)
        shown = self._shown.tokenize(normalized).with_row_splits_dtype(tf.int64)
        bare = tf.strings.regex_replace(shown.flat_values, WORD_BOUNDARY, "")
        # One more, so that there is one where there are no pieces.
        lengths = tf.concat([tf.cast(tf.strings.length(bare, unit="UTF8_CHAR"), tf.int64), [0]], axis=0)
        of_word = tokens.value_rowids()
        place = tf.range(tf.size(tokens.flat_values, tf.int64)) - tf.gather(tokens.row_starts(), of_word)
        place = tf.minimum(tf.gather(shown.row_starts(), of_word) + place, tf.size(bare, tf.int64))
        is_alike = tf.gather(tokens.row_lengths() == shown.row_lengths(), of_word)
        is_unknown = tokens.flat_values == self._text.unk_id
        lengths = tf.where(
            is_unknown & is_alike, tf.gather(lengths, place), tf.gather(self._piece_lengths, tokens.flat_values)
        )
        ids, origins = self._text.split_digit_comma(tokens)
        is_whole = ids.flat_values == tf.gather(tokens.flat_values, origins)
        return ids, tf.where(is_whole, tf.gather(lengths, origins), tf.gather(self._piece_lengths, ids.flat_values))

    def _places(self, words: Words, ids: tf.RaggedTensor, lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """First character of each piece, and the one behind its last, int32 [n], counted in their texts."""
        codes = words.characters.flat_values
        row = tf.minimum(tf.searchsorted(self._changed, codes), tf.size(self._changed) - 1)
        is_changed = tf.gather(self._changed, row) == codes
        becomes = tf.where(is_changed, tf.gather(self._changed_lengths, row), 1)  # characters
        before = sums_before(becomes)  # [m + 1]
        word = ids.value_rowids()
        first, behind = (tf.gather(tf.cast(values, tf.int64), word) for values in (words.first, words.behind))
        base = tf.gather(before, first)
        total = tf.gather(before, behind) - base
        pieces_before = sums_before(lengths)  # [n + 1]
        starts = tf.gather(pieces_before, ids.row_splits)  # [words + 1]
        at = pieces_before[:-1] - tf.gather(starts, word)
        is_together = (tf.gather(ids.row_lengths(), word) == 1) | (tf.gather(starts[1:] - starts[:-1], word) != total)

        def origin(place: tf.Tensor) -> tf.Tensor:
            return tf.searchsorted(before[1:], place, side="right", out_type=tf.int64)

        # A bare boundary mark stands before the next character, or behind the word.
        of_mark = tf.where(at < total, origin(base + at), behind)
        is_mark = lengths == 0
        begins = tf.where(is_together, first, tf.where(is_mark, of_mark, origin(base + at)))
        last = origin(base + at + tf.maximum(lengths, 1) - 1) + 1
        ends = tf.where(is_together, behind, tf.where(is_mark, of_mark, last))
        text_start = tf.gather(words.characters.row_starts(), tf.gather(words.words.value_rowids(), word))
        return tf.cast(begins - text_start, tf.int32), tf.cast(ends - text_start, tf.int32)


def _are_equal(one: tf.RaggedTensor, other: tf.RaggedTensor) -> tf.Tensor:
    """bool [B]: whether rows of int32 [B, (n)] are the same."""
    are_as_long = one.row_lengths() == other.row_lengths()
    row = one.value_rowids()
    place = tf.range(tf.size(one.flat_values, tf.int64)) - tf.gather(one.row_starts(), row)
    values = tf.concat([other.flat_values, [-1]], axis=0)
    place = tf.minimum(tf.gather(other.row_starts(), row) + place, tf.size(other.flat_values, tf.int64))
    differ = tf.cast(tf.gather(values, place) != one.flat_values, tf.int32)
    return are_as_long & (tf.math.unsorted_segment_sum(differ, row, one.nrows()) == 0)


def _changed_lengths(tokenizer: Tokenizer) -> Iterator[tuple[int, int]]:
    """Code points that become more than one character or none when text is prepared, with how many, spaces aside."""
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        if unicodedata.category(character) not in _UNTOUCHED or character == "\ufffd":
            length = len("".join(tokenizer.normalize(character).split()))
            if length != 1:
                yield code, length
