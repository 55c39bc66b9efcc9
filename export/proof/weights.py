"""Which numbers an artefact stores, and whether they are the model's.

Outputs cannot show every weight: what the bias of the attention's keys adds is the same for all keys and leaves the
softmax alone, and a row of the embedding table acts only where its piece stands. So the stored tensors are compared
too: each weight must be among them, laid out as it is or transposed, exactly in float32, rounded in float16, and
within half a step of its 8-bit levels.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from export.proof.process import is_saved_model

# What a file of some of the heads leaves out.
_OF_HEADS = ("encoder/pooler/", "masked_lm/", "sentence_order/")
_SAME = 0.501  # of a step: rounding to the nearest level, and the float32 of the step itself


@dataclasses.dataclass(frozen=True, kw_only=True)
class StoredTensor:
    """A tensor with content of its own.

    Attributes:
      name: in the artefact or the model.
      values: float32.
      slack: float32, broadcastable to `values`: how far the number that was stored may lie from the value.
      bytes: that it takes.
    """

    name: str
    values: np.ndarray
    slack: np.ndarray
    bytes: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Weights:
    """What of a model is stored in an artefact.

    Attributes:
      parameters: numbers in the model's weights.
      stored: numbers that the artefact stores.
      bytes: that they take.
      found: weights of the model that are stored, of `of`.
      of: weights of the model.
      missing: names of those that are not.
    """

    parameters: int
    stored: int
    bytes: int
    found: int
    of: int
    missing: tuple[str, ...]


def named_tensors(weights: Mapping[str, np.ndarray]) -> list[StoredTensor]:
    """Weights of a model by name."""
    return [
        StoredTensor(
            name=name, values=np.asarray(value, np.float32), slack=np.zeros([], np.float32), bytes=value.nbytes
        )
        for name, value in weights.items()
    ]


def stored_tensors(path: str | os.PathLike[str]) -> list[StoredTensor]:
    """Tensors of floating-point or 8-bit numbers that the SavedModel or TFLite file at `path` holds.

    Raises:
      ValueError: if its variables cannot be read.
    """
    if is_saved_model(path):
        return _variables(os.fspath(path))
    from export import flatbuffer

    with open(path, "rb") as stream:
        return [_tensor_of_tflite(*constant) for constant in flatbuffer.constants(stream.read())]


def _variables(path: str) -> list[StoredTensor]:
    import tensorflow as tf

    prefix = os.path.join(path, "variables", "variables")
    try:
        reader = tf.train.load_checkpoint(prefix)
        names = sorted(
            name for name, dtype in reader.get_variable_to_dtype_map().items() if tf.as_dtype(dtype).is_floating
        )
        return named_tensors({_variable_name(name): reader.get_tensor(name) for name in names})
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        raise ValueError(f"{path}: its variables cannot be read: {error}") from error


def variable_names(path: str) -> list[str]:
    """Names of the variables of the SavedModel at `path`, ours as they are called in the model."""
    import tensorflow as tf

    try:
        return [
            _variable_name(name) for name, _ in tf.train.list_variables(os.path.join(path, "variables", "variables"))
        ]
    except (tf.errors.OpError, ValueError, RuntimeError):
        return []


def _variable_name(key: str) -> str:
    """Name of a variable in the model, of its key in a SavedModel, where "/" stands as ".S"."""
    return key.removesuffix("/.ATTRIBUTES/VARIABLE_VALUE").removeprefix("weights/").replace(".S", "/")


def _tensor_of_tflite(name: str, values: np.ndarray, steps: np.ndarray | None, size: int) -> StoredTensor:
    """A constant: of float32, of float16, or of steps."""
    if steps is not None:
        return StoredTensor(name=name, values=values.astype(np.float32) * steps, slack=_SAME * steps, bytes=size)
    slack = np.zeros([], np.float32)
    if values.dtype == np.float16:
        values = values.astype(np.float32)
        slack = np.abs(values) * np.float32(2**-11) + np.float32(2**-25)  # half a unit of the last place
    return StoredTensor(name=name, values=values, slack=slack, bytes=size)


def compare_weights(wanted: Sequence[StoredTensor], stored: Iterable[StoredTensor]) -> Weights:
    """Which of the `wanted` tensors are among the `stored` ones."""
    by_size: dict[int, list[StoredTensor]] = {}
    total = size = 0
    for tensor in stored:
        by_size.setdefault(tensor.values.size, []).append(tensor)
        total += tensor.values.size
        size += tensor.bytes
    missing = [
        one.name
        for one in wanted
        if not is_neutral(one.values)
        and not all(
            any(_are_same(part, other) for other in by_size.get(part.values.size, [])) for part in _parts(one, by_size)
        )
    ]
    return Weights(
        parameters=sum(one.values.size for one in wanted),
        stored=total,
        bytes=size,
        found=len(wanted) - len(missing),
        of=len(wanted),
        missing=tuple(missing),
    )


def _parts(one: StoredTensor, by_size: Mapping[int, list[StoredTensor]]) -> list[StoredTensor]:
    """A tensor, or its halves where it is not there as a whole: so a converter multiplies two joined inputs apart."""
    rows = one.values.shape[0] if one.values.ndim == 2 else 1
    if rows % 2 or any(_are_same(one, other) for other in by_size.get(one.values.size, [])):
        return [one]
    slack = np.broadcast_to(one.slack, one.values.shape)
    return [
        dataclasses.replace(one, values=values, slack=allowed)
        for values, allowed in zip(np.split(one.values, 2), np.split(slack, 2), strict=True)
    ]


def not_allowed(missing: Sequence[str], *, is_part: bool) -> tuple[str, ...]:
    """Of missing weights those that no artefact may lack; `is_part`: it has only the heads that were asked for."""
    return tuple(name for name in missing if not (is_part and name.startswith(_OF_HEADS)))


def is_neutral(values: np.ndarray) -> bool:
    """Whether all are 0 or all are 1, as biases and scales begin: a converter leaves the operation out."""
    return bool(np.all(values == 0) or np.all(values == 1))


def _are_same(one: StoredTensor, other: StoredTensor) -> bool:
    """Whether both hold the same numbers, in the same order or transposed."""
    first, slack = one.values.ravel(), np.broadcast_to(one.slack, one.values.shape).ravel()
    layouts = [(other.values, np.broadcast_to(other.slack, other.values.shape))]
    shape = [n for n in other.values.shape if n != 1]
    if len(shape) == 2:
        layouts.append((layouts[0][0].reshape(shape).T, layouts[0][1].reshape(shape).T))
    return any(bool((np.abs(first - values.ravel()) <= slack + allowed.ravel()).all()) for values, allowed in layouts)
