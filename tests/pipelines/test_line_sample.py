"""The even sample of lines: which are kept, in what order, and how much memory it takes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import numpy as np
import pytest

from pipelines.line_sample import LineSample


def stream(count: int) -> Iterator[bytes]:
    """Lines of 2 to 97 bytes, each with its number."""
    for number in range(count):
        yield b"%d " % number + b"word " * (number * 7 % 18)


def draw(lines: Iterator[bytes] | list[bytes], budget: int) -> LineSample:
    sample = LineSample(budget)
    for line in lines:
        sample.add(line)
    sample.finish()
    return sample


def lines_with_smallest_numbers(lines: list[bytes], budget: int) -> list[bytes]:
    """The rule, on all lines at once."""
    numbers = np.random.Philox(key=20).random_raw(len(lines))
    order = np.argsort(numbers)
    fitting = np.flatnonzero(np.cumsum([len(lines[i]) for i in order]) <= budget)
    return [lines[i] for i in sorted(order[: len(fitting)])]


@pytest.mark.parametrize("budget", [40, 999, 5_000, 100_000, 250_000])
def test_the_lines_with_the_smallest_numbers_are_kept_in_their_order(budget: int) -> None:
    lines = list(stream(6_000))
    sample = draw(lines, budget)
    expected = lines_with_smallest_numbers(lines, budget)
    assert 0 < len(expected) < len(lines)
    assert (sample.added, sample.added_bytes) == (6_000, sum(map(len, lines)))
    assert (sample.kept, sample.kept_bytes) == (len(expected), sum(map(len, expected)))
    assert list(sample.take()) == expected
    assert list(sample.take()) == []


def test_all_lines_are_kept_where_they_fit() -> None:
    lines = [b"", b"a", b"", b"bc" * 30, b"\xc3\xa9"]
    size = sum(map(len, lines))
    assert list(draw(lines, size).take()) == lines
    assert len(list(draw(lines, size - 1).take())) < len(lines)
    assert list(draw([], 7).take()) == []


def test_the_sample_is_even() -> None:
    positions = np.array([int(line.split()[0]) for line in draw(stream(40_000), 200_000).take()])
    quarters = np.bincount(positions // 10_000)
    # Each quarter is expected to hold a quarter of the lines; five standard errors.
    assert np.abs(quarters - len(positions) / 4).max() < 5 * np.sqrt(len(positions) * 3 / 16)
    assert len(positions) > 3_000


def test_memory_depends_on_the_budget_alone() -> None:
    peaks = []
    for count in (30_000, 120_000):  # 1.5 and 6 MB
        tracemalloc.start()
        draw(stream(count), 200_000)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # Twice the budget, once or twice more while lines are left out (buffers grow with some reserve), and the numbers.
    assert max(peaks) < 8 * 200_000
    assert peaks[1] < 1.1 * peaks[0]
