"""Serialised examples and TFRecord framing against TensorFlow's own readers and a plain one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from albert_tf.features import Feature
from pipelines.records import frame_records, serialize_examples
from tests.reference.records import parse_example, read_payloads

FEATURES = (
    Feature(name="ids", dtype="int64", length=5),
    Feature(name="weights", dtype="float32", length=3),
    Feature(name="a_much_longer_name_of_a_feature", dtype="int64", length=None),
)


def make_columns(B: int) -> tuple[dict[str, object], list[list[int]]]:
    generator = np.random.default_rng(3)
    ragged = [
        generator.integers(0, 2 ** int(generator.integers(1, 62)), size=n).tolist() for n in (0, 1, 300, 7, 20_000)
    ]
    ragged = ragged[:B]
    flat = np.array([value for row in ragged for value in row], dtype=np.int64)
    limits = np.array([[0, 127, 128, 16_383, 16_384], [2_097_151, 2_097_152, 1, 2**62, 5]], dtype=np.int64)
    ids = np.concatenate([limits, generator.integers(0, 40_000, size=(B - 2, 5))])
    weights = generator.normal(size=(B, 3)).astype(np.float32)
    columns = {"ids": ids, "weights": weights, FEATURES[2].name: (flat, np.array([len(row) for row in ragged]))}
    return columns, ragged


def test_plain_reader_gives_the_values_back() -> None:
    columns, ragged = make_columns(5)
    payloads = serialize_examples(FEATURES, columns)  # type: ignore[arg-type]
    assert len(payloads) == 5
    for row, payload in enumerate(payloads):
        example = parse_example(payload)
        assert list(example) == [feature.name for feature in FEATURES]
        assert example["ids"] == columns["ids"][row].tolist()  # type: ignore[index]
        assert np.array(example["weights"], dtype=np.float32).tolist() == columns["weights"][row].tolist()  # type: ignore[index]
        assert example[FEATURES[2].name] == ragged[row]


def test_tensorflow_reads_the_records(tmp_path: Path) -> None:
    import tensorflow as tf

    columns, ragged = make_columns(5)
    payloads = serialize_examples(FEATURES, columns)  # type: ignore[arg-type]
    path = tmp_path / "a.tfrecord"
    path.write_bytes(b"".join(frame_records(payloads)))
    read = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    assert read == payloads
    assert read_payloads(path) == payloads
    for row, payload in enumerate(read):
        example = tf.train.Example.FromString(payload).features.feature
        assert set(example) == {feature.name for feature in FEATURES}
        assert list(example["ids"].int64_list.value) == columns["ids"][row].tolist()  # type: ignore[index]
        assert list(example["weights"].float_list.value) == columns["weights"][row].tolist()  # type: ignore[index]
        assert list(example[FEATURES[2].name].int64_list.value) == ragged[row]


def test_bool_and_narrow_integers_are_written_as_integers() -> None:
    columns = {"x": np.array([[True, False], [False, True]]), "y": np.array([[3], [200]], dtype=np.uint8)}
    features = (Feature(name="x", dtype="int64", length=2), Feature(name="y", dtype="int64", length=1))
    assert [parse_example(row) for row in serialize_examples(features, columns)] == [
        {"x": [1, 0], "y": [3]},
        {"x": [0, 1], "y": [200]},
    ]


def test_wrong_columns_are_refused() -> None:
    columns, _ = make_columns(5)
    with pytest.raises(ValueError, match="no values given for feature 'weights'"):
        serialize_examples(FEATURES, {"ids": columns["ids"]})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="ids must have 5 values, got 4"):
        serialize_examples(FEATURES, {**columns, "ids": np.ones((5, 4), dtype=np.int64)})  # type: ignore[dict-item]
