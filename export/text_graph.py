"""The tokenizer as TensorFlow operations, for a SavedModel that takes strings.

Gives the ids of `AlbertTokenizer`. The operations are not the library's: ICU decomposes and lowers characters by
another Unicode version than Python's `unicodedata`, lower-casing cuts a text at a NUL byte, and with a Turkish locale
makes "ı" of "I". So all characters are compared when the graph is made, and those that come out differently are kept
from ICU.

Text that is not UTF-8 is read with U+FFFD in place of each faulty byte.
"""

from __future__ import annotations

import functools
import sys
import unicodedata
from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from albert_tf import features
from albert_tf.tokenizer import AlbertTokenizer, TokenizerConfig, normalize_text
from export.marked_text import DROPPED, MARKER, glued_ids

# Characters for private use, which no vocabulary holds: one stands for all that the vocabulary does not know, those
# from the second on for single characters while ICU is at work.
_UNKNOWN_CHARACTER = "\U0010fffd"
_FIRST_STAND_IN = 0x100000
# Beyond plane 1 there are only ideographs, which nothing changes, but for this block of compatibility forms.
_COMPARED_CHARACTERS = (*range(0xD800), *range(0xE000, 0x20000), *range(0x2F800, 0x2FA20))
_COMPARED_TOGETHER = 256


