"""WeightFile: what all files of named tensors have in common."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping
from types import TracebackType
from typing import Self

import numpy as np


@dataclasses.dataclass(frozen=True)
class TensorInfo:
    """Shape and dtype of a stored tensor, such as (30000, 128) and "float32"."""

    shape: tuple[int, ...]
    dtype: str


def is_floating(dtype: str) -> bool:
    """Whether numbers of a dtype are floating-point ones; NumPy does not count bfloat16 among them."""
    return dtype.startswith(("float", "bfloat"))


class WeightFile(abc.ABC):
    """A file, or several that belong together, of named tensors.

    Opening reads names, shapes and dtypes only; `read` reads one tensor. To be closed, or used in a `with` statement.

    Attributes:
      path: what was opened, for messages.
      tensors: what is there, by name, in the file's own order.
    """

    path: str
    tensors: Mapping[str, TensorInfo]

    @abc.abstractmethod
    def read(self, name: str) -> np.ndarray:
        """The tensor `name`, bit for bit, in its own dtype (bfloat16 as `ml_dtypes.bfloat16`).

        Raises:
          KeyError: if there is none.
          ValueError: if the file is damaged; the path is named.
        """

    def close(self) -> None:  # noqa: B027 - most files need nothing
        """Gives the file back."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
