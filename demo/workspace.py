"""The demo's folder: which stages are done, what they found, and that one run at a time works in it.

A folder belongs to one set of settings and versions (`folder_key`), so nothing made by other settings is ever taken up.
A stage counts as done when its note `stages/<name>.json` is there; it is written last, in one go. What a stage that was
broken off left behind is made again, except where the stage itself can go on from it.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from typing import Any

from albert_tf.files import write_whole

_KEY_LETTERS = 12


def folder_key(settings: Mapping[str, Any], versions: Mapping[str, str]) -> str:
    """Name of the folder for these settings and versions: the first letters of a digest, the same on every machine."""
    text = json.dumps({"settings": dict(settings), "versions": dict(versions)}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_KEY_LETTERS]


def digest_of_sources(folder: str, packages: tuple[str, ...]) -> str:
    """Digest of the Python files of `packages` below `folder`: the version of code that is being worked on."""
    digest = hashlib.sha256()
    for package in packages:
        for path in sorted(glob.glob(os.path.join(folder, package, "**", "*.py"), recursive=True)):
            with open(path, "rb") as file:
                content = file.read()
            digest.update(f"{os.path.relpath(path, folder)}\0{len(content)}\0".encode())
            digest.update(content)
    return digest.hexdigest()


class FolderInUseError(Exception):
    """Another process works in the folder."""


class Workspace:
    """One folder of the demo, open for this process alone.

    Attributes:
      folder: its path.
      lock_file: file descriptor that holds the lock. Child processes get it too, so that a folder stays locked while
        the training of a demo that was killed still runs.
    """

    def __init__(self, folder: str, lock_file: int) -> None:
        self.folder = folder
        self.lock_file = lock_file

    def path(self, *names: str) -> str:
        """Path of something in the folder."""
        return os.path.join(self.folder, *names)

    def finished(self, stage: str) -> dict[str, Any] | None:
        """What a finished stage noted; None if it has not been finished."""
        try:
            with open(self._note(stage), encoding="utf-8") as file:
                note = json.load(file)
        except (FileNotFoundError, json.JSONDecodeError):
            return None
        return note if isinstance(note, dict) else None

    def finish(self, stage: str, note: Mapping[str, Any]) -> None:
        """Marks a stage as finished."""
        write_whole(self._note(stage), json.dumps(note, indent=2) + "\n")

    def forget(self, stage: str) -> None:
        """Makes a stage count as not finished."""
        self.clear("stages", f"{stage}.json")

    def clear(self, *names: str) -> str:
        """Path in the folder, with nothing there any more."""
        path = self.path(*names)
        if os.path.isdir(path):
            shutil.rmtree(path)
        elif os.path.exists(path):
            os.remove(path)
        return path

    def _note(self, stage: str) -> str:
        return self.path("stages", f"{stage}.json")


@contextlib.contextmanager
def open_workspace(folder: str) -> Iterator[Workspace]:
    """The folder, made if need be, locked for this process until the block ends.

    Raises:
      FolderInUseError: if another process holds it.
    """
    os.makedirs(folder, exist_ok=True)
    lock = os.open(os.path.join(folder, "lock"), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise FolderInUseError(folder) from error
        # Nobody else is at work, so these are what a killed run left: `whole_file` and `whole_directory` name them so.
        for pattern in ("*.partial-*", "*/*.partial-*"):
            for path in glob.glob(os.path.join(glob.escape(folder), pattern)):
                if os.path.isdir(path):
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    os.remove(path)
        yield Workspace(folder, lock)
    finally:
        os.close(lock)
