"""The index of a TensorFlow checkpoint: names, shapes and places of its tensors, read without TensorFlow.

`PREFIX.index` is a sorted string table as LevelDB writes it: blocks of entries whose keys leave out what they share
with the key before, a block that lists the blocks, and a footer. The empty key holds a BundleHeaderProto, every other
one a tensor's BundleEntryProto (tensorflow: lib/io/table_format.txt, protobuf/tensor_bundle.proto).
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterator

import google_crc32c

from albert_tf.wire_format import fields, read_varint

_FOOTER_SIZE = 48
_MAGIC = 0xDB4775248B80FB57
_TRAILER_SIZE = 5  # kind of compression, checksum
_DTYPES = {
    1: "float32",
    2: "float64",
    3: "int32",
    4: "uint8",
    5: "int16",
    6: "int8",
    7: "string",
    9: "int64",
    10: "bool",
    14: "bfloat16",
    17: "uint16",
    19: "float16",
    22: "uint32",
    23: "uint64",
}


@dataclasses.dataclass(frozen=True)
class IndexEntry:
    """A tensor's shape, dtype, and where its bytes are: number of the data file, offset and length in it.

    A tensor that was stored in slices has none of its own: its length is 0.
    """

    shape: tuple[int, ...]
    dtype: str
    shard: int
    offset: int
    size: int


@dataclasses.dataclass(frozen=True)
class BundleIndex:
    """What an index says: how many data files there are, and the tensors by name."""

    num_shards: int
    entries: dict[str, IndexEntry]


def parse_index(content: bytes) -> BundleIndex:
    """The index that the content of a `.index` file holds.

    Raises:
      ValueError: if it is none, or is damaged or cut short.
    """
    if len(content) < _FOOTER_SIZE or struct.unpack("<Q", content[-8:])[0] != _MAGIC:
        raise ValueError("is no index of a TensorFlow checkpoint, or is cut short")
    num_shards, entries = 0, {}
    try:
        position = _skip_handle(content, len(content) - _FOOTER_SIZE)
        for _, handle in _block(content, position):
            for key, value in _block(content, 0, handle):
                if not key:
                    num_shards = _integer(dict(fields(value)).get(1, 1))
                elif key[0]:  # keys that begin with a zero byte are slices of a tensor
                    entries[key.decode()] = _entry(value)
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise ValueError("is a damaged index of a TensorFlow checkpoint") from error
    if not num_shards:
        raise ValueError("is a damaged index of a TensorFlow checkpoint: it has no header")
    return BundleIndex(num_shards, entries)


def _entry(value: bytes) -> IndexEntry:
    """A BundleEntryProto."""
    shape: tuple[int, ...] = ()
    numbers = dict.fromkeys((1, 3, 4, 5), 0)
    for field, content in fields(value):
        if field == 2 and isinstance(content, bytes):
            dims = [dim for number, dim in fields(content) if number == 2 and isinstance(dim, bytes)]
            shape = tuple(_integer(dict(fields(dim)).get(1, 0)) for dim in dims)
        elif field in numbers:
            numbers[field] = _integer(content)
    dtype = _DTYPES.get(numbers[1], f"dtype {numbers[1]}")
    return IndexEntry(shape, dtype, shard=numbers[3], offset=numbers[4], size=numbers[5])


def _integer(value: int | bytes) -> int:
    if isinstance(value, bytes):
        raise IndexError("bytes where a number is expected")
    return value


def _skip_handle(content: bytes, position: int) -> int:
    """Position behind the handle of a block: an offset and a length."""
    for _ in range(2):
        _, position = read_varint(content, position)
    return position


def _block(content: bytes, position: int, handle: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of the block whose handle is at `position` of the content, or is given."""
    source = content if handle is None else handle
    offset, position = read_varint(source, position)
    size, _ = read_varint(source, position)
    block, trailer = content[offset : offset + size], content[offset + size : offset + size + _TRAILER_SIZE]
    kind, checksum = struct.unpack("<BI", trailer)
    if kind:
        raise ValueError("is a compressed index, which no checkpoint of ALBERT has been seen with")
    if _masked(google_crc32c.value(block + trailer[:1])) != checksum:
        raise ValueError("is a damaged index of a TensorFlow checkpoint: its checksum is wrong")
    (restarts,) = struct.unpack("<I", block[-4:])
    end, position, key = len(block) - 4 - 4 * restarts, 0, b""
    while position < end:
        shared, position = read_varint(block, position)
        unshared, position = read_varint(block, position)
        length, position = read_varint(block, position)
        key = key[:shared] + block[position : position + unshared]
        position += unshared
        yield key, block[position : position + length]
        position += length


def _masked(crc: int) -> int:
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
