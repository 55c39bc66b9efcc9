"""Flags of the doors that read texts, and the rows they name. Doors call `define`; nothing is defined by an import."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from absl import flags

from albert_tf import door
from albert_tf.inference.row_streams import FORMATS, STANDARD_INPUT, stream_rows
from albert_tf.tasks.labelled_files import default_id
from albert_tf.tasks.tables import Row

GIVEN = "--text"  # source of rows that the command line itself holds


def define(*, text: str, text_b: str, output: str) -> None:
    """Defines the flags; arguments are the help of those whose meaning each door has for itself."""
    with door.group("Texts"):
        flags.DEFINE_multi_string("text", [], text)
        flags.DEFINE_multi_string("text_b", [], text_b)
        flags.DEFINE_string(
            "input",
            None,
            "File to read, or - for standard input: a text a line, or a table with named columns. It may be of any "
            "size: memory does not grow with it.",
        )
        flags.DEFINE_enum(
            "input_format",
            None,
            FORMATS,
            "Format of --input: lines (a text a line), tsv and csv (names of columns in the first line) or jsonl (a "
            "JSON object a line). By default the ending of its name decides: .tsv, .csv, .jsonl; else lines.",
        )
        flags.DEFINE_string("id_column", None, "Column of --input with ids; by default file and line, such as a.txt:3.")
    with door.group("Output"):
        flags.DEFINE_string("output", None, output)
    with door.group("Work"):
        flags.DEFINE_integer("batch_size", 32, "Texts of a batch.", 1)
        flags.DEFINE_integer(
            "read_ahead",
            4096,
            "Texts that are read before the first answer, so that those of like length share a batch; 1 answers each "
            "at once, as a conversation through standard input needs.",
            1,
        )
        flags.DEFINE_bool(
            "sort_by_length", True, "Batches of texts of like length; else in the order of --input. Same answers."
        )


def check(values: Any) -> None:
    """Refuses flags that do not go together, and an input that is not there, before the seconds that loading takes.

    Raises:
      door.UsageError: for the former.
      OSError: for the latter.
    """
    if bool(values.text) == (values.input is not None):
        raise door.UsageError("give one of --text and --input")
    if values.text_b and len(values.text_b) != len(values.text):
        raise door.UsageError(
            f"give as many --text_b as --text, got {len(values.text_b)} and {len(values.text)}"
            if values.text
            else "--text_b goes with --text; the texts of --input stand in columns"
        )
    for name in ("input_format", "id_column"):
        if values.text and getattr(values, name) is not None:
            raise door.UsageError(f"--{name} is of --input")
    check_readable(values.input)
    check_output(values.output, values.input)


def check_output(output: str | None, *inputs: str | None) -> None:
    """Refuses an output that is one of the files that are read: the answers would take its place.

    Raises:
      door.UsageError: naming it.
    """
    if output is None or door.is_remote(output) or not os.path.exists(output):
        return
    for path in inputs:
        if path not in (None, STANDARD_INPUT) and os.path.exists(path) and os.path.samefile(output, path):
            raise door.UsageError(f"--output={output} is the file that is read, {path}, and would take its place")


def check_readable(path: str | None) -> None:
    """Refuses a file that cannot be read; None and standard input pass.

    Raises:
      OSError: if it is not there, is a folder or may not be read.
    """
    if path is None or path == STANDARD_INPUT or door.is_remote(path):
        return
    if not os.path.exists(path):
        raise FileNotFoundError(2, "No such file", path)
    if os.path.isdir(path):
        raise IsADirectoryError(21, "is a folder, a file was expected", path)
    if not os.access(path, os.R_OK):
        raise PermissionError(13, "may not be read", path)


def read_rows(values: Any, columns: tuple[str, str]) -> Iterator[Row]:
    """Rows of --text or --input.

    Args:
      values: of the flags.
      columns: names that the texts of --text and --text_b get.

    Raises:
      ValueError, OSError: for a file that cannot be read.
    """
    if values.input is not None:
        yield from stream_rows(values.input, values.input_format)
    for number, text in enumerate(values.text, start=1):
        second = {columns[1]: values.text_b[number - 1]} if values.text_b else {}
        yield Row(f"{GIVEN}:{number}", {columns[0]: text, **second})


def row_id(row: Row, id_column: str | None) -> str:
    """Id of a row: that of its column, else file and line; for a text of the command line its number.

    Raises:
      ValueError: if it has no such column.
    """
    if id_column is not None:
        return row.name(id_column)
    return default_id(row.source).removeprefix(f"{GIVEN}:")
