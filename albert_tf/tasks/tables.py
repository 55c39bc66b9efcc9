"""Files of rows: tab-separated, comma-separated and JSON lines, read row by row; each row knows its place.

* `.tsv`, `.txt`, `.tab`: cells between tabs, one row a line. A quote is a character like any other, as in GLUE's files.
* `.csv`: cells between commas; a cell in quotes may hold commas, line ends and doubled quotes (RFC 4180).
* `.jsonl`, `.json`: one JSON object a line; its keys are the columns.

All are UTF-8, with or without a byte-order mark, with the line ends of Unix or Windows.
"""

from __future__ import annotations

import codecs
import csv
import dataclasses
import io
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any

from albert_tf import files
from albert_tf.json_object import parse_object
from albert_tf.tokenizer_base import check_unicode

SEPARATORS = {".tsv": "\t", ".txt": "\t", ".tab": "\t", ".csv": ","}
JSON_LINES = (".jsonl", ".json")
ENDINGS = (*SEPARATORS, *JSON_LINES)
_LARGEST = 3.4028234663852886e38  # of float32
_LONGEST_RECORD = 1 << 24  # characters of a CSV record over several lines; more is a quote that is never closed


class MissingColumnError(ValueError):
    """A row without a column that is wanted; the message says where, and which there are."""


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """A row: its place, "path:line", and its cells by column; text, or any value from JSON."""

    source: str
    cells: dict[str, Any]

    def __getitem__(self, column: str) -> Any:
        if column not in self.cells:
            shown = ", ".join(map(repr, self.cells))
            raise MissingColumnError(f"{self.source}: no column {column!r}; columns: {shown}")
        return self.cells[column]

    def text(self, column: str) -> str:
        """Text of a cell.

        Raises:
          ValueError: if there is no such column, or its value is no text.
        """
        value = self[column]
        if not isinstance(value, str):
            raise ValueError(f"{self.source}: {column} must be text, got {_shown(value)}")
        return value

    def name(self, column: str) -> str:
        """Name of a label or an id: text without spaces around it, or a whole number.

        Raises:
          ValueError: if there is no such column, or its value is another one or empty.
        """
        value = self[column]
        name = str(value).strip() if isinstance(value, (str, int)) and not isinstance(value, bool) else ""
        if not name:
            raise ValueError(f"{self.source}: {column} must be a name, text or a whole number, got {_shown(value)}")
        self.check_unicode(name, column)
        return name

    def check_unicode(self, text: str, column: str) -> None:
        """Refuses text of a column that no file in UTF-8 can hold; JSON can: "\\ud800".

        Raises:
          ValueError: naming the place.
        """
        try:
            check_unicode(text)
        except ValueError as error:
            raise ValueError(f"{self.source}: {column}: {error}") from error

    def number(self, column: str) -> float:
        """Number of a cell, finite, also in float32, in which it is learned.

        Raises:
          ValueError: if there is no such column, or its value is no such number.
        """
        value = self[column]
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        is_number |= isinstance(value, str) and "_" not in value  # Python's float takes "1_5" for 15
        try:
            number = float(value if is_number else "nan")
        except (ValueError, OverflowError):
            number = float("nan")
        if not abs(number) < float("inf"):
            raise ValueError(f"{self.source}: {column} must be a number, got {_shown(value)}")
        if abs(number) > _LARGEST:
            raise ValueError(f"{self.source}: {column} must be a number of at most {_LARGEST:.3g}, got {_shown(value)}")
        return number


def ending_of(path: str) -> str:
    """Ending of a file's name, in small letters."""
    return os.path.splitext(path)[1].lower()


def read_lines(path: str) -> Iterator[tuple[int, str]]:
    """Lines of a text file with their numbers from 1; without byte-order mark and line ends.

    Raises:
      ValueError: for a line that is not UTF-8.
      OSError: if the file cannot be read.
    """
    with _opened(path) as stream:
        for number, line in decode_lines(stream, path):
            yield number, without_end(line)


def decode_lines(stream: IO[bytes], name: str) -> Iterator[tuple[int, str]]:
    """Lines of `stream`, which is called `name`, with their ends and numbers from 1; without byte-order mark.

    Raises:
      ValueError: for a line that is not UTF-8.
    """
    for number, line in enumerate(iter(stream.readline, b""), start=1):
        if number == 1:
            if line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                raise ValueError(f"{name}: is UTF-16, must be UTF-8; convert it: iconv -f UTF-16 -t UTF-8")
            line = line.removeprefix(codecs.BOM_UTF8)
        try:
            yield number, line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{name}:{number}: not UTF-8 at byte {error.start} of the line") from error


def without_end(line: str) -> str:
    """The line without its end, that of Unix or Windows."""
    return line.removesuffix("\n").removesuffix("\r")


