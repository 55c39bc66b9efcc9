"""The bytes of protocol buffers, for messages that are handled without their definitions (protobuf.dev: Encoding)."""

from __future__ import annotations

import functools
from collections.abc import Iterator

# Kinds of fields, and the bytes of those of a fixed width.
VARINT, BYTES = 0, 2
_WIDTHS = {1: 8, 5: 4}


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and content of each field of a message: an integer, or bytes for text, messages and fixed widths.

    Raises:
      IndexError: if the message is cut short or none.
    """
    return ((number, content) for number, _, content in typed_fields(message))


def typed_fields(message: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Number, kind and content of each field of a message, as `field` takes them.

    Raises:
      IndexError: if the message is cut short or none.
    """
    position = 0
    while position < len(message):
        tag, position = read_varint(message, position)
        number, kind = tag >> 3, tag & 7
        if kind == VARINT:
            value, position = read_varint(message, position)
            yield number, kind, value
            continue
        if kind == BYTES:
            length, position = read_varint(message, position)
        elif kind in _WIDTHS:
            length = _WIDTHS[kind]
        else:
            raise IndexError(f"unknown kind of field: {kind}")
        if position + length > len(message):
            raise IndexError("a field goes on behind the message's end")
        yield number, kind, message[position : position + length]
        position += length


def part(message: bytes, number: int) -> bytes:
    """Content of the last field `number`, a text or message; empty if there is none.

    Raises:
      IndexError: as `fields`, and if it is an integer.
    """
    content = dict(fields(message)).get(number, b"")
    if isinstance(content, int):
        raise IndexError(f"field {number} is an integer")
    return content


def field(number: int, kind: int, value: int | bytes) -> bytes:
    """The bytes of one field, as `typed_fields` gives it."""
    head = varint(number << 3 | kind)
    if isinstance(value, int):
        return head + varint(value)
    return head + (varint(len(value)) if kind == BYTES else b"") + value


def read_varint(content: bytes, position: int) -> tuple[int, int]:
    """The number at `position`, and the position behind it.

    Raises:
      IndexError: if the content ends before the number does.
    """
    value = shift = 0
    while True:
        byte = content[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position
        if shift > 63:
            raise IndexError("a number of more than 64 bits")


@functools.cache
def varint(value: int) -> bytes:
    """A number as protocol buffers write it: seven bits a byte, the lowest first."""
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)
