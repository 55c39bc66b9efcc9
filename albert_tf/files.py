"""Files and folders that appear whole or not at all: written under a temporary name beside the target, then renamed.

Local paths need the standard library only. A path with a scheme (`gs://bucket/name`) goes through `tf.io.gfile`, and
TensorFlow is imported at that moment.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Iterator
from typing import Any


def is_remote(path: str | os.PathLike[str]) -> bool:
    """Whether `path` names a scheme, such as `gs://`, that only `tf.io.gfile` can open."""
    return "://" in os.fspath(path)


def write_whole(path: str | os.PathLike[str], content: bytes | str) -> None:
    """Writes `content` (text as UTF-8) to `path`, replacing a file there; readers see the old file or the new one.

    Missing parent folders are made.

    Raises:
      OSError: if the file cannot be written. The old file, if any, is then still there.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    with whole_file(path) as temporary:
        if is_remote(temporary):
            with _gfile().GFile(temporary, "wb") as stream:
                stream.write(data)
        else:
            with open(temporary, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())  # else a power cut after the rename could leave an empty file


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[str]:
    """Temporary name to write a file under. It becomes `path` when the block ends, and is removed if the block fails.

    Raises:
      OSError: if the folder cannot be made or `path` is a folder.
    """
    target = os.fspath(path)
    folder = os.path.dirname(target)
    temporary = os.path.join(folder, f".{os.path.basename(target)}.{_mark()}")
    if is_remote(target):
        gfile = _gfile()
        gfile.makedirs(folder)
        try:
            yield temporary
            gfile.rename(temporary, target, overwrite=True)
        except BaseException:
            if gfile.exists(temporary):
                gfile.remove(temporary)
            raise
        return
    if os.path.isdir(target):
        raise IsADirectoryError(21, "is a folder, a file was expected", target)
    os.makedirs(folder or ".", exist_ok=True)
    try:
        yield temporary
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.remove(temporary)
        raise


@contextlib.contextmanager
def whole_directory(path: str | os.PathLike[str], *, replace: bool = False) -> Iterator[str]:
    """Temporary folder to fill. It becomes `path` when the block ends, and is removed if the block fails.

    Args:
      path: folder to make. An empty folder there is taken over.
      replace: whether a folder with content may be replaced; the old one stays until the new one is complete.

    Raises:
      ValueError: at once, before the block runs, if `path` has content and `replace` is false.
      OSError: if the folder cannot be made or `path` is a file.
    """
    target = os.fspath(path).rstrip("/") or os.fspath(path)
    if is_remote(target):
        with _remote_directory(target, replace=replace) as temporary:
            yield temporary
        return
    target = os.path.abspath(target)
    if os.path.exists(target) and not os.path.isdir(target):
        raise NotADirectoryError(20, "is a file, a folder was expected", target)
    if not replace and os.path.isdir(target) and os.listdir(target):
        raise ValueError(f"{os.fspath(path)} has content already; name another folder or remove it first")
    os.makedirs(os.path.dirname(target), exist_ok=True)
    temporary = f"{target}.{_mark()}"
    os.mkdir(temporary)
    try:
        yield temporary
        _swap_in(temporary, target, replace=replace)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _swap_in(temporary: str, target: str, *, replace: bool) -> None:
    """Renames the local folder `temporary` to `target`, moving a folder with content out of the way first."""
    if os.path.isdir(target) and os.listdir(target):
        if not replace:  # somebody filled it while we worked
            raise ValueError(f"{target} got content in the meantime; it was left as it is")
        old = f"{target}.old-{uuid.uuid4().hex[:8]}"
        os.rename(target, old)
        try:
            os.rename(temporary, target)
        except BaseException:
            os.rename(old, target)
            raise
        shutil.rmtree(old)
        return
    if os.path.isdir(target):
        os.rmdir(target)  # os.rename replaces an empty folder on Linux, but not on every system
    os.rename(temporary, target)


@contextlib.contextmanager
def _remote_directory(target: str, *, replace: bool) -> Iterator[str]:
    """`whole_directory` on an object store, where no rename of a folder is atomic."""
    gfile = _gfile()
    occupied = gfile.isdir(target) and bool(gfile.listdir(target))
    if occupied and not replace:
        raise ValueError(f"{target} has content already; name another folder or remove it first")
    temporary = f"{target}.{_mark()}"
    gfile.makedirs(temporary)
    try:
        yield temporary
        if occupied:
            gfile.rmtree(target)
        for folder, _, names in list(gfile.walk(temporary)):
            destination = target + folder.rstrip("/").removeprefix(temporary)
            gfile.makedirs(destination)
            for name in names:  # one by one: not every file system takes a folder's content along
                gfile.rename(f"{folder.rstrip('/')}/{name}", f"{destination}/{name}", overwrite=True)
        gfile.rmtree(temporary)
    except BaseException:
        if gfile.exists(temporary):
            gfile.rmtree(temporary)
        raise


def _mark() -> str:
    """Ending of a temporary name: tells what left it behind, and differs between processes and calls."""
    return f"partial-{os.getpid()}-{uuid.uuid4().hex[:8]}"


def _gfile() -> Any:
    """`tf.io.gfile`; imports TensorFlow."""
    import tensorflow as tf

    return tf.io.gfile
