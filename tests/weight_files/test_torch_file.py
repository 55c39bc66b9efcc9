"""PyTorch's files without PyTorch: both forms against files that PyTorch wrote and files written opcode by opcode."""

from __future__ import annotations

import json
import pathlib
import sys
import zipfile
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from albert_tf.weight_files.torch_file import TorchFile
from albert_tf.weight_files.weight_file import TensorInfo
from tests.weight_files.torch_writer import Call, Name, old_form, storage, tensor, zip_form

FIXTURES = pathlib.Path(__file__).parent / "fixtures"
EXPECTED = json.loads((FIXTURES / "expected.json").read_text(encoding="utf-8"))
FILES = sorted(path.name for path in FIXTURES.glob("*.bin"))

VALUES = np.random.default_rng(7).standard_normal(35).astype(np.float32)
FLOATS = storage("Float", "5", 35)


def both_forms(root: Any, *, key: str = "5", data: bytes = VALUES.tobytes(), count: int = 35) -> dict[str, bytes]:
    return {"zip": zip_form(root, {key: data}), "old": old_form(root, {key: (count, data)})}


def read_all(path: pathlib.Path, content: bytes) -> dict[str, np.ndarray]:
    path.write_bytes(content)
    with TorchFile(path) as weights:
        return {name: weights.read(name) for name in weights.tensors}


def test_the_fixtures_are_there() -> None:
    assert len(FILES) == 10


@pytest.mark.parametrize("file", FILES)
def test_files_that_pytorch_wrote(file: str) -> None:
    expected = EXPECTED[file.removesuffix(".bin").removesuffix(".zip").removesuffix(".old")]
    with TorchFile(FIXTURES / file) as weights:
        assert {name: (list(info.shape), info.dtype) for name, info in weights.tensors.items()} == {
            name: (tensor["shape"], tensor["dtype"]) for name, tensor in expected.items()
        }
        for name in expected:
            value = weights.read(name)
            assert (value.dtype.name, list(value.shape)) == (expected[name]["dtype"], expected[name]["shape"])
            assert value.tobytes().hex() == expected[name]["bytes"], name
            assert value.flags.c_contiguous
        with pytest.raises(KeyError):
            weights.read("other")


def test_order_is_the_files_own() -> None:
    for form in ("zip", "old"):
        with TorchFile(FIXTURES / f"module.{form}.bin") as weights:
            assert list(weights.tensors) == ["weight", "bias", "position_ids"]


@pytest.mark.parametrize("form", ["zip", "old"])
def test_the_model_of_a_training_checkpoint_has_its_own_names(form: str) -> None:
    with TorchFile(FIXTURES / f"training.{form}.bin") as weights:
        assert list(weights.tensors)[:4] == ["0.weight", "0.bias", "1.weight", "1.bias"]
        assert weights.tensors["0.weight"] == TensorInfo((2, 3), "bfloat16")
        assert weights.tensors["optimizer/state/0/exp_avg"] == TensorInfo((2, 3), "bfloat16")
        assert len(weights.tensors) == 16


@pytest.mark.parametrize("form", ["zip", "old"])
def test_nothing_needs_pytorch(form: str, tmp_path: pathlib.Path) -> None:
    assert "torch" not in sys.modules
    content = both_forms({"x": tensor(FLOATS, 0, (5, 7), (7, 1))})[form]
    np.testing.assert_array_equal(read_all(tmp_path / "x.bin", content)["x"], VALUES.reshape(5, 7))
    assert "torch" not in sys.modules


@pytest.mark.parametrize("form", ["zip", "old"])
def test_views_of_one_storage(form: str, tmp_path: pathlib.Path) -> None:
    root = {
        "turned": tensor(FLOATS, 0, (7, 5), (1, 7)),
        "part": tensor(FLOATS, 9, (2, 3), (7, 2)),
        "whole": tensor(FLOATS, 0, (35,), (1,)),
        "last": tensor(FLOATS, 34, (), ()),
        "one row": tensor(FLOATS, 28, (1, 7), (99, 1)),  # the stride of a size of 1 says nothing
        "repeated": tensor(FLOATS, 3, (4, 2), (0, 1)),
        "nothing": tensor(FLOATS, 35, (0, 3), (3, 1)),
    }
    values = read_all(tmp_path / "x.bin", both_forms(root)[form])
    grid = VALUES.reshape(5, 7)
    expected = {
        "turned": grid.T,
        "part": grid[1:3, 2:7:2],
        "whole": VALUES,
        "last": VALUES[34],
        "one row": grid[4:],
        "repeated": np.tile(VALUES[3:5], (4, 1)),
        "nothing": np.empty((0, 3), np.float32),
    }
    assert list(values) == list(expected)
    for name, value in expected.items():
        assert values[name].dtype == np.float32
        np.testing.assert_array_equal(values[name], value, err_msg=name, strict=True)


