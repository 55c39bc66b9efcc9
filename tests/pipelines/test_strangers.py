"""Second segments of other documents: every one used once, none of the own document, and as the original takes them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from pipelines import strangers
from pipelines.pairs import Pairs
from tests.pipelines.test_pairs import random_pairs


def in_documents(made: Pairs, documents: list[int]) -> Pairs:
    return dataclasses.replace(made, documents=np.array(documents, dtype=np.uint64))


@pytest.mark.parametrize(("documents", "most_longer"), [(2, 2000), (3, 4 * 60), (400, 2 * 60)])
def test_half_of_the_pairs_exchange_second_segments(documents: int, most_longer: int) -> None:
    count = 2000
    made = in_documents(random_pairs(count, seed=5, most=60), [row % documents for row in range(count)])
    seconds = strangers.exchange(made)
    assert sorted(seconds.partners.tolist()) == list(range(count))  # each second segment is used once
    changed = seconds.partners != np.arange(count)
    assert (changed == seconds.are_strangers).all()
    assert (made.documents[seconds.partners][changed] != made.documents[changed]).all()
    assert abs(changed.mean() - 0.5) < 4 * 0.5 / count**0.5
    np.testing.assert_array_equal(seconds.starts, made.lengths[seconds.partners, 0])
    np.testing.assert_array_equal(seconds.lengths, made.lengths[seconds.partners, 1])
    # About as long as the one that was there: what may have to be cut off, over a whole shard, is a few sequences.
    longer = (seconds.lengths - made.lengths[:, 1])[changed]
    assert longer.clip(min=0).sum() < most_longer
    assert np.median(np.abs(longer)) <= 1


def test_one_large_document_among_small_ones_finds_what_partners_there_are() -> None:
    count = 600
    made = in_documents(random_pairs(count, seed=6), [0 if row % 10 else row for row in range(count)])
    seconds = strangers.exchange(made)
    changed = seconds.are_strangers
    assert (made.documents[seconds.partners][changed] != made.documents[changed]).all()
    assert sorted(seconds.partners.tolist()) == list(range(count))
    small = int((changed & (made.documents != 0)).sum())
    assert small > 15  # of 60, half is chosen
    assert small <= int(changed.sum()) <= 2 * small  # each takes the place of one of the large document's


def test_pairs_of_a_single_document_stay_as_they_are() -> None:
    for count in (0, 1, 2, 9):
        seconds = strangers.exchange(in_documents(random_pairs(count, seed=7), [4] * count))
        assert seconds.partners.tolist() == list(range(count))
        assert not seconds.are_strangers.any()


def test_the_original_takes_from_random_documents() -> None:
    count = 3000
    made = random_pairs(count, seed=8, empty=0.5)
    wanted = np.where(made.lengths[:, 1] == 0, 1 + np.arange(count) % 12, 0)
    made = dataclasses.replace(in_documents(made, [row % 5 for row in range(count)]), wanted=wanted)
    seconds = strangers.as_original(made)
    takes = wanted > 0
    assert (seconds.are_strangers == takes).all()
    assert (seconds.partners[~takes] == np.flatnonzero(~takes)).all()
    np.testing.assert_array_equal(seconds.lengths[~takes], made.lengths[~takes, 1])
    np.testing.assert_array_equal(seconds.starts[~takes], made.lengths[~takes, 0])
    given = seconds.partners[takes]
    # Ten tries miss all of four fifths once in ten million times.
    assert (made.documents[given] != made.documents[takes]).all()
    assert len(set(given.tolist())) > 0.35 * takes.sum()  # drawn with replacement: 1 - 1/e of those there are
    for row in np.flatnonzero(takes):
        length_a, length_b = made.lengths[seconds.partners[row]]
        if seconds.starts[row]:
            assert (seconds.starts[row], seconds.lengths[row]) == (length_a, length_b)
        else:
            assert seconds.lengths[row] == (length_a if length_a >= wanted[row] else length_a + length_b)
    alone = dataclasses.replace(random_pairs(1, seed=9), wanted=np.array([3]))
    assert strangers.as_original(alone).partners.tolist() == [0]  # its own text, as the original in the end
