"""Windows over texts that do not fit into a sequence, and one prediction out of those of a text's windows.

Windows overlap: the next one starts a stride later. Of a text, the windows' values are averaged; of a word, the window
counts that shows most of what stands around it, as the original does it for SQuAD.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from albert_tf.tokenizer_base import truncate_pair


def text_windows(length: int, room: int, stride: int | None) -> list[slice]:
    """Windows of at most `room` tokens over a text of `length`; without a stride one, at its start.

    Every token is in one at least, and the last one ends with the text; a stride above `room` counts as `room`.
    """
    if stride is None or length <= room:
        return [slice(0, min(length, room))]
    stride = min(stride, room)
    starts = range(0, length - room + stride, stride)
    return [slice(start, min(start + room, length)) for start in starts]


def pair_windows(length_a: int, length_b: int, room: int, stride: int | None) -> list[tuple[slice, slice]]:
    """Windows over two texts that share `room` tokens.

    Without a stride the longer one loses its end (`truncate_pair`). With one the shorter text stands in every window,
    half of the room at most, and windows go over the longer one, at a tie the second.
    """
    if stride is None or length_a + length_b <= room:
        keep_a, keep_b = truncate_pair(length_a, length_b, room)
        return [(slice(0, keep_a), slice(0, keep_b))]
    kept = slice(0, min(length_a, length_b, room // 2))
    windows = text_windows(max(length_a, length_b), room - kept.stop, stride)
    return [(window, kept) if length_a > length_b else (kept, window) for window in windows]


def join_texts(values: np.ndarray, example_of: np.ndarray, num_examples: int) -> np.ndarray:
    """Mean of the values of each example's windows.

    Args:
      values: float [n] or [n, C], for each row: a number, probabilities or logits.
      example_of: int [n], which example each row is of.
      num_examples: examples in all.

    Returns:
      The same dtype, [num_examples] or [num_examples, C].

    Raises:
      ValueError: if an example has no row.
    """
    counts = np.bincount(example_of, minlength=num_examples)
    if counts.shape != (num_examples,) or not counts.all():
        raise ValueError(f"each of {num_examples} examples must have a row, got rows of {np.count_nonzero(counts)}")
    if len(values) == num_examples and np.array_equal(example_of, np.arange(num_examples)):
        return values  # no windows: not one bit changes
    sums = np.zeros((num_examples, *values.shape[1:]), np.float64)
    np.add.at(sums, example_of, values)
    return (sums / counts.reshape(-1, *[1] * (values.ndim - 1))).astype(values.dtype)


def join_words(
    values: Sequence[np.ndarray], word_of: Sequence[np.ndarray], example_of: np.ndarray, num_words: Sequence[int]
) -> list[np.ndarray]:
    """For each word the values of its first piece, out of the window in which it is farthest from both ends.

    Args:
      values: for each row float [T_i, C].
      word_of: for each row int [T_i], the word whose first piece stands there, -1 elsewhere.
      example_of: int [n], which example each row is of.
      num_words: words of each example.

    Returns:
      For each example float [words, C]; not a number (nan) for words that no row holds, since their text was cut.
    """
    width = values[0].shape[-1] if len(values) else 0
    joined = [np.full((count, width), np.nan, np.float32) for count in num_words]
    context = [np.full(count, -1, np.int64) for count in num_words]
    for row, example in enumerate(example_of):
        places = np.flatnonzero(word_of[row] >= 0)
        words = word_of[row][places]
        around = np.minimum(places, len(word_of[row]) - 1 - places)
        better = around > context[example][words]
        context[example][words[better]] = around[better]
        joined[example][words[better]] = values[row][places[better]]
    return joined
