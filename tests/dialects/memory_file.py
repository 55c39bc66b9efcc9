"""Tensors in memory that look like a file of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from albert_tf.weight_files.weight_file import TensorInfo, WeightFile


class MemoryFile(WeightFile):
    """Holds arrays; counts what is read, and whether it was closed."""

    def __init__(self, arrays: Mapping[str, np.ndarray], path: str = "some/model.bin") -> None:
        self.path = path
        self.arrays = dict(arrays)
        self.tensors = {name: TensorInfo(value.shape, value.dtype.name) for name, value in arrays.items()}
        self.reads: list[str] = []
        self.closed = False

    def read(self, name: str) -> np.ndarray:
        self.reads.append(name)
        return self.arrays[name]

    def close(self) -> None:
        self.closed = True
