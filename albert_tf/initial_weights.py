"""The values that weights start from, drawn from (seed, name): equal on every machine, whatever else is drawn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def initial_weight(name: str, shape: Sequence[int], *, seed: int, initializer_range: float) -> np.ndarray:
    """float64, of `shape`: the value that the weight of a canonical name starts from.

    Matrices come from a normal distribution of standard deviation `initializer_range`, cut off at two of them; gammas
    are 1, the rest 0.
    """
    if len(shape) != 2:
        return np.full(shape, 1.0 if name.endswith("/gamma") else 0.0)
    generator = np.random.default_rng([seed, *name.encode()])
    draws = generator.standard_normal(tuple(shape))
    while (outside := np.abs(draws) > 2.0).any():
        draws[outside] = generator.standard_normal(int(outside.sum()))
    return draws * initializer_range
