"""Rows out of a file or standard input, one after the other: memory does not grow with the file.

| format | a row is | its columns |
|---|---|---|
| lines | a line, blank ones too | "text" |
| tsv | a line of cells between tabs; quotes are characters like any other | those of the first line |
| csv | cells between commas; one in quotes may hold commas and line ends (RFC 4180) | those of the first line |
| jsonl | a JSON object on a line; blank lines are left out | its keys |

All are UTF-8, with or without a byte-order mark, with the line ends of Unix or Windows.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator
from typing import BinaryIO, TypeVar

from albert_tf.files import is_remote
from albert_tf.tasks.tables import (
    JSON_LINES,
    Row,
    column_names,
    decode_lines,
    ending_of,
    json_rows,
    records,
    without_end,
)

FORMATS = ("lines", "tsv", "csv", "jsonl")
STANDARD_INPUT = "-"
LINE = "text"  # column of the format "lines"
_ENDINGS = {".tsv": "tsv", ".tab": "tsv", ".csv": "csv", **dict.fromkeys(JSON_LINES, "jsonl")}

_Item = TypeVar("_Item")


def format_of(path: str) -> str:
    """Format of a file by the ending of its name; "lines" for others and for standard input."""
    return _ENDINGS.get(ending_of(path), "lines")


def stream_rows(path: str, format: str | None = None) -> Iterator[Row]:
    """Rows of a file, read as they are asked for; each knows its place, "path:line".

    Args:
      path: file, pipe, or "-" for standard input.
      format: one of `FORMATS`; None goes by the ending of the name.

    Raises:
      ValueError: for a line that is not UTF-8 or not of the format, with path and line.
      OSError: if the file cannot be read.
    """
    format = format or format_of(path)
    if format not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, got {format!r}")
    name = "standard input" if path == STANDARD_INPUT else path
    with _opened(path) as stream:
        lines = decode_lines(stream, name)
        if format == "lines":
            for number, line in lines:
                yield Row(f"{name}:{number}", {LINE: without_end(line)})
        elif format == "jsonl":
            yield from json_rows(lines, name)
        else:
            cut = ((number, without_end(line)) for number, line in lines)
            yield from _table_rows(records(cut, name, "," if format == "csv" else "\t"), name, format)


def chunks(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    """Lists of `size` items, the last one maybe shorter."""
    iterator = iter(items)
    while chunk := list(itertools.islice(iterator, size)):
        yield chunk


def _opened(path: str) -> BinaryIO:
    if path == STANDARD_INPUT:
        return open(sys.stdin.fileno(), "rb", closefd=False)
    if is_remote(path):
        import tensorflow as tf

        remote: BinaryIO = tf.io.gfile.GFile(path, "rb")
        return remote
    return open(path, "rb")


def _table_rows(found: Iterable[tuple[int, list[str]]], name: str, format: str) -> Iterator[Row]:
    header: list[str] | None = None
    blank = 0  # the line of a blank row, which may stand at the end only
    for number, cells in found:
        if header is None:
            header = column_names(cells, f"{name}:{number}")
            continue
        if len(header) > 1:
            if cells == [""]:
                blank = blank or number
                continue
            if blank or len(cells) != len(header):
                between = "tabs" if format == "tsv" else "commas"
                raise ValueError(
                    f"{name}:{blank or number}: must have {len(header)} cells between {between} "
                    f"({', '.join(header)}), got {0 if blank else len(cells)}"
                )
        elif len(cells) != 1:
            raise ValueError(f"{name}:{number}: must have one cell ({header[0]}), got {len(cells)}")
        yield Row(f"{name}:{number}", dict(zip(header, cells, strict=True)))
