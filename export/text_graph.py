"""The tokenizer as TensorFlow operations, for a SavedModel that takes strings.

Gives the ids of `AlbertTokenizer`. The operations are not the library's: ICU decomposes and lowers characters by
another Unicode version than Python's `unicodedata`, lower-casing cuts a text at a NUL byte, and with a Turkish locale
makes "ı" of "I". So all characters are compared when the graph is made, and those that come out differently are
replaced first.

Text that is not UTF-8 is read with U+FFFD in place of each faulty byte.
"""

from __future__ import annotations

import functools
import sys
import unicodedata
from collections.abc import Iterable

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from albert_tf import features
from albert_tf.tokenizer import AlbertTokenizer, TokenizerConfig, normalize_text
from export.marked_text import DROPPED, MARKER, glued_ids

# A character for private use, which no vocabulary holds: stands for those that Python leaves as they are.
_UNKNOWN_CHARACTER = "\U0010fffd"
# Beyond plane 1 there are only ideographs, which nothing changes, but for this block of compatibility forms.
_COMPARED_CHARACTERS = (*range(0xD800), *range(0xE000, 0x20000), *range(0x2F800, 0x2FA20))


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
        self._pad_id = tokenizer.pad_id
        self._special_ids = (tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id)
        self._max_seq_length = max_seq_length
        self._segmenter = tf_text.FastSentencepieceTokenizer(tokenizer.model_proto)
        self._replacements = _replacements(tokenizer)
        table = sorted(tokenizer.digit_comma_table().items())
        self._digit_comma_ids = tf.constant([token_id for token_id, _ in table], tf.int32)
        # Row 0 holds the place of an id that stays as it is; `_split_digit_comma` fills it in.
        parts = tf.ragged.constant([[DROPPED], *(parts for _, parts in table)], tf.int32, row_splits_dtype=tf.int64)
        self._parts_values, self._parts_splits = parts.values, parts.row_splits
        self._glued = tf.constant(glued_ids(tokenizer), tf.int32)

    def normalize(self, texts: tf.Tensor) -> tf.Tensor:
        """Texts as the SentencePiece model sees them: string [B] -> string [B]."""
        texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")
        for pattern, replacement in self._replacements:
            texts = tf.strings.regex_replace(texts, pattern, replacement)
        return _normalize(texts, self._config)

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Ids of each text, without special tokens: string [B] -> int32 [B, (n)]."""
        tokens = self._segmenter.tokenize(self.normalize(texts)).with_row_splits_dtype(tf.int64)
        return self._split_digit_comma(tokens) if len(self._digit_comma_ids) else tokens

    def tokenize_marked(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """As `tokenize`, with the mask id at every "[MASK]": the same as `MarkedTextEncoder.encode`."""
        parts = tf.strings.split(texts, sep=MARKER)  # [B, (markers + 1)]
        # Each text has one part at least, so these mark each first and last part once, int64 [parts].
        count = tf.expand_dims(tf.size(parts.flat_values, tf.int64), 0)
        is_first = tf.scatter_nd(tf.expand_dims(parts.row_starts(), 1), tf.ones_like(parts.row_starts()), count)
        is_last = tf.scatter_nd(tf.expand_dims(parts.row_limits() - 1, 1), tf.ones_like(parts.row_starts()), count)
        tokens = self.tokenize(parts.flat_values)
        begins_with_space = tf.strings.regex_full_match(parts.flat_values, f"(?s){_class_of(_spaces())}.*")
        tokens = self._glue(tokens, (is_first == 0) & ~begins_with_space)
        masks = tf.fill([tf.reduce_sum(1 - is_last)], self._special_ids[2])
        masks = tf.RaggedTensor.from_row_lengths(masks, 1 - is_last)
        tokens = tf.concat([tokens, masks], axis=1)
        return tf.RaggedTensor.from_row_splits(tokens, parts.row_splits).merge_dims(1, 2)

    def encode(self, ids_a: tf.RaggedTensor, ids_b: tf.RaggedTensor | None = None) -> dict[str, tf.Tensor]:
        """Encoder inputs: int32 [B, (n)] once or twice -> a dict of int32 [B, S], S the longest row's length.

        `[CLS] a [SEP]`, or `[CLS] a [SEP] b [SEP]` where b has tokens. A batch of no texts gives [0, 1].
        """
        cls_id, sep_id, _ = self._special_ids
        batch_size = ids_a.nrows(out_type=tf.int32)
        length_a = tf.cast(ids_a.row_lengths(), tf.int32)
        length_b = tf.zeros_like(length_a) if ids_b is None else tf.cast(ids_b.row_lengths(), tf.int32)
        has_b = tf.cast(length_b > 0, tf.int32)
        length_a, length_b = _truncate_pair(length_a, length_b, self._max_seq_length - 2 - has_b)
        column = functools.partial(_column, batch_size=batch_size)
        rows = [column(cls_id), _first(ids_a, length_a), column(sep_id)]
        if ids_b is not None:
            end = tf.fill([tf.reduce_sum(has_b)], sep_id)
            end = tf.RaggedTensor.from_row_lengths(end, tf.cast(has_b, tf.int64))
            rows += [_first(ids_b, length_b), end]
        tokens = tf.concat(rows, axis=1)
        lengths = tf.cast(tokens.row_lengths(), tf.int32)
        seq_length = tf.maximum(tf.reduce_max(tf.concat([lengths, [1]], axis=0)), 1)
        position = tf.range(seq_length)
        mask = position < tf.expand_dims(lengths, 1)
        in_b = mask & (position >= tf.expand_dims(length_a + 2, 1))
        return {
            features.INPUT_IDS: tokens.to_tensor(self._pad_id, shape=tf.stack([batch_size, seq_length])),
            features.INPUT_MASK: tf.cast(mask, tf.int32),
            features.SEGMENT_IDS: tf.cast(in_b, tf.int32),
        }

    def _split_digit_comma(self, tokens: tf.RaggedTensor) -> tf.RaggedTensor:
        """Puts the parts of "2010," and its like in its place."""
        ids = tokens.flat_values  # [n]
        place = tf.searchsorted(self._digit_comma_ids, ids)
        place = tf.minimum(place, len(self._digit_comma_ids) - 1)
        row = tf.where(tf.gather(self._digit_comma_ids, place) == ids, place + 1, 0)
        parts = tf.gather(tf.RaggedTensor.from_row_splits(self._parts_values, self._parts_splits), row)  # [n, (1..)]
        own = tf.gather(ids, parts.value_rowids())
        parts = parts.with_values(tf.where(parts.values == DROPPED, own, parts.values))
        return tf.RaggedTensor.from_row_splits(parts, tokens.row_splits).merge_dims(1, 2)

    def _glue(self, tokens: tf.RaggedTensor, is_glued: tf.Tensor) -> tf.RaggedTensor:
        """Takes the word boundary from the first token of the rows with `is_glued` (bool [rows])."""
        ids = tokens.flat_values
        at = tf.boolean_mask(tokens.row_starts(), is_glued & (tokens.row_lengths() > 0))
        ids = tf.tensor_scatter_nd_update(ids, tf.expand_dims(at, 1), tf.gather(self._glued, tf.gather(ids, at)))
        return tf.ragged.boolean_mask(tokens.with_values(ids), tokens.with_values(ids != DROPPED))


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


def _replacements(tokenizer: AlbertTokenizer) -> list[tuple[str, str]]:
    """Patterns and what to put in their place before `_normalize`, so that each character gives the tokenizer's ids."""
    unknown, replacements = [], []
    as_unknown = tokenizer.encode(f"a{_UNKNOWN_CHARACTER}b")
    for character, normalized in _unlike_characters(tokenizer.config):
        if tokenizer.encode(f"a{character}b") == as_unknown:
            unknown.append(character)
        else:
            replacements.append((_class_of([character]), normalized.replace("\\", "\\\\")))
    if unknown:
        replacements.append((_class_of(unknown), _UNKNOWN_CHARACTER))
    return replacements


