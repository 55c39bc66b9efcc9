"""Pairs of segments in flat arrays, as bytes, and as rows."""

from __future__ import annotations

import numpy as np

from pipelines import pairs
from pipelines.pairs import Pairs
from pipelines.rows import lay_out


def random_pairs(count: int, *, seed: int, most: int = 9, empty: float = 0.0) -> Pairs:
    """Pairs of 1 to `most` tokens a segment; `empty` is the share of those without a second one."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(1, most + 1, size=(count, 2))
    lengths[generator.random(count) < empty, 1] = 0
    total = int(lengths.sum())
    return Pairs(
        ids=generator.integers(10, 2**31 - 1, size=total, dtype=np.int32),
        word_starts=generator.random(total) < 0.6,
        lengths=lengths,
        keys=generator.integers(0, 2**64, size=count, dtype=np.uint64),
        documents=generator.integers(0, 7, size=count).astype(np.uint64),
        wanted=generator.integers(0, 3, size=count),
    ).with_starts()


def segments(made: Pairs, row: int) -> tuple[list[int], list[int]]:
    begin, middle = int(made.begins[row]), int(made.begins[row] + made.lengths[row, 0])
    return made.ids[begin:middle].tolist(), made.ids[middle : begin + int(made.sizes[row])].tolist()


def test_items_hold_everything_and_sort_by_key() -> None:
    made = random_pairs(53, seed=2, empty=0.2)
    items = pairs.pack(made)
    read = pairs.unpack(items)
    for name in ("ids", "word_starts", "lengths", "keys", "documents", "wanted"):
        np.testing.assert_array_equal(getattr(read, name), getattr(made, name), err_msg=name)
    assert [str(array.dtype) for array in (read.ids, read.word_starts, read.lengths)] == ["int32", "bool", "int64"]
    order = sorted(range(53), key=lambda row: items[row])
    assert order == np.argsort(made.keys).tolist()
    headers = pairs.unpack_headers(items)
    np.testing.assert_array_equal(headers.lengths, made.lengths)
    assert len(headers.ids) == 0
    assert len(pairs.unpack([])) == 0


def test_segments_begin_with_a_word_start() -> None:
    made = random_pairs(31, seed=3, empty=0.3)
    for row, (begin, (length_a, length_b)) in enumerate(zip(made.begins, made.lengths, strict=True)):
        assert made.word_starts[begin], row
        assert not length_b or made.word_starts[begin + length_a], row


def test_flat_ranges() -> None:
    assert pairs.flat_ranges(np.array([7, 2, 9, 0]), np.array([2, 0, 1, 3])).tolist() == [7, 8, 9, 0, 1, 2]
    assert pairs.flat_ranges(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)).tolist() == []


def test_rows_equal_rows_built_by_hand() -> None:
    made = random_pairs(41, seed=4, empty=0.25)
    swapped = (np.arange(41) % 3 == 0) & (made.lengths[:, 1] > 0)
    laid = lay_out(made, swapped, max_seq_length=23, cls_id=7, sep_id=8, pad_id=9)
    for row in range(41):
        begin, (length_a, length_b) = int(made.begins[row]), made.lengths[row].tolist()
        starts_a = made.word_starts[begin : begin + length_a].tolist()
        starts_b = made.word_starts[begin + length_a : begin + length_a + length_b].tolist()
        parts = [*zip(segments(made, row), (starts_a, starts_b), strict=True)]
        (first, first_starts), (second, second_starts) = parts[::-1] if swapped[row] else parts
        ids, starts = [7, *first, 8], [1, *first_starts, 1]
        maskable, segment_ids = [0, *[1] * len(first), 0], [0] * (len(first) + 2)
        if second:
            ids, starts = [*ids, *second, 8], [*starts, *second_starts, 1]
            maskable, segment_ids = [*maskable, *[1] * len(second), 0], [*segment_ids, *[1] * (len(second) + 1)]
        padding = 23 - len(ids)
        assert laid.input_ids[row].tolist() == ids + [9] * padding
        assert laid.input_mask[row].tolist() == [1] * len(ids) + [0] * padding
        assert laid.segment_ids[row].tolist() == segment_ids + [0] * padding
        assert laid.token_boundary[row].tolist() == starts + [0] * padding
        assert laid.maskable[row].tolist() == maskable + [0] * padding
        assert (laid.real_lengths[row], laid.first_lengths[row]) == (len(ids), len(first))
