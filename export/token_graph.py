"""Ids of texts in a graph: what is the same for every kind of vocabulary.

A subclass cuts texts into ids; this puts mask ids at markers and makes the encoder's inputs.
"""

from __future__ import annotations

import abc
import functools
import sys
from typing import NamedTuple

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
        self.pad_id, self.mask_id, self.unk_id = tokenizer.pad_id, tokenizer.mask_id, tokenizer.unk_id
        self.cls_id, self.sep_id = tokenizer.cls_id, tokenizer.sep_id
        self.max_seq_length = max_seq_length
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
        marked = tf.fill(tf.reshape(kept_before[-1] + masks_before[-1], [1]), self.mask_id)
        marked = tf.tensor_scatter_nd_update(marked, tf.expand_dims(place, 1), kept)
        splits = tf.gather(kept_before, tokens.row_splits) + masks_before  # [parts + 1]
        return rows(marked, tf.gather(splits, parts.row_splits))

    def encode(self, ids_a: tf.RaggedTensor, ids_b: tf.RaggedTensor) -> dict[str, tf.Tensor]:
        """Encoder inputs: int32 [B, (n)] twice -> a dict of int32 [B, S], S the longest row's length.

        `[CLS] a [SEP]`, or `[CLS] a [SEP] b [SEP]` where b has tokens. A batch of no texts gives [0, 1].
        """
        first, second = Stretches.of(ids_a), Stretches.of(ids_b)
        has_second = second.lengths > 0
        room = self.max_seq_length - 2 - tf.cast(has_second, tf.int32)
        length_a, length_b = truncate_pair(first.lengths, second.lengths, room)
        return self.lay_out(first._replace(lengths=length_a), second._replace(lengths=length_b), has_second)

    def lay_out(
        self, first: Stretches, second: Stretches, has_second: tf.Tensor, *, least_length: int = 1
    ) -> dict[str, tf.Tensor]:
        """Encoder inputs, int32 [N, S] each: `[CLS] first [SEP]`, or `[CLS] first [SEP] second [SEP]`, padded.

        Args:
          first: of each row the tokens behind [CLS].
          second: those behind the first [SEP].
          has_second: bool [N], whether a row has a second part at all; without one its length must be 0.
          least_length: least S; it is more where the longest row is.
        """
        length_a, length_b = first.lengths, second.lengths
        has_b = tf.cast(has_second, tf.int32)
        length = length_a + length_b + 2 + has_b  # [N]
        position = tf.range(tf.reduce_max(tf.concat([length, [least_length]], axis=0)))  # [S]
        first_of_b = tf.expand_dims(length_a + 2, 1)  # [N, 1]
        last = tf.expand_dims(length - 1, 1)
        # Where each token stands among those of all texts, a's before b's; other places read the [SEP] behind them.
        tokens = tf.concat([first.tokens, second.tokens, [self.sep_id]], axis=0)
        start_a = tf.expand_dims(first.starts, 1) - 1
        start_b = tf.expand_dims(second.starts, 1) + tf.size(first.tokens) - first_of_b
        is_a = (position > 0) & (position < first_of_b - 1)  # [N, S]
        is_b = (position >= first_of_b) & (position < last)
        place = tf.where(is_a, start_a + position, tf.where(is_b, start_b + position, tf.size(tokens) - 1))
        input_ids = tf.where(position == 0, self.cls_id, tf.gather(tokens, place))
        mask = position <= last
        return {
            features.INPUT_IDS: tf.where(mask, input_ids, self.pad_id),
            features.INPUT_MASK: tf.cast(mask, tf.int32),
            features.SEGMENT_IDS: tf.cast(mask & (position >= first_of_b), tf.int32),
        }


class Stretches(NamedTuple):
    """Tokens of rows: those of row i are `lengths[i]` of `tokens` from `starts[i]` on.

    Attributes:
      tokens: int32 [n], those of all texts.
      starts: int32 [N].
      lengths: int32 [N].
    """

    tokens: tf.Tensor
    starts: tf.Tensor
    lengths: tf.Tensor

    @classmethod
    def of(cls, ids: tf.RaggedTensor) -> Stretches:
        """All tokens of each row, int32 [N, (n)]."""
        return cls(ids.flat_values, tf.cast(ids.row_starts(), tf.int32), tf.cast(ids.row_lengths(), tf.int32))

    def cut(self, owners: tf.Tensor, starts: tf.Tensor, lengths: tf.Tensor) -> Stretches:
        """Parts of rows: of row `owners[i]` the `lengths[i]` tokens from `starts[i]` on, int32 [W] each."""
        return Stretches(self.tokens, tf.gather(self.starts, owners) + starts, lengths)


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


def no_tokens(like: tf.RaggedTensor) -> tf.RaggedTensor:
    """As many rows as `like`, int32 [B, (0)]: the second texts of single ones."""
    return rows(tf.zeros([0], tf.int32), tf.zeros_like(like.row_splits))


def truncate_pair(length_a: tf.Tensor, length_b: tf.Tensor, room: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """`albert_tf.tokenizer_base.truncate_pair` for int32 [B]."""
    excess = tf.maximum(length_a + length_b - room, 0)
    first = tf.minimum(excess, tf.abs(length_a - length_b))
    a_is_longer = length_a > length_b
    length_a -= tf.where(a_is_longer, first, 0)
    length_b -= tf.where(a_is_longer, 0, first)
    excess -= first
    return length_a - excess // 2, length_b - (excess - excess // 2)
