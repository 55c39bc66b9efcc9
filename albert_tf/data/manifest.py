"""dataset.json: what a data directory holds, read and checked before anything is trained on it.

The file says by which record contract, tokenizer and settings the shards were made, how many examples each has and how
long it is, so that a shard of another run, or one cut off by a full disk, is refused by name at the start.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import reprlib
import struct
from collections.abc import Mapping
from typing import Any, Literal

from albert_tf import features, folder_kinds
from albert_tf.files import check_regular, is_remote
from albert_tf.json_object import parse_object

DATASET_FILE = "dataset.json"
DIGITS_SHOWN = 12  # of a digest, in messages
_FORMAT = "albert_tf pretraining data"
_TFRECORD_HEADER, _TFRECORD_FOOTER = 12, 4  # bytes: length and its checksum; checksum of the payload


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shard:
    """One TFRecord file: its path, the examples it holds and its length in bytes."""

    path: str
    examples: int
    bytes: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataDirectory:
    """What dataset.json says. Field names are its keys.

    Attributes:
      path: the data directory.
      masking: "static" (masks are in the records) or "dynamic" (drawn while training).
      max_seq_length: S, tokens.
      max_predictions_per_seq: P.
      masked_lm_prob: share of the real positions to predict, in (0, 1).
      max_ngram: longest n-gram to mask, in words.
      vocab_size: V.
      special_ids: ids of "pad", "unk", "cls", "sep" and "mask".
      excluded_replacement_ids: ids that no random replacement may be.
      tokenizer_digest: of the vocabulary and its settings.
      shards: the files, in the order of dataset.json; examples are numbered through all of them.
      digest: SHA-256 of dataset.json itself.
    """

    path: str
    masking: Literal["static", "dynamic"]
    max_seq_length: int
    max_predictions_per_seq: int
    masked_lm_prob: float
    max_ngram: int
    vocab_size: int
    special_ids: Mapping[str, int]
    excluded_replacement_ids: tuple[int, ...]
    tokenizer_digest: str
    shards: tuple[Shard, ...]
    digest: str

    @property
    def num_examples(self) -> int:
        """Examples in all shards."""
        return sum(shard.examples for shard in self.shards)

    def locate(self, example: int) -> str:
        """Where example number `example` stands, for messages: "FILE, record N" (records count from 0)."""
        for shard in self.shards:
            if example < shard.examples:
                return f"{shard.path}, record {example}"
            example -= shard.examples
        raise ValueError(f"example must be in [0, {self.num_examples})")

    def check_fits(self, other: DataDirectory) -> None:
        """Refuses `other`, held-out data for example, where it was not made for the same model.

        Raises:
          ValueError: naming the key that differs.
        """
        for name in ("tokenizer_digest", "vocab_size"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                source = os.path.join(other.path, DATASET_FILE)
                mine, theirs = str(mine)[:DIGITS_SHOWN], str(theirs)[:DIGITS_SHOWN]
                raise ValueError(f"{source}: {name} must be that of {self.path}, {mine}, got {theirs}")


def read_data_directory(path: str | os.PathLike[str]) -> DataDirectory:
    """Checked content of the data directory `path`: keys, contract version, presence and length of every shard.

    Raises:
      FileNotFoundError: if the folder, its dataset.json or a shard is missing.
      ValueError: naming file, key or position, for anything that is not as it must be.
    """
    path = os.fspath(path)
    source = os.path.join(path, DATASET_FILE)
    if not _exists(path):
        raise FileNotFoundError(2, "no such data directory; pipelines.build_pretraining_data makes one", path)
    folder_kinds.check(path, DATASET_FILE, folder_kinds.DATA)
    content = _read(source)
    values = parse_object(content, source=source)
    if values.get("format") != _FORMAT:
        raise ValueError(f'{source}: format must be "{_FORMAT}", got {values.get("format")!r}')
    version = values.get("contract_version")
    if version != features.RECORD_CONTRACT_VERSION or not isinstance(version, int) or isinstance(version, bool):
        raise ValueError(
            f"{source}: contract_version must be {features.RECORD_CONTRACT_VERSION}, got "
            f"{values.get('contract_version')!r}; build the shards again with this version"
        )
    try:
        data = _parse(path, values, hashlib.sha256(content).hexdigest())
    except KeyError as error:
        raise ValueError(f"{source}: missing key {error.args[0]!r}") from error
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from error
    if data.masking not in ("static", "dynamic"):
        raise ValueError(f"{source}: masking must be static or dynamic, got {data.masking!r}")
    if not data.num_examples:
        raise ValueError(f"{source}: the data directory holds no example")
    for shard in data.shards:
        check_length(shard)
    return data


def _parse(path: str, values: Mapping[str, Any], digest: str) -> DataDirectory:
    """`DataDirectory` of what dataset.json holds.

    Raises:
      KeyError: for a missing key.
      ValueError: naming the key, for a value of another type or out of range.
    """
    max_seq_length = _whole(values, "max_seq_length", 5, features.LONGEST_SEQUENCE)
    vocab_size = _whole(values, "vocab_size", 6, 2**31 - 1)
    special_ids = _mapping(values, "special_ids")
    excluded = values["excluded_replacement_ids"]
    if not isinstance(excluded, list) or not all(_is_whole(i, 0, vocab_size - 1) for i in excluded):
        raise ValueError(f"excluded_replacement_ids must be ids in [0, {vocab_size}), got {_shortened(excluded)}")
    if len(set(excluded)) >= vocab_size:
        raise ValueError("excluded_replacement_ids must leave an id to replace with, got every one")
    prob = values["masked_lm_prob"]
    if isinstance(prob, bool) or not isinstance(prob, (int, float)) or not 0 < prob < 1:
        raise ValueError(f"masked_lm_prob must be a number in (0, 1), got {_shortened(prob)}")
    shards = values["shards"]
    if not isinstance(shards, list) or not all(isinstance(entry, dict) for entry in shards):
        raise ValueError(f"shards must be a list of objects, got {_shortened(shards)}")
    return DataDirectory(
        path=path,
        masking=_text(values, "masking"),  # type: ignore[arg-type]  # checked by the caller
        max_seq_length=max_seq_length,
        max_predictions_per_seq=_whole(values, "max_predictions_per_seq", 1, max_seq_length),
        masked_lm_prob=float(prob),
        max_ngram=_whole(values, "max_ngram", 1, features.LONGEST_NGRAM),
        vocab_size=vocab_size,
        special_ids={
            name: _whole(special_ids, name, 0, vocab_size - 1) for name in ("pad", "unk", "cls", "sep", "mask")
        },
        excluded_replacement_ids=tuple(excluded),
        tokenizer_digest=_text(_mapping(values, "tokenizer"), "digest"),
        shards=tuple(_parse_shard(path, entry) for entry in shards),
        digest=digest,
    )


def _parse_shard(path: str, entry: Mapping[str, Any]) -> Shard:
    name = _text(entry, "file")
    if not name or os.path.basename(name) != name:
        raise ValueError(f"file must be a name in the data directory, got {_shortened(name)}")
    return Shard(
        path=os.path.join(path, name),
        examples=_whole(entry, "examples", 0, 2**53),
        bytes=_whole(entry, "bytes", 0, 2**53),
    )


def _whole(values: Mapping[str, Any], key: str, lowest: int, highest: int) -> int:
    value = values[key]
    if not _is_whole(value, lowest, highest):
        raise ValueError(f"{key} must be a whole number in [{lowest}, {highest}], got {_shortened(value)}")
    number: int = value
    return number


def _is_whole(value: Any, lowest: int, highest: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and lowest <= value <= highest


def _text(values: Mapping[str, Any], key: str) -> str:
    value = values[key]
    if not isinstance(value, str):
        raise ValueError(f"{key} must be a text, got {_shortened(value)}")
    return value


def _mapping(values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = values[key]
    if not isinstance(value, dict):
        raise ValueError(f"{key} must be an object, got {_shortened(value)}")
    return value


def _shortened(value: Any) -> str:
    return reprlib.repr(value)


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
    message = f"{shard.path}: has {size} bytes, {DATASET_FILE} says {shard.bytes}"
    record, offset = _last_whole_record(shard.path, size)
    if offset < size:
        message += f"; cut off in record {record}, which starts at byte {offset}"
    else:
        message += f"; holds {record} records, {DATASET_FILE} says {shard.examples}"
    raise ValueError(f"{message}; build the shards again")


def _last_whole_record(path: str, size: int) -> tuple[int, int]:
    """Number of whole records in a TFRecord file, and the byte at which the last of them ends."""
    count = offset = 0
    with _open(path) as stream:
        while offset + _TFRECORD_HEADER <= size:
            stream.seek(offset)
            (length,) = struct.unpack("<Q", stream.read(8))
            end = offset + _TFRECORD_HEADER + length + _TFRECORD_FOOTER
            if end > size:
                break
            count, offset = count + 1, end
    return count, offset


def _open(path: str) -> Any:
    if not is_remote(path):
        check_regular(path)
        return open(path, "rb")
    import tensorflow as tf

    return tf.io.gfile.GFile(path, "rb")


def _read(path: str) -> bytes:
    with _open(path) as stream:
        content: bytes = stream.read()
    return content


def _exists(path: str) -> bool:
    if not is_remote(path):
        return os.path.isdir(path)
    import tensorflow as tf

    return bool(tf.io.gfile.isdir(path))


def _size(path: str) -> int:
    if not is_remote(path):
        return os.stat(path).st_size
    import tensorflow as tf

    return int(tf.io.gfile.stat(path).length)


def damage(shard: Shard) -> str | None:
    """Where the bytes of a shard are damaged, for messages; None if all checksums are right."""
    import google_crc32c

    def masked_crc(content: bytes) -> bytes:
        crc = google_crc32c.value(content)
        return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)

    offset = 0
    with _open(shard.path) as stream:
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
