"""The two forms of PyTorch's files: where their pickle and their storages lie.

Since 1.6 a file is a zip archive, uncompressed: NAME/data.pkl with the values, NAME/data/KEY with each storage, and in
later ones NAME/byteorder. Before, and still with `_use_new_zipfile_serialization=False`, five pickles follow each
other: magic number, version 1001, facts of the writing machine, the values, the storages' keys; behind them lies each
storage in the order of the keys, the number of its items first (int64), little-endian on every machine. Source:
pytorch/pytorch, torch/serialization.py (`_save`, `_legacy_save`) and torch/csrc/serialization.cpp.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from albert_tf.weight_files import impostors
from albert_tf.weight_files.byte_file import ByteFile
from albert_tf.weight_files.torch_pickle import PickleReader
from albert_tf.weight_files.torch_tensors import CALLS, Storage, make_storage
from albert_tf.weight_files.zip_members import Member, read_members

_MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
_VERSION = 1001


@dataclasses.dataclass(frozen=True)
class Contents:
    """A PyTorch file, its storages unread.

    Attributes:
      root: the pickled value, with `View`s for tensors.
      places: where each storage's bytes lie, by its key.
      big_endian: whether the high byte of a number comes first.
    """

    root: Any
    places: dict[str, Member]
    big_endian: bool = False


def read_contents(file: ByteFile) -> Contents:
    """What is in a PyTorch file of either form.

    Raises:
      ValueError: if it is none, holds code, or is damaged.
    """
    if file.head.startswith(b"PK\x03\x04"):
        return _read_zip(file)
    if not file.head.startswith(b"\x80"):  # else its pickle tells more
        impostors.check(file.path, file.head, expected=impostors.PYTORCH)
        raise ValueError(f"{file.path}: is no PyTorch file: it is neither a zip archive nor begins with a pickle")
    return _read_legacy(file)


class _Storages:
    """Makes storages of persistent ids, and keeps what they say of their data."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.bytes: dict[str, int] = {}
        self.itemsizes: dict[str, int] = {}

    def __call__(self, persistent_id: Any) -> Storage:
        storage = make_storage(self.path, persistent_id)
        size = storage.total * storage.dtype.itemsize
        if self.bytes.setdefault(storage.key, size) != size:
            raise ValueError(f"{self.path}: damaged: storage {storage.key[:50]!r} has two sizes")
        self.itemsizes.setdefault(storage.key, storage.dtype.itemsize)
        return storage


def _read_zip(file: ByteFile) -> Contents:
    members = read_members(file)
    pickles = [name for name in members if re.fullmatch(r"[^/]+/data\.pkl", name)]
    if len(pickles) != 1:
        impostors.check(file.path, file.head, expected=impostors.PYTORCH)
        raise ValueError(f"{file.path}: is a zip archive with {len(pickles)} data.pkl; a PyTorch file has one")
    folder = pickles[0].removesuffix("data.pkl")
    if f"{folder}constants.pkl" in members:
        raise ValueError(f"{file.path}: is a TorchScript program, not weights; save the model's state_dict()")
    order = members.get(f"{folder}byteorder")
    order_name = b"little" if order is None else file.read_at(order.begin, min(order.size, 16))
    if order_name not in (b"little", b"big"):
        raise ValueError(f"{file.path}: damaged: its order of bytes is neither little nor big")
    storages = _Storages(file.path)
    begin, size = members[pickles[0]].begin, members[pickles[0]].size
    root = PickleReader(file, begin, begin + size, calls=CALLS, persistent=storages).load()
    places = {}
    for key, count in storages.bytes.items():
        member = members.get(f"{folder}data/{key}")
        if member is None or member.size != count:
            has = "is missing" if member is None else f"has {member.size} bytes"
            raise ValueError(f"{file.path}: damaged: storage {key[:50]!r} {has}, expected {count} bytes")
        places[key] = member
    return Contents(root, places, order_name == b"big")


def _read_legacy(file: ByteFile) -> Contents:
    storages = _Storages(file.path)
    reader = PickleReader(file, 0, file.size, calls=CALLS, persistent=storages)
    if reader.load() != _MAGIC_NUMBER:
        raise ValueError(f"{file.path}: is a Python pickle, but none that PyTorch wrote; expected a PyTorch file")
    if reader.load() != _VERSION:
        raise ValueError(f"{file.path}: damaged, or of an unknown version; expected {_VERSION}")
    reader.load()  # sizes of C's types on the writing machine: the data does not depend on them
    root = reader.load()
    keys = reader.load()
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise ValueError(f"{file.path}: damaged: its storages have no list of keys")
    if set(keys) != storages.bytes.keys() or len(set(keys)) != len(keys):
        raise ValueError(f"{file.path}: damaged: its storages are others than those its tensors need")
    places = {}
    at = reader.at
    for key in keys:
        count = int.from_bytes(file.read_at(at, 8), "little", signed=True)
        if count * storages.itemsizes[key] != storages.bytes[key]:
            raise ValueError(
                f"{file.path}: damaged: storage {key[:50]!r} has {count} values, expected "
                f"{storages.bytes[key] // storages.itemsizes[key]}"
            )
        places[key] = Member(at + 8, storages.bytes[key], 0)
        at += 8 + storages.bytes[key]
        if at > file.size:
            raise ValueError(
                f"{file.path}: cut short: it ends at byte {file.size}, its storages go on to byte {at} at least; "
                f"download the file again"
            )
    return Contents(root, places)
