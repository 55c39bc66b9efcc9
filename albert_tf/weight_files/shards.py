"""ShardableFile: tensors in one file, or in several with an index, as Hugging Face's libraries split large models.

The index is a JSON file with the object `weight_map`: name of each tensor -> name of the file beside it that has it.
"""

from __future__ import annotations

import abc
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from albert_tf.weight_files import impostors
from albert_tf.weight_files.byte_file import ByteFile
from albert_tf.weight_files.weight_file import TensorInfo, WeightFile

INDEX_ENDING = ".index.json"
_MAX_INDEX = 64 * 2**20  # bytes; indexes of the largest models have a few MB


class ShardableFile(WeightFile):
    """A weight file of one part or of several."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Opens a file or an index with its shards.

        Raises:
          FileNotFoundError: if the file or a shard is missing.
          ValueError: if something is damaged, or shards and index contradict each other.
        """
        self.path = os.fspath(path)
        self._parts: list[WeightFile] = []
        self._part_of: dict[str, WeightFile] = {}
        try:
            if self.path.endswith(INDEX_ENDING):
                self._open_shards(read_index(self.path))
            else:
                self._add(self._open_part(self.path))
        except BaseException:
            self.close()
            raise
        self.tensors: Mapping[str, TensorInfo] = {name: part.tensors[name] for name, part in self._part_of.items()}

    @abc.abstractmethod
    def _open_part(self, path: str) -> WeightFile:
        """The file `path`, which is no index."""

    def read(self, name: str) -> np.ndarray:
        return self._part_of[name].read(name)

    def close(self) -> None:
        for part in self._parts:
            part.close()

    def _add(self, part: WeightFile) -> None:
        self._parts.append(part)
        for name in part.tensors:
            if name in self._part_of:
                raise ValueError(
                    f"{self.path}: {name!r} is in two shards, {os.path.basename(self._part_of[name].path)} and "
                    f"{os.path.basename(part.path)}: files of two models are mixed; download the model again"
                )
            self._part_of[name] = part

    def _open_shards(self, weight_map: Mapping[str, str]) -> None:
        folder = os.path.dirname(self.path)
        for shard in dict.fromkeys(weight_map.values()):
            try:
                self._add(self._open_part(os.path.join(folder, shard)))
            except FileNotFoundError as error:
                raise FileNotFoundError(
                    2, f"Shard {shard!r} is missing beside the index; download it too", self.path
                ) from error
        for name, shard in weight_map.items():
            if name not in self._part_of or os.path.basename(self._part_of[name].path) != shard:
                raise ValueError(
                    f"{self.path}: {name!r} should be in {shard}, but is not: index and shards are of two models; "
                    f"download the model again"
                )


def read_index(path: str) -> dict[str, str]:
    """Name of each tensor -> name of the file beside the index that has it.

    Raises:
      FileNotFoundError: if there is no index.
      ValueError: if it is none, or names a file elsewhere.
    """
    stream = ByteFile(path)
    try:
        if stream.size > _MAX_INDEX:
            raise ValueError(f"{path}: an index of shards has at most {_MAX_INDEX} bytes, this file {stream.size}")
        found = impostors.recognise(stream.head)
        if found is not None and not stream.head.lstrip().startswith(b"{"):
            raise ValueError(f"{path}: is {found[0]}; expected an index of shards: {found[1]}")
        values = parse_json(path, stream.read_at(0, stream.size))
    finally:
        stream.close()
    weight_map = values.get("weight_map") if isinstance(values, dict) else None
    if not isinstance(weight_map, dict) or not weight_map:
        raise ValueError(f"{path}: an index of shards has an object 'weight_map' that names tensors; this has none")
    for name, shard in weight_map.items():
        if not isinstance(shard, str) or not _is_plain_name(shard):
            raise ValueError(f"{path}: {name!r} is in {shard!r}; expected the name of a file beside the index")
    return weight_map


def parse_json(path: str, content: bytes) -> Any:
    """The value of a JSON text; an object that has one key twice is refused, since readers differ on it.

    Raises:
      ValueError: if it is damaged; `path` is named.
    """
    try:
        return json.loads(content.decode("utf-8"), object_pairs_hook=_unique)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: damaged: its JSON is not UTF-8") from error
    except RecursionError as error:
        raise ValueError(f"{path}: damaged: its JSON is nested too deep") from error
    except ValueError as error:  # also json.JSONDecodeError
        raise ValueError(f"{path}: damaged: its JSON is wrong: {error}") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    for key in values:
        key.encode()  # half a surrogate pair is no text: nobody could print or store the name
    if len(values) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"{twice!r} stands there twice")
    return values


def _is_plain_name(name: str) -> bool:
    """Whether `name` names a file in the same folder on every system."""
    return name not in ("", ".", "..") and name.isprintable() and len(name) < 200 and not set(name) & set("/\\:")
