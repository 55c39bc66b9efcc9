"""Masked rows: records of either form as the model would see them, with what is hidden.

Static records hold order and masks. For dynamic ones both are drawn here, with the functions that make static records.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

import numpy as np

from albert_tf import features
from pipelines import masking, segments
from pipelines.dataset_reader import Dataset
from pipelines.example_message import Column
from pipelines.sentences import TokenizedDocument


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskedRows:
    """B rows `[CLS] first [SEP] second [SEP]`, padded.

    Attributes:
      shown_ids: int64 [B, S], what the model sees.
      ids: int64 [B, S], the same unmasked.
      is_masked: bool [B, S], True at the positions to predict.
      is_token: bool [B, S], True at the segments' tokens.
      token_boundary: bool [B, S], True at word starts and special tokens.
      real_lengths: int64 [B], positions that are not padding.
      first_lengths: int64 [B], tokens of the segment that comes first.
      is_swapped: bool [B], True where that is the one that comes later in the text.
    """

    shown_ids: np.ndarray
    ids: np.ndarray
    is_masked: np.ndarray
    is_token: np.ndarray
    token_boundary: np.ndarray
    real_lengths: np.ndarray
    first_lengths: np.ndarray
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


def read_static(columns: Mapping[str, Column]) -> MaskedRows:
    """Rows of static records that keep the contract."""
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
        is_swapped=arrays[features.NEXT_SENTENCE_LABELS][:, 0] > 0,
    )


def draw(columns: Mapping[str, Column], data: Dataset, generator: np.random.Generator) -> MaskedRows:
    """Rows of dynamic records that keep the contract, their order and masks drawn.

    Args:
      columns: the records.
      data: lengths, shares and ids.
      generator: source of every draw.
    """
    tokens = columns[features.SEGMENT_TOKENS]
    lengths = columns[features.SEGMENT_LENGTHS].values.reshape(-1, 2)
    ends = np.cumsum(tokens.lengths)
    begins = ends - tokens.lengths
    is_swapped = generator.random(len(lengths)) < 0.5
    packed = segments.pack_pairs(
        TokenizedDocument(
            ids=tokens.values,
            word_starts=columns[features.WORD_STARTS].values > 0,
            sentence_starts=begins,
            empty_sentences=0,
        ),
        np.stack([begins, begins + lengths[:, 0], ends], axis=1),
        is_swapped,
        max_seq_length=data.max_seq_length,
        cls_id=data.special_ids["cls"],
        sep_id=data.special_ids["sep"],
        pad_id=data.special_ids["pad"],
    )
    real_lengths = tokens.lengths + 3
    allowed = np.setdiff1d(np.arange(data.vocab_size, dtype=np.int32), data.excluded_replacement_ids)
    masks = masking.choose_masks(
        packed.input_ids,
        packed.token_boundary,
        packed.maskable,
        real_lengths=real_lengths,
        masked_lm_prob=data.masked_lm_prob,
        max_predictions_per_seq=data.max_predictions_per_seq,
        max_ngram=data.max_ngram,
        mask_id=data.special_ids["mask"],
        replacement_ids=allowed,
        generator=generator,
    )
    rows, predictions = np.nonzero(masks.weights)
    is_masked = np.zeros(packed.input_ids.shape, dtype=bool)
    is_masked[rows, masks.positions[rows, predictions]] = True
    return MaskedRows(
        shown_ids=masks.input_ids.astype(np.int64),
        ids=packed.input_ids.astype(np.int64),
        is_masked=is_masked,
        is_token=packed.maskable,
        token_boundary=packed.token_boundary,
        real_lengths=real_lengths,
        first_lengths=np.where(is_swapped, lengths[:, 1], lengths[:, 0]),
        is_swapped=is_swapped,
    )
