"""WordPiece's tokenizer as TensorFlow operations, which give the ids of `WordPieceTokenizer`.

tensorflow-text's own BertTokenizer gives other ids: it folds case with NFKC, which makes an ASCII comma of a wide one.
So only the cut of words into pieces is its; all steps before are restated with Python's classes of characters.

Text that is not UTF-8 is read with U+FFFD in place of each faulty byte, which is dropped then.
"""

from __future__ import annotations

import functools
import sys
import unicodedata
from collections.abc import Callable

import tensorflow as tf
import tensorflow_text as tf_text

from albert_tf import words
from albert_tf.scripts import is_ideograph
from albert_tf.wordpiece import CONTINUATION, MAX_WORD_LENGTH, UNK_PIECE, WordPieceTokenizer
from export.exact_text import UNKNOWN_CHARACTER, ExactNormalizer, class_of, compare_characters, lower, to_utf8
from export.token_graph import TextGraph, rows

_MOST_BYTES = 4  # of a character in UTF-8


class WordPieceGraph(TextGraph):
    """`WordPieceTokenizer` in a graph.

    Args:
      tokenizer: the tokenizer to restate.
      max_seq_length: see `TextGraph`.
    """

    def __init__(self, tokenizer: WordPieceTokenizer, max_seq_length: int) -> None:
        super().__init__(tokenizer, max_seq_length)
        pieces = [tokenizer.id_to_piece(i) for i in range(tokenizer.vocab_size)]
        known = {c for piece in pieces for c in piece.removeprefix(CONTINUATION)}
        lower_case = tokenizer.config.lower_case
        self._normalizer = ExactNormalizer(
            functools.partial(_normalize, lower_case=lower_case),
            _differences(lower_case),
            lambda _, normalized: len(normalized) == 1 and normalized not in known,
        )
        self._segmenter = tf_text.FastWordpieceTokenizer(
            pieces,
            suffix_indicator=CONTINUATION,
            unknown_token=UNK_PIECE,
            max_bytes_per_word=_MOST_BYTES * MAX_WORD_LENGTH,
            token_out_type=tf.int32,
            no_pretokenization=True,
        )

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        split = tf.strings.split(self._spaced(texts))  # [B, (words)]
        flat = split.flat_values  # [words]
        is_long = tf.strings.length(flat, unit="UTF8_CHAR") > MAX_WORD_LENGTH
        tokens = self._segmenter.tokenize(tf.where(is_long, UNKNOWN_CHARACTER, flat)).with_row_splits_dtype(tf.int64)
        return rows(tokens.flat_values, tf.gather(tokens.row_splits, split.row_splits))

    def _spaced(self, texts: tf.Tensor) -> tf.Tensor:
        """Texts with spaces between their words, ideographs and punctuation: string [B] -> string [B]."""
        texts = tf.strings.regex_replace(to_utf8(texts), _class(words.is_dropped), "")
        texts = tf.strings.regex_replace(texts, _class(words.is_space), " ")
        texts = tf.strings.regex_replace(texts, f"({_class(is_ideograph)})", r" \1 ")
        texts = self._normalizer(texts)
        return tf.strings.regex_replace(texts, f"({_class(words.is_punctuation)})", r" \1 ")


def _normalize(texts: tf.Tensor, lower_case: bool) -> tf.Tensor:
    """`albert_tf.words.normalize_word` in ICU's operations, string [B]."""
    texts = tf_text.normalize_utf8(texts, "NFC")
    if lower_case:
        texts = tf_text.normalize_utf8(lower(texts), "NFD")
        texts = tf.strings.regex_replace(texts, f"{_class(_is_accent)}+", "")
    return texts


@functools.cache
def _differences(lower_case: bool) -> list[tuple[str, str]]:
    return compare_characters(
        functools.partial(_normalize, lower_case=lower_case),
        functools.partial(words.normalize_word, lower_case=lower_case),
    )


def _is_accent(character: str) -> bool:
    return unicodedata.category(character) == "Mn"


@functools.cache
def _class(holds: Callable[[str], bool]) -> str:
    """RE2 character class of all characters that the function holds for."""
    return class_of(c for c in map(chr, range(sys.maxunicode + 1)) if holds(c))
