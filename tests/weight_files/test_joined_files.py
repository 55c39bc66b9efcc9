"""Several files as one."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

from albert_tf.weight_files.hdf5_file import Hdf5File, write_hdf5
from albert_tf.weight_files.joined_files import JoinedFiles
from albert_tf.weight_files.weight_file import TensorInfo


def test_names_and_reading(tmp_path: pathlib.Path) -> None:
    write_hdf5(tmp_path / "a.h5", {"x/_w": np.arange(3.0)})
    write_hdf5(tmp_path / "b.h5", {"x/w": np.arange(4.0, dtype=np.float32)})
    parts = [("a/", Hdf5File(tmp_path / "a.h5")), ("b/", Hdf5File(tmp_path / "b.h5"))]
    with JoinedFiles("folder", parts, name=lambda name: name.replace("_", "")) as joined:
        assert joined.path == "folder"
        assert joined.tensors == {"a/x/w": TensorInfo((3,), "float64"), "b/x/w": TensorInfo((4,), "float32")}
        np.testing.assert_array_equal(joined.read("b/x/w"), np.arange(4.0))
        with pytest.raises(KeyError):
            joined.read("x/w")


def test_a_tensor_in_two_files_is_refused(tmp_path: pathlib.Path) -> None:
    for name in ("a.h5", "b.h5"):
        write_hdf5(tmp_path / name, {"w": np.arange(3.0)})
    parts = [("", Hdf5File(tmp_path / name)) for name in ("a.h5", "b.h5")]
    with pytest.raises(ValueError, match=r"b\.h5: w is in a\.h5 too; files of two models are mixed"):
        JoinedFiles("folder", parts)
