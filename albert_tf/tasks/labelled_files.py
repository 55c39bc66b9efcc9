"""What all tasks check while they read a file: ids differ, empty texts are counted, splits have one file each."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

from absl import logging

from albert_tf import files
from albert_tf.tasks.task import TRAIN, Example


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


def path_of(paths: dict[str, str], split: str, folder: str | None, endings: Iterable[str]) -> str:
    """File of a split.

    Raises:
      ValueError: if there is none.
    """
    if split not in paths:
        there = f"; there are {', '.join(paths)}" if paths else ""
        raise ValueError(f"{folder}: no file for the split {split!r} ({split}{' or '.join(endings)}){there}")
    return paths[split]


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
