"""Blocks: the lines of a file to the bytes of its documents, with the places where they begin."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

# A longer document is a wrong format or no text, and would not fit into memory in all the forms that it takes: some
# fifty bytes for each of its own.
LONGEST_DOCUMENT = 1 << 27  # bytes
_RUN_BYTES = 1 << 15


class Block(NamedTuple):
    """Bytes of one document or a part of it, and where it begins: byte offset in the file, and line, from 1."""

    byte: int
    line: int
    content: bytes | None  # None if it is longer than LONGEST_DOCUMENT


def between_blank_lines(lines: Iterable[bytes]) -> Iterator[Block]:
    """The stretches between blank lines."""
    return _joined(lines, _is_blank)


def whole_file(lines: Iterable[bytes]) -> Iterator[Block]:
    """All lines, if there are any."""
    return _joined(lines, lambda line: False)


def single_lines(lines: Iterable[bytes]) -> Iterator[Block]:
    """Each line that is not empty."""
    offset = 0
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield Block(offset, number, line if len(line) <= LONGEST_DOCUMENT else None)
        offset += len(line)


def runs_of_lines(lines: Iterable[bytes]) -> Iterator[Block]:
    """All lines, some thousand bytes of them at a time: where no document is asked for, that is fastest."""
    gathered: list[bytes] = []
    begin, first, size = 0, 1, 0
    for line in lines:
        gathered.append(line)
        size += len(line)
        if size >= _RUN_BYTES:
            yield Block(begin, first, b"".join(gathered))
            begin, first, size = begin + size, first + len(gathered), 0
            gathered.clear()
    if gathered:
        yield Block(begin, first, b"".join(gathered))


def _joined(lines: Iterable[bytes], ends: Callable[[bytes], bool]) -> Iterator[Block]:
    """The stretches between lines that end one."""
    gathered: list[bytes] = []
    offset = begin = first = size = 0
    for number, line in enumerate(lines, start=1):
        if ends(line):
            if size:
                yield Block(begin, first, b"".join(gathered) if gathered else None)
            gathered, size = [], 0
        else:
            if not size:
                begin, first = offset, number
            size += len(line)
            if size <= LONGEST_DOCUMENT:
                gathered.append(line)
            else:
                gathered.clear()
        offset += len(line)
    if size:
        yield Block(begin, first, b"".join(gathered) if gathered else None)


def _is_blank(line: bytes) -> bool:
    # White space beyond ASCII, such as an ideographic space, makes a blank line too; a faulty line is none.
    return not line.strip() or not line.decode("utf-8", errors="replace").removeprefix("\ufeff").strip()
