"""Masking on the fly, one example at a time in plain Python."""

from __future__ import annotations

from typing import Any

import numpy as np

from albert_tf.randomness import mix_numpy


def _uniform(*words: int) -> np.float32:
    return np.float32(int(mix_numpy(*words)) >> 8) * np.float32(2.0**-24)


def _ngram_lengths(key: int, count: int, max_ngram: int) -> list[int]:
    shares = np.cumsum(1.0 / np.arange(1, max_ngram + 1))
    limits = (shares[:-1] / shares[-1]).astype(np.float32)
    return [1 + int(np.sum(_uniform(key, 3, k) >= limits)) for k in range(count)]


def _words(row: list[int], starts: list[bool], is_word: list[bool]) -> list[list[int]]:
    """Positions of each word."""
    words: list[list[int]] = []
    for place in range(len(row)):
        if is_word[place] and starts[place]:
            words.append([])
        if is_word[place]:
            words[-1].append(place)
    return words


def make_row(
    segments: tuple[list[int], list[int]],
    word_starts: tuple[list[int], list[int]],
    *,
    seed: int,
    epoch: int,
    example: int,
    label: int = 0,
    sentence_objective: str,
    max_seq_length: int,
    max_predictions_per_seq: int,
    masked_lm_prob: float,
    max_ngram: int,
    vocab_size: int,
    pad_id: int,
    cls_id: int,
    sep_id: int,
    mask_id: int,
    excluded_replacement_ids: list[int],
) -> dict[str, Any]:
    """All features of one example, and `ngrams`: the positions taken, n-gram by n-gram in the order they were."""
    key = int(mix_numpy(seed, epoch, example))
    swap = int(mix_numpy(key, 1)) & 1 if sentence_objective == "sop" else 0
    (first, second) = segments[::-1] if swap else segments
    (first_starts, second_starts) = word_starts[::-1] if swap else word_starts
    row = [cls_id, *first, sep_id]
    is_word = [False, *[True] * len(first), False]
    starts = [False, True, *map(bool, first_starts[1:]), False]
    second_at = len(row)
    if second:
        row += [*second, sep_id]
        is_word += [*[True] * len(second), False]
        starts += [True, *map(bool, second_starts[1:]), False]
    budget = int(np.floor(np.float32(len(row)) * np.float32(masked_lm_prob) + _uniform(key, 2)))
    budget = min(max(budget, 1), max_predictions_per_seq)

    words = _words(row, starts, is_word)
    pieces: list[list[list[int]]] = []  # n-grams of words of positions
    lengths = iter(_ngram_lengths(key, max_seq_length, max_ngram))
    left = 0
    for word in words:
        if left == 0 or word[0] == second_at:  # the second segment cuts an n-gram in two
            pieces.append([])
        if left == 0:
            left = next(lengths)
        pieces[-1].append(word)
        left -= 1
    order = sorted(range(len(pieces)), key=lambda k: int(mix_numpy(key, 4, k + 1)) >> 1)

    taken: list[list[int]] = []
    rounds, running = 0, True
    for number in order:
        if not running:
            if len(pieces[number][0]) > budget:
                continue
            rounds, running = rounds + 1, True
            if rounds > 3:
                break
        taken.append([])
        for word in pieces[number]:
            if len(word) > budget:
                running = False
                break
            taken[-1] += word
            budget -= len(word)
    positions = sorted(p for piece in taken for p in piece)
    allowed = [i for i in range(vocab_size) if i not in excluded_replacement_ids]
    shown = list(row)
    for place in positions:
        fate = _uniform(key, 5, place)
        if fate < np.float32(0.8):
            shown[place] = mask_id
        elif fate >= np.float32(0.9):
            shown[place] = allowed[int(mix_numpy(key, 6, place)) % len(allowed)]
    filling, unused = [0] * (max_seq_length - len(row)), [0] * (max_predictions_per_seq - len(positions))
    return {
        "input_ids": shown + [pad_id] * len(filling),
        "input_mask": [1] * len(row) + filling,
        "segment_ids": [0] * second_at + [1] * (len(row) - second_at) + filling,
        "masked_lm_positions": positions + unused,
        "masked_lm_ids": [row[p] for p in positions] + unused,
        "masked_lm_weights": [1.0] * len(positions) + [0.0] * len(unused),
        "sentence_order_label": swap if sentence_objective == "sop" else label,
        "ngrams": taken,
    }