class TextGraph(tf.Module):
    """The tokenizer in a graph.

    Args:
      tokenizer: the tokenizer to restate.
      max_seq_length: longest sequence that `encode` makes (S), in tokens; longer texts are cut as
        `AlbertTokenizer.encode_pair` does.
    """

    def __init__(self, tokenizer: AlbertTokenizer, max_seq_length: int) -> None:
        super().__init__(name="text_graph")
        self._config = tokenizer.config
        self._pad_id, self._mask_id = tokenizer.pad_id, tokenizer.mask_id
        self._cls_id, self._sep_id = tokenizer.cls_id, tokenizer.sep_id
        self._max_seq_length = max_seq_length
        self._segmenter = tf_text.FastSentencepieceTokenizer(tokenizer.model_proto)
        self._unknown, self._protected = _unlike_characters(tokenizer)
        table = sorted(tokenizer.digit_comma_table().items())
        self._digit_comma_ids = tf.constant([token_id for token_id, _ in table], tf.int32)  # [K], sorted
        width = max((len(parts) for _, parts in table), default=1)
        padded = [[*parts, *[DROPPED] * (width - len(parts))] for _, parts in table]
        self._parts = tf.constant(padded, tf.int32, shape=[len(table), width])
        self._part_counts = tf.constant([len(parts) for _, parts in table], tf.int64)
        self._glued = tf.constant(glued_ids(tokenizer), tf.int32)

    def normalize(self, texts: tf.Tensor) -> tf.Tensor:
        """Texts as the SentencePiece model sees them: string [B] -> string [B]."""
        texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")
        texts = tf.strings.regex_replace(texts, _class_of(self._unknown), _UNKNOWN_CHARACTER)
        if not self._protected:
            return _normalize(texts, self._config)
        holds_one = tf.strings.regex_full_match(texts, f"(?s).*{_class_of(self._protected)}.*")
        return tf.cond(
            tf.reduce_any(holds_one),  # hardly ever
            lambda: self._normalize_protected(texts),
            lambda: _normalize(texts, self._config),
        )

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Ids of each text, without special tokens: string [B] -> int32 [B, (n)]."""
        tokens = self._segmenter.tokenize(self.normalize(texts)).with_row_splits_dtype(tf.int64)
        return self._split_digit_comma(tokens) if len(self._digit_comma_ids) else tokens

    def tokenize_marked(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """As `tokenize`, with the mask id at every "[MASK]": the same as `MarkedTextEncoder.encode`."""
        parts = tf.strings.split(texts, sep=MARKER)  # [B, (markers + 1)]
        part_texts = parts.flat_values  # [parts]
        # Every text has a part, so that each number stands once among the starts.
        starts = tf.expand_dims(parts.row_starts(), 1)
        is_first = tf.scatter_nd(starts, tf.ones_like(starts[:, 0]), tf.shape(part_texts, tf.int64)) > 0
        tokens = self.tokenize(part_texts)
        ids = tokens.flat_values  # [n]
        begins_with_space = tf.strings.regex_full_match(part_texts, f"(?s){_class_of(_spaces())}.*")
        is_glued = ~is_first & ~begins_with_space & (tokens.row_lengths() > 0)
        at = tf.boolean_mask(tokens.row_starts(), is_glued)
        ids = tf.tensor_scatter_nd_update(ids, tf.expand_dims(at, 1), tf.gather(self._glued, tf.gather(ids, at)))
        # A mask comes before every part but the first of a text; the tokens of each part that stay come after it.
        kept_before = _sums_before(tf.cast(ids != DROPPED, tf.int64))  # [n + 1]
        masks_before = _sums_before(tf.cast(~is_first, tf.int64))  # [parts + 1]
        kept = tf.boolean_mask(ids, ids != DROPPED)
        part_of_kept = tf.boolean_mask(tokens.value_rowids(), ids != DROPPED)
        place = tf.range(tf.size(kept, tf.int64)) + tf.gather(masks_before, part_of_kept + 1)
        marked = tf.fill(tf.reshape(kept_before[-1] + masks_before[-1], [1]), self._mask_id)
        marked = tf.tensor_scatter_nd_update(marked, tf.expand_dims(place, 1), kept)
        splits = tf.gather(kept_before, tokens.row_splits) + masks_before  # [parts + 1]
        return _rows(marked, tf.gather(splits, parts.row_splits))

    def encode(self, ids_a: tf.RaggedTensor, ids_b: tf.RaggedTensor) -> dict[str, tf.Tensor]:
        """Encoder inputs: int32 [B, (n)] twice -> a dict of int32 [B, S], S the longest row's length.

        `[CLS] a [SEP]`, or `[CLS] a [SEP] b [SEP]` where b has tokens. A batch of no texts gives [0, 1].
        """
        length_a, length_b = (tf.cast(ids.row_lengths(), tf.int32) for ids in (ids_a, ids_b))
        has_b = tf.cast(length_b > 0, tf.int32)
        length_a, length_b = _truncate_pair(length_a, length_b, self._max_seq_length - 2 - has_b)
        length = length_a + length_b + 2 + has_b  # [B]
        position = tf.range(tf.reduce_max(tf.concat([length, [1]], axis=0)))  # [S]
        first_of_b = tf.expand_dims(length_a + 2, 1)  # [B, 1]
        last = tf.expand_dims(length - 1, 1)
        # Where each token stands among those of all texts, a's before b's; other places read the [SEP] behind them.
        tokens = tf.concat([ids_a.flat_values, ids_b.flat_values, [self._sep_id]], axis=0)
        start_a = tf.expand_dims(tf.cast(ids_a.row_starts(), tf.int32), 1) - 1
        start_b = tf.expand_dims(tf.cast(ids_b.row_starts(), tf.int32), 1) + tf.size(ids_a.flat_values) - first_of_b
        is_a = (position > 0) & (position < first_of_b - 1)  # [B, S]
        is_b = (position >= first_of_b) & (position < last)
        place = tf.where(is_a, start_a + position, tf.where(is_b, start_b + position, tf.size(tokens) - 1))
        input_ids = tf.where(position == 0, self._cls_id, tf.gather(tokens, place))
        mask = position <= last
        return {
            features.INPUT_IDS: tf.where(mask, input_ids, self._pad_id),
            features.INPUT_MASK: tf.cast(mask, tf.int32),
            features.SEGMENT_IDS: tf.cast(mask & (position >= first_of_b), tf.int32),
        }

    def _normalize_protected(self, texts: tf.Tensor) -> tf.Tensor:
        """`_normalize` with stand-ins for the characters that it would change in another way than Python."""
        stand_ins = [chr(_FIRST_STAND_IN + number) for number in range(len(self._protected))]
        for character, stand_in in zip(self._protected, stand_ins, strict=True):
            texts = tf.strings.regex_replace(texts, _class_of([character]), stand_in)
        texts = _normalize(texts, self._config)
        for normalized, stand_in in zip(self._protected.values(), stand_ins, strict=True):
            texts = tf.strings.regex_replace(texts, _class_of([stand_in]), normalized.replace("\\", r"\\"))
        return texts

    def _split_digit_comma(self, tokens: tf.RaggedTensor) -> tf.RaggedTensor:
        """Puts the parts of "2010," and its like in its place."""
        ids = tokens.flat_values  # [n]
        row = tf.minimum(tf.searchsorted(self._digit_comma_ids, ids), len(self._digit_comma_ids) - 1)  # into the table
        is_split = tf.gather(self._digit_comma_ids, row) == ids
        counts = tf.where(is_split, tf.gather(self._part_counts, row), 1)
        before = _sums_before(counts)  # [n + 1]
        token = tf.repeat(tf.range(tf.size(ids)), counts)  # [parts], the token each comes from
        number = tf.cast(tf.range(before[-1]) - tf.gather(before, token), tf.int32)  # which part of it
        parts = tf.gather_nd(self._parts, tf.stack([tf.gather(row, token), number], axis=1))
        parts = tf.where(tf.gather(is_split, token), parts, tf.gather(ids, token))
        return _rows(parts, tf.gather(before, tokens.row_splits))


def _normalize(texts: tf.Tensor, config: TokenizerConfig) -> tf.Tensor:
    """`albert_tf.tokenizer.normalize_text` in ICU's operations, string [B]."""
    spaces = _class_of(_spaces())
    texts = tf.strings.regex_replace(texts, f"{spaces}+", " ")
    texts = tf.strings.regex_replace(texts, "^ | $", "")
    if config.strip_accents:
        texts = tf_text.normalize_utf8(texts, "NFKD")
        texts = tf.strings.regex_replace(texts, f"{_class_of(_combining())}+", "")
    if config.lower_case:
        texts = tf.strings.lower(texts)  # ASCII alone first: ICU asks the locale what the small "I" is
        texts = tf.strings.lower(texts, encoding="utf-8")
    return texts


