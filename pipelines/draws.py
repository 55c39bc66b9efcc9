"""Stateless draws: hashes of (key of the example, what the draw is for, position).

No draw depends on another one or on the rows beside it, so that an example gets the same order and masks in whatever
shard, batch or process it is finished. The hash is SplitMix64's finaliser (Steele, Lea and Flood 2014, "Fast splittable
pseudorandom number generators"), once over key and purpose and once more with the position.
"""

from __future__ import annotations

import numpy as np

# What a draw is for.
SWAP, BUDGET, NGRAM, ORDER, FATE, REPLACEMENT, STRANGER, PARTNER, TRUNCATION, AUDIT = range(1, 11)

_STEP = np.uint64(0x9E3779B97F4A7C15)  # 2**64 divided by the golden ratio, odd
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def bits(keys: np.ndarray, purpose: int, positions: np.ndarray | int = 0) -> np.ndarray:
    """64 random bits for each key and position.

    Args:
      keys: uint64, one for each example.
      purpose: one of the numbers above.
      positions: whole numbers, not negative, of a shape that broadcasts with that of `keys`.

    Returns:
      uint64 of the shape to which keys and positions broadcast.
    """
    with np.errstate(over="ignore"):
        state = _mix(keys + np.uint64(purpose) * _STEP)
        return _mix(state + (np.asarray(positions, dtype=np.uint64) + np.uint64(1)) * _STEP)


def uniform(keys: np.ndarray, purpose: int, positions: np.ndarray | int = 0) -> np.ndarray:
    """Numbers in [0, 1), float64 with 53 random bits; arguments as of `bits`."""
    shares: np.ndarray = (bits(keys, purpose, positions) >> np.uint64(11)) * 2.0**-53
    return shares


def _mix(state: np.ndarray) -> np.ndarray:
    state = (state ^ (state >> np.uint64(30))) * _FIRST
    state = (state ^ (state >> np.uint64(27))) * _SECOND
    return state ^ (state >> np.uint64(31))
