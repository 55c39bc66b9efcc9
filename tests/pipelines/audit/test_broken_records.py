"""Records broken on purpose, in every way: the audit names the first."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.pipelines.audit.directories import (
    MASK,
    SEP,
    Example,
    P,
    S,
    V,
    first_sep,
    inspect,
    last,
    serialize,
    shard,
    used,
    write_shard,
)
from tests.reference.records import parse_example, read_payloads

Edit = Callable[[Example], str]


def put(name: str, at: int | Callable[[Example], int], value: Any, message: str) -> Edit:
    """Edit that writes one value; "@" in the message stands for the place."""

    def edit(example: Example) -> str:
        place = at(example) if callable(at) else at
        example[name][place] = value
        return message.replace("@", str(place))

    return edit


def replace(message: str, **values: Any) -> Edit:
    """Edit that replaces whole features; None removes one."""

    def edit(example: Example) -> str:
        for name, value in values.items():
            example.pop(name) if value is None else example.update({name: value})
        return message

    return edit


def visible(example: Example) -> int:
    """Position of a token that is not masked."""
    return next(i for i in range(1, first_sep(example)) if i not in example["masked_lm_positions"])


def masked(example: Example) -> int:
    return int(example["masked_lm_positions"][1])


def no_second_segment(example: Example) -> str:
    example["segment_ids"] = [0] * S
    return f"each segment must hold a token, got {last(example) - 1} and 0"


def descending(example: Example) -> str:
    one, two = example["masked_lm_positions"][:2]
    example["masked_lm_positions"][:2] = [two, one]
    return f"masked_lm_positions must ascend, got {one} at prediction 1"


SEGMENTS = "segment_ids must be zeros, then ones up to the last real position"
SEPARATOR = "input_ids must be [SEP] (3) where a segment ends"
BOUNDARY = "token_boundary must be 1 at special tokens and where a segment starts"
OUTSIDE = "masked_lm_positions must be tokens, not [CLS], [SEP] or padding"
SHOWN = "input_ids must show [MASK], the label or no special id where masked"

STATIC: dict[str, Edit] = {
    "id too large": put("input_ids", visible, V, f"input_ids must be in [0, {V}), got {V} at position @"),
    "id negative": put("input_ids", visible, -1, f"input_ids must be in [0, {V}), got -1 at position @"),
    "mask of 2": put("input_mask", 3, 2, "input_mask must be 0 or 1, got 2 at position 3"),
    "hole in the mask": put("input_mask", 3, 0, "input_mask must be ones, then zeros, got 0 at position 3"),
    "no [CLS]": put("input_ids", 0, 9, "input_ids must begin with [CLS] (2), got 9 at position 0"),
    "segment 2": put("segment_ids", 5, 2, "segment_ids must be 0 or 1, got 2 at position 5"),
    "segments mixed": put("segment_ids", 1, 1, f"{SEGMENTS}, got 1 at position 1"),
    "segment in padding": put("segment_ids", S - 1, 1, f"segment_ids must be 0 in padding, got 1 at position {S - 1}"),
    "one segment": no_second_segment,
    "no first [SEP]": put("input_ids", first_sep, 9, f"{SEPARATOR}, got 9 at position @"),
    "no last [SEP]": put("input_ids", last, 9, f"{SEPARATOR}, got 9 at position @"),
    "padding": put("input_ids", S - 1, 9, f"input_ids must be pad (0) in padding, got 9 at position {S - 1}"),
    "boundary 2": put("token_boundary", 4, 2, "token_boundary must be 0 or 1, got 2 at position 4"),
    "boundary of [CLS]": put("token_boundary", 0, 0, f"{BOUNDARY}, got 0 at position 0"),
    "boundary of A": put("token_boundary", 1, 0, f"{BOUNDARY}, got 0 at position 1"),
    "boundary of B": put("token_boundary", lambda e: first_sep(e) + 1, 0, f"{BOUNDARY}, got 0 at position @"),
    "boundary of [SEP]": put("token_boundary", last, 0, f"{BOUNDARY}, got 0 at position @"),
    "boundary of padding": put(
        "token_boundary", S - 1, 1,
        f"token_boundary must be 0 in padding, got 1 at position {S - 1}",
    ),
    "weight": put("masked_lm_weights", 1, 0.5, "masked_lm_weights must be 0 or 1, got 0.5 at prediction 1"),
    "weight NaN": put("masked_lm_weights", 1, math.nan, "masked_lm_weights must be 0 or 1, got nan at prediction 1"),
    "weights mixed": put(
        "masked_lm_weights", 1, 0.0, "masked_lm_weights must be ones, then zeros, got 0.0 at prediction 1"
    ),
    "unused position": put(
        "masked_lm_positions", used, 2, "masked_lm_positions must be 0 where the weight is 0, got 2 at prediction @"
    ),
    "unused label": put(
        "masked_lm_ids", used, 9, "masked_lm_ids must be 0 where the weight is 0, got 9 at prediction @"
    ),
    "position of [CLS]": put("masked_lm_positions", 0, 0, f"{OUTSIDE}, got 0 at prediction 0"),
    "position in padding": put("masked_lm_positions", 1, S - 1, f"{OUTSIDE}, got {S - 1} at prediction 1"),
    "position beyond": put("masked_lm_positions", 1, 2**40, f"{OUTSIDE}, got {2**40} at prediction 1"),
    "positions descend": descending,
    "label too large": put("masked_lm_ids", 1, V, f"masked_lm_ids must be in [0, {V}), got {V} at prediction 1"),
    "label special": put("masked_lm_ids", 1, MASK, "masked_lm_ids must be no special id, got 4 at prediction 1"),
    "special replacement": put("input_ids", masked, SEP, f"{SHOWN}, got 3 at prediction 1"),
    "[MASK] unpredicted": put(
        "input_ids", visible, MASK, "input_ids must be no special id among the tokens, got 4 at position @"
    ),
    "order label": put("next_sentence_labels", 0, 2, "next_sentence_labels must be 0 or 1, got 2"),
    "feature missing": replace("feature masked_lm_weights is missing", masked_lm_weights=None),
    "feature more": replace("feature 'target' is not in the contract", target=[1]),
    "type": replace("next_sentence_labels must be int64, got float32", next_sentence_labels=[1.0]),
    "length": replace(f"masked_lm_ids must have {P} values, got 2", masked_lm_ids=[5, 6]),
}  # fmt: skip


def first_length(example: Example) -> int:
    return int(example["segment_lengths"][0])


def wrong_sum(example: Example) -> str:
    one, two = example["segment_lengths"]
    example["segment_lengths"] = [one + 1, two]
    return f"segment_lengths must sum up to the {one + two} values of segment_tokens, got {one + 1} and {two}"


def huge_lengths(example: Example) -> str:
    total = sum(example["segment_lengths"])
    example["segment_lengths"] = [2**62, 2**62]
    return f"segment_lengths must sum up to the {total} values of segment_tokens, got {2**62} and {2**62}"


def one_word_start_less(example: Example) -> str:
    example["word_starts"].pop()
    return f"word_starts must have {len(example['segment_tokens'])} values, got {len(example['word_starts'])}"


DYNAMIC: dict[str, Edit] = {
    "empty segment": replace("segment_lengths must be at least 1, got 0 and 7", segment_lengths=[0, 7]),
    "sum": wrong_sum,
    "huge lengths": huge_lengths,
    "too long": replace(
        f"segment_tokens must have at most {S - 3} values, got {S - 2}",
        segment_tokens=[9] * (S - 2), word_starts=[1] * (S - 2), segment_lengths=[7, S - 9],
    ),
    "word starts": one_word_start_less,
    "id too large": put("segment_tokens", 2, V, f"segment_tokens must be in [0, {V}), got {V} at position 2"),
    "id negative": put("segment_tokens", 2, -3, f"segment_tokens must be in [0, {V}), got -3 at position 2"),
    "special id": put("segment_tokens", 2, SEP, "segment_tokens must be no special id, got 3 at position 2"),
    "word start 2": put("word_starts", 2, 2, "word_starts must be 0 or 1, got 2 at position 2"),
    "start of A": put("word_starts", 0, 0, "word_starts must be 1 where a segment starts"),
    "start of B": put("word_starts", first_length, 0, "word_starts must be 1 where a segment starts"),
    "feature missing": replace("feature word_starts is missing", word_starts=None),
    "lengths": replace("segment_lengths must have 2 values, got 3", segment_lengths=[1, 1, 1]),
}  # fmt: skip


@pytest.mark.parametrize(
    ("masking", "name"), [("static", name) for name in STATIC] + [("dynamic", name) for name in DYNAMIC]
)
def is_fit(example: Example) -> bool:
    """Whether every edit makes sense: there is padding, an unused prediction, and more than a token or two."""
    if "segment_lengths" in example:
        return min(example["segment_lengths"]) > 3
    return first_sep(example) > 8 and last(example) < S - 1 and 2 <= used(example) < P


@pytest.mark.parametrize(
    ("masking", "name"), [("static", name) for name in STATIC] + [("dynamic", name) for name in DYNAMIC]
)
def test_a_broken_record_is_named(masking: str, name: str, built: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(built / masking, tmp_path / "data"))
    payloads = read_payloads(shard(folder, 1))
    place = next(number for number in range(4, len(payloads)) if is_fit(parse_example(payloads[number])))
    offset = sum(16 + len(payload) for payload in payloads[:place])
    example = parse_example(payloads[place])
    message = {"static": STATIC, "dynamic": DYNAMIC}[masking][name](example)
    # A later one is broken too, and not told of.
    write_shard(folder, 1, [*payloads[:place], serialize(example), payloads[place + 1][:-1], *payloads[place + 2 :]])
    found = inspect(folder)
    assert found.faults == [f"{shard(folder, 1)}: record {place} at byte {offset}: {message}"]
    assert found.broken_shards == 1
    # The other shards were looked at, and of this one what comes before.
    assert found.figures.examples == found.data.num_examples - (len(payloads) - place)
