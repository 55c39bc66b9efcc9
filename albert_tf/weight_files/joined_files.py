"""JoinedFiles: several files of tensors that together are one model."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

import numpy as np

from albert_tf.weight_files.weight_file import TensorInfo, WeightFile


class JoinedFiles(WeightFile):
    """Several weight files as one; closing it closes them.

    Args:
      path: what they are parts of, for messages.
      parts: each file with what stands before its names, such as "task/"; files with the same beginning are shards.
      name: what to make of a file's name for a tensor.

    Raises:
      ValueError: if two files have the same tensor.
    """

    def __init__(
        self, path: str, parts: Iterable[tuple[str, WeightFile]], *, name: Callable[[str], str] = lambda name: name
    ) -> None:
        self.path = path
        self._parts: list[WeightFile] = []
        self._places: dict[str, tuple[WeightFile, str]] = {}
        self.tensors: dict[str, TensorInfo] = {}
        try:
            for beginning, part in parts:
                self._parts.append(part)
                for stored, info in part.tensors.items():
                    self._add(beginning + name(stored), part, stored, info)
        except BaseException:
            self.close()
            raise

    def _add(self, name: str, part: WeightFile, stored: str, info: TensorInfo) -> None:
        if name in self._places:
            other = os.path.basename(self._places[name][0].path)
            raise ValueError(f"{part.path}: {stored} is in {other} too; files of two models are mixed")
        self._places[name] = (part, stored)
        self.tensors[name] = info

    def read(self, name: str) -> np.ndarray:
        part, stored = self._places[name]
        return part.read(stored)

    def close(self) -> None:
        for part in self._parts:
            part.close()
