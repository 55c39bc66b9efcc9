"""Line sample: from a stream of lines of any length, as many as fit into a budget of bytes, drawn evenly over all.

Each line gets a random number; the lines with the smallest numbers are kept, as many as fit. One pass, and memory
for twice the budget and 12 bytes a line. Which lines are kept depends on the stream and the budget only.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import numpy as np

_SEED = 20  # of the random numbers; any would do
_BLOCK = 4096  # random numbers drawn at a time


class LineSample:
    """Lines drawn evenly from those added.

    Args:
      budget: most bytes of UTF-8 that the sample holds.

    Attributes:
      added, added_bytes: lines added so far, and their bytes.
      kept, kept_bytes: lines of the sample, and their bytes; right after `finish`.
    """

    def __init__(self, budget: int) -> None:
        self.added = self.added_bytes = 0
        self._budget = budget
        self._text = bytearray()
        self._lengths = array("I")
        self._keys = array("Q")
        self._limit = 1 << 64  # a line with this number or a greater one is not among the smallest any more
        self._numbers = _random_numbers()

    def add(self, line: bytes) -> None:
        """Adds a line, of less than 2**32 bytes."""
        self.added += 1
        self.added_bytes += len(line)
        number = next(self._numbers)
        if number >= self._limit:
            return
        self._text += line
        self._lengths.append(len(line))
        self._keys.append(number)
        if len(self._text) > 2 * self._budget:
            self._prune()

    def finish(self) -> None:
        """Leaves in the sample what fits; nothing can be added that was drawn out before."""
        if len(self._text) > self._budget:
            self._prune()

    @property
    def kept(self) -> int:
        return len(self._lengths)

    @property
    def kept_bytes(self) -> int:
        return len(self._text)

    def take(self) -> Iterator[bytes]:
        """The sample's lines in the order they were added, once: the sample is empty afterwards."""
        text, lengths = self._text, self._lengths
        self._text, self._lengths, self._keys = bytearray(), array("I"), array("Q")
        begin = 0
        for length in lengths:
            yield bytes(text[begin : begin + length])
            begin += length

    def _prune(self) -> None:
        """Keeps the lines with the smallest numbers: as many as fit, up to the first that does not."""
        keys = np.array(self._keys, dtype=np.uint64)
        lengths = np.array(self._lengths, dtype=np.int64)
        order = np.argsort(keys, kind="stable")
        fitting = int(np.searchsorted(np.cumsum(lengths[order]), self._budget, side="right"))
        if fitting == len(order):
            return
        self._limit = int(keys[order[fitting]])
        kept = np.zeros(len(order), dtype=bool)
        kept[order[:fitting]] = True
        self._text = _cut_out(self._text, lengths, kept)
        self._lengths = array("I", lengths[kept].astype(np.uint32).tobytes())
        self._keys = array("Q", keys[kept].tobytes())


def _cut_out(text: bytearray, lengths: np.ndarray, kept: np.ndarray) -> bytearray:
    """The kept lines' bytes, copied a run of neighbours at a time."""
    ends = np.cumsum(lengths)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], kept, [False]]).astype(np.int8)))
    offsets = np.concatenate([[0], ends])[edges].tolist()
    result = bytearray()
    with memoryview(text) as view:
        for begin, end in zip(offsets[::2], offsets[1::2], strict=True):
            result += view[begin:end]
    return result


def _random_numbers() -> Iterator[int]:
    """Numbers in [0, 2**64), the same in every run and on every machine."""
    generator = np.random.Philox(key=_SEED)
    while True:
        yield from generator.random_raw(_BLOCK).tolist()
