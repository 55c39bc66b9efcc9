"""SentencePiece's tokenizer as TensorFlow operations, which give the ids of `AlbertTokenizer`.

Text that is not UTF-8 is read with U+FFFD in place of each faulty byte.
"""

from __future__ import annotations

import functools
import sys
import unicodedata

import tensorflow as tf
import tensorflow_text as tf_text

from albert_tf.tokenizer import AlbertTokenizer, TokenizerConfig, normalize_text
from export.digit_comma_graph import DigitCommaRule
from export.exact_text import UNKNOWN_CHARACTER, ExactNormalizer, class_of, compare_characters, lower, to_utf8
from export.token_graph import TextGraph, spaces


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
        self._digit_comma = DigitCommaRule(tokenizer)

    def normalize(self, texts: tf.Tensor) -> tf.Tensor:
        """Texts as the SentencePiece model sees them: string [B] -> string [B]."""
        return self._normalizer(to_utf8(texts))

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Ids of each text, without special tokens: string [B] -> int32 [B, (n)]."""
        return self._digit_comma(self.segment(self.normalize(texts)))

    def segment(self, normalized: tf.Tensor) -> tf.RaggedTensor:
        """Ids that SentencePiece gives for normalised texts, the digit-comma rule left out: int32 [B, (n)]."""
        return self._segmenter.tokenize(normalized).with_row_splits_dtype(tf.int64)

    def split_digit_comma(self, tokens: tf.RaggedTensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """Puts the parts of "2010," and its like in its place; and int64 [parts], the token that each comes from."""
        return self._digit_comma.split(tokens)


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
