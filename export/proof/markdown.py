"""Headings, paragraphs, lists and tables of Markdown (GitHub's), from plain text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

# "_" within a word and a bracket on its own are no markup.
_SPECIAL = re.compile(r"([\\`*<>|~]|^[#+-]|(?<!\w)_|_(?!\w)|\](?=[(\[:]))")


def text(value: Any) -> str:
    """A value as Markdown shows it, without markup: whole numbers with separators, others with four digits."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}"
    return _SPECIAL.sub(r"\\\1", " ".join(str(value).split()))


def heading(level: int, title: str) -> str:
    """A title; level 1 is the document's."""
    return f"{'#' * level} {text(title)}\n"


def paragraph(words: str) -> str:
    """A paragraph in one line."""
    return f"{text(words)}\n"


def bullets(items: Iterable[str]) -> str:
    """A list, an item a line."""
    return "".join(f"- {text(item)}\n" for item in items)


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table whose source is aligned too; columns of numbers stand at the right.

    Raises:
      ValueError: if a row has not one value for each column.
    """
    rows = [tuple(row) for row in rows]
    for index, row in enumerate(rows):
        if len(row) != len(columns):
            raise ValueError(f"row {index} must have {len(columns)} values ({', '.join(columns)}), got {len(row)}")
    cells = [[text(value) for value in row] for row in (columns, *rows)]
    widths = [max(3, *(_width(line[index]) for line in cells)) for index in range(len(columns))]
    is_numeric = [_is_numeric([row[index] for row in rows]) for index in range(len(columns))]
    ruler = ["-" * (width - 1) + (":" if right else "-") for width, right in zip(widths, is_numeric, strict=True)]
    lines = [" | ".join(map(_padded, line, widths, is_numeric)) for line in (cells[0], ruler, *cells[1:])]
    return "".join(f"| {line} |\n" for line in lines)


def _is_numeric(values: Sequence[Any]) -> bool:
    """Whether a column holds numbers, some of which may not be known."""
    known = [value for value in values if value is not None]
    return bool(known) and all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in known)


def _padded(cell: str, width: int, right: bool) -> str:
    spaces = " " * (width - _width(cell))
    return spaces + cell if right else cell + spaces


def _width(cell: str) -> int:
    """Columns of a terminal that a text takes."""
    return sum(
        0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in cell
    )
