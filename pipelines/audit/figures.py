"""Figures of a data directory, summed up batch by batch, and what they should be.

Bounds of what is random are four standard errors: one sound figure in sixteen thousand lies outside.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from typing import NamedTuple

import numpy as np

from albert_tf.data.manifest import DataDirectory
from pipelines.audit.masked_rows import MaskedRows
from pipelines.masking import KEEP_SHARE, MASK_SHARE

STANDARD_ERRORS = 4.0
_HASH_BYTES = 16  # two of 10^12 examples agree by chance once in 10^14 directories


class Figure(NamedTuple):
    """A share that was measured, and the range in which it should lie; no range where none is known."""

    measured: float
    expected: float | None = None
    lowest: float = 0.0
    highest: float = 1.0

    @property
    def is_ok(self) -> bool:
        """Whether it lies in its range; a last digit's rounding does not count."""
        return self.lowest - 1e-12 <= self.measured <= self.highest + 1e-12


def binomial(hits: float, trials: int, probability: float) -> Figure:
    """Share of `hits`, with the range for independent trials of `probability`."""
    error = STANDARD_ERRORS * math.sqrt(probability * (1 - probability) / max(trials, 1))
    return Figure(hits / max(trials, 1), probability, max(0.0, probability - error), min(1.0, probability + error))


@dataclasses.dataclass(kw_only=True)
class Masks:
    """Sums over predictions; in the attributes' names "masked" means "to predict", whatever is shown.

    Attributes:
      masked: positions to predict.
      shown_mask, shown_same, shown_other: of these, what the model sees: [MASK], the token itself, another one.
      replaceable: of these, tokens that a random replacement may be too.
      full: rows with P predictions.
      words_cut: words of which some tokens are masked and some not.
      runs: int64 [longest + 1], runs of adjacent masked words by their length in words.
      expected, variance: of `masked`, were every budget used up.
      left_over: most predictions that may be missing since no word was short enough for what was left of a budget.
    """

    masked: int = 0
    shown_mask: int = 0
    shown_same: int = 0
    shown_other: int = 0
    replaceable: int = 0
    full: int = 0
    words_cut: int = 0
    runs: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    expected: float = 0.0
    variance: float = 0.0
    left_over: int = 0


