"""Safetensors files: bits in and out, against the safetensors library; damage and contradictions are said."""

from __future__ import annotations

import json
import pathlib
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy

from albert_tf.weight_files import safetensors_file
from albert_tf.weight_files.safetensors_file import SafetensorsFile, write_safetensors
from albert_tf.weight_files.weight_file import TensorInfo

DTYPES = [
    *("float64", "float32", "float16", "bfloat16", "complex64", "int64", "int32", "int16", "int8"),
    *("uint64", "uint32", "uint16", "uint8", "bool"),
]


def random_bits(shape: tuple[int, ...], dtype: str, seed: int = 5) -> np.ndarray:
    """Values of any bits, NaNs with payloads too; shape and dtype as given."""
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    generator = np.random.default_rng(seed)
    if kind == np.bool_:
        return generator.integers(0, 2, shape).astype(bool)
    return np.frombuffer(generator.bytes(int(np.prod(shape)) * kind.itemsize), kind).reshape(shape)


def bits(value: np.ndarray) -> tuple[str, tuple[int, ...], bytes]:
    return value.dtype.name, value.shape, value.tobytes()


def file_of(header: Any, data: bytes = b"") -> bytes:
    content = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(content).to_bytes(8, "little") + content + data


def entry(shape: Any, begin: Any, end: Any, dtype: Any = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (2, 3, 7), (0, 4)])
def test_every_dtype_comes_back_bit_for_bit(tmp_path: pathlib.Path, dtype: str, shape: tuple[int, ...]) -> None:
    path = tmp_path / "x.safetensors"
    value = random_bits(shape, dtype)
    write_safetensors(path, {"a/b": value})
    with SafetensorsFile(path) as weights:
        assert weights.tensors == {"a/b": TensorInfo(shape, dtype)}
        assert bits(weights.read("a/b")) == bits(value)


