"""`tf.train.Example` messages to the values of their features, without TensorFlow.

A message is taken apart in Python; the numbers of many messages are decoded at once with NumPy, which is many times
faster than one value at a time.

Stricter than protocol buffers: a field that `tf.train.Example` does not have and a feature that occurs twice are
refused, since nothing that writes examples makes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5  # wire types
_KINDS = {1: "bytes", 2: "float32", 3: "int64"}  # fields of tf.train.Feature
_BEYOND_64_BITS = re.compile(rb"[\x80-\xff]{9}[^\x00\x01]")


class Column(NamedTuple):
    """Values of one feature for B records, one record after the other."""

    values: np.ndarray  # int64 or float32 [sum of lengths]
    lengths: np.ndarray  # int64 [B]


class Announced(NamedTuple):
    """Values that the bytes before them announce; `size` in bytes."""

    name: str
    kind: str
    size: int


def split_example(payload: bytes, headers: list[tuple[bytes, Announced]] | None = None) -> dict[str, tuple[str, bytes]]:
    """Type and undecoded values of each feature of a serialised `tf.train.Example`, by name.

    The type is "int64", "float32", "bytes", or "nothing" for a feature without values; the values are in packed form.

    Args:
      payload: the message.
      headers: is given, for each feature whose values stand together at its end, the bytes before them and what these
        bytes announce.

    Raises:
      ValueError: if the bytes are no such message.
    """
    found: dict[str, tuple[str, bytes]] = {}
    for tag, at, end in _fields(payload, 0, len(payload)):
        _expect(tag, 1, "tf.train.Example")
        for entry_tag, entry_begin, entry_end in _fields(payload, at, end):
            _expect(entry_tag, 1, "tf.train.Features")
            name, kind, content, values_begin = "", "nothing", b"", -1
            for part, part_begin, part_end in _fields(payload, entry_begin, entry_end):
                if part == 0x0A:
                    name, values_begin = _decode_name(payload[part_begin:part_end]), -1
                elif part == 0x12 and kind == "nothing":
                    kind, content, values_begin = _split_feature(payload, part_begin, part_end)
                else:
                    raise _not_an_example(f"field {part >> 3} in an entry of tf.train.Features")
            if name in found:
                raise _not_an_example(f"feature {name!r} occurs twice")
            found[name] = kind, content
            if headers is not None and values_begin + len(content) == entry_end:
                headers.append((payload[at:values_begin], Announced(name, kind, len(content))))
            at = entry_end
    return found


def _split_feature(payload: bytes, begin: int, end: int) -> tuple[str, bytes, int]:
    """Type and packed values of the `tf.train.Feature` in `payload[begin:end]`, and where the last of these begin.

    That place is -1 for values that are not packed.
    """
    kind, chunks, values_begin = "nothing", [], -1
    for tag, list_begin, list_end in _fields(payload, begin, end):
        if tag & 7 != _DELIMITED or tag >> 3 not in _KINDS:
            raise _not_an_example(f"field {tag >> 3} of type {tag & 7} in tf.train.Feature")
        if kind not in ("nothing", _KINDS[tag >> 3]):
            raise _not_an_example("a feature of two types")
        kind = _KINDS[tag >> 3]
        for value_tag, value_begin, value_end in _fields(payload, list_begin, list_end):
            content = payload[value_begin:value_end]
            values_begin = value_begin
            if value_tag != 0x0A:  # not packed: a field of its own for each value
                values_begin = -1
                wire_type = {"int64": _VARINT, "float32": _FIXED32}.get(kind)
                if wire_type is None or value_tag != 8 | wire_type:
                    raise _not_an_example(f"field {value_tag >> 3} of type {value_tag & 7} in a list of {kind}")
            elif kind == "int64" and content and content[-1] > 0x7F:
                raise endless_number()
            elif kind == "float32" and len(content) % 4:
                raise _not_an_example(f"{len(content)} bytes of float32 values")
            chunks.append(content)
    return kind, chunks[0] if len(chunks) == 1 else b"".join(chunks), values_begin


def _fields(content: bytes, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """(tag, begin, end) of the fields of the message in `content[at:end]`; a tag is number * 8 + wire type."""
    while at < end:
        tag = content[at]
        at += 1
        if tag > 0x7F:
            tag, at = read_varint(content, at - 1, end)
        wire_type = tag & 7
        if wire_type == _DELIMITED:
            if at >= end:
                raise _not_an_example("a field runs over its end")
            size = content[at]
            at += 1
            if size > 0x7F:
                size, at = read_varint(content, at - 1, end)
        elif wire_type == _VARINT:
            size = read_varint(content, at, end)[1] - at
        elif wire_type in (_FIXED32, _FIXED64):
            size = 4 if wire_type == _FIXED32 else 8
        else:
            raise _not_an_example(f"wire type {wire_type}")
        if at + size > end:
            raise _not_an_example("a field runs over its end")
        yield tag, at, at + size
        at += size


def read_varint(content: bytes, at: int, end: int) -> tuple[int, int]:
    """Value of at most 64 bits, and the position after it."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= end:
            raise _not_an_example("a field runs over its end")
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 64:
                break
            return value, at
    raise endless_number()


def _expect(tag: int, number: int, message: str) -> None:
    if tag != number << 3 | _DELIMITED:
        raise _not_an_example(f"field {tag >> 3} of type {tag & 7} in {message}")


def _decode_name(content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise _not_an_example(f"name {content!r} of a feature is not UTF-8") from None


def _not_an_example(reason: str) -> ValueError:
    return ValueError(f"not a tf.train.Example of the contract: {reason}")


def endless_number() -> ValueError:
    return _not_an_example("a number that does not end, or of more than 64 bits")


def decode(chunks: Sequence[bytes], dtype: str) -> Column:
    """Numbers of B records' packed values of one feature, as `split_example` gives them.

    Args:
      chunks: packed values, checked by `split_example`.
      dtype: "int64" or "float32".
    """
    content = np.frombuffer(b"".join(chunks), dtype=np.uint8)
    sizes = np.fromiter(map(len, chunks), dtype=np.int64, count=len(chunks))
    if dtype == "float32":
        return Column(content.view("<f4").astype(np.float32), sizes // 4)
    if not content.size or content.max() < 0x80:
        return Column(content.astype(np.int64), sizes)
    last = np.flatnonzero(content < 0x80)  # byte at which each number ends
    widths = np.diff(last, prepend=-1)
    first = last - widths + 1
    values = (content[first] & 0x7F).astype(np.uint64)
    longer = np.arange(len(values))
    for index in range(1, int(widths.max())):
        longer = longer[widths[longer] > index]
        group = (content[first[longer] + index] & 0x7F).astype(np.uint64)
        values[longer] |= group << np.uint64(7 * index)
    ends = np.searchsorted(last, np.cumsum(sizes))  # numbers up to the end of each record
    return Column(values.view(np.int64), np.diff(ends, prepend=0))


def first_beyond_64_bits(chunks: Sequence[bytes]) -> int | None:
    """Row of the first packed values with a number of more than 64 bits; None if there is none."""
    if not _BEYOND_64_BITS.search(b"".join(chunks)):
        return None
    return next(row for row, chunk in enumerate(chunks) if _BEYOND_64_BITS.search(chunk))
