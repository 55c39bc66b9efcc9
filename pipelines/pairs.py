"""Pairs of segments, many in flat arrays, and the bytes in which they travel from a document to their shard.

A pair's key is 64 random bits that derive from document, seed and copy. It decides the shard, the place in it, and all
that is drawn for the pair later.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

_HEADER = np.dtype([("key", ">u8"), ("document", "<u8"), ("lengths", "<u4", 2), ("wanted", "<u4")])
_WORD_START = np.uint32(1 << 31)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pairs:
    """B pairs of segments A and B in the order of their document; B may be empty.

    Attributes:
      ids: int32 [T], tokens of all pairs, A before B, without special ones.
      word_starts: bool [T], True where a word starts.
      lengths: int64 [B, 2], tokens of A and of B.
      keys: uint64 [B].
      documents: uint64 [B], equal for pairs of one document.
      wanted: int64 [B], how many tokens of another document B should have; 0 where it is there already.
    """

    ids: np.ndarray
    word_starts: np.ndarray
    lengths: np.ndarray
    keys: np.ndarray
    documents: np.ndarray
    wanted: np.ndarray

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def sizes(self) -> np.ndarray:
        """int64 [B], tokens of both segments."""
        sizes: np.ndarray = self.lengths.sum(axis=1)
        return sizes

    @property
    def begins(self) -> np.ndarray:
        """int64 [B], where each pair begins in the flat arrays."""
        return np.cumsum(self.sizes) - self.sizes

    def with_starts(self) -> Pairs:
        """The same with a word start at the first token of each segment: where one was cut inside a word, too."""
        starts = self.word_starts.copy()
        begins, middles = self.begins, self.begins + self.lengths[:, 0]
        starts[begins[self.lengths[:, 0] > 0]] = True
        starts[middles[self.lengths[:, 1] > 0]] = True
        return dataclasses.replace(self, word_starts=starts)


def flat_ranges(begins: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """int64 [sum of lengths]: begin, begin + 1, ... of each range, one range after the other."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(begins - before, lengths) + np.arange(int(lengths.sum()))


def pack(pairs: Pairs) -> list[bytes]:
    """One item of bytes for each pair; items sort by key."""
    header = np.empty(len(pairs), dtype=_HEADER)
    header["key"], header["document"], header["wanted"] = pairs.keys, pairs.documents, pairs.wanted
    header["lengths"] = pairs.lengths
    heads = header.tobytes()
    tokens = (pairs.ids.astype("<u4") | (pairs.word_starts * _WORD_START)).astype("<u4").tobytes()
    size = _HEADER.itemsize
    ends = np.cumsum(pairs.sizes) * 4
    return [
        heads[i * size : (i + 1) * size] + tokens[begin:end]
        for i, (begin, end) in enumerate(zip((ends - 4 * pairs.sizes).tolist(), ends.tolist(), strict=True))
    ]


def unpack(items: Sequence[bytes]) -> Pairs:
    """The pairs of `pack`'s items."""
    header = np.frombuffer(b"".join(item[: _HEADER.itemsize] for item in items), dtype=_HEADER)
    tokens = np.frombuffer(b"".join(item[_HEADER.itemsize :] for item in items), dtype="<u4")
    return Pairs(
        ids=(tokens & ~_WORD_START).astype(np.int32),
        word_starts=tokens >= _WORD_START,
        lengths=header["lengths"].astype(np.int64),
        keys=header["key"].astype(np.uint64),
        documents=header["document"].astype(np.uint64),
        wanted=header["wanted"].astype(np.int64),
    )


def unpack_headers(items: Sequence[bytes]) -> Pairs:
    """As `unpack`, without tokens: `ids` and `word_starts` are empty."""
    return unpack([item[: _HEADER.itemsize] for item in items])
