"""HDF5 files of tensors: Keras' `.weights.h5`, transformers' `tf_model.h5`.

A tensor's name is the path of its dataset from the root, such as "layers/dense/vars/0". Nothing outside the file is
followed: a file with links of its own making or with data elsewhere is refused.

Keras stores bfloat16, which HDF5 does not know, as two opaque bytes with an attribute `dtype` that says so
(keras/src/saving/saving_lib.py, class H5IOStore).
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from albert_tf.files import is_remote, write_whole
from albert_tf.weight_files import impostors
from albert_tf.weight_files.byte_file import ByteFile
from albert_tf.weight_files.weight_file import TensorInfo, WeightFile

if TYPE_CHECKING:
    import h5py

# What deflate, the best of HDF5's own filters, can make of zeros; a dataset that claims more asks for memory only.
_MOST_EXPANSION = 1032
_NUMBERS = (
    "bool",
    "bfloat16",
    *(f"float{bits}" for bits in (16, 32, 64)),
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
)
_MOST_OBJECTS = 1_000_000
_DEEPEST = 100
_BLOCK = 1 << 26  # bytes by which a file that is made in memory grows


class Hdf5File(WeightFile):
    """The datasets of an HDF5 file, each read when it is asked for.

    Datasets that hold no numbers (text, say) are listed with HDF5's word for their kind and cannot be read.

    Raises:
      FileNotFoundError: if there is no such file.
      ValueError: if it is no HDF5 file, cut short or damaged, or points outside itself.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        import h5py

        self._bytes = ByteFile(path)
        self.path = self._bytes.path
        try:
            impostors.check(self.path, self._bytes.head, expected=impostors.HDF5)
            with self._naming("not an HDF5 file, cut short or damaged; download it again"):
                # HDF5's own access to a local file is the fastest.
                self._file = h5py.File(self._bytes.stream if is_remote(self.path) else self.path, "r")
            try:
                with self._naming("damaged; download it again"):
                    self.tensors: dict[str, TensorInfo] = dict(self._walk())
            except BaseException:
                self._file.close()
                raise
        except BaseException:
            self._bytes.close()
            raise

    def read(self, name: str) -> np.ndarray:
        info = self.tensors[name]
        with self._naming(f"{name} cannot be read, the file is damaged; download it again"):
            if info.dtype not in _NUMBERS:
                raise _RefusalError(f"{name} holds {info.dtype}, not numbers")
            dataset = self._file[name]
            stored = dataset.id.get_storage_size()
            size = math.prod(dataset.shape) * dataset.dtype.itemsize
            filtered = dataset.id.get_create_plist().get_nfilters() > 0
            if size > stored * (_MOST_EXPANSION if filtered else 1):
                raise _RefusalError(f"{name} claims {size} bytes where {stored} are stored; the file is damaged")
            value = np.asarray(dataset[()])
            if info.dtype == "bfloat16":
                import ml_dtypes

                return value.view(ml_dtypes.bfloat16)
            return value.astype(value.dtype.newbyteorder("="), copy=False)

    def close(self) -> None:
        self._file.close()
        self._bytes.close()

    def _walk(self) -> Iterator[tuple[str, TensorInfo]]:
        """Each dataset by its path, in the file's order; a group that is there twice (a ring, say) is damage."""
        import h5py

        seen: set[Any] = set()
        # Own stack: neither a deep file nor a ring may reach Python's limit.
        stack: list[tuple[str, Iterator[str]]] = [("", iter(self._file))]
        while stack:
            folder, names = stack[-1]
            name = next(names, None)
            if name is None:
                stack.pop()
                continue
            path = f"{folder}{name}"
            kind = self._file.get(path, getclass=True, getlink=True)
            if kind is None:
                raise _RefusalError(f"{path} is a link of no known kind; the file is damaged")
            if kind is not h5py.HardLink:
                raise _RefusalError(
                    f"{path} is a link ({kind.__name__}), which is not followed; a file of its own is expected"
                )
            item = self._file[path]
            if isinstance(item, h5py.Dataset):
                yield path, _info(item, path)
            elif isinstance(item, h5py.Group):
                address = h5py.h5o.get_info(item.id).addr
                if address in seen or len(stack) >= _DEEPEST:
                    raise _RefusalError(f"{path} is a group inside itself or too deep; the file is damaged")
                seen.add(address)
                stack.append((f"{path}/", iter(item)))
            if len(seen) > _MOST_OBJECTS:
                raise _RefusalError(f"holds more than {_MOST_OBJECTS} groups; it is no file of weights")

    @contextlib.contextmanager
    def _naming(self, what: str) -> Iterator[None]:
        """Gives whatever h5py raises the file's path and `what` is wrong, in one line."""
        try:
            yield
        except _RefusalError as refusal:
            raise ValueError(f"{self.path}: {refusal}") from None
        except (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError, UnicodeError) as error:
            raise ValueError(f"{self.path}: {what} ({' '.join(str(error).split())})") from error


class _RefusalError(Exception):
    """What is wrong with a file, without its path."""


def _info(dataset: h5py.Dataset, path: str) -> TensorInfo:
    """Shape and dtype of a dataset whose bytes lie in this file."""
    if dataset.external or dataset.is_virtual:
        raise _RefusalError(
            f"{path} has its data in another file, which is not followed; a file of its own is expected"
        )
    if dataset.shape is None:
        return TensorInfo((), "nothing")
    return TensorInfo(tuple(dataset.shape), _dtype_name(dataset))


def _dtype_name(dataset: h5py.Dataset) -> str:
    dtype = dataset.dtype
    mark = dataset.attrs.get("dtype") if dtype.kind == "V" and dtype.itemsize == 2 else None
    if mark in ("bfloat16", b"bfloat16"):
        return "bfloat16"
    return dtype.name if dtype.kind in "biuf" else "text" if dtype.kind in "OSU" else "opaque bytes"


def write_hdf5(path: str | os.PathLike[str], tensors: Mapping[str, np.ndarray]) -> None:
    """Writes an HDF5 file, whole or not at all.

    The file is made in memory, which takes twice its size for a moment: the HDF5 library does not survive a disk that
    is full.

    Args:
      path: file to write; one that is there is replaced.
      tensors: array of each path, such as "layers/dense/vars/0"; each value is taken once.

    Raises:
      OSError: if the file cannot be written.
    """
    import h5py

    with h5py.File("in memory", "w", driver="core", backing_store=False, block_size=_BLOCK) as file:
        for name in tensors:
            value = tensors[name]
            if value.dtype.name == "bfloat16":
                file.create_dataset(name, data=value.view("V2")).attrs["dtype"] = "bfloat16"
            else:
                file.create_dataset(name, data=value)
        file.flush()
        content: bytes = file.id.get_file_image()
    write_whole(path, content)
