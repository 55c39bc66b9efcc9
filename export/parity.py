"""Comparison of an exported artefact with the model it was made from.

Every export ends with it: the artefact is loaded again and must give the source's numbers on texts of several lengths,
in batches that mix them. One that does not is not kept.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from albert_tf import features
from albert_tf.tokenizer_base import Tokenizer
from export.artifacts import ENCODER_INPUTS

if TYPE_CHECKING:
    from albert_tf.modeling.models import AlbertPretrainingModel

Batch = dict[str, np.ndarray]

SENTENCES = (
    "Yes.",
    "The library keeps its oldest maps in a room that few visitors ever see.",
    "In 1869, after 12,500 miles at sea, the crew came home; nobody had believed that they would.",
    "Rain fell all night. By morning the river stood a hand's breadth below the bridge, and the miller, who had seen "
    "two floods in his life, carried the flour upstairs.",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bound:
    """What an artefact's outputs must keep to.

    Attributes:
      relative: largest difference as a share of the source's largest magnitude in that output; None to leave it out.
      cosine: lowest cosine between the source's and the artefact's output of one text; None to leave it out.
      probability: largest difference of a probability that a head of few classes gives; None to leave it out. With two
        logits near 0, as a head that has learned little gives, a cosine tells nothing.
    """

    relative: float | None = None
    cosine: float | None = None
    probability: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Agreement:
    """How well one output agrees: `relative`, `cosine` and `probability` as in `Bound`, measured."""

    relative: float
    cosine: float
    probability: float | None


def standard_batches(tokenizer: Tokenizer, max_seq_length: int) -> list[Batch]:
    """Two batches of built-in English: short texts with an order pair, and one text of the greatest length."""
    ids = [tokenizer.encode(text) or [tokenizer.unk_id] for text in SENTENCES]
    short = min(max_seq_length, 64)
    rows = [tokenizer.encode_pair(row, None, short) for row in ids]
    if short >= 5:
        rows.append(tokenizer.encode_pair(ids[1], ids[2], short))
    together = [token_id for row in ids for token_id in row]
    longest = together * (max_seq_length // len(together) + 1)
    return [make_batch(rows), make_batch([tokenizer.encode_pair(longest, None, max_seq_length)])]


def make_batch(rows: Sequence[tuple[list[int], list[int], list[int]]], *, predictions: int = 3) -> Batch:
    """Model inputs of rows as `Tokenizer.encode_pair` gives them, padded to the longest row's tokens.

    Holds `masked_lm_positions` int32 [B, P] too, spread over each row's tokens; nothing is masked.
    """
    lengths = [sum(input_mask) for _, input_mask, _ in rows]
    batch = {name: np.zeros([len(rows), max(lengths)], np.int32) for name in ENCODER_INPUTS}
    for number, (row, length) in enumerate(zip(rows, lengths, strict=True)):
        for name, values in zip(ENCODER_INPUTS, row, strict=True):
            batch[name][number, :length] = values[:length]
    spread = [np.linspace(0, length - 1, predictions).astype(np.int32) for length in lengths]
    return {**batch, features.MASKED_LM_POSITIONS: np.stack(spread)}


def source_outputs(model: AlbertPretrainingModel, batch: Batch) -> dict[str, np.ndarray]:
    """Every output of the Keras model: those of the encoder and of both heads."""
    encoded = model.encoder({name: batch[name] for name in ENCODER_INPUTS})
    outputs = {
        **encoded,
        "masked_lm_logits": model.masked_lm_head(encoded["sequence_output"], batch[features.MASKED_LM_POSITIONS]),
        "sentence_order_logits": model.sentence_order_head(encoded["pooled_output"]),
    }
    return {name: np.asarray(value) for name, value in outputs.items()}


def agreement(
    expected: Sequence[Mapping[str, np.ndarray]], actual: Sequence[Mapping[str, Any]], batches: Sequence[Batch]
) -> dict[str, Agreement]:
    """How well each output in `actual` agrees with `expected`, over all batches. Padding is left out.

    Raises:
      ValueError: if an output has another shape, or holds a number that is not finite.
    """
    pairs: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    for expected_outputs, actual_outputs, batch in zip(expected, actual, batches, strict=True):
        for name, value in actual_outputs.items():
            wanted, got = expected_outputs[name], np.asarray(value)
            if got.shape != wanted.shape:
                raise ValueError(f"{name} has shape {list(got.shape)}, the source gives {list(wanted.shape)}")
            mask = batch[features.INPUT_MASK].astype(bool)
            for row in range(len(wanted)):
                keep = mask[row] if name == "sequence_output" else slice(None)
                pairs.setdefault(name, []).append((wanted[row][keep].ravel(), got[row][keep].ravel()))
    return {name: _agreement(name, rows) for name, rows in pairs.items()}


def check(found: Mapping[str, Agreement], bound: Bound, *, artefact: str) -> None:
    """Refuses outputs that agree worse than `bound`.

    Raises:
      ValueError: naming the artefact, the output and both figures.
    """
    for name, one in found.items():
        if bound.relative is not None and not one.relative <= bound.relative:
            raise ValueError(
                f"{artefact}: {name} differs from the source by {one.relative:.2e} of its magnitude, "
                f"at most {bound.relative:.0e} is allowed; nothing was written"
            )
        if one.probability is not None:
            if bound.probability is not None and not one.probability <= bound.probability:
                raise ValueError(
                    f"{artefact}: a probability from {name} differs from the source by {one.probability:.4f}, "
                    f"at most {bound.probability} is allowed; nothing was written"
                )
        elif bound.cosine is not None and not one.cosine >= bound.cosine:
            raise ValueError(
                f"{artefact}: {name} has cosine {one.cosine:.6f} with the source, "
                f"at least {bound.cosine} is needed; nothing was written"
            )


def _agreement(name: str, rows: Iterable[tuple[np.ndarray, np.ndarray]]) -> Agreement:
    largest = difference = probability = 0.0
    cosine = 1.0
    is_small_head = False
    for wanted, got in rows:
        wanted, got = wanted.astype(np.float64), got.astype(np.float64)
        if not np.isfinite(got).all():
            raise ValueError(f"{name} is not finite")
        largest = max(largest, np.abs(wanted).max(initial=0.0))
        difference = max(difference, np.abs(wanted - got).max(initial=0.0))
        norms = np.linalg.norm(wanted) * np.linalg.norm(got)
        cosine = min(cosine, float(wanted @ got / norms) if norms else 1.0)
        if name.endswith("_logits") and wanted.size == 2:
            is_small_head = True
            probability = max(probability, float(np.abs(_softmax(wanted) - _softmax(got)).max()))
    relative = float(difference / largest if largest else difference)
    return Agreement(relative=relative, cosine=cosine, probability=probability if is_small_head else None)


def _softmax(logits: np.ndarray) -> np.ndarray:
    exponentials = np.exp(logits - logits.max())
    return np.asarray(exponentials / exponentials.sum())
