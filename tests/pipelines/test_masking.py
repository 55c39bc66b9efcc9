"""Static masks: whole words, n-grams, shares, budgets."""

from __future__ import annotations

import numpy as np
import pytest

from pipelines.masking import Masks, choose_masks

MASK, CLS, SEP = 3, 1, 2
SPECIAL = 7  # ids below are special
V = 503


def make_rows(B: int, S: int, *, seed: int, word_length: int, real: int | None = None) -> tuple[np.ndarray, ...]:
    """Rows `[CLS] a [SEP] b [SEP]` of words of 1 to `word_length` tokens, `real` positions long (at random if None)."""
    generator = np.random.default_rng(seed)
    ids = np.zeros((B, S), dtype=np.int32)
    boundary = np.zeros((B, S), dtype=bool)
    maskable = np.zeros((B, S), dtype=bool)
    lengths = np.full(B, real) if real else generator.integers(8, S + 1, size=B)
    for row, length in enumerate(lengths):
        middle = int(generator.integers(2, length - 2))
        ids[row, :length] = generator.integers(SPECIAL, V, size=length)
        boundary[row, :length] = generator.random(length) < 2 / (word_length + 1) if word_length > 1 else True
        maskable[row, 1 : length - 1] = True
        maskable[row, middle] = False
        ids[row, [0, middle, length - 1]] = [CLS, SEP, SEP]
        boundary[row, [0, middle, length - 1]] = True
        boundary[row, 1] = boundary[row, middle + 1] = True
    return ids, boundary, maskable, lengths


def choose(rows: tuple[np.ndarray, ...], *, prob: float = 0.15, P: int = 20, ngram: int = 3, seed: int = 2) -> Masks:
    ids, boundary, maskable, lengths = rows
    return choose_masks(
        ids,
        boundary,
        maskable,
        real_lengths=lengths,
        masked_lm_prob=prob,
        max_predictions_per_seq=P,
        max_ngram=ngram,
        mask_id=MASK,
        replacement_ids=np.arange(SPECIAL, V, dtype=np.int32),
        keys=np.random.default_rng(seed).integers(0, 2**64, size=len(ids), dtype=np.uint64),
    )


def selected(masks: Masks, shape: tuple[int, int]) -> np.ndarray:
    """bool [B, S], True at the predicted positions."""
    result = np.zeros(shape, dtype=bool)
    for row in range(shape[0]):
        result[row, masks.positions[row][masks.weights[row] > 0]] = True
    return result


def test_rows_hold_whole_words_and_unmask_to_what_stood_there() -> None:
    rows = make_rows(400, 61, seed=1, word_length=4)
    ids, boundary, maskable, _ = rows
    masks = choose(rows, P=10)
    chosen = selected(masks, ids.shape)
    assert not chosen[~maskable].any()
    restored = masks.input_ids.copy()
    for row in range(len(ids)):
        used = masks.weights[row] > 0
        count = int(used.sum())
        assert used[:count].all()
        positions = masks.positions[row][:count]
        assert (np.diff(positions) > 0).all()
        assert (masks.positions[row][count:] == 0).all()
        assert (masks.label_ids[row][count:] == 0).all()
        restored[row, positions] = masks.label_ids[row][:count]
        for position in range(1, ids.shape[1]):
            if maskable[row, position] and maskable[row, position - 1] and not boundary[row, position]:
                assert chosen[row, position] == chosen[row, position - 1], "a word is masked in part"
    assert (restored == ids).all()
    assert (masks.input_ids[~chosen] == ids[~chosen]).all()
    dtypes = [str(array.dtype) for array in (masks.input_ids, masks.positions, masks.label_ids, masks.weights)]
    assert dtypes == ["int32", "int32", "int32", "float32"]


