"""Tasks whose examples stand in files: which file a split is, and what is checked in every one."""

from __future__ import annotations

import abc
import dataclasses
import functools
import os
from collections.abc import Iterable, Iterator, Sequence

from absl import logging

from albert_tf import files
from albert_tf.tasks.task import TRAIN, Example, Task


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileTask(Task):
    """A task whose splits are files."""

    @functools.cached_property
    def paths(self) -> dict[str, str]:
        """Split -> its file, of those that `data_dir` has."""
        return {} if self.data_dir is None else self.find_paths(self.data_dir)

    @abc.abstractmethod
    def find_paths(self, folder: str) -> dict[str, str]:
        """Split -> its file in a folder.

        Raises:
          ValueError: if a split has two files.
          OSError: if the folder cannot be read.
        """

    @abc.abstractmethod
    def stream(self, path: str, *, is_labelled: bool | None) -> Iterator[Example]:
        """Examples of any file of the task's layout, one by one; nothing is kept.

        Args:
          path: the file.
          is_labelled: True: each must have a label that the task knows; None: the same, if the file has labels at all;
            False: labels are not looked at.

        Raises:
          ValueError: where the file is not as the task wants it; path and line are named.
          OSError: if the file cannot be read.
        """

    def splits(self) -> tuple[str, ...]:
        return tuple(self.paths)

    def read(self, split: str) -> list[Example]:
        """Examples of a split, in the file's order; a label may be missing in test files only.

        Empty texts are counted and reported.
        """
        if split not in self.paths:
            there = f"; there are {', '.join(self.paths)}" if self.paths else ""
            raise ValueError(f"{self.data_dir}: no {self.expected_file(split)}{there}")
        path = self.paths[split]
        return checked(self.stream(path, is_labelled=None if split.startswith("test") else True), path)

    @abc.abstractmethod
    def expected_file(self, split: str) -> str:
        """Names that the file of a split may have, for messages.

        Raises:
          ValueError: for a split that the task cannot have.
        """


def default_id(source: str) -> str:
    """Id of an example whose file gives none: "train.tsv:17" for "folder/train.tsv:17"."""
    return os.path.basename(source)


def checked(examples: Iterable[Example], path: str) -> list[Example]:
    """All examples of a file; empty texts are counted and reported.

    Raises:
      ValueError: if two have the same id, or there is none.
    """
    found: list[Example] = []
    places: dict[str, str] = {}
    empty = []
    for example in examples:
        if example.id in places:
            raise ValueError(f"{example.source}: id {example.id!r} stands already in {default_id(places[example.id])}")
        places[example.id] = example.source
        if not example.texts or not all(text.strip() for text in example.texts):
            empty.append(example.source)
        found.append(example)
    if not found:
        raise ValueError(f"{path}: holds no example")
    if empty:
        logging.warning(
            "%s: %d of %d examples have an empty text, the first at %s", path, len(empty), len(found), empty[0]
        )
    return found


def split_paths(folder: str, endings: Sequence[str]) -> dict[str, str]:
    """Split -> file of a folder: "train", "dev" or "test", or "dev_..." or "test_...", with one of the endings.

    Raises:
      ValueError: if a split has two files.
      OSError: if the folder cannot be read.
    """
    found: dict[str, str] = {}
    for name in sorted(_names(folder)):
        split, ending = os.path.splitext(name)
        if ending.lower() not in endings or split.partition("_")[0] not in (TRAIN, "dev", "test"):
            continue
        if split in found:
            raise ValueError(f"{folder}: {split} has two files, {os.path.basename(found[split])} and {name}")
        found[split] = _join(folder, name)
    order = (TRAIN, "dev", "test")
    return dict(sorted(found.items(), key=lambda item: (order.index(item[0].partition("_")[0]), item[0])))


def names_with(split: str, endings: Iterable[str]) -> str:
    """Names that a file of a split may have: "dev.tsv, dev.csv"."""
    return ", ".join(split + ending for ending in endings)


def first_existing(folders: Iterable[str], names: Sequence[str]) -> Iterator[str]:
    """Paths that are there, of each name in each folder."""
    for folder in folders:
        for name in names:
            path = _join(folder, name)
            if files.exists(path):
                yield path


def _names(folder: str) -> list[str]:
    if files.is_remote(folder):
        import tensorflow as tf

        return [str(name).rstrip("/") for name in tf.io.gfile.listdir(folder)]
    return os.listdir(folder)


def _join(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}" if files.is_remote(folder) else os.path.join(folder, name)
