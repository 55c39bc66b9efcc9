"""Finds out which dialect the files at a path are written in, and opens them.

A dialect is a module with `NAME` and `TITLE`, `recognises(path)`, `open_model(path, head=None)` and `table(config,
head)`; those that are written too have `save_model(folder, config, head, weights, tokenizer)`, which returns notes.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from types import ModuleType

from albert_tf.dialects.foreign_model import ForeignModel
from albert_tf.files import is_remote

# In the order in which they are asked: from the clearest marks to the faintest.
DIALECTS = ("kerashub", "transformers", "tf_hub", "model_garden", "albert_zh", "original")
WRITTEN = ("original", "transformers", "kerashub")


def dialect(name: str) -> ModuleType:
    """Module of a dialect.

    Raises:
      ValueError: for an unknown name.
    """
    if name not in DIALECTS:
        raise ValueError(f"unknown format {name!r}: give one of {', '.join(DIALECTS)}")
    return importlib.import_module(f"albert_tf.dialects.{name}")


def titles() -> Mapping[str, str]:
    """Name of each dialect -> what people call it."""
    return {name: dialect(name).TITLE for name in DIALECTS}


def find_dialect(path: str | os.PathLike[str]) -> ModuleType:
    """Module of the dialect that the files at `path` are written in.

    Raises:
      FileNotFoundError: if there is nothing at `path`.
      ValueError: if no dialect knows the files.
    """
    path = os.fspath(path)
    for name in DIALECTS:
        module = dialect(name)
        if module.recognises(path):
            return module
    if not is_remote(path) and not os.path.exists(path):
        raise FileNotFoundError(2, "no such checkpoint, file or folder", path)
    found = f" (it holds {_listing(path)})" if os.path.isdir(path) else ""
    known = "; ".join(titles().values())
    raise ValueError(f"{path}: no weights of a known format there{found}. Known are: {known}")


def check_format(path: str | os.PathLike[str], format: str | None) -> None:
    """Refuses a format that the files at `path` are clearly not written in.

    Raises:
      ValueError: saying which one it is, and how a model goes from one project to another.
    """
    if format is None or dialect(format).recognises(os.fspath(path)):
        return
    found = [name for name in DIALECTS if dialect(name).recognises(os.fspath(path))]
    if found:
        raise ValueError(
            f"{os.fspath(path)}: is written in the format {found[0]!r}, not {format!r}. From one project's format to "
            "another's it takes two steps: bring the model in without --format, then take the model directory out"
        )


def open_model(
    path: str | os.PathLike[str], *, format: str | None = None, head: str | None = None
) -> tuple[str, ForeignModel]:
    """Opens the model at `path`: the name of its dialect and the model, whose `weights` the caller closes.

    Args:
      path: a checkpoint prefix, a file or a folder.
      format: name of the dialect; None finds it out.
      head: the head, where the files cannot tell it.

    Raises:
      FileNotFoundError, ValueError: if it cannot be opened, in one line with the path.
    """
    module = find_dialect(path) if format is None else dialect(format)
    model: ForeignModel = module.open_model(os.fspath(path), head=head)
    return module.NAME, model


def _listing(folder: str, most: int = 5) -> str:
    names = sorted(os.listdir(folder))
    shown = ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
    return shown or "nothing"
