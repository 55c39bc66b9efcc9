"""Segments: a tokenised document to pairs of adjacent segments, and pairs to padded rows.

As in the original (`create_instances_from_document`): sentences are gathered until a target length is reached, and the
chunk is split into A and B at a sentence boundary. Unlike there no token is cut away: what does not fit is carried over
to the next chunk; the short target is drawn for each example; a chunk within one sentence is split at a word start
instead of getting a second segment from another document.
"""

from __future__ import annotations

import bisect
import dataclasses

import numpy as np

from pipelines.sentences import TokenizedDocument


@dataclasses.dataclass(frozen=True, kw_only=True)
class Segments:
    """Pairs of adjacent segments of one document.

    Attributes:
      spans: int64 [B, 3], positions (begin, middle, end): A is `begin:middle`, B is `middle:end`.
      tokens_single_word: tokens left out because a chunk of one word cannot be split in two.
      words_cut: words longer than a whole sequence, cut inside.
    """

    spans: np.ndarray
    tokens_single_word: int
    words_cut: int


def cut_document(
    document: TokenizedDocument, *, room: int, short_seq_prob: float, generator: np.random.Generator
) -> Segments:
    """Cuts a document into pairs of segments.

    Args:
      document: its ids with word and sentence starts.
      room: most tokens in A and B together.
      short_seq_prob: probability that an example aims at a length drawn evenly from [2, room] instead of at `room`.
      generator: source of every draw.

    Raises:
      ValueError: if `room` is below 2 or `short_seq_prob` is not in [0, 1].
    """
    if room < 2:
        raise ValueError(f"room must be at least 2 tokens, got {room}")
    if not 0.0 <= short_seq_prob <= 1.0:
        raise ValueError(f"short_seq_prob must be in [0, 1], got {short_seq_prob}")
    size = len(document.ids)
    words = [*np.flatnonzero(document.word_starts).tolist(), size]
    sentences = [*document.sentence_starts.tolist(), size]
    spans: list[tuple[int, int, int]] = []
    tokens_single_word = words_cut = 0
    begin = 0
    while begin < size:
        target = room
        if generator.random() < short_seq_prob:
            target = int(generator.integers(2, room, endpoint=True))
        end, in_word = _chunk_end(begin, words, sentences, target=target, room=room)
        words_cut += in_word
        middle = _split(begin, end, words, sentences, generator)
        if middle is None:
            tokens_single_word += end - begin
        else:
            spans.append((begin, middle, end))
        begin = end
    return Segments(
        spans=np.array(spans, dtype=np.int64).reshape(-1, 3),
        tokens_single_word=tokens_single_word,
        words_cut=words_cut,
    )


def _chunk_end(begin: int, words: list[int], sentences: list[int], *, target: int, room: int) -> tuple[int, bool]:
    """End of the chunk that starts at `begin`, and whether it lies inside a word."""
    size = words[-1]
    second_word = words[min(bisect.bisect_right(words, begin), len(words) - 1)]
    # At least two words, else the chunk could not be split.
    index = bisect.bisect_left(sentences, max(begin + target, second_word + 1))
    end = sentences[index] if index < len(sentences) else size
    if end - begin > room:
        end = words[bisect.bisect_right(words, begin + room) - 1]
        if end <= begin:
            return begin + room, True
    rest = len(words) - 1 - bisect.bisect_left(words, end)
    if rest == 1:  # a single last word could not be split; take it in, or leave it a companion
        if size - begin <= room:
            return size, False
        if len(words) - 3 - bisect.bisect_left(words, begin) >= 2:
            return words[-3], False
    return end, False


def _split(begin: int, end: int, words: list[int], sentences: list[int], generator: np.random.Generator) -> int | None:
    """Position where B starts: a sentence start inside the chunk, else a word start, else None."""
    for boundaries in (sentences, words):
        first = bisect.bisect_right(boundaries, begin)
        count = bisect.bisect_left(boundaries, end) - first
        if count > 0:
            return boundaries[first + int(generator.integers(count))]
    return None


@dataclasses.dataclass(frozen=True, kw_only=True)
class PackedPairs:
    """Pairs as `[CLS] first [SEP] second [SEP]`, padded.

    Attributes:
      input_ids, input_mask, segment_ids: int32 [B, S].
      token_boundary: bool [B, S], True at word starts and special tokens, False in padding.
      maskable: bool [B, S], True at the segments' tokens.
    """

    input_ids: np.ndarray
    input_mask: np.ndarray
    segment_ids: np.ndarray
    token_boundary: np.ndarray
    maskable: np.ndarray


def pack_pairs(
    document: TokenizedDocument,
    spans: np.ndarray,
    swapped: np.ndarray,
    *,
    max_seq_length: int,
    cls_id: int,
    sep_id: int,
    pad_id: int,
) -> PackedPairs:
    """Rows of the model's inputs for pairs of one document.

    Args:
      document: its ids and word starts.
      spans: int64 [B, 3] (`Segments.spans`), each at most `max_seq_length - 3` tokens long.
      swapped: bool [B], True where B comes first.
      max_seq_length: S.
      cls_id, sep_id, pad_id: special ids.
    """
    begin, middle, end = (spans[:, i, np.newaxis] for i in range(3))
    swapped = swapped[:, np.newaxis]
    first = np.where(swapped, middle, begin)
    second = np.where(swapped, begin, middle)
    first_length = np.where(swapped, end - middle, middle - begin)
    length = end - begin
    column = np.arange(max_seq_length)[np.newaxis, :]
    in_first = (column >= 1) & (column <= first_length)
    in_second = (column >= first_length + 2) & (column <= length + 1)
    is_sep = (column == first_length + 1) | (column == length + 2)
    maskable = in_first | in_second
    source = np.where(in_first, first + column - 1, second + column - first_length - 2)
    source = np.where(maskable, source, 0)
    # A segment's first token starts a word even where a word longer than the sequence was cut.
    starts = document.word_starts[source] | (column == 1) | (column == first_length + 2)
    input_ids = np.where(maskable, document.ids[source], np.where(is_sep, sep_id, pad_id)).astype(np.int32)
    input_ids[:, 0] = cls_id
    is_special = is_sep | (column == 0)
    return PackedPairs(
        input_ids=input_ids,
        input_mask=(column <= length + 2).astype(np.int32),
        segment_ids=(in_second | (column == length + 2)).astype(np.int32),
        token_boundary=(maskable & starts) | is_special,
        maskable=maskable,
    )
