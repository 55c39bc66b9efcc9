"""The digit-comma rule in operations that TensorFlow and TFLite both have: "2010," becomes "2010" and "," there."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.marked_text import DROPPED
from albert_tf.tokenizer import AlbertTokenizer
from export.token_graph import rows, sums_before


class DigitCommaRule:
    """What `AlbertTokenizer` does to pieces that end in a digit and a comma: int32 [B, (n)] -> int32 [B, (m)].

    Args:
      tokenizer: the tokenizer to restate.
      searches: whether pieces are searched for; TFLite cannot, and compares all of them with all of the table.
    """

    def __init__(self, tokenizer: AlbertTokenizer, *, searches: bool = True) -> None:
        self._searches = searches
        table = sorted(tokenizer.digit_comma_table().items())
        self._ids = tf.constant([token_id for token_id, _ in table], tf.int32)  # [K], sorted
        width = max((len(parts) for _, parts in table), default=1)
        padded = [[*parts, *[DROPPED] * (width - len(parts))] for _, parts in table]
        self._parts = tf.constant(padded, tf.int32, shape=[len(table), width])
        self._part_counts = tf.constant([len(parts) for _, parts in table], tf.int64)

    def __call__(self, tokens: tf.RaggedTensor) -> tf.RaggedTensor:
        return self.split(tokens)[0]

    def split(self, tokens: tf.RaggedTensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """Puts the parts of "2010," and its like in its place; and int64 [parts], the token that each comes from."""
        ids = tokens.flat_values  # [n]
        if not len(self._ids):
            return tokens, tf.range(tf.size(ids, tf.int64))
        row = self._row_of(ids)
        is_split = tf.gather(self._ids, row) == ids
        counts = tf.where(is_split, tf.gather(self._part_counts, row), 1)
        before = sums_before(counts)  # [n + 1]
        token = tf.repeat(tf.range(tf.size(ids, tf.int64)), counts)  # [parts]
        number = tf.cast(tf.range(before[-1]) - tf.gather(before, token), tf.int32)  # which part of it
        parts = tf.gather_nd(self._parts, tf.stack([tf.gather(row, token), number], axis=1))
        parts = tf.where(tf.gather(is_split, token), parts, tf.gather(ids, token))
        return rows(parts, tf.gather(before, tokens.row_splits)), token

    def _row_of(self, ids: tf.Tensor) -> tf.Tensor:
        """Where in the table each id would stand, int32 [n]."""
        if self._searches:
            return tf.minimum(tf.searchsorted(self._ids, ids), len(self._ids) - 1)
        is_entry = tf.expand_dims(ids, 1) == tf.expand_dims(self._ids, 0)  # [n, K]
        return tf.argmax(tf.cast(is_entry, tf.int32), axis=1, output_type=tf.int32)
