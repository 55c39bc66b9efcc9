"""Record reader: TFRecord files to columns of numbers, every checksum verified, without TensorFlow.

The counterpart of `pipelines.records`, for whoever must say what is wrong with a record and where.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import IO, Any, NamedTuple

from albert_tf.data.shards import masked_crc
from albert_tf.features import Feature
from pipelines.audit.example_message import (
    Announced,
    Column,
    decode,
    endless_number,
    first_beyond_64_bits,
    read_varint,
    split_example,
)

_HEADER_BYTES, _FOOTER_BYTES = 12, 4  # length and its checksum; checksum of the payload
_LONGEST_PAYLOAD = 1 << 26  # bytes; far beyond any record of the contract, and no damage may ask for all memory


class BrokenRecordError(ValueError):
    """A record that cannot be used: `number` (from 0), `offset` in bytes, and the `reason`; does not name the file."""

    def __init__(self, number: int, offset: int, reason: str):
        super().__init__(f"record {number} at byte {offset}: {reason}")
        self.number, self.offset, self.reason = number, offset, reason


class Frame(NamedTuple):
    """One record of a TFRecord file."""

    number: int  # from 0
    offset: int  # bytes before it
    payload: bytes

    @property
    def end(self) -> int:
        """Bytes up to its end."""
        return self.offset + _HEADER_BYTES + len(self.payload) + _FOOTER_BYTES


def read_frames(stream: IO[bytes], digest: Any = None) -> Iterator[Frame]:
    """The records of a TFRecord file, both checksums of each verified.

    Args:
      stream: the file, at its beginning.
      digest: a `hashlib` object that is given every byte read.

    Raises:
      BrokenRecordError: for a damaged or cut off record; nothing can be read after it.
    """
    number = offset = 0
    while header := stream.read(_HEADER_BYTES):
        if len(header) < _HEADER_BYTES:
            raise BrokenRecordError(number, offset, f"cut off: {len(header)} of the {_HEADER_BYTES} bytes before it")
        if header[8:] != masked_crc(header[:8]):
            raise BrokenRecordError(number, offset, "damaged length")
        (length,) = struct.unpack("<Q", header[:8])
        if length > _LONGEST_PAYLOAD:
            raise BrokenRecordError(number, offset, f"{length} bytes long, at most {_LONGEST_PAYLOAD} are expected")
        body = stream.read(length + _FOOTER_BYTES)
        if len(body) < length + _FOOTER_BYTES:
            raise BrokenRecordError(number, offset, f"cut off: {len(body)} of {length + _FOOTER_BYTES} bytes")
        payload = body[:length]
        if body[length:] != masked_crc(payload):
            raise BrokenRecordError(number, offset, "checksum does not match its bytes")
        if digest is not None:
            digest.update(header)
            digest.update(body)
        yield Frame(number, offset, payload)
        number += 1
        offset += _HEADER_BYTES + length + _FOOTER_BYTES


class ExampleReader:
    """Reads serialised `tf.train.Example`s of a contract, many at once.

    A writer puts the same bytes before a feature's values whenever these take equally many bytes, so what such bytes
    mean is remembered, and most records are taken apart by looking them up.

    Args:
      features: what each must hold, by name, type and length, and nothing else.
    """

    def __init__(self, features: Sequence[Feature]):
        self._features = tuple(features)
        # For each place in a message: length of what stands before the values -> these bytes -> what they announce.
        self._known: list[dict[int, dict[bytes, Announced]]] = []

    def read_columns(self, payloads: Sequence[bytes]) -> tuple[dict[str, Column], tuple[int, str] | None]:
        """Columns by name of the records before the first that breaks the contract; row and fault of that one."""
        fault: tuple[int, str] | None = None
        chunks: dict[str, list[bytes]] = {feature.name: [] for feature in self._features}
        for row, payload in enumerate(payloads):
            try:
                found = self._split_known(payload) or self._split(payload)
                _check_features(found, self._features)
            except ValueError as error:
                fault = row, str(error)
                break
            for name, (_, content) in found.items():
                chunks[name].append(content)
        for feature in self._features:
            if feature.dtype == "int64" and (wide := first_beyond_64_bits(chunks[feature.name])) is not None:
                fault = wide, str(endless_number())
                chunks = {name: rows[:wide] for name, rows in chunks.items()}
        columns = {feature.name: decode(chunks[feature.name], feature.dtype) for feature in self._features}
        for feature in self._features:
            lengths = columns[feature.name].lengths
            is_wrong = lengths != (lengths if feature.length is None else feature.length)
            row = int(is_wrong.argmax()) if is_wrong.any() else len(lengths)
            if row < len(lengths) and (fault is None or row < fault[0]):
                fault = row, f"{feature.name} must have {feature.length} values, got {lengths[row]}"
        if fault is not None:
            columns = {name: _first_rows(column, fault[0]) for name, column in columns.items()}
        return columns, fault

    def _split(self, payload: bytes) -> dict[str, tuple[str, bytes]]:
        """`split_example`; remembers what stands before the values."""
        headers: list[tuple[bytes, Announced]] = []
        found = split_example(payload, headers)
        if len(headers) == len(found):
            for place, (header, announced) in enumerate(headers):
                if place == len(self._known):
                    self._known.append({})
                self._known[place].setdefault(len(header), {})[header] = announced
        return found

    def _split_known(self, payload: bytes) -> dict[str, tuple[str, bytes]] | None:
        """What `split_example` gives, or None where something is not known."""
        end = len(payload)
        if end < 2 or payload[0] != 0x0A:
            return None
        size, at = read_varint(payload, 1, end)
        if at + size != end:
            return None
        found: dict[str, tuple[str, bytes]] = {}
        for headers in self._known:
            for length, known in headers.items():
                if (announced := known.get(payload[at : at + length])) is not None:
                    break
            else:
                return None
            at += length
            content = payload[at : at + announced.size]
            at += announced.size
            if announced.kind == "int64" and content and content[-1] > 0x7F:
                return None
            found[announced.name] = announced.kind, content
        return found if at == end and len(found) == len(self._known) else None


def _first_rows(column: Column, rows: int) -> Column:
    return Column(column.values[: int(column.lengths[:rows].sum())], column.lengths[:rows])


def _check_features(found: dict[str, tuple[str, bytes]], features: Sequence[Feature]) -> None:
    """Refuses a record whose features differ from the contract's in name or type."""
    for feature in features:
        if feature.name not in found:
            raise ValueError(f"feature {feature.name} is missing")
        if found[feature.name][0] != feature.dtype:
            raise ValueError(f"{feature.name} must be {feature.dtype}, got {found[feature.name][0]}")
    if len(found) > len(features):
        names = [feature.name for feature in features]
        more = next(name for name in found if name not in names)
        raise ValueError(f"feature {more!r} is not in the contract")
