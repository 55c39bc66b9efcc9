"""TensorFlow checkpoints: found under each of their names, read and written bit for bit, refused when damaged."""

from __future__ import annotations

import pathlib
import re
import shutil
import tracemalloc

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.weight_files.bundle_index import parse_index
from albert_tf.weight_files.checkpoint import Checkpoint, find_prefix, write_checkpoint
from albert_tf.weight_files.weight_file import TensorInfo

PREFIX = "model.ckpt-7"
DATA, INDEX = f"{PREFIX}.data-00000-of-00001", f"{PREFIX}.index"


def make_tensors() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(3)
    return {
        "bert/b": generator.standard_normal((5, 3), np.float32),
        "bert/a/kernel": np.asfortranarray(generator.standard_normal((2, 7), np.float32)),
        "half": generator.standard_normal(11).astype(np.float16),
        "brain": generator.standard_normal((1, 13)).astype(ml_dtypes.bfloat16),
        "global_step": np.array(17, np.int64),
    }


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    write_checkpoint(str(tmp_path / PREFIX), make_tensors())
    return tmp_path


def test_round_trip_keeps_bits_shapes_and_dtypes(folder: pathlib.Path) -> None:
    tensors = make_tensors()
    assert sorted(path.name for path in folder.iterdir()) == [DATA, INDEX]
    with Checkpoint(str(folder / PREFIX)) as file:
        assert dict(file.tensors) == {n: TensorInfo(v.shape, v.dtype.name) for n, v in tensors.items()}
        for name, value in tensors.items():
            read = file.read(name)
            assert (read.dtype, read.shape, read.tobytes()) == (value.dtype, value.shape, value.tobytes())
        with pytest.raises(KeyError, match="bert/none"):
            file.read("bert/none")


def test_tensorflow_itself_reads_what_is_written(folder: pathlib.Path) -> None:
    assert tf.train.list_variables(str(folder / PREFIX)) == [
        ("bert/a/kernel", [2, 7]),
        ("bert/b", [5, 3]),
        ("brain", [1, 13]),
        ("global_step", []),
        ("half", [11]),
    ]
    value = tf.train.load_checkpoint(str(folder / PREFIX)).get_tensor("bert/a/kernel")
    np.testing.assert_array_equal(value, make_tensors()["bert/a/kernel"])