def test_old_parts_of_storages(tmp_path: pathlib.Path) -> None:
    # Files of before 0.4 name a part of a storage: its key, first item and size.
    part = storage("Float", "5", 35, ("6", 10, 8))
    root = {"all": tensor(storage("Float", "5", 35, None), 0, (35,), (1,)), "part": tensor(part, 2, (2, 3), (3, 1))}
    values = read_all(tmp_path / "x.bin", old_form(root, {"5": (35, VALUES.tobytes())}))
    np.testing.assert_array_equal(values["part"], VALUES[12:18].reshape(2, 3))
    beyond = {"x": tensor(part, 3, (2, 3), (3, 1))}
    with pytest.raises(ValueError, match=r"needs 9 values of its storage, which has 8"):
        read_all(tmp_path / "y.bin", old_form(beyond, {"5": (35, VALUES.tobytes())}))


def test_the_first_ways_of_writing(tmp_path: pathlib.Path) -> None:
    # The first releases' call without hooks, storages on a GPU, and Python 2's pairs of an OrderedDict.
    cuda = storage("Float", "5", 35, None, module="torch.cuda")
    first = Call(Name("torch._utils", "_rebuild_tensor"), (cuda, 7, (4,), (1,)))
    root = Call(Name("collections", "OrderedDict"), ([["a", first], ["b", first]],))
    values = read_all(tmp_path / "x.bin", old_form(root, {"5": (35, VALUES.tobytes())}))
    np.testing.assert_array_equal(values["b"], VALUES[7:11])
    assert list(values) == ["a", "b"]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int64", "complex64", "uint8"])
def test_a_file_of_a_big_endian_machine(tmp_path: pathlib.Path, dtype: str) -> None:
    kinds = {
        "float32": "Float",
        "float16": "Half",
        "bfloat16": "BFloat16",
        "int64": "Long",
        "complex64": "ComplexFloat",
    }
    value = (np.random.default_rng(3).standard_normal(6) * 50).astype(getattr(ml_dtypes, dtype, dtype))
    root = {"x": tensor(storage(kinds.get(dtype, "Byte"), "0", 6), 0, (2, 3), (3, 1))}
    content = zip_form(root, {"0": value.byteswap().tobytes()}, byteorder=b"big")
    found = read_all(tmp_path / "x.bin", content)["x"]
    assert (found.dtype.name, found.tobytes()) == (dtype, value.tobytes())
    assert found.dtype.isnative


def test_a_file_without_an_order_of_bytes_is_little_endian(tmp_path: pathlib.Path) -> None:
    content = zip_form({"x": tensor(FLOATS, 0, (35,), (1,))}, {"5": VALUES.tobytes()}, byteorder=None)
    np.testing.assert_array_equal(read_all(tmp_path / "x.bin", content)["x"], VALUES)
    content = zip_form({"x": tensor(FLOATS, 0, (35,), (1,))}, {"5": VALUES.tobytes()}, byteorder=b"middle")
    with pytest.raises(ValueError, match="its order of bytes is neither little nor big"):
        read_all(tmp_path / "x.bin", content)


X = tensor(FLOATS, 0, (5, 7), (7, 1))


@pytest.mark.parametrize("wrapper", ["state_dict", "model_state_dict", "model"])
def test_wrapped_state_dicts(tmp_path: pathlib.Path, wrapper: str) -> None:
    root = {"step": 3, "averages": {"a": X}, wrapper: {"a": X, "b": X}, "args": {"lr": 0.1}, "betas": [0.9, X]}
    values = read_all(tmp_path / "x.bin", both_forms(root)["old"])
    assert list(values) == ["averages/a", "a", "b", "betas/1"]


def test_a_tensor_at_the_top_makes_it_the_state_dict(tmp_path: pathlib.Path) -> None:
    values = read_all(tmp_path / "x.bin", both_forms({"a": X, "model": {"b": X}})["zip"])
    assert list(values) == ["a", "model/b"]


@pytest.mark.parametrize(
    ("root", "message"),
    [
        ({"model": {"a": X}, "state_dict": {"a": X}}, "holds tensors under 'state_dict' and 'model'; save the state_d"),
        ({"model": {"1": X, 1: X}}, "holds two tensors named '1'"),
        (X, "holds one tensor; expected a mapping of names to tensors: save the model's state_dict"),
        ([X], "holds a list; expected a mapping"),
        (3, "holds a int; expected a mapping"),
    ],
)
def test_what_is_no_state_dict_is_said(tmp_path: pathlib.Path, root: Any, message: str) -> None:
    uses = "_rebuild" in repr(root)
    content = both_forms(root)["zip"] if uses else zip_form(root, {})
    with pytest.raises(ValueError, match=rf"x\.bin: {message}"):
        read_all(tmp_path / "x.bin", content)


@pytest.mark.parametrize("root", [{}, {"step": 3}, {"model": {}}])
def test_no_tensors(tmp_path: pathlib.Path, root: Any) -> None:
    for content in (zip_form(root, {}), old_form(root, {})):
        with pytest.raises(ValueError, match=r"x\.bin: holds no tensors; expected a model's state_dict\(\)"):
            read_all(tmp_path / "x.bin", content)


