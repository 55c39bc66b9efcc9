"""Writes PyTorch's files opcode by opcode: a second account of both forms, that also writes what PyTorch would not.

Written after pytorch/pytorch, torch/serialization.py (`_save`, `_legacy_save`) and Python's pickletools. It shares
nothing with the reader.
"""

from __future__ import annotations

import dataclasses
import io
import struct
import zipfile
from typing import Any


@dataclasses.dataclass(frozen=True)
class Name:
    """A global."""

    module: str
    name: str


@dataclasses.dataclass(frozen=True)
class Call:
    """What a global gives for arguments."""

    function: Any
    arguments: Any


@dataclasses.dataclass(frozen=True)
class Persistent:
    """What the reader knows by an id."""

    id: Any


@dataclasses.dataclass(frozen=True)
class Raw:
    """Opcodes as they are."""

    content: bytes


def opcodes(value: Any) -> bytes:
    """Opcodes of protocol 2 that push `value`."""
    if value is None or isinstance(value, bool):
        return {None: b"N", True: b"\x88", False: b"\x89"}[value]
    if isinstance(value, int):
        if -(2**31) <= value < 2**31:
            return b"J" + struct.pack("<i", value)
        size = value.bit_length() // 8 + 1
        return b"\x8a" + bytes([size]) + value.to_bytes(size, "little", signed=True)
    if isinstance(value, float):
        return b"G" + struct.pack(">d", value)
    if isinstance(value, str):
        content = value.encode()
        return b"X" + struct.pack("<I", len(content)) + content
    if isinstance(value, tuple):
        return b"(" + b"".join(map(opcodes, value)) + b"t"
    if isinstance(value, list):
        return b"](" + b"".join(map(opcodes, value)) + b"e"
    if isinstance(value, dict):
        return b"}(" + b"".join(opcodes(key) + opcodes(inner) for key, inner in value.items()) + b"u"
    if isinstance(value, Name):
        return f"c{value.module}\n{value.name}\n".encode()
    if isinstance(value, Call):
        return opcodes(value.function) + opcodes(value.arguments) + b"R"
    if isinstance(value, Persistent):
        return opcodes(value.id) + b"Q"
    content = value.content
    assert isinstance(content, bytes)
    return content


def pickle_of(value: Any) -> bytes:
    return b"\x80\x02" + opcodes(value) + b"."


def storage(kind: str, key: Any, count: Any, *more: Any, module: str = "torch") -> Persistent:
    return Persistent(("storage", Name(module, f"{kind}Storage"), key, "cpu", count, *more))


def tensor(of: Any, offset: Any, shape: Any, strides: Any, *more: Any) -> Call:
    hooks = Call(Name("collections", "OrderedDict"), ())
    return Call(Name("torch._utils", "_rebuild_tensor_v2"), (of, offset, shape, strides, False, hooks, *more))


def zip_form(
    root: Any,
    storages: dict[str, bytes],
    *,
    byteorder: bytes | None = b"little",
    folder: str = "archive",
    compression: int = zipfile.ZIP_STORED,
    more: dict[str, bytes] | None = None,
) -> bytes:
    """A file in the form of 1.6 and later."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        archive.writestr(f"{folder}/data.pkl", pickle_of(root))
        if byteorder is not None:
            archive.writestr(f"{folder}/byteorder", byteorder)
        for key, content in storages.items():
            archive.writestr(f"{folder}/data/{key}", content)
        for name, content in (more or {}).items():
            archive.writestr(f"{folder}/{name}", content)
        archive.writestr(f"{folder}/version", b"3\n")
    return buffer.getvalue()


def old_form(
    root: Any,
    storages: dict[str, tuple[int, bytes]],
    *,
    keys: Any = None,
    magic: Any = 0x1950A86A20F9469CFC6C,
    version: Any = 1001,
    facts: Any = None,
) -> bytes:
    """A file in the form of before 1.6; of each storage the number of items and the bytes."""
    facts = {"protocol_version": 1001, "little_endian": True} if facts is None else facts
    content = b"".join(map(pickle_of, (magic, version, facts, root, list(storages) if keys is None else keys)))
    return content + b"".join(struct.pack("<q", count) + data for count, data in storages.values())
