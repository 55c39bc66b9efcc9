"""SafetensorsFile: tensors in the safetensors form, read and written one at a time.

The form: 8 bytes with the length of the header, little-endian; the header, a JSON object with dtype, shape and offsets
of each tensor; the data of all tensors without gaps, little-endian, in C order. Source: the format's description in
huggingface/safetensors, README.md. The library's NumPy side knows no bfloat16 and reads no `gs://`, so both directions
are written here; a test checks them against the library.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from typing import IO, Any

import ml_dtypes
import numpy as np

from albert_tf.files import is_remote, naming, whole_file
from albert_tf.weight_files import impostors
from albert_tf.weight_files.byte_file import ByteFile, check_shape
from albert_tf.weight_files.shards import ShardableFile, parse_json
from albert_tf.weight_files.weight_file import TensorInfo, WeightFile

_METADATA = "__metadata__"
_DTYPES = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "C64": np.dtype("<c8"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "I8": np.dtype("i1"),
    "U64": np.dtype("<u8"),
    "U32": np.dtype("<u4"),
    "U16": np.dtype("<u2"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}
_CODES = {dtype.name: code for code, dtype in _DTYPES.items()}


class SafetensorsFile(ShardableFile):
    """A `.safetensors` file, or a `*.safetensors.index.json` with its shards."""

    def _open_part(self, path: str) -> WeightFile:
        return _OneFile(path)

    @property
    def metadata(self) -> dict[str, str]:
        """Texts that the files carry beside the tensors, such as {"format": "pt"}."""
        return {key: text for part in self._parts if isinstance(part, _OneFile) for key, text in part.metadata.items()}


class _OneFile(WeightFile):
    def __init__(self, path: str) -> None:
        self.path = path
        self._file = ByteFile(path)
        try:
            impostors.check(path, self._file.head, expected=impostors.SAFETENSORS)
            self.metadata, self._places = _read_header(self._file)
        except BaseException:
            self._file.close()
            raise
        self.tensors = {name: TensorInfo(shape, dtype.name) for name, (_, shape, dtype) in self._places.items()}

    def read(self, name: str) -> np.ndarray:
        return self._file.read_array(*self._places[name])

    def close(self) -> None:
        self._file.close()


# Byte where a tensor begins, its shape, its dtype.
_Place = tuple[int, tuple[int, ...], np.dtype]


def _read_header(file: ByteFile) -> tuple[dict[str, str], dict[str, _Place]]:
    """Metadata and the place of each tensor, checked against the file's size."""
    length = int.from_bytes(file.read_at(0, 8), "little")
    if length > impostors.MAX_SAFETENSORS_HEADER:
        raise ValueError(f"{file.path}: not a safetensors file, or damaged: its header would have {length} bytes")
    header = parse_json(file.path, file.read_at(8, length))
    if not isinstance(header, dict):
        raise ValueError(f"{file.path}: damaged: its header is no JSON object")
    metadata = header.pop(_METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        raise ValueError(f"{file.path}: damaged: {_METADATA} must map names to texts")
    start = 8 + length
    places, ends = {}, []
    for name, entry in header.items():
        begin, end, shape, dtype = _parse_entry(file.path, name, entry)
        places[name] = (start + begin, shape, dtype)
        ends.append((begin, end, name))
    reached = 0
    for begin, end, name in sorted(ends):
        if begin != reached:
            raise ValueError(f"{file.path}: damaged: {name!r} begins at byte {begin} of the data, expected {reached}")
        reached = end
    if start + reached != file.size:
        more_or_less = "cut short" if start + reached > file.size else "has more than its header says"
        raise ValueError(
            f"{file.path}: {more_or_less}: has {file.size} bytes, its header says {start + reached}; "
            f"download the file again"
        )
    return metadata, places


def _parse_entry(path: str, name: str, entry: Any) -> tuple[int, int, tuple[int, ...], np.dtype]:
    """Begin and end in the data, shape and dtype of a tensor, from its entry in the header."""
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"{path}: damaged: {name!r} needs dtype, shape and data_offsets")
    code, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(code, str) or code not in _DTYPES:
        raise ValueError(f"{path}: {name!r} has dtype {code!r}; expected one of {', '.join(_DTYPES)}")
    if not isinstance(shape, list):
        raise ValueError(f"{path}: the shape of {name!r} is damaged")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(type(at) is int and at >= 0 for at in offsets):
        raise ValueError(f"{path}: the data_offsets of {name!r} are damaged")
    size = check_shape(path, name, shape, _DTYPES[code].itemsize) * _DTYPES[code].itemsize
    if offsets[1] - offsets[0] != size:
        raise ValueError(
            f"{path}: damaged: {name!r} has {offsets[1] - offsets[0]} bytes, dtype {code} and shape {shape} need {size}"
        )
    return offsets[0], offsets[1], tuple(shape), _DTYPES[code]


