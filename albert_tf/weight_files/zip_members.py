"""Members of a zip archive and where their bytes lie, for archives that store them as they are.

Python's `zipfile` reads members, not places in the file, and takes any size that a directory claims. Source: PKWARE's
APPNOTE.TXT, sections 4.3.7, 4.3.12 and 4.3.14 to 4.3.16.
"""

from __future__ import annotations

import dataclasses
import struct

from albert_tf.weight_files.byte_file import ByteFile

_END = struct.Struct("<4s4H2LH")
_END64_LOCATOR = struct.Struct("<4sLQL")
_END64 = struct.Struct("<4sQ2H2L4Q")
_ENTRY = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_MAX_DIRECTORY = 2**26  # bytes


@dataclasses.dataclass(frozen=True)
class Member:
    """A member of an archive.

    Attributes:
      begin: byte of the file where its content begins.
      size: its length in bytes.
      crc: CRC-32 of its content; 0 if the writer did not compute it.
    """

    begin: int
    size: int
    crc: int


def read_members(file: ByteFile) -> dict[str, Member]:
    """Every member by name.

    Raises:
      ValueError: if the archive is damaged, compressed or encrypted.
    """
    begin, size, count = _find_directory(file)
    if size > _MAX_DIRECTORY or begin + size > file.size:
        raise ValueError(f"{file.path}: damaged: the zip archive's directory would have {size} bytes at byte {begin}")
    directory = file.read_at(begin, size)
    members: dict[str, Member] = {}
    at = 0
    for _ in range(count):
        if at + _ENTRY.size > size:
            raise _damaged(file, "directory")
        fields = _ENTRY.unpack_from(directory, at)
        mark, flags, method, crc, packed, length = fields[0], fields[3], fields[4], *fields[7:10]
        name_size, extra_size, comment_size = fields[10:13]
        header = fields[16]
        at += _ENTRY.size
        if mark != b"PK\x01\x02" or at + name_size + extra_size + comment_size > size:
            raise _damaged(file, "directory")
        name = directory[at : at + name_size].decode("utf-8", "replace")
        extra = directory[at + name_size : at + name_size + extra_size]
        at += name_size + extra_size + comment_size
        length, packed, header = _widen(file, (length, packed, header), extra)
        if flags & 1 or method != 0 or packed != length:
            raise ValueError(
                f"{file.path}: its member {name!r} is compressed or encrypted; expected one that PyTorch wrote, with "
                f"its members as they are: unpack it and save the model again"
            )
        if name in members:
            raise ValueError(f"{file.path}: damaged: has two members named {name!r}")
        members[name] = Member(_content_begin(file, header, length), length, crc)
    return members


def _find_directory(file: ByteFile) -> tuple[int, int, int]:
    """Begin, size and number of entries of the archive's directory, from the record at the end of the file."""
    tail_begin = max(0, file.size - _END.size - 2**16)
    tail = file.read_at(tail_begin, file.size - tail_begin)
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or at + _END.size > len(tail):
        raise ValueError(
            f"{file.path}: cut short or damaged: the zip archive's directory, which stands at its end, is missing; "
            f"download the file again"
        )
    fields = _END.unpack_from(tail, at)
    count, size, begin = fields[4:7]
    if count == 0xFFFF or size == 0xFFFFFFFF or begin == 0xFFFFFFFF:
        where = tail_begin + at - _END64_LOCATOR.size
        mark, _, where, _ = _END64_LOCATOR.unpack(file.read_at(where, _END64_LOCATOR.size))
        if mark != b"PK\x06\x07":
            raise _damaged(file, "directory")
        fields = _END64.unpack(file.read_at(where, _END64.size))
        if fields[0] != b"PK\x06\x06":
            raise _damaged(file, "directory")
        count, size, begin = fields[7:10]
    return begin, size, count


def _widen(file: ByteFile, values: tuple[int, int, int], extra: bytes) -> tuple[int, ...]:
    """Size, packed size and place of a member; those of 32 bits that are full stand in the extra field with 64."""
    missing = [index for index, value in enumerate(values) if value == 0xFFFFFFFF]
    widened = list(values)
    at = 0
    while missing and at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        content = extra[at + 4 : at + 4 + length]
        at += 4 + length
        if kind == 1 and len(content) >= 8 * len(missing):
            for place, index in enumerate(missing):
                widened[index] = struct.unpack_from("<Q", content, 8 * place)[0]
            return tuple(widened)
    if missing:
        raise _damaged(file, "directory")
    return values


def _content_begin(file: ByteFile, header: int, size: int) -> int:
    """Byte where a member's content begins: behind its local header, whose extra field has a size of its own."""
    mark, *_, name_size, extra_size = _LOCAL.unpack(file.read_at(header, _LOCAL.size))
    begin: int = header + _LOCAL.size + name_size + extra_size
    if mark != b"PK\x03\x04" or begin + size > file.size:
        raise _damaged(file, "content")
    return begin


def _damaged(file: ByteFile, what: str) -> ValueError:
    return ValueError(f"{file.path}: cut short or damaged: the zip archive's {what} is wrong; download the file again")
