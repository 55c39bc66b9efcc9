"""SentencePiece's tokenizer as TensorFlow operations, which give the ids of `AlbertTokenizer`.

Text that is not UTF-8 is read with U+FFFD in place of each faulty byte.
"""

from __future__ import annotations

import functools
import sys
import unicodedata

import tensorflow as tf
import tensorflow_text as tf_text

from albert_tf.marked_text import DROPPED
from albert_tf.tokenizer import AlbertTokenizer, TokenizerConfig, normalize_text
from export.exact_text import UNKNOWN_CHARACTER, ExactNormalizer, class_of, compare_characters, lower, to_utf8
from export.token_graph import TextGraph, rows, spaces, sums_before


class SentencePieceGraph(TextGraph):
    """`AlbertTokenizer` in a graph.

    Args:
      tokenizer: the tokenizer to restate.
      max_seq_length: see `TextGraph`.
    """

    def __init__(self, tokenizer: AlbertTokenizer, max_seq_length: int) -> None:
        super().__init__(tokenizer, max_seq_length)
        self._segmenter = tf_text.FastSentencepieceTokenizer(tokenizer.model_proto)
        as_unknown = tokenizer.encode(f"a{UNKNOWN_CHARACTER}b")
        self._normalizer = ExactNormalizer(
            functools.partial(_normalize, config=tokenizer.config),
            _differences(tokenizer.config),
            lambda character, _: tokenizer.encode(f"a{character}b") == as_unknown,
        )
        table = sorted(tokenizer.digit_comma_table().items())
        self._digit_comma_ids = tf.constant([token_id for token_id, _ in table], tf.int32)  # [K], sorted
        width = max((len(parts) for _, parts in table), default=1)
        padded = [[*parts, *[DROPPED] * (width - len(parts))] for _, parts in table]
        self._parts = tf.constant(padded, tf.int32, shape=[len(table), width])
        self._part_counts = tf.constant([len(parts) for _, parts in table], tf.int64)

    def normalize(self, texts: tf.Tensor) -> tf.Tensor:
        """Texts as the SentencePiece model sees them: string [B] -> string [B]."""
        return self._normalizer(to_utf8(texts))

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Ids of each text, without special tokens: string [B] -> int32 [B, (n)]."""
        return self.split_digit_comma(self.segment(self.normalize(texts)))[0]

    def segment(self, normalized: tf.Tensor) -> tf.RaggedTensor:
        """Ids that SentencePiece gives for normalised texts, the digit-comma rule left out: int32 [B, (n)]."""
        return self._segmenter.tokenize(normalized).with_row_splits_dtype(tf.int64)

    def split_digit_comma(self, tokens: tf.RaggedTensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """Puts the parts of "2010," and its like in its place; and int64 [parts], the token that each comes from."""
        ids = tokens.flat_values  # [n]
        if not len(self._digit_comma_ids):
            return tokens, tf.range(tf.size(ids, tf.int64))
        row = tf.minimum(tf.searchsorted(self._digit_comma_ids, ids), len(self._digit_comma_ids) - 1)  # into the table
        is_split = tf.gather(self._digit_comma_ids, row) == ids
        counts = tf.where(is_split, tf.gather(self._part_counts, row), 1)
        before = sums_before(counts)  # [n + 1]
        token = tf.repeat(tf.range(tf.size(ids, tf.int64)), counts)  # [parts]
        number = tf.cast(tf.range(before[-1]) - tf.gather(before, token), tf.int32)  # which part of it
        parts = tf.gather_nd(self._parts, tf.stack([tf.gather(row, token), number], axis=1))
        parts = tf.where(tf.gather(is_split, token), parts, tf.gather(ids, token))
        return rows(parts, tf.gather(before, tokens.row_splits)), token


def _normalize(texts: tf.Tensor, config: TokenizerConfig) -> tf.Tensor:
    """`albert_tf.tokenizer.normalize_text` in ICU's operations, string [B]."""
    space = class_of(spaces())
    texts = tf.strings.regex_replace(texts, f"{space}+", " ")
    texts = tf.strings.regex_replace(texts, "^ | $", "")
    if config.strip_accents:
        texts = tf_text.normalize_utf8(texts, "NFKD")
        texts = tf.strings.regex_replace(texts, f"{class_of(_combining())}+", "")
    if config.lower_case:
        texts = lower(texts)
    return texts


@functools.cache
def _differences(config: TokenizerConfig) -> list[tuple[str, str]]:
    return compare_characters(
        functools.partial(_normalize, config=config), functools.partial(normalize_text, config=config)
    )


@functools.cache
def _combining() -> list[str]:
    """What `normalize_text` drops: not the same set as RE2's `\\p{Mn}` or `\\p{M}`."""
    return [c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.combining(c)]