def write_safetensors(
    path: str | os.PathLike[str], tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str] | None = None
) -> None:
    """Writes `tensors`, bit for bit, to one `.safetensors` file, which appears whole or not at all.

    Each value is asked for once and let go before the next, so a lazy mapping needs the memory of one tensor. The
    header, which comes first in the file, is known when the last value was seen: the data waits in a temporary file.

    Args:
      path: file to write; one that is there is replaced.
      tensors: arrays by name.
      metadata: texts for the header.

    Raises:
      ValueError: for a dtype, a name or metadata that the form does not have.
      OSError: if the file cannot be written.
    """
    metadata = dict(metadata or {})
    if not all(isinstance(key, str) and isinstance(text, str) for key, text in metadata.items()):
        raise ValueError(f"{os.fspath(path)}: metadata must map texts to texts, got {metadata}")
    with whole_file(path) as temporary, naming(path), _spool(temporary) as spool:
        places: dict[str, _Place] = {}
        for name in tensors:
            places[name] = _append(spool, os.fspath(path), name, tensors[name])
        with _sink(temporary) as stream:
            # Large items first, as the library does it: then every tensor begins at a multiple of its item's size.
            order = sorted(places, key=lambda name: -places[name][2].itemsize)
            stream.write(_header({name: places[name] for name in order}, metadata))
            for name in order:
                _copy(spool, stream, places[name])


def _append(spool: IO[bytes], path: str, name: str, value: np.ndarray) -> _Place:
    """Writes one tensor's data; where it lies."""
    value = np.asarray(value)
    if name == _METADATA:
        raise ValueError(f"{path}: no tensor can be named {name!r} in a safetensors file")
    if value.dtype.name not in _CODES:
        raise ValueError(f"{path}: {name!r} has dtype {value.dtype.name}; a safetensors file takes {', '.join(_CODES)}")
    value = np.asarray(value, dtype=_DTYPES[_CODES[value.dtype.name]], order="C")
    at = spool.tell()
    spool.write(value.reshape(-1).view(np.uint8).data)
    return at, value.shape, value.dtype


def _header(places: Mapping[str, _Place], metadata: Mapping[str, str]) -> bytes:
    """Length and JSON of the header, of a multiple of 8 bytes, for tensors in this order."""
    header: dict[str, Any] = {_METADATA: metadata} if metadata else {}
    reached = 0
    for name, place in places.items():
        end = reached + _size(place)
        header[name] = {"dtype": _CODES[place[2].name], "shape": list(place[1]), "data_offsets": [reached, end]}
        reached = end
    content = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    content += b" " * (-len(content) % 8)
    return len(content).to_bytes(8, "little") + content


def _size(place: _Place) -> int:
    return int(np.prod(place[1], dtype=np.int64)) * place[2].itemsize


def _copy(spool: IO[bytes], stream: IO[bytes], place: _Place) -> None:
    spool.seek(place[0])
    left = _size(place)
    while left:
        piece = spool.read(min(left, 2**24))
        stream.write(piece)
        left -= len(piece)


@contextlib.contextmanager
def _spool(temporary: str) -> Iterator[IO[bytes]]:
    """A file without a name on the disk that will hold `temporary`."""
    folder = None if is_remote(temporary) else os.path.dirname(temporary) or "."
    with tempfile.TemporaryFile(dir=folder) as spool:
        yield spool


@contextlib.contextmanager
def _sink(temporary: str) -> Iterator[IO[bytes]]:
    """The file `temporary`, opened for writing from begin to end."""
    if is_remote(temporary):
        import tensorflow as tf

        with tf.io.gfile.GFile(temporary, "wb") as stream:
            yield stream
        return
    with open(temporary, "wb") as stream:
        yield stream
        stream.flush()
        os.fsync(stream.fileno())  # else a power cut after the rename could leave an empty file
