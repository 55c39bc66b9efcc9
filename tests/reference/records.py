"""Plain readers of TFRecord files and tf.train.Examples, one value at a time, to compare the fast writers with."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import google_crc32c


def masked_crc(content: bytes) -> int:
    """Checksum as TFRecord files hold it."""
    crc = google_crc32c.value(content)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32


def read_payloads(path: Path) -> list[bytes]:
    """Payloads of all records, checksums verified."""
    content, payloads, at = path.read_bytes(), [], 0
    while at < len(content):
        (length,) = struct.unpack_from("<Q", content, at)
        assert struct.unpack_from("<I", content, at + 8)[0] == masked_crc(content[at : at + 8])
        payload = content[at + 12 : at + 12 + length]
        assert struct.unpack_from("<I", content, at + 12 + length)[0] == masked_crc(payload)
        payloads.append(payload)
        at += 16 + length
    return payloads


def read_varint(content: bytes, at: int) -> tuple[int, int]:
    """Value and the position after it."""
    value = shift = 0
    while True:
        value |= (content[at] & 0x7F) << shift
        shift += 7
        at += 1
        if content[at - 1] < 0x80:
            return value, at


def read_fields(content: bytes) -> list[tuple[int, bytes]]:
    """(number, content) of a message whose fields are all length-delimited."""
    fields, at = [], 0
    while at < len(content):
        tag, at = read_varint(content, at)
        assert tag & 7 == 2
        size, at = read_varint(content, at)
        fields.append((tag >> 3, content[at : at + size]))
        at += size
    return fields


def parse_example(payload: bytes) -> dict[str, list[Any]]:
    """Values by feature name of one tf.train.Example."""
    ((number, entries),) = read_fields(payload)
    assert number == 1
    example: dict[str, list[Any]] = {}
    for _, entry in read_fields(entries):
        (_, key), (_, feature) = read_fields(entry)
        ((kind, values),) = read_fields(feature)
        ((_, packed),) = read_fields(values)
        if kind == 2:
            example[key.decode()] = list(struct.unpack(f"<{len(packed) // 4}f", packed))
        else:
            assert kind == 3
            numbers, at = [], 0
            while at < len(packed):
                value, at = read_varint(packed, at)
                numbers.append(value)
            example[key.decode()] = numbers
    return example
