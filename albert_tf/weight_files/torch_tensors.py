"""What the globals in a PyTorch file stand for: storages and views of them, as plain data.

Source of names and arguments: pytorch/pytorch, torch/_utils.py (the `_rebuild` functions), torch/storage.py (names of
storages) and torch/serialization.py (persistent ids).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import ml_dtypes
import numpy as np

from albert_tf.weight_files.byte_file import MAX_RANK, check_shape
from albert_tf.weight_files.torch_pickle import Calls, Global, is_key

_DTYPES = {
    "float64": np.dtype("<f8"),
    "float32": np.dtype("<f4"),
    "float16": np.dtype("<f2"),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "complex64": np.dtype("<c8"),
    "complex128": np.dtype("<c16"),
    "int64": np.dtype("<i8"),
    "int32": np.dtype("<i4"),
    "int16": np.dtype("<i2"),
    "int8": np.dtype("i1"),
    "uint64": np.dtype("<u8"),
    "uint32": np.dtype("<u4"),
    "uint16": np.dtype("<u2"),
    "uint8": np.dtype("u1"),
    "bool": np.dtype("?"),
}
_STORAGES = {
    "Double": "float64",
    "Float": "float32",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "ComplexFloat": "complex64",
    "ComplexDouble": "complex128",
    "Long": "int64",
    "Int": "int32",
    "Short": "int16",
    "Char": "int8",
    "Byte": "uint8",
    "Bool": "bool",
}
# Class of a storage -> dtype of its items; the untyped one counts bytes.
_STORAGE_DTYPES = {
    f"{module}.{name}Storage": _DTYPES[dtype] for name, dtype in _STORAGES.items() for module in ("torch", "torch.cuda")
} | {"torch.storage.UntypedStorage": _DTYPES["uint8"]}
_DTYPE_GLOBALS = {f"torch.{name}": dtype for name, dtype in _DTYPES.items()}

# A view may show a value more than once (`expand`), but a small file must not ask for much memory that way.
_MAX_REPEATED = 2**24  # bytes


@dataclasses.dataclass(frozen=True)
class Storage:
    """Memory that tensors are views of.

    Attributes:
      key: name of its data in the file.
      total: number of items of the data.
      begin: first item that belongs to this storage, where it is a part of the data.
      count: number of its items.
      dtype: of its items.
    """

    key: str
    total: int
    begin: int
    count: int
    dtype: np.dtype


@dataclasses.dataclass(frozen=True)
class View:
    """A tensor: some of a storage's values. All sizes count items of `dtype`, `begin` from the start of the data."""

    key: str
    begin: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype

    @property
    def span(self) -> int:
        """Number of items from the first value to the last."""
        if 0 in self.shape:
            return 0
        return 1 + sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))


def make_storage(path: str, persistent_id: Any) -> Storage:
    """The storage that a persistent id stands for: "storage", class, key, device, count, and in old files a part.

    Raises:
      ValueError: if it is none.
    """
    kind, *data = persistent_id if isinstance(persistent_id, tuple) and persistent_id else (None,)
    if kind == "module":
        raise ValueError(
            f"{path}: holds a model's code, not its weights alone; nothing of it was run and the file is not opened: "
            f"save the model's state_dict()"
        )
    if kind != "storage" or len(data) not in (4, 5):
        raise _damaged(path, "a storage")
    cls, key, _, total = data[:4]
    part = data[4] if len(data) == 5 else None
    dtype = _STORAGE_DTYPES.get(cls.name) if isinstance(cls, Global) else None
    if dtype is None or not isinstance(key, str) or not _is_count(total):
        raise _damaged(path, "a storage")
    if part is None:
        return Storage(key, total, 0, total, dtype)
    if not isinstance(part, tuple) or len(part) != 3 or not _is_count(part[1]) or not _is_count(part[2]):
        raise _damaged(path, "a part of a storage")
    if part[1] + part[2] > total:
        raise _damaged(path, "a part of a storage")
    return Storage(key, total, part[1], part[2], dtype)


