"""Rows: pairs of segments as the model's inputs, `[CLS] first [SEP] second [SEP]`, padded."""

from __future__ import annotations

import dataclasses

import numpy as np

from pipelines.pairs import Pairs


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rows:
    """B rows of S positions; those with an empty second segment are `[CLS] first [SEP]`.

    Attributes:
      input_ids, input_mask, segment_ids: int32 [B, S].
      token_boundary: bool [B, S], True at word starts and special tokens, False in padding.
      maskable: bool [B, S], True at the segments' tokens.
      real_lengths: int64 [B], positions that are not padding.
      first_lengths: int64 [B], tokens of the segment that comes first.
    """

    input_ids: np.ndarray
    input_mask: np.ndarray
    segment_ids: np.ndarray
    token_boundary: np.ndarray
    maskable: np.ndarray
    real_lengths: np.ndarray
    first_lengths: np.ndarray


def lay_out(pairs: Pairs, swapped: np.ndarray, *, max_seq_length: int, cls_id: int, sep_id: int, pad_id: int) -> Rows:
    """Rows of the model's inputs.

    Args:
      pairs: what goes into the rows; with its special ids each must fit into `max_seq_length`.
      swapped: bool [B], True where B comes first.
      max_seq_length: S.
      cls_id, sep_id, pad_id: special ids.
    """
    swapped = swapped[:, np.newaxis]
    begin = pairs.begins[:, np.newaxis]
    length_a, length_b = pairs.lengths[:, :1], pairs.lengths[:, 1:]
    first = np.where(swapped, begin + length_a, begin)
    second = np.where(swapped, begin, begin + length_a)
    first_length, second_length = np.where(swapped, length_b, length_a), np.where(swapped, length_a, length_b)
    has_second = second_length > 0
    column = np.arange(max_seq_length)[np.newaxis, :]
    second_at = first_length + 2
    last = first_length + 1 + np.where(has_second, second_length + 1, 0)
    in_first = (column >= 1) & (column <= first_length)
    in_second = (column >= second_at) & (column < second_at + second_length)
    is_sep = (column == first_length + 1) | (column == last)
    maskable = in_first | in_second
    source = np.where(in_first, first + column - 1, second + column - second_at)
    source = np.where(maskable, source, 0)
    input_ids = np.where(maskable, pairs.ids[source], np.where(is_sep, sep_id, pad_id)).astype(np.int32)
    input_ids[:, 0] = cls_id
    return Rows(
        input_ids=input_ids,
        input_mask=(column <= last).astype(np.int32),
        segment_ids=(in_second | (has_second & (column == last))).astype(np.int32),
        token_boundary=(maskable & pairs.word_starts[source]) | is_sep | (column == 0),
        maskable=maskable,
        real_lengths=last[:, 0] + 1,
        first_lengths=first_length[:, 0],
    )
