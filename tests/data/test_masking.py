"""Masks drawn in the graph: against a plain restatement, and by their shares."""

from __future__ import annotations

import collections
import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import features
from albert_tf.data import masking
from tests.reference import masking as reference

SETTINGS = masking.MaskingSettings(
    sentence_objective="sop",
    max_seq_length=37,
    max_predictions_per_seq=6,
    masked_lm_prob=0.15,
    max_ngram=3,
    vocab_size=101,
    pad_id=1,
    cls_id=2,
    sep_id=3,
    mask_id=4,
    excluded_replacement_ids=(0, 1, 2, 3, 4, 50),
)


def _rows(count: int, settings: masking.MaskingSettings, *, full: bool = False, words: float = 0.6) -> tuple:
    generator = np.random.default_rng(2)
    room = settings.room
    tokens = np.zeros((count, room), np.int32)
    starts = np.zeros((count, room), np.int32)
    lengths = np.zeros((count, 2), np.int32)
    for row in range(count):
        total = room if full or row == 0 else int(generator.integers(2, room + 1))
        first = total if settings.sentence_objective == "none" else int(generator.integers(1, total))
        lengths[row] = first, total - first
        tokens[row, :total] = generator.integers(5, settings.vocab_size, total)
        starts[row, :total] = generator.random(total) < words
    return tokens, starts, lengths


def _make(
    rows: tuple,
    epochs: np.ndarray,
    examples: np.ndarray,
    settings: masking.MaskingSettings,
    seed: int = 11,
    labels: np.ndarray | None = None,
):
    function = tf.function(
        lambda tokens, starts, lengths, epochs, examples: masking.make_batch(
            tokens, starts, lengths, labels, seed=seed, epochs=epochs, examples=examples, settings=settings
        )
    )
    made = function(*map(tf.constant, (*rows, epochs.astype(np.int64), examples.astype(np.int64))))
    return {name: value.numpy() for name, value in made.items()}


@pytest.mark.representatives("3-0.6-sop", "2-0.7-none")
@pytest.mark.parametrize(
    ("max_ngram", "words", "objective"),
    [(3, 0.6, "sop"), (1, 0.3, "sop"), (4, 1.0, "sop"), (3, 0.5, "nsp"), (2, 0.7, "none")],
)
def test_equals_restatement(max_ngram: int, words: float, objective: features.SentenceObjective) -> None:
    settings = dataclasses.replace(SETTINGS, max_ngram=max_ngram, sentence_objective=objective)
    count = 61
    labels = np.arange(count, dtype=np.int32) % 3 // 2 if objective == "nsp" else None
    tokens, starts, lengths = _rows(count, settings, words=words)
    epochs, examples = np.arange(count) % 3, np.arange(count) * 7 + 5
    made = _make((tokens, starts, lengths), epochs, examples, settings, labels=labels)
    assert made["input_ids"].shape == (count, 37)
    assert made["masked_lm_positions"].shape == (count, 6)
    for row in range(count):
        first, both = lengths[row, 0], lengths[row].sum()
        expected = reference.make_row(
            (tokens[row, :first].tolist(), tokens[row, first:both].tolist()),
            (starts[row, :first].tolist(), starts[row, first:both].tolist()),
            seed=11,
            epoch=int(epochs[row]),
            example=int(examples[row]),
            label=0 if labels is None else int(labels[row]),
            **{**dataclasses.asdict(settings), "excluded_replacement_ids": [0, 1, 2, 3, 4, 50]},
        )
        del expected["ngrams"]
        for name, values in expected.items():
            np.testing.assert_array_equal(made[name][row], values, err_msg=f"row {row}, {name}")


def test_batch_size_and_place_in_the_batch_change_nothing() -> None:
    rows = _rows(13, SETTINGS)
    epochs, examples = np.full(13, 4), np.arange(13)
    whole = _make(rows, epochs, examples, SETTINGS)
    for part in (slice(0, 5), slice(5, 13)):
        made = _make(tuple(r[part] for r in rows), epochs[part], examples[part], SETTINGS)
        for name, values in made.items():
            np.testing.assert_array_equal(values, whole[name][part], err_msg=name)


