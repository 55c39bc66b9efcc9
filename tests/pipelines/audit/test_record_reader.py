"""TFRecord files read without TensorFlow: against TensorFlow's own parser, and broken on purpose."""

from __future__ import annotations

import hashlib
import io
import random
import struct
from typing import Any

import numpy as np
import pytest

from albert_tf.features import Feature
from pipelines.audit import record_reader
from pipelines.audit.record_reader import BrokenRecordError, ExampleReader, read_frames
from pipelines.records import frame_record
from tests.reference.records import masked_crc

FEATURES = (
    Feature(name="ids", dtype="int64", length=7),
    Feature(name="weights", dtype="float32", length=3),
    Feature(name="tokens", dtype="int64", length=None),
)
PAYLOADS = [b"first", b"", b"the third " * 20]
OFFSETS = [0, 21, 37]


def columns_of(payloads: list[bytes], reader: ExampleReader | None = None) -> tuple[list[dict[str, list[Any]]], Any]:
    """Values by name of each record before the first wrong one, and that one's row and fault."""
    columns, fault = (reader or ExampleReader(FEATURES)).read_columns(payloads)
    rows = len(next(iter(columns.values())).lengths)
    examples: list[dict[str, list[Any]]] = [{} for _ in range(rows)]
    for name, (values, lengths) in columns.items():
        assert len(lengths) == rows
        assert len(values) == lengths.sum()
        for row, part in enumerate(np.split(values, np.cumsum(lengths)[:-1]) if rows else []):
            examples[row][name] = part.tolist()
    return examples, fault


def random_example(generator: random.Random) -> dict[str, list[Any]]:
    def number() -> int:
        magnitude = generator.randrange(2 ** generator.choice([1, 7, 8, 14, 15, 31, 63]))
        return -magnitude if generator.random() < 0.1 else magnitude

    weights = [generator.choice([0.0, 1.0, -2.5, 1e-40, float("inf"), generator.random()]) for _ in range(3)]
    tokens = [number() for _ in range(generator.choice([0, 1, 5, 200]))]
    example: dict[str, list[Any]] = {"ids": [number() for _ in range(7)], "weights": weights, "tokens": tokens}
    return dict(generator.sample(list(example.items()), 3))


def to_tensorflow(example: dict[str, list[Any]]) -> bytes:
    import tensorflow as tf

    def feature(name: str, values: list[Any]) -> Any:
        if name == "weights":
            return tf.train.Feature(float_list=tf.train.FloatList(value=values))
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

    entries = {name: feature(name, values) for name, values in example.items()}
    payload: bytes = tf.train.Example(features=tf.train.Features(feature=entries)).SerializeToString()
    return payload


def from_tensorflow(payload: bytes) -> dict[str, list[Any]]:
    import tensorflow as tf

    found = tf.train.Example.FromString(payload).features.feature
    return {
        name: list(value.float_list.value if name == "weights" else value.int64_list.value)
        for name, value in found.items()
    }


def field(number: int, content: bytes) -> bytes:
    """A length-delimited field of a message; its content is shorter than 128 bytes."""
    return bytes([number << 3 | 2, len(content)]) + content


def example_of(**values: bytes) -> bytes:
    """Example whose features are these serialised `tf.train.Feature`s."""
    return field(1, b"".join(field(1, field(1, name.encode()) + field(2, value)) for name, value in values.items()))


IDS = field(3, field(1, bytes(range(7))))
WEIGHTS = field(2, field(1, struct.pack("<3f", 1, 0, 2)))
TOKENS = field(3, field(1, b"\x05"))


def test_frames_are_the_payloads_with_their_places() -> None:
    content = b"".join(map(frame_record, PAYLOADS))
    digest = hashlib.sha256()
    frames = list(read_frames(io.BytesIO(content), digest))
    assert [tuple(frame) for frame in frames] == list(zip(range(3), OFFSETS, PAYLOADS, strict=True))
    assert [frame.end for frame in frames] == [*OFFSETS[1:], len(content)]
    assert digest.hexdigest() == hashlib.sha256(content).hexdigest()


def flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1 :]