class Figures:
    """Sums over all rows added so far.

    Args:
      data: lengths, shares and ids.

    Attributes:
      examples, tokens, unknown, real, labels_1: rows; tokens without special ones; of these unknown; positions that
        are not padding; rows whose label is 1.
      lengths: int64 [S + 1], rows by real positions.
      piece_counts: int64 [V], occurrences of each id among the tokens.
      masks: see there.
    """

    def __init__(self, data: DataDirectory):
        self._data = data
        self._hashes = bytearray()
        self._is_excluded = np.zeros(data.vocab_size, dtype=bool)
        self._is_excluded[list(data.excluded_replacement_ids)] = True
        self.examples = self.tokens = self.unknown = self.real = self.labels_1 = 0
        self.lengths = np.zeros(data.max_seq_length + 1, dtype=np.int64)
        self.piece_counts = np.zeros(data.vocab_size, dtype=np.int64)
        self.masks = Masks()

    def add(self, rows: MaskedRows) -> None:
        """Adds B rows."""
        tokens = rows.ids[rows.is_token]
        self.examples += len(rows.ids)
        self.tokens += len(tokens)
        self.unknown += int(np.count_nonzero(tokens == self._data.special_ids["unk"]))
        self.real += int(rows.real_lengths.sum())
        self.labels_1 += int(rows.labels.sum())
        self.lengths += np.bincount(rows.real_lengths, minlength=len(self.lengths))
        self.piece_counts += np.bincount(tokens, minlength=len(self.piece_counts))
        for text in rows.texts():
            self._hashes += hashlib.blake2b(text, digest_size=_HASH_BYTES).digest()
        self._add_shown(rows)
        self._add_words(rows)

    def _add_shown(self, rows: MaskedRows) -> None:
        masks = self.masks
        labels, shown = rows.ids[rows.is_masked], rows.shown_ids[rows.is_masked]
        is_mask, is_same = shown == self._data.special_ids["mask"], shown == labels
        masks.masked += len(labels)
        masks.shown_mask += int(is_mask.sum())
        masks.shown_same += int(is_same.sum())
        masks.shown_other += int((~is_mask & ~is_same).sum())
        masks.replaceable += int((~self._is_excluded[labels]).sum())

    def _add_words(self, rows: MaskedRows) -> None:
        """Whole words and their runs, and how many predictions each row could have."""
        masks, P = self.masks, self._data.max_predictions_per_seq
        B, S = rows.ids.shape
        # Units, flat: words, and every other position by itself. None crosses rows, since all begin with [CLS].
        begins = np.flatnonzero((rows.token_boundary | ~rows.is_token).ravel())
        is_word = rows.is_token.ravel()[begins]
        sizes = np.diff(begins, append=B * S)
        hidden = np.add.reduceat(rows.is_masked.ravel().astype(np.int64), begins)
        masks.words_cut += int((is_word & (hidden > 0) & (hidden < sizes)).sum())
        self._add_runs(hidden == sizes)

        counts = rows.is_masked.sum(axis=1)
        masks.full += int((counts == P).sum())
        budgets = rows.real_lengths * self._data.masked_lm_prob
        if self._data.original_compatible:
            budgets = np.rint(budgets)
        lower, higher = np.clip(np.floor(budgets), 1, P), np.clip(np.floor(budgets) + 1, 1, P)
        up = budgets - np.floor(budgets)
        masks.expected += float((lower + up * (higher - lower)).sum())
        masks.variance += float((up * (1 - up) * (higher - lower) ** 2).sum())
        shortest = np.full(B, S)
        free = is_word & (hidden == 0)
        np.minimum.at(shortest, begins[free] // S, sizes[free])
        most = np.where(up > 0, higher, lower).astype(np.int64)
        masks.left_over += int(np.clip(most - counts, 0, shortest - 1).sum())

    def _add_runs(self, is_whole: np.ndarray) -> None:
        edges = np.diff(is_whole.astype(np.int8), prepend=0, append=0)
        lengths = np.bincount(np.flatnonzero(edges < 0) - np.flatnonzero(edges > 0))
        runs = np.zeros(max(len(lengths), len(self.masks.runs)), dtype=np.int64)
        runs[: len(self.masks.runs)] += self.masks.runs
        runs[: len(lengths)] += lengths
        self.masks.runs = runs

    def duplicates(self) -> int:
        """Examples whose tokens are those of another one that is counted already."""
        hashes = np.sort(np.frombuffer(bytes(self._hashes), dtype=f"S{_HASH_BYTES}"))
        return int((hashes[1:] == hashes[:-1]).sum())

    def padding(self) -> Figure:
        """Share of all positions that is padding."""
        return Figure(1 - self.real / max(1, self.examples * self._data.max_seq_length))

    def masked(self) -> Figure:
        """Share of the real positions to predict.

        A row's budget is its share of positions, rounded up or down at random, at least 1 and at most P. Words stay
        whole, so what is left of it may be too little for any word: the range reaches down by what that explains.
        """
        masks, real = self.masks, max(1, self.real)
        error = STANDARD_ERRORS * math.sqrt(masks.variance)
        return Figure(
            masks.masked / real,
            masks.expected / real,
            (masks.expected - error - masks.left_over) / real,
            (masks.expected + error) / real,
        )

    def shown(self) -> dict[str, Figure]:
        """Shares of the predictions by what the model sees there."""
        masks = self.masks
        allowed = int((~self._is_excluded).sum())
        # A random piece is sometimes the token itself.
        same = (1 - MASK_SHARE - KEEP_SHARE) * masks.replaceable / max(1, masks.masked * allowed)
        return {
            "[MASK]": binomial(masks.shown_mask, masks.masked, MASK_SHARE),
            "the token itself": binomial(masks.shown_same, masks.masked, KEEP_SHARE + same),
            "another piece": binomial(masks.shown_other, masks.masked, 1 - MASK_SHARE - KEEP_SHARE - same),
        }
