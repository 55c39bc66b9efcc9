"""Cosine similarity of vectors, and the most similar ones out of a stream of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Match(NamedTuple):
    """What is similar to a query, and how much: the cosine, in [-1, 1]."""

    item: Any
    cosine: float


def cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """float32 [N, M]: cosine of each of `a` float [N, H] with each of `b` float [M, H]; 0 where one is zero."""
    return np.clip(_unit(a) @ _unit(b).T, -1.0, 1.0)


class Nearest:
    """The items most similar to each query, out of as many as come; keeps `top_k` for each query.

    Args:
      queries: float [Q, H].
      top_k: items to keep for each.
    """

    def __init__(self, queries: np.ndarray, top_k: int) -> None:
        if top_k < 1:
            raise ValueError(f"top_k must be at least 1, got {top_k}")
        self._queries = queries
        self._top_k = top_k
        self._matches: list[list[Match]] = [[] for _ in range(len(queries))]

    def add(self, items: list[Any], vectors: np.ndarray) -> None:
        """Takes items with their vectors, float [N, H]."""
        if not items:
            return
        for query, row in enumerate(cosines(self._queries, vectors)):
            best = np.argsort(-row, kind="stable")[: self._top_k]
            found = self._matches[query] + [Match(items[i], float(row[i])) for i in best]
            self._matches[query] = sorted(found, key=lambda match: -match.cosine)[: self._top_k]  # the earlier first

    @property
    def matches(self) -> list[list[Match]]:
        """For each query its matches, the best first; of equal ones the earlier first."""
        return self._matches


def _unit(vectors: np.ndarray) -> np.ndarray:
    vectors = np.asarray(vectors, np.float32)
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), np.finfo(np.float32).tiny)