def test_the_library_reads_what_is_written(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "x.safetensors"
    # An odd number of odd sizes: the order by size of item matters.
    values = {f'{dtype}/ä"\n{n}': random_bits((n, 3), dtype, n) for n, dtype in enumerate(DTYPES, 1)}
    write_safetensors(path, values, {"format": "pt", "note": "ü"})
    with SafetensorsFile(path) as weights:
        assert weights.metadata == {"format": "pt", "note": "ü"}
        assert {name: bits(weights.read(name)) for name in weights.tensors} == {n: bits(v) for n, v in values.items()}
    raw = dict(safetensors.deserialize(path.read_bytes()))
    assert {name: bytes(tensor["data"]) for name, tensor in raw.items()} == {n: v.tobytes() for n, v in values.items()}
    with safetensors.safe_open(path, framework="np") as opened:
        assert opened.metadata() == {"format": "pt", "note": "ü"}
        assert sorted(opened.keys()) == sorted(values)
        for name, value in values.items():
            if "bfloat16" not in name:  # NumPy's side of the library does not know it
                assert bits(opened.get_tensor(name)) == bits(value)


def test_every_tensor_is_aligned_to_its_item(tmp_path: pathlib.Path) -> None:
    # PyTorch's side of the library views the bytes in place, which needs that.
    path = tmp_path / "x.safetensors"
    write_safetensors(path, {dtype: random_bits((3,), dtype) for dtype in sorted(DTYPES)})
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    assert length % 8 == 0
    header = json.loads(content[8 : 8 + length])
    for name, info in header.items():
        item = np.dtype(getattr(ml_dtypes, name, name)).itemsize
        assert info["data_offsets"][0] % item == 0, name


def test_what_the_library_writes_is_read(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "x.safetensors"
    values = {dtype: random_bits((n, 2), dtype, n) for n, dtype in enumerate(DTYPES, 1) if dtype != "bfloat16"}
    safetensors.numpy.save_file(values, path, {"format": "np"})
    with SafetensorsFile(path) as weights:
        assert weights.metadata == {"format": "np"}
        assert {name: bits(weights.read(name)) for name in weights.tensors} == {n: bits(v) for n, v in values.items()}
        with pytest.raises(KeyError):
            weights.read("other")


@pytest.mark.golden
@pytest.mark.parametrize("name", ["hf_pretraining", "hf_classifier_3", "hf_multiple_choice", "hf_question_answering"])
def test_real_files(reference_data: pathlib.Path, name: str) -> None:
    path = reference_data / "golden" / name / "model.safetensors"
    expected = safetensors.numpy.load_file(path)
    with SafetensorsFile(path) as weights:
        assert weights.metadata == {"format": "pt"}
        assert {name: bits(weights.read(name)) for name in weights.tensors} == {
            name: bits(value) for name, value in expected.items()
        }


def test_memory_order_and_byte_order_do_not_matter(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "x.safetensors"
    value = random_bits((3, 5), "float32")
    write_safetensors(path, {"turned": value.T, "big": value.astype(">f4"), "every second": value[::2]})
    with SafetensorsFile(path) as weights:
        assert bits(weights.read("turned")) == bits(np.ascontiguousarray(value.T))
        assert bits(weights.read("big")) == bits(value)
        assert bits(weights.read("every second")) == bits(np.ascontiguousarray(value[::2]))


class Lazy(Mapping[str, np.ndarray]):
    """Makes each value when asked; counts how often, and how many are alive."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.most_alive = 0
        self._made: list[weakref.ref[np.ndarray]] = []

    def __getitem__(self, name: str) -> np.ndarray:
        value = np.full((3, 5), len(self.asked), np.float32)
        self.asked.append(name)
        self._made.append(weakref.ref(value))
        self.most_alive = max(self.most_alive, sum(reference() is not None for reference in self._made))
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(["x", "y", "z", "w"])

    def __len__(self) -> int:
        return 4


def test_a_lazy_mapping_is_asked_once_for_each_and_one_is_held_at_a_time(tmp_path: pathlib.Path) -> None:
    lazy = Lazy()
    write_safetensors(tmp_path / "x.safetensors", lazy)
    assert lazy.asked == ["x", "y", "z", "w"]
    assert lazy.most_alive == 1
    with SafetensorsFile(tmp_path / "x.safetensors") as weights:
        assert [weights.read(name)[2, 4] for name in weights.tensors] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("tensors", "metadata", "message"),
    [
        ({"x": np.zeros(2, "complex128")}, None, "'x' has dtype complex128; a safetensors file takes F64, F32|'x' has"),
        ({"x": np.array(["text"])}, None, "'x' has dtype str128"),
        ({"__metadata__": np.zeros(2)}, None, "no tensor can be named '__metadata__'"),
        ({"x": np.zeros(2)}, {"step": 3}, "metadata must map texts to texts, got {'step': 3}"),
    ],
)
def test_what_the_form_lacks_is_refused_and_nothing_is_left(
    tmp_path: pathlib.Path, tensors: Any, metadata: Any, message: str
) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(b"old")
    with pytest.raises(ValueError, match=f"x.safetensors: ({message})"):
        write_safetensors(path, {"good": np.zeros(3), **tensors}, metadata)
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("x.safetensors", b"old")]


GOOD = entry([2, 3], 0, 24)
DAMAGED = [
    (b"\x05\x00", "cut short or damaged: it ends at byte 2, 8 were expected; download the file again"),
    ((2**40).to_bytes(8, "little") + b"{}", "its header would have 1099511627776 bytes"),
    ((9000).to_bytes(8, "little") + b"{}", "cut short or damaged: it ends at byte 10, 9008 were expected"),
    (file_of(b'{"x": '), "its JSON is wrong: Expecting value"),
    (file_of(b'{"x": "\xff"}'), "its JSON is not UTF-8"),
    (file_of(b'{"x": ' + b"[" * 100000), "its JSON is nested too deep"),
    (file_of(b'{"x":1,"x":2}'), "its JSON is wrong: 'x' stands there twice"),
    (file_of(b'{"\\ud800": 1}'), "its JSON is wrong: 'utf-8' codec can't encode character"),
    (file_of(b'{"x": ' + b"9" * 5000 + b"}"), "its JSON is wrong: Exceeds the limit"),
    (len(b"[]").to_bytes(8, "little") + b"[]", "its header is no JSON object"),
    (file_of({"x": 3}), "'x' needs dtype, shape and data_offsets"),
    (file_of({"x": {**GOOD, "more": 1}}, bytes(24)), "'x' needs dtype, shape and data_offsets"),
    (file_of({"x": {**GOOD, "dtype": "F8_E4M3"}}, bytes(24)), "'x' has dtype 'F8_E4M3'; expected one of F64, F32"),
    (file_of({"x": {**GOOD, "dtype": ["F32"]}}, bytes(24)), r"'x' has dtype \['F32'\]"),
    (file_of({"x": entry("ab", 0, 24)}, bytes(24)), "the shape of 'x' is damaged"),
    (file_of({"x": entry([2, -3], 0, 24)}, bytes(24)), "the shape of 'x' is damaged"),
    (file_of({"x": entry([True, 6], 0, 24)}, bytes(24)), "the shape of 'x' is damaged"),
    (file_of({"x": entry([2.0, 3], 0, 24)}, bytes(24)), "the shape of 'x' is damaged"),
    (file_of({"x": entry([1] * 40, 0, 4)}, bytes(4)), "the shape of 'x' is damaged"),
    (file_of({"x": entry([2**40, 2**40], 0, 24)}, bytes(24)), "the shape of 'x' is larger than any memory"),
    (file_of({"x": entry([0, 2**62], 0, 0)}), "the shape of 'x' is larger than any memory"),
    (file_of({"x": {**GOOD, "data_offsets": [0]}}, bytes(24)), "the data_offsets of 'x' are damaged"),
    (file_of({"x": entry([2, 3], -24, 0)}, bytes(24)), "the data_offsets of 'x' are damaged"),
    (file_of({"x": entry([2, 3], 0, 20)}, bytes(20)), r"'x' has 20 bytes, dtype F32 and shape \[2, 3\] need 24"),
    (file_of({"x": GOOD}, bytes(23)), "cut short: has 96 bytes, its header says 97; download the file again"),
    (file_of({"x": GOOD}, bytes(25)), "has more than its header says: has 98 bytes, its header says 97"),
    (file_of({"x": GOOD, "y": entry([3], 12, 24)}, bytes(24)), "'y' begins at byte 12 of the data, expected 24"),
    (file_of({"x": GOOD, "y": entry([3], 28, 40)}, bytes(40)), "'y' begins at byte 28 of the data, expected 24"),
    (file_of({"__metadata__": {"step": 3}, "x": GOOD}, bytes(24)), "__metadata__ must map names to texts"),
    (file_of({"__metadata__": [], "x": GOOD}, bytes(24)), "__metadata__ must map names to texts"),
    (b"<html></html>", "is a web page"),
    (b"", "is empty; expected a safetensors file"),
]


@pytest.mark.parametrize(("content", "message"), DAMAGED, ids=[str(n) for n in range(len(DAMAGED))])
def test_a_damaged_file_is_refused_in_one_line(tmp_path: pathlib.Path, content: bytes, message: str) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"model\.safetensors: .*{message}") as caught:
        SafetensorsFile(path)
    assert "\n" not in str(caught.value)


def test_a_boolean_of_no_truth_is_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(file_of({"x": entry([3], 0, 3, "BOOL")}, b"\x00\x01\x02"))
    with SafetensorsFile(path) as weights, pytest.raises(ValueError, match="a Boolean at byte 72 is neither 0 nor 1"):
        weights.read("x")


def test_a_file_that_shrinks_while_it_is_open_is_said(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "x.safetensors"
    write_safetensors(path, {"x": np.zeros((300, 100), np.float32)})
    with SafetensorsFile(path) as weights:
        with open(path, "r+b") as stream:
            stream.truncate(1000)
        with pytest.raises(ValueError, match="has become shorter while it was read"):
            weights.read("x")


def test_no_file_and_a_folder(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.safetensors"):
        SafetensorsFile(tmp_path / "none.safetensors")
    with pytest.raises(ValueError, match="is a folder, a file was expected"):
        SafetensorsFile(tmp_path)


@pytest.fixture
def sharded(tmp_path: pathlib.Path) -> pathlib.Path:
    """An index of two shards."""
    write_safetensors(tmp_path / "model-00001-of-00002.safetensors", {"a": random_bits((2, 3), "float32")})
    write_safetensors(tmp_path / "model-00002-of-00002.safetensors", {"b": random_bits((5,), "bfloat16")})
    path = tmp_path / "model.safetensors.index.json"
    weight_map = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    path.write_text(json.dumps({"metadata": {"total_size": 34}, "weight_map": weight_map}), encoding="utf-8")
    return path


def test_shards_are_one_file(sharded: pathlib.Path) -> None:
    with SafetensorsFile(sharded) as weights:
        assert weights.path == str(sharded)
        assert weights.tensors == {"a": TensorInfo((2, 3), "float32"), "b": TensorInfo((5,), "bfloat16")}
        assert bits(weights.read("a")) == bits(random_bits((2, 3), "float32"))
        assert bits(weights.read("b")) == bits(random_bits((5,), "bfloat16"))


def test_a_missing_shard_is_named(sharded: pathlib.Path) -> None:
    (sharded.parent / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"Shard 'model-00002-of-00002.safetensors' is missing .*index\.json"):
        SafetensorsFile(sharded)


def test_a_tensor_that_is_not_in_its_shard_is_named(sharded: pathlib.Path) -> None:
    write_safetensors(sharded.parent / "model-00002-of-00002.safetensors", {"c": np.zeros(2)})
    with pytest.raises(ValueError, match=r"'b' should be in model-00002-of-00002.safetensors, but is not"):
        SafetensorsFile(sharded)


def test_a_tensor_in_two_shards_is_named(sharded: pathlib.Path) -> None:
    write_safetensors(sharded.parent / "model-00002-of-00002.safetensors", {"b": np.zeros(2), "a": np.zeros(2)})
    with pytest.raises(ValueError, match=r"'a' is in two shards, model-00001-of-00002.safetensors and model-00002"):
        SafetensorsFile(sharded)


def test_a_tensor_that_the_index_forgot_is_there(sharded: pathlib.Path) -> None:
    # transformers loads it too; what is not needed is reported further up.
    write_safetensors(sharded.parent / "model-00002-of-00002.safetensors", {"b": np.zeros(2), "c": np.zeros(2)})
    with SafetensorsFile(sharded) as weights:
        assert list(weights.tensors) == ["a", "b", "c"]


OUTSIDE = [
    "../x.safetensors",
    "/etc/passwd",
    "a/b.safetensors",
    "..",
    "",
    "C:\\x",
    "gs://b/x",
    3,
    None,
    "x\n",
    "x" * 5000,
    "\ud800",
]


@pytest.mark.parametrize("shard", OUTSIDE)
def test_an_index_names_files_beside_it_only(sharded: pathlib.Path, shard: Any) -> None:
    sharded.write_text(json.dumps({"weight_map": {"a": shard}}), encoding="utf-8")
    with pytest.raises(ValueError, match=r"index\.json: 'a' is in .*; expected the name of a file beside the index"):
        SafetensorsFile(sharded)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty; expected an index of shards: download the file again"),
        (b"<html>", "is a web page .*; expected an index of shards"),
        (b'{"weight_map": ', "damaged: its JSON is wrong"),
        (b'{"weight_map": {"a": "x", "a": "y"}}', "'a' stands there twice"),
        (b'{"error": "gone"}', "an index of shards has an object 'weight_map' that names tensors; this has none"),
        (b'{"weight_map": {}}', "an index of shards has an object 'weight_map'"),
        (b'{"weight_map": ["a"]}', "an index of shards has an object 'weight_map'"),
        (b'{"a": "\xff"}', "its JSON is not UTF-8"),
    ],
)
def test_a_damaged_index_is_said(sharded: pathlib.Path, content: bytes, message: str) -> None:
    sharded.write_bytes(content)
    with pytest.raises(ValueError, match=rf"index\.json: .*{message}") as caught:
        SafetensorsFile(sharded)
    assert "\n" not in str(caught.value)


def test_files_are_closed_when_opening_fails(sharded: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []

    class Counted(safetensors_file.ByteFile):
        def __init__(self, path: Any) -> None:
            super().__init__(path)
            opened.append(self)

    monkeypatch.setattr(safetensors_file, "ByteFile", Counted)
    (sharded.parent / "model-00002-of-00002.safetensors").write_bytes(b"<html>")
    with pytest.raises(ValueError, match="is a web page"):
        SafetensorsFile(sharded)
    assert [file.stream.closed for file in opened] == [True, True]


def test_remote_paths_go_through_tensorflow() -> None:
    # ram:// is TensorFlow's file system in memory; it stands for gs:// here.
    value = random_bits((3, 5), "bfloat16")
    write_safetensors("ram://weights/x.safetensors", {"a": value, "b": np.zeros((2, 0))})
    with SafetensorsFile("ram://weights/x.safetensors") as weights:
        assert weights.tensors == {"b": TensorInfo((2, 0), "float64"), "a": TensorInfo((3, 5), "bfloat16")}
        assert bits(weights.read("a")) == bits(value)
    with pytest.raises(FileNotFoundError, match="ram://weights/none"):
        SafetensorsFile("ram://weights/none")
