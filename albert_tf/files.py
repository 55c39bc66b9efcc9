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

from absl import logging

MARK = re.compile(r"\.partial-(\d+)-[0-9a-f]{8}")  # of what is not finished: the process that works on it, and chance


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
    with whole_file(path) as temporary, naming(path):
        if is_remote(temporary):
            with _gfile().GFile(temporary, "wb") as stream:
                stream.write(data)
        else:
            with open(temporary, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())  # else a power cut after the rename could leave an empty file


def read_whole(path: str | os.PathLike[str]) -> bytes:
    """Content of a file.

    Raises:
      OSError: if it cannot be read, or is a pipe or a device.
    """
    if is_remote(path):
        import tensorflow as tf

        try:
            with tf.io.gfile.GFile(os.fspath(path), "rb") as stream:
                content: bytes = stream.read()
        except tf.errors.NotFoundError:
            raise FileNotFoundError(2, "No such file", os.fspath(path)) from None
        except tf.errors.OpError as error:
            raise OSError(5, error.message, os.fspath(path)) from error
        return content
    check_regular(path)
    with open(path, "rb") as stream:
        return stream.read()


def exists(path: str | os.PathLike[str]) -> bool:
    """Whether there is a file or folder of that name."""
    return bool(_gfile().exists(os.fspath(path))) if is_remote(path) else os.path.exists(path)


def check_regular(path: str | os.PathLike[str]) -> None:
    """Refuses a local path that is there but neither file nor folder: a pipe would be waited for, a device replaced.

    Raises:
      OSError: if it is such a thing.
    """
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        raise OSError(22, "is no regular file", os.fspath(path))


@contextlib.contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Gives an OSError of the block the name `path` where it has none, such as that of a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


@contextlib.contextmanager
def lock_directory(path: str | os.PathLike[str]) -> Iterator[None]:
    """Keeps other runs out of a local folder until the block or this process ends.

    The folder is made, and removed again if nothing was put into it. Where the file system has no locks, as remote ones
    have none, nothing is kept out.

    Raises:
      ValueError: if another run has the folder.
      OSError: if it cannot be made.
    """
    folder = os.fspath(path)
    if is_remote(folder):
        yield
        return
    import fcntl

    is_new = not os.path.exists(folder)
    _make_folders(folder)
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"{folder}: another run works there; wait for it, or name another output_dir") from None
        except OSError as error:
            logging.info("%s: cannot be locked (%s); see that no other run works there", folder, error.strerror)
        yield
    finally:
        os.close(handle)
        if is_new:
            with contextlib.suppress(OSError):  # it has content, or is gone
                os.rmdir(folder)


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


def check_writable(folder: str | os.PathLike[str]) -> None:
    """Refuses a local folder into which nothing can be written; one that is not there yet is not made.

    Raises:
      OSError: if there is a file in its place, or what it would be in is full or read-only.
    """
    above = os.path.abspath(folder)
    while not os.path.exists(above):
        above = os.path.dirname(above)
    if not os.path.isdir(above):
        raise NotADirectoryError(20, "is a file, a folder was expected", above)
    probe = os.path.join(above, _mark())
    with naming(folder):
        try:
            os.mkdir(probe)  # permissions alone do not tell: the file system may be read-only
        except OSError as error:
            raise OSError(error.errno, error.strerror) from error
    os.rmdir(probe)


_ADVICE = "name another folder or remove it first"


