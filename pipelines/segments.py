"""Segments: a tokenised document to pairs of adjacent segments.

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
    """Pairs of adjacent segments of one document, or segments by themselves.

    Attributes:
      spans: int64 [B, 3], positions (begin, middle, end): A is `begin:middle`, B is `middle:end`, perhaps empty.
      wanted: int64 [B], tokens of another document that B should have; 0 where B is there, or none is to be.
      tokens_single_word: tokens left out because a chunk of one word cannot be split in two.
      words_cut: words longer than a whole sequence, cut inside.
      short_targets: examples that aim at a shorter length than a sequence can have.
    """

    spans: np.ndarray
    wanted: np.ndarray
    tokens_single_word: int
    words_cut: int
    short_targets: int


def cut_document(
    document: TokenizedDocument,
    *,
    room: int,
    short_seq_prob: float,
    generator: np.random.Generator,
    in_pairs: bool = True,
) -> Segments:
    """Cuts a document into pairs of segments.

    Args:
      document: its ids with word and sentence starts.
      room: most tokens in A and B together.
      short_seq_prob: probability that an example aims at a length drawn evenly from [2, room] instead of at `room`.
      generator: source of every draw.
      in_pairs: whether chunks are split in two; otherwise B is empty.

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
    tokens_single_word = words_cut = short_targets = 0
    begin = 0
    while begin < size:
        target = room
        if generator.random() < short_seq_prob:
            target = int(generator.integers(2, room, endpoint=True))
        end, in_word = _chunk_end(begin, words, sentences, target=target, room=room, in_pairs=in_pairs)
        words_cut += in_word
        middle = _split(begin, end, words, sentences, generator) if in_pairs else end
        if middle is None and (in_word or not document.word_starts[begin]) and end - begin > 1:
            middle = int(generator.integers(begin + 1, end))  # part of a word that is longer than a sequence
        if middle is None:
            tokens_single_word += end - begin
        else:
            spans.append((begin, middle, end))
            short_targets += target < room
        begin = end
    return Segments(
        spans=np.array(spans, dtype=np.int64).reshape(-1, 3),
        wanted=np.zeros(len(spans), dtype=np.int64),
        tokens_single_word=tokens_single_word,
        words_cut=words_cut,
        short_targets=short_targets,
    )


def _chunk_end(
    begin: int, words: list[int], sentences: list[int], *, target: int, room: int, in_pairs: bool
) -> tuple[int, bool]:
    """End of the chunk that starts at `begin`, and whether it lies inside a word."""
    size = words[-1]
    least = 1
    if in_pairs:  # at least two words, else the chunk could not be split
        least = words[min(bisect.bisect_right(words, begin), len(words) - 1)] - begin + 1
    index = bisect.bisect_left(sentences, begin + max(target, least))
    end = sentences[index] if index < len(sentences) else size
    if end - begin > room:
        end = words[bisect.bisect_right(words, begin + room) - 1]
        if end <= begin:
            return begin + room, True
    rest = len(words) - 1 - bisect.bisect_left(words, end)
    if in_pairs and rest == 1:  # a single last word could not be split; take it in, or leave it a companion
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
