"""Checks of records that are read: does each hold what the contract says, beyond names, types and lengths?

All rows of a batch are looked at together; what is told is the first row that is wrong and the first thing wrong in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from albert_tf import features
from albert_tf.data.manifest import DataDirectory
from pipelines.audit.example_message import Column


class RecordChecker:
    """Looks for the first record of a batch that breaks the contract.

    Args:
      data: lengths and ids that hold for all records.
    """

    def __init__(self, data: DataDirectory):
        self._data = data
        self._is_excluded = np.zeros(data.vocab_size, dtype=bool)  # what no random replacement may be
        self._is_excluded[list(data.excluded_replacement_ids)] = True
        self._is_excluded[[data.special_ids[name] for name in data.special_ids]] = True
        self._has_second = data.sentence_objective != "none"
        self._is_special = self._is_excluded.copy()  # what no text may give; unknown text does give the id of unk
        self._is_special[data.special_ids["unk"]] = False

    def check(self, columns: Mapping[str, Column]) -> tuple[int, str] | None:
        """Row and fault of the first wrong record, None if all B are right; `columns` is of the contract's lengths."""
        found = _First(len(next(iter(columns.values())).lengths))
        if not found.row:
            return None
        if self._data.masking == "dynamic":
            self._check_dynamic(columns, found)
        else:
            arrays = {name: column.values.reshape(found.row, -1) for name, column in columns.items()}
            self._check_layout(arrays, found)
            self._check_predictions(arrays, found)
        return (found.row, found.reason) if found.reason else None

    def _check_layout(self, arrays: Mapping[str, np.ndarray], found: _First) -> None:
        """[CLS] first [SEP] second [SEP], then padding; arrays are int64 [B, S]."""
        ids, mask, segments, boundary = (
            arrays[name]
            for name in (features.INPUT_IDS, features.INPUT_MASK, features.SEGMENT_IDS, features.TOKEN_BOUNDARY)
        )
        pad, cls, sep = (self._data.special_ids[name] for name in ("pad", "cls", "sep"))
        self._check_range(features.INPUT_IDS, ids, found)
        for name in (features.INPUT_MASK, features.SEGMENT_IDS, features.TOKEN_BOUNDARY):
            found.note_values(_not_binary(arrays[name]), arrays[name], f"{name} must be 0 or 1")
        column, real = np.arange(ids.shape[1]), mask.sum(axis=1)[:, np.newaxis]
        second = real - segments.sum(axis=1)[:, np.newaxis]  # where the second segment begins
        is_real = column < real
        found.note_values(mask != is_real, mask, "input_mask must be ones, then zeros")
        found.note_values((column == 0) & (ids != cls), ids, f"input_ids must begin with [CLS] ({cls})")
        found.note_values(~is_real & (segments != 0), segments, "segment_ids must be 0 in padding")
        wrong = segments != (is_real & (column >= second))
        found.note_values(wrong, segments, "segment_ids must be zeros, then ones up to the last real position")
        if self._has_second:
            found.note(
                ((second < 3) | (real - second < 2))[:, 0],
                lambda row: (
                    f"each segment must hold a token, got {max(0, second[row, 0] - 2)} and "
                    f"{max(0, real[row, 0] - second[row, 0] - 1)}"
                ),
            )
        else:
            found.note((second < 3)[:, 0], lambda row: f"the segment must hold a token, got {real[row, 0]} positions")
            found.note_values(segments != 0, segments, "segment_ids must be 0, since there is one segment")
        ends = (column == second - 1) | (column == real - 1)
        found.note_values(ends & (ids != sep), ids, f"input_ids must be [SEP] ({sep}) where a segment ends")
        found.note_values(~is_real & (ids != pad), ids, f"input_ids must be pad ({pad}) in padding")
        starts = ends | (column <= 1) | ((column == second) & is_real)
        found.note_values(
            starts & (boundary != 1), boundary, "token_boundary must be 1 at special tokens and where a segment starts"
        )
        found.note_values(~is_real & (boundary != 0), boundary, "token_boundary must be 0 in padding")

    def _check_predictions(self, arrays: Mapping[str, np.ndarray], found: _First) -> None:
        """Predictions, [B, P], and what the model sees at them; no special id among the tokens."""
        positions, labels, weights = (
            arrays[name] for name in (features.MASKED_LM_POSITIONS, features.MASKED_LM_IDS, features.MASKED_LM_WEIGHTS)
        )
        ids, mask_id = arrays[features.INPUT_IDS], self._data.special_ids["mask"]
        real = arrays[features.INPUT_MASK].sum(axis=1)[:, np.newaxis]
        first_sep = real - arrays[features.SEGMENT_IDS].sum(axis=1)[:, np.newaxis] - 1
        place = "prediction"
        found.note_values(_not_binary(weights), weights, "masked_lm_weights must be 0 or 1", place)
        used = np.arange(weights.shape[1]) < (weights == 1).sum(axis=1)[:, np.newaxis]
        found.note_values(weights != used, weights, "masked_lm_weights must be ones, then zeros", place)
        for name in (features.MASKED_LM_POSITIONS, features.MASKED_LM_IDS):
            values = arrays[name]
            found.note_values(~used & (values != 0), values, f"{name} must be 0 where the weight is 0", place)
        outside = (positions < 1) | (positions >= real - 1) | (positions == first_sep)
        message = "masked_lm_positions must be tokens, not [CLS], [SEP] or padding"
        found.note_values(used & outside, positions, message, place)
        descends = np.diff(positions, axis=1, prepend=-1) <= 0
        found.note_values(used & descends, positions, "masked_lm_positions must ascend", place)
        self._check_range(features.MASKED_LM_IDS, labels, found, place)
        found.note_values(
            used & self._look_up(self._is_special, labels), labels, "masked_lm_ids must be no special id", place
        )
        rows = np.arange(len(ids))[:, np.newaxis]
        places = np.where(used & ~outside, positions, 0)
        shown = ids[rows, places]
        wrong = used & self._look_up(self._is_excluded, shown) & (shown != mask_id) & (shown != labels)
        found.note_values(wrong, shown, "input_ids must show [MASK], the label or no special id where masked", place)
        column = np.arange(ids.shape[1])
        is_text = (column >= 1) & (column < real - 1) & (column != first_sep)
        is_text[rows, places] = False  # masked, or [CLS]
        found.note_values(
            is_text & self._look_up(self._is_special, ids), ids, "input_ids must be no special id among the tokens"
        )
        self._check_label(arrays[features.NEXT_SENTENCE_LABELS], found)

    def _check_label(self, label: np.ndarray, found: _First) -> None:
        """`label` int64 [B, 1]."""
        name = features.NEXT_SENTENCE_LABELS
        found.note(_not_binary(label)[:, 0], lambda row: f"{name} must be 0 or 1, got {label[row, 0]}")
        if not self._has_second:
            found.note(label[:, 0] != 0, lambda _: f"{name} must be 0, since there is one segment, got 1")

    def _check_dynamic(self, columns: Mapping[str, Column], found: _First) -> None:
        """Two segments without special tokens."""
        tokens, starts = columns[features.SEGMENT_TOKENS], columns[features.WORD_STARTS]
        lengths = columns[features.SEGMENT_LENGTHS].values.reshape(-1, 2)
        room = features.segment_room(self._data.max_seq_length, self._data.sentence_objective)
        sizes = tokens.lengths
        wrong, rule = (lengths < 1).any(axis=1), "at least 1"
        if not self._has_second:
            wrong, rule = (lengths[:, 0] < 1) | (lengths[:, 1] != 0), "at least 1 and 0"
        found.note(wrong, lambda row: f"segment_lengths must be {rule}, got {lengths[row, 0]} and {lengths[row, 1]}")
        # Each alone is bounded too, lest the sum of two huge ones wraps round.
        found.note(
            (lengths > sizes[:, np.newaxis]).any(axis=1) | (lengths.sum(axis=1) != sizes),
            lambda row: (
                f"segment_lengths must sum up to the {sizes[row]} values of segment_tokens, got {lengths[row, 0]} "
                f"and {lengths[row, 1]}"
            ),
        )
        found.note(sizes > room, lambda row: f"segment_tokens must have at most {room} values, got {sizes[row]}")
        found.note(
            starts.lengths != sizes,
            lambda row: f"word_starts must have {sizes[row]} values, got {starts.lengths[row]}",
        )
        found.note_flat((tokens.values < 0) | (tokens.values >= self._data.vocab_size), tokens, self._range_message)
        special = self._look_up(self._is_special, tokens.values)
        found.note_flat(special, tokens, "segment_tokens must be no special id")
        found.note_flat(_not_binary(starts.values), starts, "word_starts must be 0 or 1")
        begins = np.cumsum(starts.lengths) - starts.lengths
        middles = begins + np.clip(lengths[:, 0], 0, starts.lengths)
        places = np.stack([begins, middles if self._has_second else begins], axis=1)
        padded = np.append(starts.values, 0)
        found.note(
            (padded[np.minimum(places, len(padded) - 1)] != 1).any(axis=1),
            lambda _: "word_starts must be 1 where a segment starts",
        )
        if features.NEXT_SENTENCE_LABELS in columns:
            self._check_label(columns[features.NEXT_SENTENCE_LABELS].values.reshape(-1, 1), found)

    @property
    def _range_message(self) -> str:
        return f"segment_tokens must be in [0, {self._data.vocab_size})"

    def _check_range(self, name: str, values: np.ndarray, found: _First, place: str = "position") -> None:
        V = self._data.vocab_size
        found.note_values((values < 0) | (values >= V), values, f"{name} must be in [0, {V})", place)

    def _look_up(self, table: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """`table` at `ids`; those out of range are told of before."""
        return table[np.clip(ids, 0, self._data.vocab_size - 1)]


def _not_binary(values: np.ndarray) -> np.ndarray:
    return (values != 0) & (values != 1)


class _First:
    """The first row found wrong so far, and why; of two faults in a row, the one that was noted first.

    Args:
      rows: B, and so the number of the row while none is wrong.
    """

    def __init__(self, rows: int):
        self.row = rows
        self.reason = ""

    def note(self, wrong: Any, reason: Callable[[int], str]) -> None:
        """`wrong` bool [B]."""
        if wrong.any() and (row := int(wrong.argmax())) < self.row:
            self.row, self.reason = row, reason(row)

    def note_values(self, wrong: np.ndarray, values: np.ndarray, rule: str, place: str = "position") -> None:
        """`wrong` bool [B, n], which of `values` [B, n] break `rule`."""

        def reason(row: int) -> str:
            at = int(wrong[row].argmax())
            return f"{rule}, got {values[row, at]} at {place} {at}"

        self.note(wrong.any(axis=1), reason)

    def note_flat(self, wrong: np.ndarray, column: Column, rule: str) -> None:
        """`wrong` bool, which of the column's values break `rule`."""
        if wrong.any():
            at = int(wrong.argmax())
            ends = np.cumsum(column.lengths)
            row = int(np.searchsorted(ends, at, side="right"))
            if row < self.row:
                position = at - int(ends[row] - column.lengths[row])
                self.row, self.reason = row, f"{rule}, got {column.values[at]} at position {position}"
