"""TensorFlow checkpoints: `PREFIX.index` and `PREFIX.data-00000-of-00001`, read one tensor at a time, and written.

A checkpoint goes by its prefix, such as `.../model.ckpt-0`, which is no file. Names and shapes come from the index
without TensorFlow; TensorFlow reads the tensors and checks their checksums.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from albert_tf.files import check_regular, exists, is_remote, read_whole
from albert_tf.weight_files import impostors
from albert_tf.weight_files.bundle_index import BundleIndex, parse_index
from albert_tf.weight_files.weight_file import TensorInfo, WeightFile

_INDEX = ".index"
_PART = re.compile(r"\.(index|meta|data-\d{5}-of-\d{5})$")
_LATEST = re.compile(r'^model_checkpoint_path: "((?:[^"\\]|\\.)*)"', re.MULTILINE)
_AGAIN = "download or copy it again"


def find_prefix(path: str) -> str:
    """Prefix of the checkpoint at `path`: a prefix, one of the checkpoint's files, or the folder it is in.

    Of a folder it is the checkpoint that its file `checkpoint` names, or else the only one there.

    Raises:
      FileNotFoundError: if there is none.
      ValueError: if a folder has several, and nothing says which one; or there is a file of another kind.
    """
    if _is_folder(path):
        return _find_in_folder(path)
    prefix = _PART.sub("", path)
    if not exists(prefix + _INDEX):
        if exists(path):
            impostors.check(path, _head(path), expected=impostors.CHECKPOINT)
        raise FileNotFoundError(2, f"No checkpoint there: {os.path.basename(prefix)}{_INDEX} is missing", path)
    return prefix


def _find_in_folder(folder: str) -> str:
    names = _list(folder)
    prefixes = [name.removesuffix(_INDEX) for name in names if name.endswith(_INDEX)]
    if "checkpoint" in names:
        latest = _LATEST.search(read_whole(os.path.join(folder, "checkpoint")).decode("utf-8", "replace"))
        # An absolute path in there is where the training was, which is seldom where the files are now.
        name = os.path.basename(latest[1]) if latest else ""
        if name in prefixes:
            return os.path.join(folder, name)
    if len(prefixes) == 1:
        return os.path.join(folder, prefixes[0])
    if not prefixes:
        raise FileNotFoundError(2, "No checkpoint there: no file ends with .index", folder)
    raise ValueError(
        f"{folder}: holds {len(prefixes)} checkpoints ({', '.join(prefixes)}) and no file `checkpoint` that names one "
        f"of them: give one, such as {os.path.join(folder, prefixes[-1])}"
    )


def is_damaged(path: str) -> bool:
    """Whether the names at `path` are a checkpoint's, but it cannot be found or its index cannot be read."""
    try:
        read_index(find_prefix(path))
    except Exception:  # of a file system, too
        names = _list(path) if _is_folder(path) else [os.path.basename(path)]
        return any(_PART.search(name) for name in names) or exists(f"{path}.data-00000-of-00001")
    return False


def read_index(prefix: str) -> BundleIndex:
    """The index of a checkpoint.

    Raises:
      FileNotFoundError: if it is missing.
      ValueError: if it is damaged, or something else.
    """
    path = prefix + _INDEX
    content = read_whole(path)
    try:
        return parse_index(content)
    except ValueError as error:
        impostors.check(path, content[: impostors.HEAD_SIZE], expected=impostors.CHECKPOINT)
        raise ValueError(f"{path}: {error}; {_AGAIN}") from error


class Checkpoint(WeightFile):
    """A TensorFlow checkpoint, in the format of TensorFlow 1.0 and later ("V2").

    Args:
      path: prefix, one of its files, or its folder, as `find_prefix` takes it.

    Attributes:
      path: the prefix.
      tensors: all that is stored, by name; text has the dtype "string".

    Raises:
      FileNotFoundError: if there is none, or one of its files is missing.
      ValueError: if it is damaged or cut short, or one of its files is something else.
    """

    def __init__(self, path: str) -> None:
        self.path = find_prefix(path)
        index = read_index(self.path)
        self._check_shards(index)
        self.tensors: Mapping[str, TensorInfo] = {
            name: TensorInfo(entry.shape, entry.dtype) for name, entry in index.entries.items()
        }
        self._reader: Any = None

    def _check_shards(self, index: BundleIndex) -> None:
        needed = [0] * index.num_shards
        for entry in index.entries.values():
            if entry.shard < index.num_shards:
                needed[entry.shard] = max(needed[entry.shard], entry.offset + entry.size)
        for shard, size in enumerate(needed):
            path = f"{self.path}.data-{shard:05}-of-{index.num_shards:05}"
            if not exists(path):
                raise FileNotFoundError(2, f"Missing, but {self.path}{_INDEX} needs it; {_AGAIN}", path)
            if (found := _size(path)) < size:
                impostors.check(path, _head(path), expected=impostors.CHECKPOINT)
                raise ValueError(f"{path}: cut short: has {found} bytes, its index needs {size}; {_AGAIN}")

    def read(self, name: str) -> np.ndarray:
        if name not in self.tensors:
            raise KeyError(name)
        import tensorflow as tf

        try:
            if self._reader is None:
                self._reader = tf.train.load_checkpoint(self.path)
            return np.asarray(self._reader.get_tensor(name))
        except (tf.errors.OpError, RuntimeError) as error:
            reason = " ".join(str(error).split())
            raise ValueError(f"{self.path}: {name} cannot be read, the file is damaged; {_AGAIN} ({reason})") from error

    def close(self) -> None:
        self._reader = None


def write_checkpoint(prefix: str, tensors: Mapping[str, np.ndarray]) -> None:
    """Writes a checkpoint of one data file, in the order of the names, as TensorFlow 1's Saver does.

    TensorFlow takes all tensors at once, so that there must be memory for them.

    Args:
      prefix: such as `.../model.ckpt-0`; the folder must be there.
      tensors: by name; each is taken once.

    Raises:
      OSError: if the files cannot be written.
    """
    import tensorflow as tf

    names = sorted(tensors)
    values = []
    with tf.device("CPU:0"):
        for name in names:
            # TensorFlow takes over the array's memory where it can: there is one copy of each tensor, not two.
            values.append(tf.constant(np.asarray(tensors[name], order="C")))
        try:
            tf.raw_ops.SaveV2(prefix=prefix, tensor_names=names, shape_and_slices=[""] * len(names), tensors=values)
        except tf.errors.OpError as error:
            raise OSError(5, f"Cannot be written: {' '.join(error.message.split())}", prefix) from error


def _gfile() -> Any:
    import tensorflow as tf

    return tf.io.gfile


def _is_folder(path: str) -> bool:
    return bool(_gfile().isdir(path)) if is_remote(path) else os.path.isdir(path)


def _list(folder: str) -> list[str]:
    return sorted(_gfile().listdir(folder) if is_remote(folder) else os.listdir(folder))


def _size(path: str) -> int:
    return int(_gfile().stat(path).length) if is_remote(path) else os.path.getsize(path)


def _head(path: str) -> bytes:
    if not is_remote(path):
        check_regular(path)
    with _gfile().GFile(path, "rb") if is_remote(path) else open(path, "rb") as stream:
        content: bytes = stream.read(impostors.HEAD_SIZE)
    return content
