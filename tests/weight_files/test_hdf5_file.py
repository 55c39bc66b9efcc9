"""HDF5 files: what h5py and Keras write is read bit for bit; what is no such file is said in one line.

How Keras stores bfloat16: keras/src/saving/saving_lib.py, class H5IOStore.
"""

from __future__ import annotations

import pathlib

import h5py
import ml_dtypes
import numpy as np
import pytest

from albert_tf.weight_files.hdf5_file import Hdf5File, write_hdf5
from albert_tf.weight_files.weight_file import TensorInfo

DTYPES = ("float32", "float16", "bfloat16", "float64", "int64", "uint32", "bool")


def tensors() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    found = {}
    for number, dtype in enumerate(DTYPES):
        value = rng.integers(0, 256, (2, 3, 8 + number), dtype=np.uint8)
        kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
        bits = value[..., : 8 // kind.itemsize * kind.itemsize]
        found[f"layers/{dtype}/vars/0"] = bits % 2 == 1 if dtype == "bool" else np.ascontiguousarray(bits).view(kind)
    found["scalar"] = np.asarray(1.5, ml_dtypes.bfloat16)
    found["empty"] = np.zeros((0, 5), np.float32)
    return found


def assert_same_bits(found: np.ndarray, expected: np.ndarray) -> None:
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert found.tobytes() == expected.tobytes()


def test_what_is_written_comes_back_bit_for_bit(tmp_path: pathlib.Path) -> None:
    written = tensors()
    path = tmp_path / "w.h5"
    write_hdf5(path, written)
    with Hdf5File(path) as file:
        assert sorted(file.tensors) == sorted(written)
        for name, value in written.items():
            assert file.tensors[name] == TensorInfo(value.shape, value.dtype.name)
            assert_same_bits(file.read(name), value)
        with pytest.raises(KeyError, match="absent"):
            file.read("absent")


def test_each_value_is_taken_once_when_it_is_due(tmp_path: pathlib.Path) -> None:
    class Lazy(dict):
        def __getitem__(self, name: str) -> np.ndarray:
            taken.append(name)
            return super().__getitem__(name)

    taken: list[str] = []
    write_hdf5(tmp_path / "w.h5", Lazy(b=np.zeros(2), a=np.ones(3)))
    assert taken == ["b", "a"]


def test_what_keras_writes_is_read_bit_for_bit(tmp_path: pathlib.Path) -> None:
    import keras

    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(5, dtype="bfloat16")])
    model.save_weights(tmp_path / "m.weights.h5")
    with Hdf5File(tmp_path / "m.weights.h5") as file:
        assert file.tensors == {
            "layers/dense/vars/0": TensorInfo((3, 5), "bfloat16"),
            "layers/dense/vars/1": TensorInfo((5,), "bfloat16"),
        }
        assert_same_bits(file.read("layers/dense/vars/0"), np.asarray(model.layers[0].kernel.numpy()))


def test_order_is_the_files_own(tmp_path: pathlib.Path) -> None:
    with h5py.File(tmp_path / "w.h5", "w", track_order=True) as raw:
        for name in ("z", "group/y", "group/x", "a"):
            raw.create_dataset(name, data=np.zeros(2))
    with Hdf5File(tmp_path / "w.h5") as file:
        assert list(file.tensors) == ["z", "group/x", "group/y", "a"]  # the group itself keeps no order


def test_other_byte_order_and_compression_are_read(tmp_path: pathlib.Path) -> None:
    value = np.arange(1000, dtype=">f4").reshape(25, 40)
    with h5py.File(tmp_path / "w.h5", "w") as raw:
        raw.create_dataset("big", data=value)
        raw.create_dataset("packed", data=np.zeros((100, 70), np.float32), compression="gzip", shuffle=True)
    with Hdf5File(tmp_path / "w.h5") as file:
        assert file.read("big").dtype == np.dtype("float32")
        np.testing.assert_array_equal(file.read("big"), value)
        assert not file.read("packed").any()