def read_rows(path: str, *, columns: Sequence[str] | None = None, may_be_short: bool = False) -> Iterator[Row]:
    """Rows of a file, by the ending of its name.

    Args:
      path: file to read.
      columns: names for a file without a header line; a first line that repeats them is none of its rows.
      may_be_short: whether a row may have fewer cells than columns; it then lacks the last ones.

    Raises:
      ValueError: for an ending that is not known, a file that is not as above, or rows of different widths; with path
        and line.
      OSError: if the file cannot be read.
    """
    ending = ending_of(path)
    if ending in JSON_LINES:
        yield from json_rows(read_lines(path), path)
        return
    if ending not in SEPARATORS:
        raise ValueError(f"{path}: must end in one of {', '.join(ENDINGS)}")
    separator = SEPARATORS[ending]
    header = list(columns) if columns is not None else None
    for number, cells in _without_trailing_blanks(records(read_lines(path), path, separator)):
        if header is None:
            header = column_names(cells, f"{path}:{number}")
            continue
        if number == 1 and [cell.strip() for cell in cells] == header:
            continue
        if len(cells) > len(header) or (len(cells) < len(header) and not may_be_short):
            raise ValueError(
                f"{path}:{number}: must have {len(header)} cells ({', '.join(header)}), got {len(cells)}"
                + (" between tabs" if separator == "\t" else " between commas")
            )
        yield Row(f"{path}:{number}", dict(zip(header, cells, strict=False)))


def header_of(path: str) -> list[str]:
    """Cells of a file's first line; keys of its first object. Empty for an empty file.

    Raises:
      ValueError, OSError: as `read_rows`.
    """
    if ending_of(path) in JSON_LINES:
        first = next(json_rows(read_lines(path), path), None)
        return list(first.cells) if first else []
    separator = SEPARATORS.get(ending_of(path), "\t")
    return [cell.strip() for cell in next(records(read_lines(path), path, separator), (0, []))[1]]


def column_names(cells: Sequence[str], source: str) -> list[str]:
    """Names of columns out of the header line at `source`.

    Raises:
      ValueError: if two are equal.
    """
    names = [cell.strip() for cell in cells]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{source}: two columns have the name {twice!r}")
    return names


def json_rows(lines: Iterable[tuple[int, str]], name: str) -> Iterator[Row]:
    """Rows of numbered lines of the file `name`, a JSON object each; blank lines are left out.

    Raises:
      ValueError: for a line that holds no JSON object, or one with two equal keys, with its place.
    """
    for number, line in lines:
        if line.strip():
            source = f"{name}:{number}"
            try:
                yield Row(source, parse_object(line, source=source, has_keys_once=True))
            except ValueError as error:  # a line of its own is always line 1
                raise ValueError(str(error).replace(f"{source}:1:", f"{source}:", 1)) from error


def records(lines: Iterable[tuple[int, str]], name: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Cells of each record of a table, with the number of the line that it begins at.

    Args:
      lines: numbered lines of the file `name`, without their ends.
      name: of the file, for errors.
      separator: a tab, where a record is a line and a quote a character like any other; or a comma (RFC 4180).

    Raises:
      ValueError: for records that are not as above, with the place.
    """
    if separator == "\t":
        for number, line in lines:
            yield number, line.split("\t")
        return
    begun, length, parts, is_open = 0, 0, list[str](), False
    for number, line in lines:
        begun = begun if is_open else number
        parts.append(line)
        length += len(line)
        is_open ^= line.count('"') % 2 == 1  # quotes are even in number where a record ends
        if not is_open:
            yield begun, _csv_cells("\n".join(parts), f"{name}:{begun}")
            parts.clear()
            length = 0
        elif length > _LONGEST_RECORD:
            break
    if is_open:
        raise ValueError(f'{name}:{begun}: a quote (") that is never closed; inside a cell in quotes double it ("")')


def _csv_cells(record: str, source: str) -> list[str]:
    if '"' not in record:
        return record.split(",")  # the csv module refuses cells of more than 131,072 characters
    limit = csv.field_size_limit()
    csv.field_size_limit(max(limit, len(record)))
    try:
        rows = list(csv.reader(io.StringIO(record, newline=""), strict=True))
    except csv.Error as error:
        raise ValueError(f"{source}: not valid CSV: {error}") from error
    finally:
        csv.field_size_limit(limit)
    if len(rows) != 1:
        raise ValueError(f'{source}: not valid CSV: a cell with a quote (") or line end in it must be in quotes')
    return rows[0]


def _without_trailing_blanks(found: Iterable[tuple[int, list[str]]]) -> Iterator[tuple[int, list[str]]]:
    """Records but for blank lines at the end; blank ones between stay, to be refused or read as empty cells."""
    blank = []
    for record in found:
        if record[1] == [""]:
            blank.append(record)
            continue
        yield from blank
        blank.clear()
        yield record


def _opened(path: str) -> IO[bytes]:
    if files.is_remote(path):
        return io.BytesIO(files.read_whole(path))
    files.check_regular(path)
    return open(path, "rb")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
