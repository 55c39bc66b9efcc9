"""ByteFile: a file of known size, read in pieces that are all there or an error."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from albert_tf.files import check_regular, is_remote
from albert_tf.weight_files import impostors

MAX_RANK = 32  # every NumPy has at least that many


class ByteFile:
    """A file opened for reading, on the disk or at an address such as `gs://bucket/name`.

    Attributes:
      path: its path.
      size: its length in bytes.
      head: its first bytes, for `impostors.check`.
      stream: the open file.
    """

    path: str
    size: int
    head: bytes
    stream: Any

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Opens `path`.

        Raises:
          FileNotFoundError: if there is none.
          ValueError: if it is a folder.
          OSError: if it cannot be read.
        """
        self.path = os.fspath(path)
        if is_remote(self.path):
            import tensorflow as tf

            if not tf.io.gfile.exists(self.path):
                raise FileNotFoundError(2, "No such file", self.path)
            self.stream = tf.io.gfile.GFile(self.path, "rb")
            self.size = int(self.stream.size())
        else:
            if os.path.isdir(self.path):
                raise ValueError(f"{self.path}: is a folder, a file was expected")
            check_regular(self.path)
            self.stream = open(self.path, "rb")  # noqa: SIM115 - `close` closes it
            self.size = os.fstat(self.stream.fileno()).st_size
        self.head = self.read_at(0, min(impostors.HEAD_SIZE, self.size))

    def read_at(self, offset: int, count: int) -> bytes:
        """The `count` bytes from byte `offset` on.

        Raises:
          ValueError: if the file ends before.
        """
        self._check(offset, count)
        self.stream.seek(offset)
        content: bytes = self.stream.read(count)
        if len(content) != count:
            raise ValueError(f"{self.path}: has become shorter while it was read")
        return content

    def read_array(self, offset: int, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
        """The array that lies at byte `offset`, in C order, dtype as in the file but for the order of bytes.

        Raises:
          ValueError: if the file ends before, or a Boolean is neither 0 nor 1.
        """
        count = math.prod(shape)
        self._check(offset, count * dtype.itemsize)
        if hasattr(self.stream, "readinto"):
            content = np.empty(count * dtype.itemsize, np.uint8)
            self.stream.seek(offset)
            if self.stream.readinto(content) != content.size:
                raise ValueError(f"{self.path}: has become shorter while it was read")
        else:
            content = np.frombuffer(self.read_at(offset, count * dtype.itemsize), np.uint8)
        if dtype == np.bool_ and (content > 1).any():
            raise ValueError(
                f"{self.path}: a Boolean at byte {offset + int((content > 1).argmax())} is neither 0 nor 1"
            )
        array = content.view(dtype).reshape(shape)
        return array if dtype.isnative else array.astype(dtype.newbyteorder("="))

    def close(self) -> None:
        """Gives the file back."""
        self.stream.close()

    def _check(self, offset: int, count: int) -> None:
        if offset < 0 or count < 0 or offset + count > self.size:
            raise ValueError(
                f"{self.path}: cut short or damaged: it ends at byte {self.size}, {offset + count} were expected; "
                f"download the file again"
            )


def check_shape(path: str, name: str, shape: Sequence[int], itemsize: int) -> int:
    """Number of values of a tensor of that shape.

    Raises:
      ValueError: if a size is no whole number of at least 0, or no array can be that large; both are named.
    """
    if len(shape) > MAX_RANK or not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError(f"{path}: the shape of {name!r} is damaged")
    if math.prod(max(size, 1) for size in shape) * itemsize >= 2**63:
        raise ValueError(f"{path}: the shape of {name!r} is larger than any memory")
    return math.prod(shape)
