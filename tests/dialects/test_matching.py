"""A table, a file and a configuration: everything is accounted for, and nothing unmatched passes."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

import ml_dtypes
import numpy as np
import pytest

from albert_tf.dialects.foreign_model import ForeignModel
from albert_tf.dialects.matching import match
from albert_tf.dialects.tables import SAME, TRANSPOSED, Entry, reshaped
from albert_tf.head_config import HeadConfig
from albert_tf.weight_shapes import weight_shapes
from tests.dialects.memory_file import MemoryFile
from tests.modeling.small_models import make_config

CONFIG = make_config()
HEAD = HeadConfig(head="classifier", num_labels=5)
SHAPES = weight_shapes(CONFIG, HEAD)
SPLIT = "encoder/group_0/inner_0/attention/query/kernel"


def transform(name: str):
    if name == SPLIT:
        return reshaped((24, 3, 8), (24, 24))
    return TRANSPOSED if name.endswith("kernel") else SAME


def model(changes: Mapping[str, np.ndarray | None] | None = None, dtype: type = np.float32) -> ForeignModel:
    """A dialect that writes "their.NAME", matrices the other way round, one of them in three dimensions.

    `changes`: other tensors by our name; None leaves one out.
    """
    generator = np.random.default_rng(3)
    arrays: dict[str, np.ndarray] = {}
    for name, shape in SHAPES.items():
        arrays[f"their.{name}"] = transform(name).to_theirs(generator.standard_normal(shape).astype(dtype))
    for name, other in (changes or {}).items():
        arrays.pop(f"their.{name}", None)
        if other is not None:
            arrays[f"their.{name}"] = other
    arrays["their.slot/adam_m"] = np.zeros(3, np.float32)
    table = tuple(Entry(name, f"their.{name}", transform(name)) for name in SHAPES)
    ignored = ((r".*/adam_[mv]", "the optimizer's"),)
    return ForeignModel(config=CONFIG, head=HEAD, table=table, weights=MemoryFile(arrays), ignored=ignored)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_every_weight_comes_out_bit_for_bit_in_its_shape_and_dtype(dtype: type) -> None:
    source = model(dtype=dtype)
    found = match(source)
    assert list(found) == list(SHAPES)
    file = source.weights
    assert isinstance(file, MemoryFile)
    assert file.reads == []  # nothing is read before it is asked for
    for name, shape in SHAPES.items():
        value = found[name]
        assert value.shape == found.shape(name) == shape
        assert value.dtype.name == found.dtype(name) == np.dtype(dtype).name
        back = transform(name).to_theirs(value)
        assert back.tobytes() == file.arrays[f"their.{name}"].tobytes()
    assert len(file.reads) == len(SHAPES)


def test_rows_tell_of_every_tensor() -> None:
    rows = {row.theirs: row for row in match(model()).rows}
    assert len(rows) == len(SHAPES) + 1
    split = rows[f"their.{SPLIT}"]
    assert (split.status, split.ours, split.our_shape, split.their_shape, split.dtype, split.note) == (
        "used",
        SPLIT,
        (24, 24),
        (24, 3, 8),
        "float32",
        "reshaped",
    )
    slot = rows["their.slot/adam_m"]
    assert (slot.status, slot.ours, slot.note) == ("ignored", "", "the optimizer's")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classifier/bias": None}, "the file lacks their.classifier/bias;"),
        (
            {"classifier/bias": None, "surplus/one": np.zeros(2)},
            "the file lacks their.classifier/bias; the model has no place for their.surplus/one;",
        ),
        (
            {f"surplus/{i}": np.zeros(2) for i in range(5)},
            "the model has no place for their.surplus/0, their.surplus/1, their.surplus/2 and 2 more;",
        ),
        (
            {"classifier/kernel": np.zeros((24, 5), np.float32)},
            r"their.classifier/kernel has shape [24, 5], the configuration needs [5, 24];",
        ),
        (
            {SPLIT: np.zeros((24, 24), np.float32), "classifier/bias": np.zeros(4, np.float32)},
            "query/kernel has shape [24, 24], the configuration needs [24, 3, 8] (and 1 more)",
        ),
        (
            {"classifier/bias": np.zeros(5, np.int64)},
            "their.classifier/bias must hold floating-point numbers, got int64",
        ),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, np.ndarray | None], message: str) -> None:
    with pytest.raises(ValueError, match=r"^some/model\.bin: .*" + re.escape(message)):
        match(model(changes))


@pytest.mark.parametrize("pattern", ["classifier/*", "their.classifier/*", "*bias", "their.classifier/bias"])
def test_a_weight_that_may_be_missing_starts_as_in_a_new_model(pattern: str) -> None:
    found = match(model({"classifier/bias": None}), allow_missing=[pattern])
    np.testing.assert_array_equal(found["classifier/bias"], np.zeros(5, np.float32))
    assert [row.theirs for row in found.rows if row.status == "missing"] == ["their.classifier/bias"]

    drawn = match(model({"classifier/kernel": None}), allow_missing=["classifier/kernel"])["classifier/kernel"]
    assert drawn.dtype == np.float32
    assert 0.1 < drawn.std() < 0.3  # cut off at two standard deviations of 0.3: 0.26
    assert np.abs(drawn).max() <= 0.6


def test_what_may_be_missing_is_only_what_was_named() -> None:
    changes = {"classifier/bias": None, "classifier/kernel": None}
    with pytest.raises(ValueError, match=r"lacks their\.classifier/kernel; if"):
        match(model(changes), allow_missing=["*/bias"])


def test_a_tensor_without_a_place_may_be_left_out() -> None:
    found = match(model({"surplus/one": np.zeros(2)}), allow_missing=["their.surplus/*"])
    assert [row.theirs for row in found.rows if row.status == "left over"] == ["their.surplus/one"]
    assert set(found) == set(SHAPES)


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_numbers_that_are_not_finite_are_refused_when_read(value: float) -> None:
    broken = np.zeros((5, 24), np.float32)
    broken[4, 23] = value
    found = match(model({"classifier/kernel": broken}))
    with pytest.raises(ValueError, match=r"^some/model\.bin: their\.classifier/kernel holds values that are not fin"):
        found["classifier/kernel"]


def test_a_table_with_a_hole_is_a_fault_of_ours() -> None:
    source = model()
    with pytest.raises(RuntimeError, match="does not name each weight once"):
        match(dataclasses.replace(source, table=source.table[1:]))