FRAMED = b"".join(map(frame_record, PAYLOADS))
HUGE = struct.pack("<Q", 2**40)


@pytest.mark.parametrize(
    ("content", "number", "reason"),
    [
        (flipped(FRAMED, 21), 1, "damaged length"),
        (flipped(FRAMED, 30), 1, "damaged length"),
        (flipped(FRAMED, 14), 0, "checksum does not match its bytes"),
        (flipped(FRAMED, 35), 1, "checksum does not match its bytes"),
        (flipped(FRAMED, len(FRAMED) - 1), 2, "checksum does not match its bytes"),
        (FRAMED[:44], 2, "cut off: 7 of the 12 bytes before it"),
        (FRAMED[:60], 2, "cut off: 11 of 204 bytes"),
        (FRAMED[:-1], 2, "cut off: 203 of 204 bytes"),
        (FRAMED + b"\0", 3, "cut off: 1 of the 12 bytes before it"),
        (
            FRAMED[:21] + HUGE + struct.pack("<I", masked_crc(HUGE)) + FRAMED[37:],
            1,
            "1099511627776 bytes long, at most 67108864 are expected",
        ),
    ],
)
def test_damage_is_told_with_its_place(content: bytes, number: int, reason: str) -> None:
    frames: list[bytes] = []
    with pytest.raises(BrokenRecordError) as caught:
        frames.extend(frame.payload for frame in read_frames(io.BytesIO(content)))
    assert frames == PAYLOADS[:number]
    offset = [*OFFSETS, len(FRAMED)][number]
    assert str(caught.value) == f"record {number} at byte {offset}: {reason}"
    assert (caught.value.number, caught.value.offset, caught.value.reason) == (number, offset, reason)


def test_what_tensorflow_writes_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = 0
    split = record_reader.split_example

    def count(payload: bytes, headers: Any) -> Any:
        nonlocal slow
        slow += 1
        return split(payload, headers)

    monkeypatch.setattr(record_reader, "split_example", count)
    generator = random.Random(5)
    reader = ExampleReader(FEATURES)
    for _ in range(3):
        payloads = [to_tensorflow(random_example(generator)) for _ in range(150)]
        examples, fault = columns_of(payloads, reader)
        assert fault is None
        assert examples == [from_tensorflow(payload) for payload in payloads]
    # Both ways of taking a message apart were gone.
    assert 20 < slow < 430


def test_lists_in_parts_and_unpacked_are_read() -> None:
    unpacked = b"".join(b"\x08" + bytes([value]) for value in range(5)) + field(1, b"\x05") + field(1, b"\x06")
    floats = b"\x0d" + struct.pack("<f", 0.5) + field(1, struct.pack("<2f", 3, 4))
    wide = field(1, b"\x80\x00" + b"\xff" * 9 + b"\x01")  # 0 in two bytes; -1
    payload = example_of(ids=field(3, unpacked), weights=field(2, floats), tokens=field(3, b"") + field(3, wide))
    reader = ExampleReader(FEATURES)
    expected = {"ids": list(range(7)), "weights": [0.5, 3.0, 4.0], "tokens": [0, -1]}
    assert columns_of([payload, payload], reader) == ([expected, expected], None)
    assert from_tensorflow(payload) == expected


def test_what_is_read_after_damage_is_what_tensorflow_reads() -> None:
    generator = random.Random(11)
    reader = ExampleReader(tuple(Feature(name=f.name, dtype=f.dtype, length=None) for f in FEATURES))
    whole = [to_tensorflow(random_example(generator)) for _ in range(40)]
    assert columns_of(whole, reader)[1] is None  # from now on it knows what stands before the values
    read = refused_by_both = 0
    for _ in range(4000):
        payload = bytearray(generator.choice(whole))
        for _ in range(generator.choice([1, 1, 2])):
            payload[generator.randrange(len(payload))] = generator.choice(
                [0, 1, 8, 10, 0x7F, 0x80, 0xFF, generator.randrange(256)]
            )
        examples, fault = columns_of([bytes(payload)], reader)
        try:
            expected = from_tensorflow(bytes(payload))
        except Exception:  # DecodeError, of a module that depends on protobuf's backend
            expected = None
        if expected is None:
            assert fault is not None
            refused_by_both += 1
            continue
        if fault is None:
            assert repr(examples) == repr([{name: expected[name] for name in examples[0]}])  # repr: NaN is NaN
            assert expected.keys() == examples[0].keys()
            read += 1
    assert read > 500
    assert refused_by_both > 500


