"""Pretraining batches from dynamic records, in the graph: order of the segments, [CLS] A [SEP] B [SEP], masks.

With the sentence objective "nsp" the order stays and the records say the label; with "none" a row is [CLS] A [SEP].

Every draw comes from the hash of (seed, epoch, example, what for, position), so that batch size, worker count and a
resume change no mask, and each epoch has its own. All work is on whole batches, [B, S] at once: one example at a time
would be ten times slower.

Masks follow the ALBERT paper (section 4.1): whole words, in n-grams of up to three with p(n) proportional to 1/n, until
15 % of the positions are selected (the number is rounded up or down at random, so that the mean share is exact); of
those 80 % show [MASK], 10 % themselves, 10 % a random piece that is never special. Each segment is cut into n-grams of
drawn lengths; they are taken in a drawn order, the last one as far as its words fit, and what is then left of the
budget goes to the next n-grams in that order whose first word fits.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from albert_tf import features, randomness
from albert_tf.data.manifest import DataDirectory

MASK_SHARE, KEEP_SHARE = 0.8, 0.1
# After the first n-gram that does not fit: how often a later one that does is looked for. What is left is then mostly
# a single token; with three rounds 99.9 % of the budget is used up.
_FILL_ROUNDS = 3

# What a draw is for: one word of its hash.
_SWAP, _BUDGET, _NGRAM, _ORDER, _FATE, _REPLACEMENT = range(1, 7)


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskingSettings:
    """What masks depend on besides seed, epoch and example.

    Attributes:
      sentence_objective: "sop", "nsp" or "none".
      max_seq_length: S, tokens.
      max_predictions_per_seq: P.
      masked_lm_prob: share of the real positions to select, in (0, 1).
      max_ngram: longest n-gram, in words.
      vocab_size: V.
      pad_id, cls_id, sep_id, mask_id: ids of the special pieces.
      excluded_replacement_ids: ids that no random replacement may be.
    """

    sentence_objective: features.SentenceObjective
    max_seq_length: int
    max_predictions_per_seq: int
    masked_lm_prob: float
    max_ngram: int
    vocab_size: int
    pad_id: int
    cls_id: int
    sep_id: int
    mask_id: int
    excluded_replacement_ids: Sequence[int]

    @property
    def room(self) -> int:
        """Most tokens of a row, without [CLS] and [SEP]s."""
        return features.segment_room(self.max_seq_length, self.sentence_objective)

    @classmethod
    def of(cls, data: DataDirectory) -> MaskingSettings:
        """Settings of a data directory."""
        names = ("max_seq_length", "max_predictions_per_seq", "masked_lm_prob", "max_ngram", "vocab_size")
        return cls(
            sentence_objective=data.sentence_objective,
            **{name: getattr(data, name) for name in names},
            pad_id=data.special_ids["pad"],
            cls_id=data.special_ids["cls"],
            sep_id=data.special_ids["sep"],
            mask_id=data.special_ids["mask"],
            excluded_replacement_ids=data.excluded_replacement_ids,
        )


def make_batch(
    tokens: tf.Tensor,
    word_starts: tf.Tensor,
    lengths: tf.Tensor,
    pair_labels: tf.Tensor | None = None,
    *,
    seed: int | tf.Tensor,
    epochs: tf.Tensor,
    examples: tf.Tensor,
    settings: MaskingSettings,
) -> dict[str, tf.Tensor]:
    """Features of a training batch, all of static shape where B is.

    Args:
      tokens: int32 [B, room], ids of both segments in document order, then filling.
      word_starts: int32 [B, room], 1 where a word starts.
      lengths: int32 [B, 2], tokens of each segment, both at least 1; the second 0 with the objective "none".
      pair_labels: int32 [B], the answers with the objective "nsp"; otherwise None.
      seed: the run's.
      epochs: int64 [B], epoch that each example is seen in.
      examples: int64 [B], number of each example in the data directory.
      settings: lengths, shares and ids.

    Returns:
      `input_ids`, `input_mask`, `segment_ids` int32 [B, S]; `masked_lm_positions`, `masked_lm_ids` int32 [B, P];
      `masked_lm_weights` [B, P] in the default float type; `sentence_order_label` int32 [B].
    """
    keys = randomness.mix(seed, epochs, examples)  # uint32 [B]: all that the draws of an example have in common
    if settings.sentence_objective == "sop":
        swap = tf.cast(tf.bitwise.bitwise_and(randomness.mix(keys, _SWAP), tf.constant(1, tf.uint32)), tf.int32)
        pair_labels = swap
    else:
        swap = tf.zeros_like(lengths[:, 0])
        pair_labels = swap if pair_labels is None else pair_labels
    assembled = _assemble(tokens, word_starts, lengths, swap, settings)
    real = tf.reduce_sum(assembled.mask, axis=1)  # [CLS], [SEP] and [SEP] count, as in the original
    budget = tf.floor(tf.cast(real, tf.float32) * settings.masked_lm_prob + randomness.uniform(keys, _BUDGET))
    budget = tf.clip_by_value(tf.cast(budget, tf.int32), 1, settings.max_predictions_per_seq)
    selected = _select(assembled, keys, budget, settings)
    positions, used = _ascending(selected, settings.max_predictions_per_seq, settings.max_seq_length)  # [B, P]
    labels = tf.where(used, tf.gather(assembled.ids, positions, batch_dims=1), 0)
    shown = _shown_ids(labels, positions, keys, settings)
    return {
        features.INPUT_IDS: _replace(assembled.ids, positions, used, shown),
        features.INPUT_MASK: assembled.mask,
        features.SEGMENT_IDS: assembled.segments,
        features.MASKED_LM_POSITIONS: positions,
        features.MASKED_LM_IDS: labels,
        features.MASKED_LM_WEIGHTS: tf.cast(used, keras.config.floatx()),
        features.SENTENCE_ORDER_LABEL: pair_labels,
    }


@dataclasses.dataclass(frozen=True)
class _Assembled:
    """Unmasked rows, [B, S]: ids, mask, segments int32; bool: where words start, and where words are at all."""

    ids: tf.Tensor
    mask: tf.Tensor
    segments: tf.Tensor
    starts: tf.Tensor
    words: tf.Tensor


def _assemble(
    tokens: tf.Tensor, word_starts: tf.Tensor, lengths: tf.Tensor, swap: tf.Tensor, settings: MaskingSettings
) -> _Assembled:
    """Rows [CLS] first [SEP] second [SEP], without the last two where the second segment is empty.

    `swap` int32 [B] says whether the second segment comes first.
    """
    S = settings.max_seq_length
    exchanged = swap[:, tf.newaxis] > 0
    length_a, length_b = lengths[:, :1], lengths[:, 1:]  # [B, 1]
    first, second = tf.where(exchanged, length_b, length_a), tf.where(exchanged, length_a, length_b)
    place = tf.range(S)[tf.newaxis]  # [1, S]
    in_first = (place >= 1) & (place <= first)
    in_second = (place >= first + 2) & (place < first + second + 2)
    from_first = place - 1 + tf.where(exchanged, length_a, 0)
    from_second = place - first - 2 + tf.where(exchanged, 0, length_a)
    source = tf.clip_by_value(tf.where(in_first, from_first, from_second), 0, settings.room - 1)  # [B, S]
    words = in_first | in_second
    is_real = place < first + second + tf.where(second > 0, 3, 2)
    ids = tf.where(words, tf.gather(tokens, source, batch_dims=1), tf.where(is_real, settings.sep_id, settings.pad_id))
    ids = tf.where(place == 0, settings.cls_id, ids)
    begins_segment = (place == 1) | (place == first + 2)
    starts = words & (begins_segment | (tf.gather(word_starts, source, batch_dims=1) > 0))
    return _Assembled(
        ids=ids,
        mask=tf.cast(is_real, tf.int32),
        segments=tf.cast(is_real & (place >= first + 2), tf.int32),
        starts=starts,
        words=words,
    )


def _select(rows: _Assembled, keys: tf.Tensor, budget: tf.Tensor, settings: MaskingSettings) -> tf.Tensor:
    """Positions to predict, int32 [B, S] in no order, S for none; at most `budget` int32 [B] a row, words whole."""
    S = settings.max_seq_length
    place = tf.range(S)[tf.newaxis]  # [1, S]
    keys = keys[:, tf.newaxis]
    # n-grams: their drawn lengths, one after the other, end at the words `ends`; a segment's first word starts another.
    drawn = randomness.uniform(keys, _NGRAM, place)  # [B, S], one for each n-gram there could be
    ngram_lengths = 1 + tf.add_n([tf.cast(drawn >= limit, tf.int32) for limit in _ngram_limits(settings.max_ngram)])
    ends = tf.cumsum(ngram_lengths, axis=1)
    word = tf.cumsum(tf.cast(rows.starts, tf.int32), axis=1) - 1  # [B, S], number of the word a position is in
    ngram = tf.searchsorted(ends, tf.maximum(word, 0), side="right")
    before = tf.pad(ngram[:, :-1], [[0, 0], [1, 0]], constant_values=-1)
    after_gap = ~tf.pad(rows.words[:, :-1], [[0, 0], [1, 0]])
    ngram_starts = rows.starts & ((ngram != before) | after_gap)
    piece = tf.cumsum(tf.cast(ngram_starts, tf.int32), axis=1)  # numbered again: one may be cut by the second [SEP]

    # The order in which they are taken: sorted by a draw per n-gram; positions that are no words come last.
    rank = tf.cast(tf.bitwise.right_shift(randomness.mix(keys, _ORDER, piece), tf.constant(1, tf.uint32)), tf.int32)
    rank = tf.where(rows.words, rank, tf.int32.max)
    order = tf.argsort(rank, axis=1, stable=True)  # [B, S]; stable: tokens of an n-gram stay in their order
    total = tf.reduce_sum(tf.cast(rows.words, tf.int32), axis=1)  # [B]
    starts = tf.gather(rows.starts, order, batch_dims=1)
    heads = tf.gather(ngram_starts, order, batch_dims=1)
    word_lengths = _count_per_word(word, rows.words)
    head_lengths = tf.where(heads, tf.gather(word_lengths, order, batch_dims=1), S + 1)

    # Words that end within the budget are a prefix; where the next one does not fit, go on at one that does.
    borders = starts | (place == total[:, tf.newaxis])
    at = tf.zeros_like(budget)
    left = budget
    taken = tf.zeros_like(starts)
    for _ in range(1 + _FILL_ROUNDS):
        limit = at + left
        reached = (place >= at[:, tf.newaxis]) & (place <= limit[:, tf.newaxis]) & borders
        end = tf.reduce_max(tf.where(reached, place, 0), axis=1)
        end = tf.maximum(end, at)
        taken |= (place >= at[:, tf.newaxis]) & (place < end[:, tf.newaxis])
        left -= end - at
        fits = (place >= end[:, tf.newaxis]) & (head_lengths <= left[:, tf.newaxis])
        at = tf.reduce_min(tf.where(fits, place, S), axis=1)
        left = tf.where(at < S, left, 0)
    return tf.where(taken, order, S)


def _ngram_limits(max_ngram: int) -> list[float]:
    """Where [0, 1) is cut so that n gets a share proportional to 1/n."""
    shares = np.cumsum(1.0 / np.arange(1, max_ngram + 1))
    return [2.0, *(shares[:-1] / shares[-1]).tolist()]  # 2: never reached, so that the list is not empty


def _count_per_word(word: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
    """Tokens of the word that each position belongs to, int32 [B, S]; of no meaning outside of words."""
    shape = tf.shape(word)
    numbered = tf.maximum(word, 0) + shape[1] * tf.range(shape[0])[:, tf.newaxis]
    flat = tf.reshape(numbered, [-1])
    counts = tf.math.unsorted_segment_sum(tf.reshape(tf.cast(words, tf.int32), [-1]), flat, shape[0] * shape[1])
    return tf.reshape(tf.gather(counts, flat), shape)


def _ascending(selected: tf.Tensor, count: int, none: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Selected positions int32 [B, P], ascending, then 0; and which of them are used, bool [B, P]."""
    values, _ = tf.math.top_k(none - selected, k=count)
    return tf.where(values > 0, none - values, 0), values > 0


