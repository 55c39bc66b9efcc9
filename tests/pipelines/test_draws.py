"""Stateless draws: against the published generator, and even in each direction."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from pipelines import draws

_WORD = 2**64
_STEP = 0x9E3779B97F4A7C15


def mix(state: int) -> int:
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % _WORD
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB % _WORD
    return state ^ (state >> 31)


def stream(state: int) -> Iterator[int]:
    """SplitMix64, plainly."""
    while True:
        state = (state + _STEP) % _WORD
        yield mix(state)


def test_bits_are_those_of_splitmix64() -> None:
    # Published for the seed 1234567.
    assert list(itertools.islice(stream(1234567), 3)) == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]
    keys = np.array([0, 5, _WORD - 3], dtype=np.uint64)
    found = draws.bits(keys[:, np.newaxis], draws.FATE, np.arange(4))
    for row, key in enumerate(keys.tolist()):
        expected = itertools.islice(stream(mix((key + draws.FATE * _STEP) % _WORD)), 4)
        assert found[row].tolist() == list(expected)
    assert (draws.bits(keys, draws.FATE) == found[:, 0]).all()


def test_shares_are_even_over_keys_positions_and_purposes() -> None:
    # Neighbouring keys, as an audit has them. Of 40,000 even draws the mean has a standard error of 0.0014.
    keys, positions = np.arange(40_000, dtype=np.uint64), np.arange(40_000)
    for found in (
        draws.uniform(keys, draws.SWAP),
        draws.uniform(keys[:1], draws.ORDER, positions),
        np.array([draws.uniform(keys[7:8], purpose)[0] for purpose in range(1, 40_001)]),
    ):
        assert 0 <= found.min() < found.max() < 1
        assert abs(found.mean() - 0.5) < 4 * 0.0015
        assert abs(np.corrcoef(found[1:], found[:-1])[0, 1]) < 4 * 0.005
