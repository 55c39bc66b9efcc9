from __future__ import annotations

import numpy as np
import pytest

from albert_tf.tasks.windows import join_texts, join_words, pair_windows, text_windows


@pytest.mark.parametrize("length", range(0, 24))
@pytest.mark.parametrize("room", [1, 3, 7])
def test_windows_cover_a_text(length: int, room: int) -> None:
    for stride in range(1, room + 1):
        windows = text_windows(length, room, stride)
        assert {token for w in windows for token in range(w.start, w.stop)} == set(range(length))
        assert all(w.stop - w.start <= room for w in windows)
        assert [w.start for w in windows] == [stride * i for i in range(len(windows))]
        assert all(w.stop < length for w in windows[:-1])  # none but the last one reaches the end


def test_without_a_stride_the_start_is_kept() -> None:
    assert text_windows(9, 4, None) == [slice(0, 4)]
    assert pair_windows(9, 3, 8, None) == [(slice(0, 5), slice(0, 3))]


def test_pairs() -> None:
    assert pair_windows(2, 3, 5, 2) == [(slice(0, 2), slice(0, 3))]
    assert pair_windows(2, 7, 5, 2) == [(slice(0, 2), slice(s, min(s + 3, 7))) for s in (0, 2, 4)]
    assert pair_windows(7, 2, 5, 2) == [(slice(s, min(s + 3, 7)), slice(0, 2)) for s in (0, 2, 4)]
    # both long: the shorter one has half of the room; a stride wider than what is left would lose tokens
    windows = pair_windows(6, 9, 7, 6)
    assert all(w[0] == slice(0, 3) for w in windows)
    assert {t for w in windows for t in range(w[1].start, w[1].stop)} == set(range(9))


def test_mean_over_windows() -> None:
    values = np.array([[1, 2], [3, 4], [5, 9], [7, 1]], np.float32)
    joined = join_texts(values, np.array([0, 1, 1, 2]), 3)
    assert joined.tolist() == [[1, 2], [4, 6.5], [7, 1]]
    assert joined.dtype == np.float32
    assert join_texts(values[:, 0], np.array([0, 0, 0, 1]), 2).tolist() == [3, 7]
    assert join_texts(values, np.arange(4), 4) is values
    with pytest.raises(ValueError, match="each of 4 examples must have a row, got rows of 3"):
        join_texts(values, np.array([0, 1, 1, 3]), 4)


def test_a_word_is_taken_from_the_middle_of_a_window() -> None:
    # one text of six words, a piece each, in windows of four with stride two; a second text of two words, cut to one
    word_of = [np.array(row) for row in ([-1, 0, 1, 2, 3, -1], [-1, 2, 3, 4, 5, -1], [-1, 0, -1])]
    values = [np.full((len(row), 2), number, np.float32) for number, row in enumerate(word_of)]
    first, second = join_words(values, word_of, np.array([0, 0, 1]), [6, 2])
    # word 2 has 2 tokens behind it in the first window, and 1 before it in the second
    assert first[:, 0].tolist() == [0, 0, 0, 1, 1, 1]
    assert second[0].tolist() == [2, 2]
    assert np.isnan(second[1]).all()


@pytest.mark.parametrize("stride", [1, 4, 9, 10, 11, 40])
def test_windows_of_any_stride_hold_every_token_and_are_never_empty(stride: int) -> None:
    for length in range(1, 60):
        windows = text_windows(length, 10, stride)
        assert {i for window in windows for i in range(length)[window]} == set(range(length))
        assert all(0 < window.stop - window.start <= 10 for window in windows)
        assert windows[-1].stop == length
        assert len({window.start for window in windows}) == len(windows)
    for first, second in ((100, 10), (10, 100), (30, 31)):
        pairs = pair_windows(first, second, 20, stride)
        assert all(a.stop > a.start and b.stop > b.start for a, b in pairs)
        assert all(a.stop - a.start + b.stop - b.start <= 20 for a, b in pairs)
