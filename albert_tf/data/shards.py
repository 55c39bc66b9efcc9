"""Shards: the TFRecord files of a data directory, and what can be wrong with them."""

from __future__ import annotations

import dataclasses
import os
import struct
from typing import Any

import google_crc32c

from albert_tf.files import check_regular, is_remote

_TFRECORD_HEADER, _TFRECORD_FOOTER = 12, 4  # bytes: length and its checksum; checksum of the payload


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shard:
    """One TFRecord file as dataset.json describes it.

    Attributes:
      path: where it is.
      examples: records in it.
      bytes: its length.
      sha256: of its content, in hexadecimal.
    """

    path: str
    examples: int
    bytes: int
    sha256: str


def check_length(shard: Shard) -> None:
    """Refuses a shard that has not the length that dataset.json gives.

    Raises:
      FileNotFoundError: if the file is missing.
      ValueError: naming the file and the record at which it ends.
    """
    check_regular(shard.path)
    size = _size(shard.path)
    if size == shard.bytes:
        return
    message = f"{shard.path}: has {size} bytes, dataset.json says {shard.bytes}"
    record, offset = _last_whole_record(shard.path, size)
    if offset < size:
        message += f"; cut off in record {record}, which starts at byte {offset}"
    else:
        message += f"; holds {record} records, dataset.json says {shard.examples}"
    raise ValueError(f"{message}; build the shards again")


def _last_whole_record(path: str, size: int) -> tuple[int, int]:
    """Number of whole records in a TFRecord file, and the byte at which the last of them ends."""
    count = offset = 0
    with open_file(path) as stream:
        while offset + _TFRECORD_HEADER <= size:
            stream.seek(offset)
            (length,) = struct.unpack("<Q", stream.read(8))
            end = offset + _TFRECORD_HEADER + length + _TFRECORD_FOOTER
            if end > size:
                break
            count, offset = count + 1, end
    return count, offset


def damage(shard: Shard) -> str | None:
    """Where the bytes of a shard are damaged, for messages; None if all checksums are right."""
    offset = 0
    with open_file(shard.path) as stream:
        for record in range(shard.examples):
            header = stream.read(_TFRECORD_HEADER)
            if header[8:] != masked_crc(header[:8]):
                return f"{shard.path}: record {record} at byte {offset}: damaged length"
            (length,) = struct.unpack("<Q", header[:8])
            payload = stream.read(length)
            if stream.read(_TFRECORD_FOOTER) != masked_crc(payload):
                return f"{shard.path}: record {record} at byte {offset}: checksum does not match its bytes"
            offset += _TFRECORD_HEADER + length + _TFRECORD_FOOTER
    return None


def masked_crc(content: bytes) -> bytes:
    """Checksum of TFRecord files, bytes [4]: CRC-32C, rotated by 15 bits and shifted, as the format wants it."""
    crc = google_crc32c.value(content)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def open_file(path: str) -> Any:
    """The file as bytes, on the local disk or where TensorFlow can read."""
    if not is_remote(path):
        check_regular(path)
        return open(path, "rb")
    import tensorflow as tf

    return tf.io.gfile.GFile(path, "rb")


def _size(path: str) -> int:
    if not is_remote(path):
        return os.stat(path).st_size
    import tensorflow as tf

    return int(tf.io.gfile.stat(path).length)