@functools.cache
def _unlike_characters(config: TokenizerConfig) -> list[tuple[str, str]]:
    """Characters that `_normalize` treats in another way than Python, each with Python's result."""
    characters = [chr(code) for code in _COMPARED_CHARACTERS]
    found = _normalize(tf.constant(characters), config).numpy()
    expected = [normalize_text(character, config) for character in characters]
    return [(c, e) for c, e, f in zip(characters, expected, found, strict=True) if e.encode() != f]


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


def _column(value: int, batch_size: tf.Tensor) -> tf.RaggedTensor:
    return tf.RaggedTensor.from_tensor(tf.fill([batch_size, 1], value), row_splits_dtype=tf.int64)


def _first(rows: tf.RaggedTensor, lengths: tf.Tensor) -> tf.RaggedTensor:
    """The first `lengths` (int32 [B]) entries of each row."""
    position = tf.cast(tf.ragged.range(rows.row_lengths()).flat_values, tf.int32)
    keep = position < tf.gather(lengths, rows.value_rowids())
    return tf.ragged.boolean_mask(rows, rows.with_values(keep))


def _truncate_pair(length_a: tf.Tensor, length_b: tf.Tensor, room: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """`albert_tf.tokenizer.truncate_pair` for int32 [B]."""
    excess = tf.maximum(length_a + length_b - room, 0)
    first = tf.minimum(excess, tf.abs(length_a - length_b))
    a_is_longer = length_a > length_b
    length_a -= tf.where(a_is_longer, first, 0)
    length_b -= tf.where(a_is_longer, 0, first)
    excess -= first
    return length_a - excess // 2, length_b - (excess - excess // 2)
