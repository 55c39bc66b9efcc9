"""Batches of rows without padding: which rows go together, what they are padded with, and that it changes nothing."""

from __future__ import annotations

import numpy as np
import pytest

from albert_tf.head_config import HeadConfig
from albert_tf.modeling.model_runner import ModelRunner, pad_rows, plan_batches
from albert_tf.modeling.models import make_model
from tests.modeling.small_models import HEAD_CASES, make_config, randomize

LENGTHS = (5, 3, 9, 3, 7, 1, 4)


def make_rows(head: str, seed: int = 3) -> list[dict[str, np.ndarray]]:
    generator = np.random.default_rng(seed)
    rows = []
    for number, length in enumerate(LENGTHS):
        shape = (2 + number % 2, length) if head == "multiple_choice" else (length,)
        row = {
            "input_ids": generator.integers(0, 97, shape).astype(np.int32),
            "segment_ids": generator.integers(0, 2, shape).astype(np.int32),
        }
        if head in ("pretraining", "masked_lm"):
            row["masked_lm_positions"] = generator.integers(0, length, 1 + number % 3).astype(np.int32)
        if head == "conditional_span":
            row["p_mask"] = (np.arange(length) % 3 == 1).astype(np.int32)
        rows.append(row)
    return rows


@pytest.mark.parametrize("sort_by_length", [True, False])
def test_batches(sort_by_length: bool) -> None:
    batches = list(plan_batches(make_rows("classifier"), 3, sort_by_length=sort_by_length))
    assert batches == ([[5, 1, 3], [6, 0, 4], [2]] if sort_by_length else [[0, 1, 2], [3, 4, 5], [6]])


def test_choices_of_other_numbers_are_in_other_batches() -> None:
    rows = make_rows("multiple_choice")
    for batch in plan_batches(rows, 3, sort_by_length=True):
        assert len({len(rows[number]["input_ids"]) for number in batch}) == 1
    assert list(plan_batches(rows[:4], 3, sort_by_length=False)) == [[0], [1], [2], [3]]


def test_padding() -> None:
    rows = make_rows("conditional_span")[:2]
    batch = pad_rows(rows, least_length=6)
    assert {name: value.shape for name, value in batch.items()} == dict.fromkeys(batch, (2, 6))
    assert batch["input_mask"].tolist() == [[1, 1, 1, 1, 1, 0], [1, 1, 1, 0, 0, 0]]
    assert batch["p_mask"].tolist() == [[0, 1, 0, 0, 1, 1], [0, 1, 0, 1, 1, 1]]
    np.testing.assert_array_equal(batch["input_ids"][1, :3], rows[1]["input_ids"])
    assert batch["input_ids"][1, 3:].tolist() == [0, 0, 0]


def test_rows_of_padding_fill_a_batch_up() -> None:
    batch = pad_rows(make_rows("multiple_choice")[:1], num_rows=3)
    assert {name: value.shape for name, value in batch.items()} == dict.fromkeys(batch, (3, 2, 5))
    assert batch["input_mask"].sum(axis=(1, 2)).tolist() == [10, 0, 0]


@pytest.mark.parametrize("head", ["classifier", "multiple_choice", "conditional_span"])
def test_static_shapes_change_nothing(head: str) -> None:
    model = make_model(make_config(), HEAD_CASES[head])
    randomize(model.named_weights())
    rows = [row for row in make_rows(head) if row["input_ids"].shape[-1] >= 4]
    expected = dict(ModelRunner(model, batch_size=1, form="unrolled").run(rows))
    runner = ModelRunner(model, batch_size=3, form="unrolled", seq_length=11)
    for number, outputs in runner.run(rows):
        for name, value in expected[number].items():
            is_real = value > -1e20  # a conditional span names forbidden places in any order
            np.testing.assert_allclose(outputs[name][is_real], value[is_real], atol=2e-5, rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("name", sorted(HEAD_CASES.keys() - {"encoder", "encoder_without_pooler"}))
def test_outputs_are_those_of_each_row_alone(name: str) -> None:
    config: HeadConfig = HEAD_CASES[name]
    model = make_model(make_config(), config)
    randomize(model.named_weights())
    rows = make_rows(config.head)
    found: dict[int, dict] = {}
    for sort_by_length in (True, False):
        for number, outputs in ModelRunner(model, batch_size=3, sort_by_length=sort_by_length).run(rows):
            found.setdefault(number, {})[sort_by_length] = outputs
    assert sorted(found) == list(range(len(rows)))
    for number, row in enumerate(rows):
        padded = pad_rows([row], least_length=4 if config.head == "conditional_span" else 1)
        alone = {key: value.numpy()[0] for key, value in model.forward(padded).items()}
        for outputs in found[number].values():
            for key, value in alone.items():
                length = row["input_ids"].shape[-1]
                part = outputs[key]
                if key == "masked_lm_logits":
                    part = part[: len(row["masked_lm_positions"])]
                elif config.head in ("span", "token_classifier"):
                    part, value = part[:length], value[:length]
                if config.head == "conditional_span":
                    is_sure = np.ones(part.shape, bool) if not key.endswith("index") else value < length
                    part, value = part[is_sure], value[is_sure]
                    if length < 4:  # more starts than tokens: which of the impossible ones come is open
                        continue
                np.testing.assert_allclose(part, value, atol=2e-5, rtol=1e-5, err_msg=key)  # other shapes of products


def test_a_batch_has_rows() -> None:
    model = make_model(make_config(), HeadConfig(head="regression"))
    assert list(ModelRunner(model).run([])) == []
    with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
        ModelRunner(model, batch_size=0)