@pytest.mark.parametrize("name", ["tf1_classifier_3", "tf1_two_groups"])
def test_a_checkpoint_of_the_original_is_written_again_byte_for_byte(
    name: str, reference_data: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    with Checkpoint(str(reference_data / "golden" / name / "model.ckpt-0")) as file:
        write_checkpoint(str(tmp_path / "again"), {tensor: file.read(tensor) for tensor in file.tensors})
    written = (tmp_path / "again.data-00000-of-00001").read_bytes()
    assert written == pathlib.Path(file.path + ".data-00000-of-00001").read_bytes()
    with Checkpoint(str(tmp_path / "again")) as again:
        assert again.tensors == file.tensors


@pytest.mark.parametrize("name", [PREFIX, INDEX, DATA, f"{PREFIX}.meta", "."])
def test_every_name_of_a_checkpoint_finds_it(name: str, folder: pathlib.Path) -> None:
    assert find_prefix(str(folder / name)) == str(folder / PREFIX)


def test_in_a_folder_the_one_that_its_state_names_is_taken(folder: pathlib.Path) -> None:
    for name in (INDEX, DATA):
        shutil.copy(folder / name, folder / name.replace("-7", "-12"))
    (folder / "readme.txt").write_text("about")
    with pytest.raises(ValueError, match=r"holds 2 checkpoints \(model.ckpt-12, model.ckpt-7\).*: give one, such as"):
        find_prefix(str(folder))
    (folder / "checkpoint").write_text('model_checkpoint_path: "/of/another/machine/model.ckpt-12"\n')
    assert find_prefix(str(folder)) == str(folder / "model.ckpt-12")
    (folder / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-99"\n')
    with pytest.raises(ValueError, match="holds 2 checkpoints"):
        find_prefix(str(folder))


def test_what_is_not_there_is_named(folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"No checkpoint there: model.ckpt-8.index is missing.*model.ckpt-8'"):
        Checkpoint(str(folder / "model.ckpt-8"))
    (folder / "albert_base_v2.tar.gz").write_bytes(b"\x1f\x8b\x08\x00")
    with pytest.raises(ValueError, match=r"albert_base_v2.tar.gz: is a gzip archive.*: unpack it first"):
        Checkpoint(str(folder / "albert_base_v2.tar.gz"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"no file ends with \.index.*empty"):
        Checkpoint(str(tmp_path / "empty"))
    (folder / DATA).unlink()
    with pytest.raises(FileNotFoundError, match=f"Missing, but .*{re.escape(INDEX)} needs it; .*{re.escape(DATA)}'"):
        Checkpoint(str(folder))


HTML = b"<!DOCTYPE html><html><body>404</body></html>"
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 46747112\n"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (INDEX, HTML, "is a web page"),
        (INDEX, POINTER, "is a Git LFS pointer"),
        (INDEX, b"", "is empty; expected a TensorFlow checkpoint"),
        (DATA, HTML, "is a web page"),
        (DATA, POINTER, "is a Git LFS pointer"),
        (DATA, b"", "is empty; expected a TensorFlow checkpoint"),
    ],
)
def test_something_else_in_a_files_place_is_called_what_it_is(
    name: str, content: bytes, message: str, folder: pathlib.Path
) -> None:
    (folder / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"{re.escape(name)}: {message}"):
        Checkpoint(str(folder))


def test_a_data_file_that_was_cut_short_is_refused_before_anything_is_read(folder: pathlib.Path) -> None:
    content = (folder / DATA).read_bytes()
    (folder / DATA).write_bytes(content[:-1])
    with pytest.raises(ValueError, match=rf"cut short: has {len(content) - 1} bytes, its index needs {len(content)}"):
        Checkpoint(str(folder))


def test_a_changed_byte_is_found_by_the_checksum(folder: pathlib.Path) -> None:
    content = bytearray((folder / DATA).read_bytes())
    content[2] ^= 1
    (folder / DATA).write_bytes(content)
    with (
        Checkpoint(str(folder)) as file,
        pytest.raises(ValueError, match="bert/a/kernel cannot be read, the file is da"),
    ):
        file.read("bert/a/kernel")


def test_no_cut_and_no_changed_byte_of_an_index_passes_or_breaks_the_reader(folder: pathlib.Path) -> None:
    content = (folder / INDEX).read_bytes()
    whole = parse_index(content)
    for size in range(len(content)):
        with pytest.raises(ValueError, match="index"):
            parse_index(content[:size])
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 0x15
        try:
            assert parse_index(bytes(changed)) == whole  # padding of the footer means nothing
        except ValueError as error:
            assert "index" in str(error)  # noqa: PT017


def test_writing_holds_each_tensor_once(tmp_path: pathlib.Path) -> None:
    size, taken = 1 << 22, []

    class Weights(dict):
        def __getitem__(self, name: str) -> np.ndarray:
            taken.append(name)
            return np.full((2, size // 8), int(name), np.float32).T  # in an order of bytes that has to be changed

    tracemalloc.start()
    try:
        write_checkpoint(str(tmp_path / "big"), Weights(dict.fromkeys("123456")))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken == list("123456")
    assert peak < 8 * size  # six tensors, and two of the last one while its bytes are put in order


def test_a_folder_that_is_not_there_cannot_be_written_to(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="Cannot be written"):
        write_checkpoint(str(tmp_path / "file" / "model.ckpt"), {"a": np.zeros(3, np.float32)})
