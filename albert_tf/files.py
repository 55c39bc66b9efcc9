"""Files and folders that appear whole or not at all: written under a temporary name beside the target, then renamed.

Local paths need the standard library only. A path with a scheme (`gs://bucket/name`) goes through `tf.io.gfile`, and
TensorFlow is imported at that moment.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from typing import Any

_MARK = re.compile(r"\.partial-\d+-[0-9a-f]{8}")


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


def check_regular(path: str | os.PathLike[str]) -> None:
    """Refuses a local path that is there but neither file nor folder: a pipe would be waited for, a device replaced.

    Raises:
      OSError: if it is such a thing.
    """
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        raise OSError(22, "is no regular file", os.fspath(path))


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[str]:
    """Temporary name to write a file under. It becomes `path` when the block ends, and is removed if the block fails.

    Raises:
      OSError: if the folder cannot be made or `path` is a folder.
    """
    target = os.fspath(path)
    folder = os.path.dirname(target)
    temporary = f"{target}.{_mark()}"
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
    check_regular(target)
    _make_folders(folder or ".")
    try:
        yield temporary
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.remove(temporary)
        raise


_ADVICE = "name another folder or remove it first"


def check_directory(path: str | os.PathLike[str], *, replace: bool = False, advice: str = _ADVICE) -> None:
    """Refuses at once what `whole_directory` with the same arguments would refuse, before long work.

    Raises:
      ValueError: if `path` has content and `replace` is false.
      OSError: if the folder cannot be made or `path` is a file.
    """
    target = os.fspath(path).rstrip("/") or os.fspath(path)
    if is_remote(target):
        occupied = _gfile().isdir(target) and bool(_gfile().listdir(target))
    else:
        target = os.path.abspath(target)
        if os.path.exists(target) and not os.path.isdir(target):
            raise NotADirectoryError(20, "is a file, a folder was expected", target)
        occupied = os.path.isdir(target) and bool(os.listdir(target))
        parent = os.path.dirname(target)
        _make_folders(parent)
        if not os.access(parent, os.W_OK | os.X_OK):
            raise PermissionError(13, "Permission denied", target)
    if occupied and not replace:
        raise ValueError(f"{os.fspath(path)} has content already; {advice}")


@contextlib.contextmanager
def whole_directory(path: str | os.PathLike[str], *, replace: bool = False, advice: str = _ADVICE) -> Iterator[str]:
    """Temporary folder to fill. It becomes `path` when the block ends, and is removed if the block fails.

    Args:
      path: folder to make. An empty folder there is taken over.
      replace: whether a folder with content may be replaced; the old one stays until the new one is complete.
      advice: what to do about a folder with content, for the error.

    Raises:
      ValueError: at once, before the block runs, if `path` has content and `replace` is false.
      OSError: if the folder cannot be made or `path` is a file.
    """
    check_directory(path, replace=replace, advice=advice)
    target = os.fspath(path).rstrip("/") or os.fspath(path)
    if is_remote(target):
        with _remote_directory(target) as temporary:
            yield temporary
        return
    target = os.path.abspath(target)
    temporary = f"{target}.{_mark()}"
    os.mkdir(temporary)
    try:
        yield temporary
        _swap_in(temporary, target, replace=replace)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _make_folders(path: str) -> None:
    """Makes a local folder and those above it, if they are not there."""
    try:
        os.makedirs(path, exist_ok=True)
    except FileExistsError as error:  # of Python for a file in the place of a folder
        raise NotADirectoryError(20, "is a file, a folder was expected", error.filename) from error


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
def _remote_directory(target: str) -> Iterator[str]:
    """`whole_directory` on an object store, where no rename of a folder is atomic."""
    gfile = _gfile()
    occupied = gfile.isdir(target) and bool(gfile.listdir(target))
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


def without_marks(message: str) -> str:
    """`message` with the names that the caller gave instead of temporary ones."""
    return _MARK.sub("", message)


def _gfile() -> Any:
    """`tf.io.gfile`; imports TensorFlow."""
    import tensorflow as tf

    return tf.io.gfile