def _unlike_characters(tokenizer: AlbertTokenizer) -> tuple[list[str], dict[str, str]]:
    """Characters that `_normalize` treats in another way than Python.

    Returns:
      Those that the vocabulary does not know anyway, and the stand-ins; the others, each with Python's result.
    """
    unknown, protected = [], {}
    as_unknown = tokenizer.encode(f"a{_UNKNOWN_CHARACTER}b")
    for character, normalized in _compare_characters(tokenizer.config):
        if tokenizer.encode(f"a{character}b") == as_unknown:
            unknown.append(character)
        else:
            protected[character] = normalized
    stand_ins = [chr(_FIRST_STAND_IN + number) for number in range(len(protected) + 1)]
    return unknown + stand_ins, protected


@functools.cache
def _compare_characters(config: TokenizerConfig) -> list[tuple[str, str]]:
    """Characters that `_normalize` treats in another way than Python, each with Python's result."""
    characters = [chr(code) for code in _COMPARED_CHARACTERS]
    # Many together first, which is faster; apart from each other, since a letter's neighbours can decide its form.
    starts = range(0, len(characters), _COMPARED_TOGETHER)
    groups = [characters[start : start + _COMPARED_TOGETHER] for start in starts]
    unlike = [group for group, _ in _compare(["|".join(group) for group in groups], groups, config)]
    single = [character for group in unlike for character in group]
    return _compare(single, single, config)


def _compare(texts: list[str], keys: list[Any], config: TokenizerConfig) -> list[tuple[Any, str]]:
    """Keys of the texts that `_normalize` treats in another way than Python, each with Python's result."""
    found = _normalize(tf.constant(texts, tf.string), config).numpy()
    expected = [normalize_text(text, config) for text in texts]
    return [(k, e) for k, e, f in zip(keys, expected, found, strict=True) if e.encode() != f]


@functools.cache
def _spaces() -> list[str]:
    """What `str.split` takes for white space."""
    return [c for c in map(chr, range(sys.maxunicode + 1)) if c.isspace()]


@functools.cache
def _combining() -> list[str]:
    """What `normalize_text` drops: not the same set as RE2's `\\p{Mn}` or `\\p{M}`."""
    return [c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.combining(c)]


def _class_of(characters: Iterable[str]) -> str:
    """RE2 character class of `characters`."""
    codes = np.array(sorted(map(ord, characters)))
    runs = np.split(codes, np.flatnonzero(np.diff(codes) != 1) + 1)
    return "[" + "".join(f"\\x{{{run[0]:x}}}-\\x{{{run[-1]:x}}}" for run in runs) + "]"


def _sums_before(counts: tf.Tensor) -> tf.Tensor:
    """Sum of all entries before each, and of all: int64 [n] -> int64 [n + 1]."""
    return tf.concat([tf.zeros([1], counts.dtype), tf.cumsum(counts)], axis=0)


def _rows(values: tf.Tensor, splits: tf.Tensor) -> tf.RaggedTensor:
    """Ragged rows without the checks of `splits`, which would be part of the graph."""
    return tf.RaggedTensor.from_row_splits(values, splits, validate=False)


def _truncate_pair(length_a: tf.Tensor, length_b: tf.Tensor, room: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """`albert_tf.tokenizer.truncate_pair` for int32 [B]."""
    excess = tf.maximum(length_a + length_b - room, 0)
    first = tf.minimum(excess, tf.abs(length_a - length_b))
    a_is_longer = length_a > length_b
    length_a -= tf.where(a_is_longer, first, 0)
    length_b -= tf.where(a_is_longer, 0, first)
    excess -= first
    return length_a - excess // 2, length_b - (excess - excess // 2)