@pytest.mark.parametrize(("S", "P"), [(64, 10), (128, 20), (512, 77)])
def test_masked_share_is_exact_on_average(S: int, P: int) -> None:
    rows = make_rows(6000 * 64 // S, S, seed=S, word_length=2)
    masks = choose(rows, P=P)
    share = masks.weights.sum() / rows[3].sum()
    # The budget is 0.15 of each row, rounded at random; a rest of one token is now and then too small for any word.
    assert abs(share - 0.15) < 0.002


def test_budget_is_rounded_up_or_down_at_random() -> None:
    rows = make_rows(4000, 23, seed=6, word_length=1, real=23)
    counts = choose(rows, P=4).weights.sum(axis=1)
    assert set(counts.tolist()) == {3.0, 4.0}  # 23 * 0.15 = 3.45
    assert abs(counts.mean() - 3.45) < 4 * (0.45 * 0.55 / 4000) ** 0.5


def test_bounds_of_the_budget() -> None:
    rows = make_rows(50, 31, seed=3, word_length=1, real=31)
    assert set(choose(rows, P=2).weights.sum(axis=1).tolist()) == {2.0}
    short = make_rows(50, 13, seed=3, word_length=1, real=6)
    assert set(choose(short, prob=0.02, P=3).weights.sum(axis=1).tolist()) == {1.0}
    everything = choose(make_rows(50, 13, seed=3, word_length=1, real=9), prob=0.99, P=13)
    assert set(everything.weights.sum(axis=1).tolist()) == {6.0}  # all but the special tokens


def test_a_word_longer_than_the_budget_is_left_alone() -> None:
    ids = np.arange(10, 32, dtype=np.int32)[np.newaxis]
    boundary = np.zeros((1, 22), dtype=bool)
    boundary[0, [0, 1, 10, 11, 21]] = True  # two words of nine and ten tokens
    maskable = np.ones((1, 22), dtype=bool)
    maskable[0, [0, 10, 21]] = False
    masks = choose((ids, boundary, maskable, np.array([22])))
    assert masks.weights.sum() == 0
    assert (masks.input_ids == ids).all()


@pytest.mark.parametrize("ngram", [1, 2, 3])
def test_ngram_lengths_have_shares_of_one_to_n(ngram: int) -> None:
    rows = make_rows(3000, 128, seed=9, word_length=2)
    lengths = choose(rows, ngram=ngram).ngram_lengths
    expected = (1 / np.arange(1, ngram + 1)) / (1 / np.arange(1, ngram + 1)).sum()
    assert lengths[0] == 0
    assert np.abs(lengths[1:] / lengths.sum() - expected).max() < 0.01


def test_counted_ngram_lengths_are_those_in_the_rows() -> None:
    # One n-gram in a long row, so that its length can be read off; the budget of three tokens cuts none.
    rows = make_rows(3000, 130, seed=12, word_length=1, real=130)
    masks = choose(rows, prob=3.0 / 130, P=3)
    runs = []
    for row in selected(masks, rows[0].shape):
        edges = np.flatnonzero(np.diff(np.concatenate(([0], row.astype(int), [0]))))
        runs.append((edges[1::2] - edges[::2]).tolist())
    first_three = sum(run == [3] for run in runs)
    # A run of three is one trigram, or a unigram and a bigram (or three unigrams) side by side: a few in a hundred.
    assert abs(first_three / len(runs) - 2 / 11) < 0.04
    assert all(sum(run) == 3 for run in runs)


def test_ngrams_stay_within_their_segment() -> None:
    # Two words on each side of [SEP]: a trigram does not fit anywhere, a bigram in two places.
    ids = np.array([[1, 10, 11, 2, 12, 13, 2]] * 500, dtype=np.int32)
    maskable = np.array([[0, 1, 1, 0, 1, 1, 0]] * 500, dtype=bool)
    masks = choose((ids, np.ones_like(maskable), maskable, np.full(500, 7)), prob=2.0 / 7, P=2)
    assert masks.ngram_lengths[3] == 0
    assert (masks.weights.sum(axis=1) == 2).all()
    pairs = {tuple(row) for row in masks.positions.tolist()}
    assert (2, 4) in pairs  # two unigrams may lie on both sides
    assert len(pairs) == 6


def test_eighty_ten_ten_and_no_special_replacement() -> None:
    rows = make_rows(4000, 128, seed=17, word_length=3)
    masks = choose(rows)
    chosen = selected(masks, rows[0].shape)
    shown, labels = masks.input_ids[chosen], rows[0][chosen]
    count = len(shown)
    assert count > 30_000
    is_mask, is_same = shown == MASK, shown == labels
    is_random = ~is_mask & ~is_same
    for share, expected in ((is_mask, 0.8), (is_same, 0.1), (is_random, 0.1)):
        # A random piece is the same one time in V - SPECIAL = 496: far within the bound.
        assert abs(share.mean() - expected) < 0.005
    replaced = shown[is_random]
    assert replaced.min() >= SPECIAL
    counts = np.bincount(replaced, minlength=V)[SPECIAL:]
    assert (counts > 0).mean() > 0.99
    assert counts.max() < 6 * counts.mean()


def test_positions_are_selected_evenly() -> None:
    rows = make_rows(8000, 40, seed=21, word_length=1, real=40)
    chosen = selected(choose(rows), rows[0].shape)
    maskable = rows[2]
    rates = chosen.sum(axis=0)[2:38] / np.maximum(1, maskable.sum(axis=0)[2:38])
    # About 0.162 of the tokens; the outermost positions are in fewer n-grams.
    assert rates.min() > 0.11
    assert rates.max() < 0.20


def test_same_generator_same_masks_other_generator_others() -> None:
    rows = make_rows(50, 64, seed=2, word_length=3)
    first, again, other = choose(rows, seed=5), choose(rows, seed=5), choose(rows, seed=6)
    assert (first.input_ids == again.input_ids).all()
    assert (first.positions == again.positions).all()
    assert (first.positions != other.positions).any(axis=1).mean() > 0.8  # a row of eight positions has few choices