def test_a_damaged_storage_is_seen_by_its_checksum(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "x.bin"
    content = bytearray(both_forms({"x": X, "row": tensor(FLOATS, 7, (7,), (1,))})["zip"])
    content[content.index(VALUES.tobytes()) + 100] ^= 1
    path.write_bytes(content)
    with TorchFile(path) as weights:
        with pytest.raises(
            ValueError, match=r"x\.bin: damaged: the values at byte \d+ are not those that were written"
        ):
            weights.read("x")
        np.testing.assert_array_equal(weights.read("row"), VALUES[7:14])  # a part has no checksum


def test_a_boolean_of_no_truth(tmp_path: pathlib.Path) -> None:
    root = {"x": tensor(storage("Bool", "0", 3), 0, (3,), (1,))}
    with pytest.raises(ValueError, match=r"x\.bin: damaged: a Boolean behind byte \d+ is neither 0 nor 1"):
        read_all(tmp_path / "x.bin", zip_form(root, {"0": b"\x00\x01\x02"}))


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
def test_a_compressed_archive_is_refused(tmp_path: pathlib.Path, method: int) -> None:
    content = zip_form({"x": X}, {"5": VALUES.tobytes()}, compression=method)
    with pytest.raises(ValueError, match=r"x\.bin: its member 'archive/data.pkl' is compressed or encrypted"):
        read_all(tmp_path / "x.bin", content)


def test_torchscript_is_refused(tmp_path: pathlib.Path) -> None:
    content = zip_form({"x": X}, {"5": VALUES.tobytes()}, more={"constants.pkl": b"\x80\x02)."})
    with pytest.raises(ValueError, match="is a TorchScript program, not weights"):
        read_all(tmp_path / "x.bin", content)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty; expected a PyTorch file"),
        (b"<html>", "is a web page"),
        (b"version https://git-lfs.github.com/spec/v1\n", "is a Git LFS pointer, .*: run `git lfs pull`"),
        (b"\x01\x02\x03\x04" * 99, "is no PyTorch file: it is neither a zip archive nor begins with a pickle"),
        (zip_form({"x": X}, {"5": VALUES.tobytes()})[:-30], "cut short or damaged: the zip archive's directory"),
        (zip_form({"x": X}, {}), "damaged: storage '5' is missing, expected 140 bytes"),
        (zip_form({"x": X}, {"5": bytes(139)}), "damaged: storage '5' has 139 bytes, expected 140 bytes"),
        (zip_form({"x": X}, {"5": bytes(141)}), "damaged: storage '5' has 141 bytes, expected 140 bytes"),
        (zip_form({"x": X}, {"5": bytes(140)}, folder="a/b"), "is a zip archive; expected a PyTorch file: unpack"),
        (old_form({"x": X}, {"5": (35, bytes(139))}), r"cut short: it ends at byte \d+, its storages go on to byte"),
        (old_form({"x": X}, {"5": (35, b"")})[:-3], "cut short or damaged: it ends at byte"),
        (old_form({"x": X}, {"5": (34, bytes(140))}), "damaged: storage '5' has 34 values, expected 35"),
        (old_form({"x": X}, {"5": (-1, bytes(140))}), "damaged: storage '5' has -1 values, expected 35"),
        (old_form({"x": X}, {"6": (35, bytes(140))}), "damaged: its storages are others than those its tensors need"),
        (old_form({"x": X}, {}, keys=["5", "5"]), "damaged: its storages are others than those its tensors need"),
        (old_form({"x": X}, {}, keys=7), "damaged: its storages have no list of keys"),
        (old_form({"x": X}, {}, magic=7), "is a Python pickle, but none that PyTorch wrote"),
        (old_form({"x": X}, {}, version=1002), "damaged, or of an unknown version; expected 1001"),
        (old_form({"x": X}, {})[:200], "cut short: its pickle does not end; download the file again"),
    ],
)
def test_damage_is_said_in_one_line(tmp_path: pathlib.Path, content: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=rf"^[^:]*x\.bin: {message}") as caught:
        read_all(tmp_path / "x.bin", content)
    assert "\n" not in str(caught.value)


def test_shards(tmp_path: pathlib.Path) -> None:
    (tmp_path / "pytorch_model-00001-of-00002.bin").write_bytes(both_forms({"a": X})["zip"])
    (tmp_path / "pytorch_model-00002-of-00002.bin").write_bytes(both_forms({"b": X})["old"])
    path = tmp_path / "pytorch_model.bin.index.json"
    weight_map = {"a": "pytorch_model-00001-of-00002.bin", "b": "pytorch_model-00002-of-00002.bin"}
    path.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}), encoding="utf-8")
    with TorchFile(path) as weights:
        assert weights.tensors == {name: TensorInfo((5, 7), "float32") for name in "ab"}
        np.testing.assert_array_equal(weights.read("b"), VALUES.reshape(5, 7))
    (tmp_path / "pytorch_model-00001-of-00002.bin").unlink()
    with pytest.raises(FileNotFoundError, match=r"Shard 'pytorch_model-00001-of-00002\.bin' is missing"):
        TorchFile(path)
