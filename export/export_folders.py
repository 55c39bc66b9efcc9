"""Folders of an export: whole or not at all, with versions beside each other or without any."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from albert_tf import door
from albert_tf.files import exists, remove_directory
from export.artifacts import IDS_FOLDER, SAVED_MODEL_FILE, TEXT_FOLDER

_NAMES = (TEXT_FOLDER, IDS_FOLDER)


def export_paths(output_directory: str | os.PathLike[str], version: int | None = None) -> dict[str, str]:
    """Where both SavedModels of an export are, by name: OUTPUT_DIR/text and ids, or OUTPUT_DIR/text/N and ids/N."""
    below = () if version is None else (str(version),)
    return {name: os.path.join(output_directory, name, *below) for name in _NAMES}


@contextlib.contextmanager
def new_export(
    output_directory: str | os.PathLike[str], *, version: int | None = None, overwrite: bool = False
) -> Iterator[dict[str, str]]:
    """Temporary folders for both SavedModels, by name. They take their places when the block ends.

    Args:
      output_directory: folder to make; with a version it may be there, with other versions, which stay as they are.
      version: number of the export, a whole number of at least 1; None for one without versions.
      overwrite: whether an export at that place is replaced, with a version that version alone.

    Raises:
      ValueError: at once, if the place is taken, or by something else than an export.
      OSError: if a folder cannot be made.
    """
    if version is None:
        if overwrite:
            _check_earlier_export(output_directory)
        advice = "name another folder, or pass --overwrite to replace it"
        with door.whole_directory(output_directory, replace=overwrite, advice=advice) as folder:
            yield export_paths(folder)
        return
    if version < 1:
        raise ValueError(f"version must be at least 1, got {version}")
    _check_versions(output_directory)
    places = export_paths(output_directory, version)
    advice = "name another version, or pass --overwrite to replace it"
    new = [place for place in places.values() if not exists(place)]
    try:
        with contextlib.ExitStack() as stack:
            folders = {
                name: stack.enter_context(door.whole_directory(place, replace=overwrite, advice=advice))
                for name, place in reversed(places.items())
            }
            yield folders
    except BaseException:
        _remove(new)
        raise


def _remove(places: list[str]) -> None:
    """Removes SavedModels, one of which may have got its place alone, and folders that were made for them."""
    for place in places:
        remove_directory(place)
        if not door.is_remote(place):
            for folder in (os.path.dirname(place), os.path.dirname(os.path.dirname(place))):
                with contextlib.suppress(OSError):  # it has content, or is not there
                    os.rmdir(folder)


def _check_versions(path: str | os.PathLike[str]) -> None:
    """Refuses a folder with an export that has no versions.

    Raises:
      ValueError: naming it.
    """
    for place in export_paths(path).values():
        if exists(os.path.join(place, SAVED_MODEL_FILE)):
            raise ValueError(f"{place}: is a SavedModel without a version; name another output folder")


def _check_earlier_export(path: str | os.PathLike[str]) -> None:
    """Refuses to replace a folder with anything in it but an earlier export without versions.

    Raises:
      ValueError: naming what else is there.
    """
    others = sorted(set(_names_in(path)) - set(_NAMES))
    if others:
        raise ValueError(
            f"{os.fspath(path)}: holds {others[0]!r}, which is no export; --overwrite replaces exports only"
        )
    for place in export_paths(path).values():
        versions = [name for name in _names_in(place) if name.isdecimal()]
        if versions:
            raise ValueError(
                f"{place}: holds version {versions[0]}; --overwrite would remove all versions, pass --version too"
            )


def _names_in(path: str | os.PathLike[str]) -> list[str]:
    """Names in a folder; none where there is no such folder."""
    if door.is_remote(path):
        import tensorflow as tf

        return [name.rstrip("/") for name in tf.io.gfile.listdir(path)] if tf.io.gfile.isdir(path) else []
    return os.listdir(path) if os.path.isdir(path) else []
