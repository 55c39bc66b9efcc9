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
    from albert_tf.head_config import HeadConfig
    from albert_tf.modeling.head_model import AlbertHeadModel

Batch = dict[str, np.ndarray]

CHOICES = 3  # of a multiple-choice input
# Outputs with a value or a row of values for each token; of a token classifier "logits" too.
_OF_TOKENS = ("sequence_output", "start_logits", "end_logits")
# Heads whose "logits" are of classes that exclude each other.
_CLASSES = ("classifier", "multiple_choice", "token_classifier")
# What stands for the logit of a forbidden place is far below this; log probabilities are far above.
FORBIDDEN = -1e20

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


def head_inputs(head_config: HeadConfig, batch: Batch) -> Batch:
    """What a model with this head takes, of a batch as `make_batch` gives it.

    For multiple choice each row stands with those behind it as its choices, int32 [B, C, S]; for a conditional span
    the first of two segments and padding are no place for an answer.
    """
    inputs = {name: batch[name] for name in ENCODER_INPUTS}
    if head_config.head in ("pretraining", "masked_lm"):
        return {**inputs, features.MASKED_LM_POSITIONS: batch[features.MASKED_LM_POSITIONS]}
    if head_config.head == "conditional_span":
        allowed = batch[features.INPUT_MASK] * np.maximum(batch[features.SEGMENT_IDS], _has_one_segment(batch))
        allowed[:, 0] = 1
        return {**inputs, features.P_MASK: 1 - allowed}
    if head_config.head == "multiple_choice":
        return {
            name: np.stack([np.roll(value, -shift, axis=0) for shift in range(CHOICES)], axis=1)
            for name, value in inputs.items()
        }
    return inputs


def _has_one_segment(batch: Batch) -> np.ndarray:
    """int32 [B, 1]: 1 for rows of a single text."""
    return 1 - batch[features.SEGMENT_IDS].max(axis=1, keepdims=True)


def source_outputs(model: AlbertHeadModel, inputs: Batch) -> dict[str, np.ndarray]:
    """Every output of the Keras model for what `head_inputs` gives: those of the head, and of the encoder.

    The encoder's are left out for multiple choice, whose rows are not the encoder's.
    """
    outputs = dict(model(inputs))
    if model.HEAD != "multiple_choice":
        outputs = {**model.encoder({name: inputs[name] for name in ENCODER_INPUTS}), **outputs}
    return {name: np.asarray(value) for name, value in outputs.items()}


def agreement(
    expected: Sequence[Mapping[str, np.ndarray]],
    actual: Sequence[Mapping[str, Any]],
    batches: Sequence[Batch],
    *,
    head: str = "pretraining",
) -> dict[str, Agreement]:
    """How well each output in `actual` agrees with `expected`, over all batches.

    Padding is left out, and what a model says of places that are forbidden. Places of likeliest starts and ends, which
    two near ones may exchange, count by the difference of their log probabilities, which stand beside them.

    Args:
      expected: outputs of the source for each batch.
      actual: those of an artefact; outputs that it does not have are left out.
      batches: what both were given.
      head: name of the head.

    Raises:
      ValueError: if an output has another shape, or holds a number that is not finite.
    """
    pairs: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    for expected_outputs, actual_outputs, batch in zip(expected, actual, batches, strict=True):
        mask = batch[features.INPUT_MASK].astype(bool)
        for name, value in actual_outputs.items():
            wanted, got = expected_outputs[name], np.asarray(value)
            if got.shape != wanted.shape:
                raise ValueError(f"{name} has shape {list(got.shape)}, the source gives {list(wanted.shape)}")
            if np.issubdtype(wanted.dtype, np.integer):
                continue
            if not np.isfinite(got).all():
                raise ValueError(f"{name} is not finite")
            of_tokens = name in _OF_TOKENS or (name == "logits" and head == "token_classifier")
            if wanted.ndim == 1:  # one vector: a single number has no direction
                wanted, got = wanted[None], got[None]
            for row in range(len(wanted)):
                keep: Any = mask[row] if of_tokens else slice(None)
                rows = wanted[row][keep], got[row][keep]
                if name.endswith("_log_probs"):
                    is_real = rows[0] > FORBIDDEN
                    rows = rows[0][is_real], rows[1][is_real]
                pairs.setdefault(name, []).append(rows)
    return {name: _agreement(rows, _classes_of(name, head)) for name, rows in pairs.items()}


def _classes_of(name: str, head: str) -> bool:
    """Whether an output's last axis holds logits of a few classes."""
    return name == "sentence_order_logits" or (name == "logits" and head in _CLASSES)


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


def _agreement(rows: Iterable[tuple[np.ndarray, np.ndarray]], is_of_classes: bool) -> Agreement:
    largest = difference = probability = 0.0
    cosine = 1.0
    for wanted, got in rows:
        wanted, got = wanted.astype(np.float64), got.astype(np.float64)
        largest = max(largest, np.abs(wanted).max(initial=0.0))
        difference = max(difference, np.abs(wanted - got).max(initial=0.0))
        norms = np.linalg.norm(wanted) * np.linalg.norm(got)
        if norms:
            cosine = min(cosine, float(np.vdot(wanted, got) / norms))
        elif wanted.any() or got.any():  # nothing but 0 has no direction
            cosine = min(cosine, 0.0)
        if is_of_classes:
            probability = max(probability, float(np.abs(_softmax(wanted) - _softmax(got)).max(initial=0.0)))
    relative = float(difference / largest if largest else difference)
    return Agreement(relative=relative, cosine=cosine, probability=probability if is_of_classes else None)


def _softmax(logits: np.ndarray) -> np.ndarray:
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(axis=-1, keepdims=True))
