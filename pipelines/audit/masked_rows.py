"""Masked rows: records of either form as the model would see them, with what is hidden.

Static records hold order and masks. For dynamic ones both are drawn here, with the functions that make static records.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

import numpy as np

from albert_tf import features
from albert_tf.data.manifest import DataDirectory
from pipelines import draws, masking
from pipelines.audit.example_message import Column
from pipelines.pairs import Pairs
from pipelines.rows import lay_out


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskedRows:
    """B rows `[CLS] first [SEP] second [SEP]`, or `[CLS] first [SEP]`, padded.

    Attributes:
      shown_ids: int64 [B, S], what the model sees.
      ids: int64 [B, S], the same unmasked.
      is_masked: bool [B, S], True at the positions to predict.
      is_token: bool [B, S], True at the segments' tokens.
      token_boundary: bool [B, S], True at word starts and special tokens.
      real_lengths: int64 [B], positions that are not padding.
      first_lengths: int64 [B], tokens of the segment that comes first.
      labels: bool [B], the sentence objective's answers.
      is_swapped: bool [B], True where the segment that comes first is the one that comes later in the text.
    """

    shown_ids: np.ndarray
    ids: np.ndarray
    is_masked: np.ndarray
    is_token: np.ndarray
    token_boundary: np.ndarray
    real_lengths: np.ndarray
    first_lengths: np.ndarray
    labels: np.ndarray
    is_swapped: np.ndarray

    def one(self, row: int) -> MaskedRows:
        """One row by itself, copied, so that the others can be forgotten."""
        values = {field.name: getattr(self, field.name)[row : row + 1].copy() for field in dataclasses.fields(self)}
        return MaskedRows(**values)

    def texts(self) -> Iterator[bytes]:
        """For each row the bytes of its tokens in the order of the text, int32: equal for equal content."""
        ids = self.ids.astype(np.int32)
        for row, (real, first, swapped) in enumerate(
            zip(self.real_lengths.tolist(), self.first_lengths.tolist(), self.is_swapped.tolist(), strict=True)
        ):
            one, two = ids[row, 1 : 1 + first].tobytes(), ids[row, first + 2 : real - 1].tobytes()
            yield two + one if swapped else one + two


def read_static(columns: Mapping[str, Column], data: DataDirectory) -> MaskedRows:
    """Rows of static records that keep the contract of `data`."""
    B = len(columns[features.INPUT_IDS].lengths)
    arrays = {name: column.values.reshape(B, -1) for name, column in columns.items()}
    shown_ids = arrays[features.INPUT_IDS]
    real = arrays[features.INPUT_MASK].sum(axis=1)
    first = real - arrays[features.SEGMENT_IDS].sum(axis=1) - 2
    rows, predictions = np.nonzero(arrays[features.MASKED_LM_WEIGHTS])
    places = rows, arrays[features.MASKED_LM_POSITIONS][rows, predictions]
    ids, is_masked = shown_ids.copy(), np.zeros(shown_ids.shape, dtype=bool)
    ids[places] = arrays[features.MASKED_LM_IDS][rows, predictions]
    is_masked[places] = True
    labels = arrays[features.NEXT_SENTENCE_LABELS][:, 0] > 0
    column = np.arange(shown_ids.shape[1])
    is_token = (column >= 1) & (column < real[:, np.newaxis] - 1) & (column != first[:, np.newaxis] + 1)
    return MaskedRows(
        shown_ids=shown_ids,
        ids=ids,
        is_masked=is_masked,
        is_token=is_token,
        token_boundary=arrays[features.TOKEN_BOUNDARY] > 0,
        real_lengths=real,
        first_lengths=first,
        labels=labels,
        is_swapped=labels & (data.sentence_objective == "sop"),
    )


def draw(columns: Mapping[str, Column], data: DataDirectory, first_example: int) -> MaskedRows:
    """Rows of dynamic records that keep the contract, their order and masks drawn.

    Args:
      columns: the records.
      data: lengths, shares and ids.
      first_example: number of the first of them in the data directory, from which the draws follow.
    """
    lengths = columns[features.SEGMENT_LENGTHS].values.reshape(-1, 2)
    B = len(lengths)
    keys = draws.bits(np.full(B, data.seed, dtype=np.uint64), draws.AUDIT, first_example + np.arange(B))
    pairs = Pairs(
        ids=columns[features.SEGMENT_TOKENS].values,
        word_starts=columns[features.WORD_STARTS].values > 0,
        lengths=lengths,
        keys=keys,
        documents=np.zeros(B, dtype=np.uint64),
        wanted=np.zeros(B, dtype=np.int64),
    )
    is_swapped = (draws.uniform(keys, draws.SWAP) < 0.5) & (data.sentence_objective == "sop")
    laid = lay_out(
        pairs,
        is_swapped,
        max_seq_length=data.max_seq_length,
        cls_id=data.special_ids["cls"],
        sep_id=data.special_ids["sep"],
        pad_id=data.special_ids["pad"],
    )
    allowed = np.setdiff1d(np.arange(data.vocab_size, dtype=np.int32), data.excluded_replacement_ids)
    masks = masking.choose_masks(
        laid.input_ids,
        laid.token_boundary,
        laid.maskable,
        real_lengths=laid.real_lengths,
        masked_lm_prob=data.masked_lm_prob,
        max_predictions_per_seq=data.max_predictions_per_seq,
        max_ngram=data.max_ngram,
        mask_id=data.special_ids["mask"],
        replacement_ids=allowed,
        keys=keys,
    )
    rows, predictions = np.nonzero(masks.weights)
    is_masked = np.zeros(laid.input_ids.shape, dtype=bool)
    is_masked[rows, masks.positions[rows, predictions]] = True
    if data.sentence_objective == "nsp":
        labels = columns[features.NEXT_SENTENCE_LABELS].values > 0
    else:
        labels = is_swapped
    return MaskedRows(
        shown_ids=masks.input_ids.astype(np.int64),
        ids=laid.input_ids.astype(np.int64),
        is_masked=is_masked,
        is_token=laid.maskable,
        token_boundary=laid.token_boundary,
        real_lengths=laid.real_lengths,
        first_lengths=laid.first_lengths,
        labels=labels,
        is_swapped=is_swapped,
    )