def _shown_ids(labels: tf.Tensor, positions: tf.Tensor, keys: tf.Tensor, settings: MaskingSettings) -> tf.Tensor:
    """What the model sees at the selected positions, int32 [B, P]."""
    allowed = np.setdiff1d(np.arange(settings.vocab_size, dtype=np.int32), settings.excluded_replacement_ids)
    keys = keys[:, tf.newaxis]
    fate = randomness.uniform(keys, _FATE, positions)
    draws = randomness.mix(keys, _REPLACEMENT, positions) % tf.constant(len(allowed), tf.uint32)
    random_ids = tf.gather(tf.constant(allowed), tf.cast(draws, tf.int32))
    kept = tf.where(fate < MASK_SHARE + KEEP_SHARE, labels, random_ids)
    return tf.where(fate < MASK_SHARE, settings.mask_id, kept)


def _replace(ids: tf.Tensor, positions: tf.Tensor, used: tf.Tensor, shown: tf.Tensor) -> tf.Tensor:
    """`ids` with `shown` at the used positions."""
    shape = tf.shape(ids)
    width = shape[1] + 1  # one more column takes what is written for unused entries
    columns = tf.where(used, positions, shape[1])
    flat = columns + width * tf.range(shape[0])[:, tf.newaxis]
    padded = tf.reshape(tf.pad(ids, [[0, 0], [0, 1]]), [-1])
    written = tf.tensor_scatter_nd_update(padded, tf.reshape(flat, [-1, 1]), tf.reshape(shown, [-1]))
    return tf.ensure_shape(tf.reshape(written, [-1, width])[:, :-1], ids.shape)
