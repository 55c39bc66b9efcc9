"""TorchFile: a file of PyTorch's, read without PyTorch and without running what is pickled in it."""

from __future__ import annotations

import math
import zlib

import numpy as np

from albert_tf.weight_files.byte_file import ByteFile
from albert_tf.weight_files.shards import ShardableFile
from albert_tf.weight_files.torch_containers import read_contents
from albert_tf.weight_files.torch_names import name_tensors
from albert_tf.weight_files.torch_tensors import View
from albert_tf.weight_files.weight_file import TensorInfo, WeightFile


class TorchFile(ShardableFile):
    """A `pytorch_model.bin` or `.pt` of either form, or a `*.bin.index.json` with its shards.

    The file must hold a mapping of names to tensors, or a training program's checkpoint with such a mapping under
    "state_dict", "model_state_dict" or "model". In the latter the names are those of the inner mapping; other tensors
    are there under their whole way, such as "optimizer/state/0/exp_avg". Tensors that share memory are read as copies.
    """

    def _open_part(self, path: str) -> WeightFile:
        return _OneFile(path)


class _OneFile(WeightFile):
    def __init__(self, path: str) -> None:
        self.path = path
        self._file = ByteFile(path)
        try:
            contents = read_contents(self._file)
            self._views = name_tensors(path, contents.root)
        except BaseException:
            self._file.close()
            raise
        self._places = contents.places
        self._big_endian = contents.big_endian
        self.tensors = {name: TensorInfo(view.shape, view.dtype.name) for name, view in self._views.items()}

    def read(self, name: str) -> np.ndarray:
        view = self._views[name]
        if 0 in view.shape:
            return np.empty(view.shape, view.dtype)
        items = self._read_items(view)
        if _is_contiguous(view):
            return items.reshape(view.shape)
        strides = [stride * view.dtype.itemsize for stride in view.strides]
        return np.lib.stride_tricks.as_strided(items, view.shape, strides, writeable=False).copy(order="C")

    def close(self) -> None:
        self._file.close()

    def _read_items(self, view: View) -> np.ndarray:
        """The storage's items from the view's first to its last, of shape [view.span].

        What a zip archive says of a storage is checked where the view needs all of it.
        """
        place = self._places[view.key]
        begin = place.begin + view.begin * view.dtype.itemsize
        size = view.span * view.dtype.itemsize
        raw = self._file.read_array(begin, (size,), np.dtype(np.uint8))
        if place.crc and size == place.size and zlib.crc32(raw.data) != place.crc:
            raise ValueError(f"{self.path}: damaged: the values at byte {begin} are not those that were written")
        if view.dtype == np.bool_ and (raw > 1).any():
            raise ValueError(f"{self.path}: damaged: a Boolean behind byte {begin} is neither 0 nor 1")
        items = raw.view(view.dtype)
        return items.byteswap() if self._big_endian else items


def _is_contiguous(view: View) -> bool:
    """Whether the view's values lie one behind the other in C order."""
    expected = 1
    for size, stride in zip(reversed(view.shape), reversed(view.strides), strict=True):
        if size > 1 and stride != expected:
            return False
        expected *= size
    return math.prod(view.shape) == view.span
