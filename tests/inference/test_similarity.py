"""Cosines beside their definition; the nearest of a stream beside sorting them all."""

from __future__ import annotations

import numpy as np
import pytest

from albert_tf.inference.similarity import Nearest, cosines


def test_cosines() -> None:
    a = np.array([[3.0, 4.0], [0.0, 0.0]])
    b = np.array([[4.0, 3.0], [-3.0, -4.0], [8.0, -6.0]])
    np.testing.assert_allclose(cosines(a, b), [[0.96, -1.0, 0.0], [0.0, 0.0, 0.0]], atol=1e-6)  # float32
    assert cosines(a[:1], a[:1] * 3).max() <= 1.0


def test_the_nearest_of_a_stream_are_those_of_all() -> None:
    generator = np.random.default_rng(5)
    queries, vectors = generator.standard_normal((3, 6)), generator.standard_normal((50, 6))
    vectors[31] = vectors[12]  # of equal ones the earlier comes first
    nearest = Nearest(queries, 7)
    nearest.add([], vectors[:0])
    for begin, end in ((0, 20), (20, 45), (45, 50)):
        nearest.add(list(range(begin, end)), vectors[begin:end])
    table = cosines(queries, vectors)
    for row, matches in zip(table, nearest.matches, strict=True):
        assert [match.item for match in matches] == np.argsort(-row, kind="stable")[:7].tolist()
        np.testing.assert_allclose([match.cosine for match in matches], np.sort(row)[::-1][:7], atol=1e-6)


def test_fewer_items_than_asked_for() -> None:
    nearest = Nearest(np.eye(2), 5)
    nearest.add(["a", "b"], np.eye(2))
    assert [[match.item for match in matches] for matches in nearest.matches] == [["a", "b"], ["b", "a"]]
    with pytest.raises(ValueError, match="top_k must be at least 1, got 0"):
        Nearest(np.eye(2), 0)
