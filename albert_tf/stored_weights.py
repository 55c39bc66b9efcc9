"""Weights between a file and a model's variables: one at a time, compared by name, shape and kind."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from albert_tf.weight_files.weight_file import is_floating
from albert_tf.weight_shapes import Shape

if TYPE_CHECKING:
    import keras
    import numpy as np

    from albert_tf.weight_files.weight_file import WeightFile


def assign_weights(variables: Mapping[str, keras.Variable], weights: Mapping[str, np.ndarray], *, source: str) -> None:
    """Puts `weights` into `variables` of the same names, in the variables' dtype.

    Names are compared before anything is assigned. Each weight is asked for once and let go before the next: one that
    does not fit ends it, and leaves those before it assigned.

    Raises:
      ValueError: for a name that is missing or left over, another shape, or values that are no finite numbers; `source`
        is named.
    """
    import numpy as np
    import tensorflow as tf

    check_names(weights.keys(), variables.keys(), source)
    for name, variable in variables.items():
        value = weights[name]
        check_kind(name, value.shape, value.dtype.name, tuple(variable.shape), source)
        if not np.isfinite(value).all():
            raise ValueError(f"{source}: {name} holds values that are not finite; take an earlier checkpoint")
        variable.assign(value.astype(tf.as_dtype(variable.dtype).as_numpy_dtype, copy=False))


class VariableValues(Mapping[str, "np.ndarray"]):
    """The values of variables, each fetched when it is asked for."""

    def __init__(self, variables: Mapping[str, keras.Variable]) -> None:
        self._variables = variables

    def __getitem__(self, name: str) -> np.ndarray:
        value: np.ndarray = self._variables[name].numpy()
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._variables)

    def __len__(self) -> int:
        return len(self._variables)


class StoredValues(Mapping[str, "np.ndarray"]):
    """The tensors of a file, each read when it is asked for."""

    def __init__(self, file: WeightFile) -> None:
        self._file = file

    def __getitem__(self, name: str) -> np.ndarray:
        return self._file.read(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._file.tensors)

    def __len__(self) -> int:
        return len(self._file.tensors)


def check_names(found: Collection[str], wanted: Collection[str], source: str) -> None:
    """Refuses weights other than those that are wanted, by name.

    Raises:
      ValueError: how many are missing and left over; `source` is named.
    """
    missing, unknown = sorted(set(wanted) - set(found)), sorted(set(found) - set(wanted))
    if missing or unknown:
        raise ValueError(
            f"{source}: weights do not fit the configuration: "
            f"{len(missing)} missing{_first(missing)}, {len(unknown)} unknown{_first(unknown)}"
        )


def check_kind(name: str, shape: Shape, dtype: str, wanted: Shape, source: str) -> None:
    """Refuses a weight of another shape than `wanted`, or of other than floating-point numbers.

    Raises:
      ValueError: saying what it is; `source` is named.
    """
    if tuple(shape) != wanted:
        raise ValueError(f"{source}: {name} has shape {list(shape)}, the configuration needs {list(wanted)}")
    if not is_floating(dtype):
        raise ValueError(f"{source}: {name} must hold floating-point numbers, got {dtype}")


def _first(names: list[str]) -> str:
    return f" (first: {names[0]})" if names else ""
