"""Losses at [MASK] positions, permuted contexts and standard errors, on hand-made batches."""

from __future__ import annotations

import numpy as np
import pytest

from demo import judgement

MASK = 4


def make_batch() -> dict[str, np.ndarray]:
    """B=3, S=7, P=2. Row 0 shows one [MASK] and one piece, row 1 two [MASK]s, row 2 is only filling."""
    return {
        "input_ids": np.array([[2, 10, MASK, 3, 12, 3, 0], [2, MASK, 3, MASK, 3, 0, 0], [2, 20, 21, 3, 22, 23, 3]]),
        "input_mask": np.array([[1, 1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1, 1]]),
        "segment_ids": np.array([[0, 0, 0, 0, 1, 1, 0], [0, 0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1, 1]]),
        "masked_lm_positions": np.array([[2, 4], [1, 3], [1, 0]]),
        "masked_lm_ids": np.array([[5, 12], [6, 5], [20, 0]]),
        "masked_lm_weights": np.array([[1.0, 1.0], [1.0, 1.0], [0.0, 0.0]]),
        "sentence_order_label": np.array([1, 0, 1]),
        "example_weight": np.array([1.0, 1.0, 0.0]),
    }


def test_only_positions_that_show_mask_count() -> None:
    assert judgement.shows_mask(make_batch(), MASK).tolist() == [[True, False], [True, True], [False, False]]


def test_label_frequencies_are_smoothed_by_one() -> None:
    frequencies = judgement.label_frequencies([make_batch()], 23)
    expected = np.ones(23)
    expected[[5, 6, 12]] += [2, 1, 1]
    # Whole numbers divided by their sum: exact but for rounding.
    np.testing.assert_allclose(frequencies, expected / 27, rtol=1e-15)


def test_permuted_contexts_come_from_other_rows_and_keep_the_masks() -> None:
    batch = make_batch()
    inputs = judgement.permute_contexts(batch, MASK, np.random.default_rng(1))
    ids = inputs["input_ids"]
    for row in range(3):
        others = set(batch["input_ids"][[other for other in range(3) if other != row]].ravel())
        assert set(ids[row]) <= others | {MASK}
    assert ids[0, 2] == ids[1, 1] == ids[1, 3] == MASK
    assert sorted(tuple(row[4:]) for row in ids) == sorted(tuple(row[4:]) for row in batch["input_ids"])
    assert inputs["input_mask"][ids == MASK].all()
    np.testing.assert_array_equal(inputs["masked_lm_positions"], batch["masked_lm_positions"])


def test_mean_with_error_counts_groups_as_independent() -> None:
    values = np.array([1.0, 1.0, 3.0, 3.0])
    mean, error = judgement.mean_with_error(values, np.array([0, 0, 5, 5]))
    assert mean == 2.0
    # Two independent groups of mean 1 and 3: standard deviation sqrt(2), divided by sqrt(2).
    assert error == pytest.approx(1.0, rel=1e-12)
    _, naive = judgement.mean_with_error(values, np.arange(4))
    assert naive == pytest.approx(np.std(values, ddof=1) / 2, rel=1e-12)


def test_judge_adds_up_batches() -> None:
    batch = make_batch()
    frequencies = np.full(23, 0.5 / 22)
    frequencies[5] = 0.5
    logits = np.zeros((3, 2, 23), np.float32)
    logits[0, 0, 5] = logits[1, 0, 6] = np.log(22.0)  # right, with probability 1/2
    permuted = np.zeros_like(logits)
    order = np.array([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0]], np.float32)  # right, wrong, not counted
    judge = judgement.Judge(frequencies, MASK)
    for _ in range(2):
        judge.add(batch, logits, order, permuted)
    result = judge.result()
    assert result.positions == 6
    # float32 logits: log(22) is rounded at the eighth digit.
    assert result.loss == pytest.approx((np.log(2) * 2 + np.log(23)) / 3, rel=1e-7)
    assert result.bound == pytest.approx((np.log(2) * 2 + np.log(44)) / 3, rel=1e-12)
    assert result.permuted == pytest.approx(np.log(23), rel=1e-12)
    assert result.below_bound == pytest.approx(result.bound - result.loss, rel=1e-12)
    assert result.below_permuted == pytest.approx(result.permuted - result.loss, rel=1e-12)
    assert result.accuracy == pytest.approx(2 / 3)
    assert result.frequent_accuracy == pytest.approx(2 / 3)
    assert result.order_accuracy == 0.5
    assert result.order_majority == 0.5
    assert not result.learned


@pytest.mark.parametrize(
    ("change", "learned"),
    [
        ({}, True),
        ({"positions": 9_999}, False),
        ({"below_bound": 0.09}, False),
        ({"below_bound_error": 0.05}, False),
        ({"below_permuted": 0.05}, False),
        ({"below_permuted_error": 0.2}, False),
    ],
)
def test_learned_needs_distance_and_certainty(change: dict[str, float], learned: bool) -> None:
    figures = dict.fromkeys(judgement.Judgement.__dataclass_fields__, 0.3)
    figures |= {"positions": 10_000, "below_bound": 0.2, "below_bound_error": 0.03}
    figures |= {"below_permuted": 0.9, "below_permuted_error": 0.1}
    assert judgement.Judgement(**(figures | change)).learned is learned  # type: ignore[arg-type]