def test_text_is_listed_and_not_read(tmp_path: pathlib.Path) -> None:
    with h5py.File(tmp_path / "w.h5", "w") as raw:
        raw["note"] = "hello"
        raw["void"] = h5py.Empty("f4")
    with Hdf5File(tmp_path / "w.h5") as file:
        assert file.tensors["note"] == TensorInfo((), "text")
        for name, kind in (("note", "text"), ("void", "nothing")):
            with pytest.raises(ValueError, match=rf"w\.h5: {name} holds {kind}, not numbers$"):
                file.read(name)


def test_a_missing_file_is_said(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"absent\.h5"):
        Hdf5File(tmp_path / "absent.h5")


@pytest.mark.parametrize("part", [0.3, 0.9, 0.999])
def test_a_cut_file_is_said(tmp_path: pathlib.Path, part: float) -> None:
    write_hdf5(tmp_path / "w.h5", tensors())
    content = (tmp_path / "w.h5").read_bytes()
    (tmp_path / "cut.h5").write_bytes(content[: int(len(content) * part)])
    with pytest.raises(ValueError, match=r"cut\.h5: not an HDF5 file, cut short or damaged; download it again"):
        Hdf5File(tmp_path / "cut.h5")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty; expected an HDF5 file"),
        (b"<!DOCTYPE html><html>not found</html>", "is a web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "is a Git LFS pointer"),
        (b"\x93NUMPY\x01\x00" + bytes(range(200)), "is a NumPy array"),
        (bytes(range(255, 0, -1)), "not an HDF5 file, cut short or damaged"),
    ],
)
def test_another_file_is_said(tmp_path: pathlib.Path, content: bytes, message: str) -> None:
    (tmp_path / "w.h5").write_bytes(content)
    with pytest.raises(ValueError, match=rf"w\.h5: {message}"):
        Hdf5File(tmp_path / "w.h5")


def test_links_and_data_elsewhere_are_refused(tmp_path: pathlib.Path) -> None:
    write_hdf5(tmp_path / "other.h5", {"w": np.arange(4.0)})
    layout = h5py.VirtualLayout((4,), "f8")
    layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "w", shape=(4,))
    with h5py.File(tmp_path / "external.h5", "w") as raw:
        raw["far"] = h5py.ExternalLink("other.h5", "/w")
    with h5py.File(tmp_path / "soft.h5", "w") as raw:
        raw["near"] = h5py.SoftLink("/nothing")
    with h5py.File(tmp_path / "storage.h5", "w") as raw:
        raw.create_dataset("outside", (4,), "f8", external=[(str(tmp_path / "other.h5"), 0, 32)])
    with h5py.File(tmp_path / "virtual.h5", "w") as raw:
        raw.create_virtual_dataset("seen", layout)
    with h5py.File(tmp_path / "ring.h5", "w") as raw:
        raw["a/b/up"] = raw.create_group("a/b/c").parent.parent
    for name, message in (
        ("external", r"far is a link \(ExternalLink\), which is not followed"),
        ("soft", r"near is a link \(SoftLink\), which is not followed"),
        ("storage", "outside has its data in another file, which is not followed"),
        ("virtual", "seen has its data in another file, which is not followed"),
        ("ring", "a/b/up is a group inside itself or too deep"),
    ):
        with pytest.raises(ValueError, match=rf"{name}\.h5: {message}"):
            Hdf5File(tmp_path / f"{name}.h5")


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_a_size_that_is_not_there_asks_for_no_memory(tmp_path: pathlib.Path, compression: str | None) -> None:
    with h5py.File(tmp_path / "w.h5", "w") as raw:
        chunks = (1, 1000) if compression else None
        raw.create_dataset("vast", (10**6, 10**9), "f4", chunks=chunks, compression=compression)
    with Hdf5File(tmp_path / "w.h5") as file:
        assert file.tensors["vast"].shape == (10**6, 10**9)
        with pytest.raises(ValueError, match=r"w\.h5: vast claims 4000000000000000 bytes where 0 are stored"):
            file.read("vast")