def check_directory(path: str | os.PathLike[str], *, replace: bool = False, advice: str = _ADVICE) -> None:
    """Refuses at once what `whole_directory` with the same arguments would refuse, before long work.

    Raises:
      ValueError: if `path` has content and `replace` is false.
      OSError: if the folder cannot be made or `path` is a file.
    """
    target = _folder_path(path)
    if is_remote(target):
        occupied = bool(_gfile().glob(f"{target}/*"))
    else:
        if os.path.exists(target) and not os.path.isdir(target):
            raise NotADirectoryError(20, "is a file, a folder was expected", target)
        if os.path.ismount(target):
            raise OSError(16, "is a mount point, which cannot be replaced; name a folder in it", os.fspath(path))
        occupied = os.path.isdir(target) and bool(os.listdir(target))
        _make_folders(os.path.dirname(target))
    if occupied and not replace:
        raise ValueError(f"{os.fspath(path)} has content already; {advice}")
    if not is_remote(target):
        probe = f"{target}.{_mark()}"
        os.mkdir(probe)  # permissions alone do not tell: the file system may be read-only
        os.rmdir(probe)


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
    target = _folder_path(path)
    temporary = f"{target}.{_mark()}"
    make_directory(temporary)
    try:
        yield temporary
        move_directory(temporary, target, replace=replace)
    except BaseException:
        remove_directory(temporary)
        raise


def move_directory(temporary: str, path: str | os.PathLike[str], *, replace: bool = False) -> None:
    """Gives the folder `temporary` the name `path`, at once where the file system can do that.

    Raises:
      ValueError: if `path` has content and `replace` is false.
    """
    target = _folder_path(path)
    if is_remote(target):
        _move_remote(temporary, target, replace=replace)
        return
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
        try:
            shutil.rmtree(old)
        except OSError as error:  # the new folder is there, and whole
            logging.warning("%s: the folder that was replaced cannot be removed: %s", old, error.strerror)
        return
    if os.path.isdir(target):
        os.rmdir(target)  # os.rename replaces an empty folder on Linux, but not on every system
    os.rename(temporary, target)


def _move_remote(temporary: str, target: str, *, replace: bool) -> None:
    """`move_directory` on an object store, where no rename of a folder is atomic."""
    gfile = _gfile()
    if gfile.glob(f"{target}/*"):  # not isdir: some stores take `temporary` for a part of `target`, by its name
        if not replace:
            raise ValueError(f"{target} got content in the meantime; it was left as it is")
        gfile.rmtree(target)
    for folder, _, names in list(gfile.walk(temporary)):
        destination = target + folder.rstrip("/").removeprefix(temporary)
        gfile.makedirs(destination)
        for name in names:  # one by one: not every file system takes a folder's content along
            gfile.rename(f"{folder.rstrip('/')}/{name}", f"{destination}/{name}", overwrite=True)
    gfile.rmtree(temporary)


def make_directory(path: str | os.PathLike[str]) -> None:
    """Makes a folder and those above it, if they are not there.

    Raises:
      NotADirectoryError: if there is a file in the place of one.
    """
    if is_remote(path):
        _gfile().makedirs(os.fspath(path))
    else:
        _make_folders(os.fspath(path))


def remove_directory(path: str | os.PathLike[str]) -> None:
    """Removes a folder with all that is in it; one that is not there is no error."""
    if not is_remote(path):
        shutil.rmtree(path, ignore_errors=True)
    elif _gfile().exists(os.fspath(path)):
        _gfile().rmtree(os.fspath(path))


def _folder_path(path: str | os.PathLike[str]) -> str:
    """Path without a slash at its end; if it is local, absolute and without links: what a link leads to is replaced."""
    target = os.fspath(path).rstrip("/") or os.fspath(path)
    return target if is_remote(target) else os.path.realpath(target)


def _make_folders(path: str) -> None:
    """Makes a local folder and those above it, if they are not there."""
    try:
        os.makedirs(path, exist_ok=True)
    except FileExistsError as error:  # of Python for a file in the place of a folder
        raise NotADirectoryError(20, "is a file, a folder was expected", error.filename) from error


def _mark() -> str:
    """Ending of a temporary name: tells what left it behind, and differs between processes and calls."""
    return f"partial-{os.getpid()}-{uuid.uuid4().hex[:8]}"


def without_marks(message: str) -> str:
    """`message` with the names that the caller gave instead of temporary ones."""
    return MARK.sub("", message)


def _gfile() -> Any:
    """`tf.io.gfile`; imports TensorFlow."""
    import tensorflow as tf

    return tf.io.gfile
