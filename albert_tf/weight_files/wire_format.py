"""The bytes of protocol buffers, for messages that are read without their definitions (protobuf.dev: Encoding)."""

from __future__ import annotations

from collections.abc import Iterator


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and content of each field of a message: an integer, or bytes for text, messages and fixed widths.

    Raises:
      IndexError: if the message is cut short or none.
    """
    position = 0
    while position < len(message):
        tag, position = varint(message, position)
        kind = tag & 7
        if kind == 0:
            value, position = varint(message, position)
            yield tag >> 3, value
            continue
        if kind == 2:
            length, position = varint(message, position)
        else:
            length = {1: 8, 5: 4}.get(kind, 0)
        if not length and kind != 2:
            raise IndexError(f"unknown kind of field: {kind}")
        if position + length > len(message):
            raise IndexError("a field goes on behind the message's end")
        yield tag >> 3, message[position : position + length]
        position += length


def varint(content: bytes, position: int) -> tuple[int, int]:
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