def _tensor(path: str, arguments: tuple, dtype: np.dtype | None = None) -> View:
    """The view of (storage, first item, shape, strides), checked to lie within its storage."""
    storage, offset, shape, strides = arguments
    if not isinstance(storage, Storage) or not isinstance(shape, tuple) or not isinstance(strides, tuple):
        raise _damaged(path, "a tensor")
    if len(shape) > MAX_RANK or len(shape) != len(strides) or not all(map(_is_count, (offset, *shape, *strides))):
        raise _damaged(path, "a tensor")
    if dtype is None:
        begin, count, dtype = storage.begin, storage.count, storage.dtype
    elif storage.begin * storage.dtype.itemsize % dtype.itemsize == 0:
        begin, count = (items * storage.dtype.itemsize // dtype.itemsize for items in (storage.begin, storage.count))
    else:
        raise _damaged(path, "a tensor between the items of its storage")
    size = check_shape(path, "a tensor", shape, dtype.itemsize)
    strides = tuple(stride if extent > 1 else 0 for extent, stride in zip(shape, strides, strict=True))
    view = View(storage.key, begin + offset, shape, strides, dtype)
    end = offset + view.span
    if end > count:
        raise ValueError(
            f"{path}: damaged: a tensor of shape {list(shape)} needs {end} values of its storage, which has {count}"
        )
    if size > count and size * dtype.itemsize > _MAX_REPEATED:
        raise ValueError(f"{path}: damaged: a tensor of shape {list(shape)} repeats the {count} values of its storage")
    return view


def _rebuild_v1(path: str, arguments: tuple) -> View:
    if len(arguments) != 4:
        raise _damaged(path, "a tensor")
    return _tensor(path, arguments)


def _rebuild_v2(path: str, arguments: tuple) -> View:
    if len(arguments) not in (6, 7):
        raise _damaged(path, "a tensor")
    _check_metadata(path, arguments[6:])
    return _tensor(path, arguments[:4])


def _rebuild_v3(path: str, arguments: tuple) -> View:
    if len(arguments) not in (7, 8):
        raise _damaged(path, "a tensor")
    _check_metadata(path, arguments[7:])
    dtype = _DTYPE_GLOBALS.get(arguments[6].name) if isinstance(arguments[6], Global) else None
    if dtype is None:
        raise _damaged(path, "a tensor's dtype")
    return _tensor(path, arguments[:4], dtype)


def _check_metadata(path: str, metadata: tuple) -> None:
    """Refuses marks such as "conj", which say that the values are others than those stored."""
    if metadata and metadata[0]:
        marks = [str(mark)[:20] for mark in metadata[0]] if isinstance(metadata[0], dict) else []
        raise ValueError(f"{path}: holds a tensor with the marks {marks[:4]}, which are not read here")


def _rebuild_parameter(path: str, arguments: tuple) -> View:
    if len(arguments) not in (3, 4) or not isinstance(arguments[0], View):
        raise _damaged(path, "a parameter")
    return arguments[0]


def _rebuild_subclass(path: str, arguments: tuple) -> View:
    """A tensor that has attributes: function, class, the function's arguments, attributes."""
    function = arguments[0] if len(arguments) == 4 else None
    name = function.name if isinstance(function, Global) else ""
    call = CALLS.get(name) if name.startswith("torch._utils._rebuild_") else None
    if call is None or not isinstance(arguments[2], tuple):
        raise _damaged(path, "a tensor")
    value = call(path, arguments[2])
    if not isinstance(value, View):
        raise _damaged(path, "a tensor")
    return value


def _ordered_dict(path: str, arguments: tuple) -> dict:
    """An OrderedDict; Python 2 gives it its pairs at once."""
    pairs = arguments[0] if len(arguments) == 1 else []
    if len(arguments) > 1 or not isinstance(pairs, list):
        raise _damaged(path, "a mapping")
    values = {}
    for pair in pairs:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2 or not is_key(pair[0]):
            raise _damaged(path, "a mapping")
        values[pair[0]] = pair[1]
    pairs.clear()  # used once by an honest file; else a small one could make many large mappings of one list
    return values


def _size(path: str, arguments: tuple) -> tuple:
    if len(arguments) != 1 or not isinstance(arguments[0], tuple):
        raise _damaged(path, "a size")
    return arguments[0]


def _nothing(path: str, arguments: tuple) -> None:
    """A device or a layout, which say nothing of the values."""


CALLS: Calls = {
    "collections.OrderedDict": _ordered_dict,
    "torch._utils._rebuild_tensor": _rebuild_v1,
    "torch._utils._rebuild_tensor_v2": _rebuild_v2,
    "torch._utils._rebuild_tensor_v3": _rebuild_v3,
    "torch._utils._rebuild_parameter": _rebuild_parameter,
    "torch._utils._rebuild_parameter_with_state": _rebuild_parameter,
    "torch._tensor._rebuild_from_type_v2": _rebuild_subclass,
    "torch.Size": _size,
    "torch.device": _nothing,
    "torch.serialization._get_layout": _nothing,
    **dict.fromkeys(["torch.Tensor", "torch.nn.parameter.Parameter", "torch.nn.parameter.Buffer"]),
    **dict.fromkeys(_STORAGE_DTYPES),
    **dict.fromkeys(_DTYPE_GLOBALS),
}


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**60


def _damaged(path: str, what: str) -> ValueError:
    return ValueError(f"{path}: damaged, or no PyTorch file: {what} in its pickle has not the arguments it should have")
