"""Ids of texts in a graph: what is the same for every kind of vocabulary.

A subclass cuts texts into ids; this puts mask ids at markers and makes the encoder's inputs.
"""

from __future__ import annotations

import abc
import functools
import sys

import tensorflow as tf

from albert_tf import features
from albert_tf.marked_text import DROPPED, MARKER, glued_ids
from albert_tf.tokenizer_base import Tokenizer
from export.exact_text import class_of


class TextGraph(tf.Module, abc.ABC):
    """A tokenizer in a graph.

    Args:
      tokenizer: the tokenizer to restate.
      max_seq_length: longest sequence that `encode` makes (S), in tokens; longer texts are cut as
        `Tokenizer.encode_pair` does.
    """

    def __init__(self, tokenizer: Tokenizer, max_seq_length: int) -> None:
        super().__init__(name="text_graph")
        self._pad_id, self._mask_id = tokenizer.pad_id, tokenizer.mask_id
        self._cls_id, self._sep_id = tokenizer.cls_id, tokenizer.sep_id
        self._max_seq_length = max_seq_length
        self._glued = tf.constant(glued_ids(tokenizer), tf.int32)

    @abc.abstractmethod
    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Ids of each text, without special tokens: string [B] -> int32 [B, (n)]."""

    def tokenize_marked(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """As `tokenize`, with the mask id at every "[MASK]": the same as `MarkedTextEncoder.encode`."""
        parts = tf.strings.split(texts, sep=MARKER)  # [B, (markers + 1)]
        part_texts = parts.flat_values  # [parts]
        # Every text has a part, so that each number stands once among the starts.
        starts = tf.expand_dims(parts.row_starts(), 1)
        is_first = tf.scatter_nd(starts, tf.ones_like(starts[:, 0]), tf.shape(part_texts, tf.int64)) > 0
        tokens = self.tokenize(part_texts)
        ids = tokens.flat_values  # [n]
        begins_with_space = tf.strings.regex_full_match(part_texts, f"(?s){class_of(spaces())}.*")
        is_glued = ~is_first & ~begins_with_space & (tokens.row_lengths() > 0)
        at = tf.boolean_mask(tokens.row_starts(), is_glued)
        ids = tf.tensor_scatter_nd_update(ids, tf.expand_dims(at, 1), tf.gather(self._glued, tf.gather(ids, at)))
        # A mask comes before every part but the first of a text; the tokens of each part that stay come after it.
        kept_before = sums_before(tf.cast(ids != DROPPED, tf.int64))  # [n + 1]
        masks_before = sums_before(tf.cast(~is_first, tf.int64))  # [parts + 1]
        kept = tf.boolean_mask(ids, ids != DROPPED)
        part_of_kept = tf.boolean_mask(tokens.value_rowids(), ids != DROPPED)
        place = tf.range(tf.size(kept, tf.int64)) + tf.gather(masks_before, part_of_kept + 1)
        marked = tf.fill(tf.reshape(kept_before[-1] + masks_before[-1], [1]), self._mask_id)
        marked = tf.tensor_scatter_nd_update(marked, tf.expand_dims(place, 1), kept)
        splits = tf.gather(kept_before, tokens.row_splits) + masks_before  # [parts + 1]
        return rows(marked, tf.gather(splits, parts.row_splits))

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


@functools.cache
def spaces() -> list[str]:
    """What `str.split` takes for white space."""
    return [c for c in map(chr, range(sys.maxunicode + 1)) if c.isspace()]


def sums_before(counts: tf.Tensor) -> tf.Tensor:
    """Sum of all entries before each, and of all: int64 [n] -> int64 [n + 1]."""
    return tf.concat([tf.zeros([1], counts.dtype), tf.cumsum(counts)], axis=0)


def rows(values: tf.Tensor, splits: tf.Tensor) -> tf.RaggedTensor:
    """Ragged rows without the checks of `splits`, which would be part of the graph."""
    return tf.RaggedTensor.from_row_splits(values, splits, validate=False)


def _truncate_pair(length_a: tf.Tensor, length_b: tf.Tensor, room: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """`albert_tf.tokenizer_base.truncate_pair` for int32 [B]."""
    excess = tf.maximum(length_a + length_b - room, 0)
    first = tf.minimum(excess, tf.abs(length_a - length_b))
    a_is_longer = length_a > length_b
    length_a -= tf.where(a_is_longer, first, 0)
    length_b -= tf.where(a_is_longer, 0, first)
    excess -= first
    return length_a - excess // 2, length_b - (excess - excess // 2)