def test_epochs_and_seeds_mask_differently() -> None:
    rows = _rows(29, SETTINGS)
    examples = np.arange(29)
    made = _make(rows, np.zeros(29), examples, SETTINGS)
    for other in (_make(rows, np.ones(29), examples, SETTINGS), _make(rows, np.zeros(29), examples, SETTINGS, seed=12)):
        same = np.all(made["masked_lm_positions"] == other["masked_lm_positions"], axis=1)
        assert same.mean() < 0.2
        assert 0 < np.sum(made["sentence_order_label"] != other["sentence_order_label"]) < 29


def test_shares() -> None:
    settings = dataclasses.replace(SETTINGS, max_seq_length=101, max_predictions_per_seq=16)
    count = 3000
    rows = _rows(count, settings, full=True)
    made = _make(rows, np.zeros(count), np.arange(count), settings)
    used = made["masked_lm_weights"] > 0
    predictions = used.sum()
    # The budget is rounded at random, so its mean is exact; at most 1 % of it is left by words that do not fit.
    assert 0.99 * 0.15 * 101 * count < predictions <= 0.151 * 101 * count
    shown = np.take_along_axis(made["input_ids"], made["masked_lm_positions"], axis=1)[used]
    labels = made["masked_lm_ids"][used]
    deviation = 4 / np.sqrt(predictions)  # four standard errors at most: sqrt(p (1 - p)) < 1
    is_mask, is_label = shown == 4, shown == labels
    assert abs(is_mask.mean() - 0.8) < 0.4 * deviation
    assert abs(is_label.mean() - 0.1 - 0.1 / 95) < 0.3 * deviation  # a random piece may be the label itself
    random_ids = shown[~is_mask & ~is_label]
    assert not set(random_ids) & set(settings.excluded_replacement_ids)
    counts = np.bincount(random_ids, minlength=101)[5:]
    assert counts[counts > 0].max() < 2 * counts[counts > 0].mean()  # all allowed ids alike
    labels_of_order = made["sentence_order_label"]
    assert abs(labels_of_order.mean() - 0.5) < 4 * 0.5 / np.sqrt(count)


def test_ngram_shares_are_proportional_to_one_over_n() -> None:
    counts: collections.Counter[int] = collections.Counter()
    settings = {**dataclasses.asdict(SETTINGS), "max_seq_length": 151, "max_predictions_per_seq": 23}
    settings["excluded_replacement_ids"] = [0, 1, 2, 3, 4, 50]
    tokens = [[7] * 74, [8] * 74]
    for example in range(90):
        row = reference.make_row(
            (tokens[0], tokens[1]), ([1] * 74, [1] * 74), seed=1, epoch=0, example=example, **settings
        )
        counts.update(len(ngram) for ngram in row["ngrams"][:-1])  # the last one may be cut
    total = counts.total()
    for n, share in ((1, 6 / 11), (2, 3 / 11), (3, 2 / 11)):
        # Four standard errors, and up to 1 % for n-grams that end at the end of a segment.
        assert abs(counts[n] / total - share) < 4 * np.sqrt(share * (1 - share) / total) + 0.01


def test_words_are_masked_whole_and_nothing_special_is() -> None:
    count = 211
    rows = _rows(count, SETTINGS, words=0.4)
    made = _make(rows, np.zeros(count), np.arange(count), SETTINGS)
    tokens, starts, lengths = rows
    for row in range(count):
        used = made["masked_lm_weights"][row] > 0
        positions = made["masked_lm_positions"][row][used]
        assert list(positions) == sorted(set(positions))
        ids = made["input_ids"][row].copy()
        ids[positions] = made["masked_lm_ids"][row][used]
        a, b = tokens[row, : lengths[row, 0]], tokens[row, lengths[row, 0] : lengths[row].sum()]
        word_starts = starts[row, : lengths[row, 0]], starts[row, lengths[row, 0] : lengths[row].sum()]
        if made["sentence_order_label"][row]:
            a, b, word_starts = b, a, word_starts[::-1]
        restored = [2, *a, 3, *b, 3]
        np.testing.assert_array_equal(ids[: len(restored)], restored)  # unmasking restores the ids
        assert (ids[len(restored) :] == SETTINGS.pad_id).all()
        starts_here = [1, 1, *word_starts[0][1:], 1, 1, *word_starts[1][1:], 1]
        word = np.cumsum(starts_here)
        masked = set(word[positions])
        assert {p for p in range(len(restored)) if word[p] in masked} == set(positions)
        assert not {0, len(a) + 1, len(restored) - 1} & set(positions)