WRONG = "not a tf.train.Example of the contract: "


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "feature ids is missing"),
        (example_of(ids=IDS, tokens=TOKENS), "feature weights is missing"),
        (example_of(ids=IDS, weights=WEIGHTS, tokens=WEIGHTS), "tokens must be int64, got float32"),
        (example_of(ids=IDS, weights=IDS, tokens=TOKENS), "weights must be float32, got int64"),
        (example_of(ids=field(1, field(1, b"x")), weights=WEIGHTS, tokens=TOKENS), "ids must be int64, got bytes"),
        (example_of(ids=b"", weights=WEIGHTS, tokens=TOKENS), "ids must be int64, got nothing"),
        (example_of(ids=TOKENS, weights=WEIGHTS, tokens=TOKENS), "ids must have 7 values, got 1"),
        (
            example_of(ids=IDS, weights=field(2, field(1, b"\0\0\0\0")), tokens=TOKENS),
            "weights must have 3 values, got 1",
        ),
        (example_of(ids=IDS, weights=WEIGHTS, tokens=TOKENS, more=IDS), "feature 'more' is not in the contract"),
        (
            example_of(ids=IDS, weights=WEIGHTS, tokens=TOKENS) + example_of(tokens=IDS),
            f"{WRONG}feature 'tokens' occurs twice",
        ),
        (example_of(ids=IDS)[:-1], f"{WRONG}a field runs over its end"),
        (b"\x0b" + IDS, f"{WRONG}wire type 3"),
        (field(2, IDS), f"{WRONG}field 2 of type 2 in tf.train.Example"),
        (field(1, field(1, field(1, b"\xff"))), f"{WRONG}name b'\\xff' of a feature is not UTF-8"),
        (field(1, field(1, field(3, b"ids"))), f"{WRONG}field 3 in an entry of tf.train.Features"),
        (example_of(ids=field(4, b"")), f"{WRONG}field 4 of type 2 in tf.train.Feature"),
        (example_of(ids=IDS + WEIGHTS), f"{WRONG}a feature of two types"),
        (example_of(weights=field(2, field(1, b"12345"))), f"{WRONG}5 bytes of float32 values"),
        (example_of(ids=field(3, b"\x10\x05")), f"{WRONG}field 2 of type 0 in a list of int64"),
        (
            example_of(ids=field(3, field(1, b"\x05\x80"))),
            f"{WRONG}a number that does not end, or of more than 64 bits",
        ),
        (
            example_of(ids=field(3, field(1, b"\xff" * 9 + b"\x02")), weights=WEIGHTS, tokens=TOKENS),
            f"{WRONG}a number that does not end, or of more than 64 bits",
        ),
    ],
)
def test_what_breaks_the_contract_is_told(payload: bytes, reason: str) -> None:
    sound = example_of(ids=IDS, weights=WEIGHTS, tokens=TOKENS)
    right = {"ids": list(range(7)), "weights": [1.0, 0.0, 2.0], "tokens": [5]}
    assert columns_of([sound, sound, payload, sound]) == ([right, right], (2, reason))


def test_the_first_of_several_wrong_records_is_told() -> None:
    sound = example_of(ids=IDS, weights=WEIGHTS, tokens=TOKENS)
    short = example_of(ids=TOKENS, weights=WEIGHTS, tokens=TOKENS)
    endless = example_of(ids=IDS, weights=WEIGHTS, tokens=field(3, field(1, b"\xff" * 10 + b"\x01")))
    for order in ([short, endless, b"?"], [endless, short, b"?"], [b"?", short, endless]):
        examples, fault = columns_of([sound, *order])
        assert len(examples) == 1
        assert fault[0] == 1
        assert ("7 values" in fault[1], "64 bits" in fault[1]) == (order[0] == short, order[0] == endless)
