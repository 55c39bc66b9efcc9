"""Where answers and vectors go: JSON lines on standard output or in a file, vectors in a .npy file.

Lines on standard output can be read as soon as they are there; a file appears when it is complete.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO

import numpy as np

from albert_tf.files import is_remote, naming, whole_file

Writer = Callable[[Any], None]  # takes a JSON object or a vector at a time


@contextlib.contextmanager
def json_lines(path: str | None) -> Iterator[Writer]:
    """Writes objects, one a line, to a file, or to standard output where `path` is None.

    Raises:
      ValueError: for a number that is not finite, which JSON does not have.
      OSError: if the file cannot be written.
    """
    if path is None:
        encoding = (sys.stdout.encoding or "").lower().replace("-", "")
        is_ascii = encoding != "utf8"  # else a letter that the terminal lacks would leave a line that is no JSON
        yield lambda value: print(to_json(value, ensure_ascii=is_ascii), flush=True)
        return
    with whole_file(path) as temporary, naming(path), opened_to_write(temporary) as stream:

        def write(value: Mapping[str, Any]) -> None:
            stream.write(to_json(value).encode() + b"\n")

        yield write


@contextlib.contextmanager
def npy_rows(path: str, width: int) -> Iterator[Writer]:
    """Writes vectors, float32 [width] each, as one array float32 [N, width] that `numpy.load` reads.

    They wait in a temporary file, since an array's file begins with their number.

    Raises:
      OSError: if the file cannot be written.
    """
    with whole_file(path) as temporary, naming(path), tempfile.TemporaryFile() as waiting:
        count = 0

        def write(vector: np.ndarray) -> None:
            nonlocal count
            waiting.write(np.ascontiguousarray(vector, "<f4").tobytes())
            count += 1

        yield write
        waiting.seek(0)
        with opened_to_write(temporary) as stream:
            header = {"descr": "<f4", "fortran_order": False, "shape": (count, width)}
            np.lib.format.write_array_header_1_0(stream, header)
            shutil.copyfileobj(waiting, stream)


def to_json(value: Any, *, ensure_ascii: bool = False) -> str:
    """JSON of a value, on one line.

    Raises:
      ValueError: for a number that is not finite.
    """
    try:
        return json.dumps(value, ensure_ascii=ensure_ascii, allow_nan=False)
    except ValueError:
        raise ValueError("the model gives numbers that are not finite: its weights are damaged or diverged") from None


def rounded(number: float) -> float:
    """The shortest number with the nine digits that tell float32 values apart."""
    return float(f"{number:.9g}")


@contextlib.contextmanager
def opened_to_write(path: str) -> Iterator[BinaryIO]:
    """A file opened for writing bytes, here or in an object store."""
    if is_remote(path):
        import tensorflow as tf

        with tf.io.gfile.GFile(path, "wb") as stream:
            yield stream
        return
    with open(path, "wb") as stream:
        yield stream
