"""Folders by what they hold: says what a folder is when another kind was wanted.

Only local folders are looked at; a remote one shows what is missing in it when it is read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from albert_tf.files import is_remote

MODEL = "a model directory is wanted, as albert_tf.pretrain writes to OUTPUT_DIR/model"
DATA = "a data directory is wanted, as pipelines.build_pretraining_data makes"
TOKENIZER = (
    "a folder with spiece.model or vocab.txt and tokenizer_config.json is wanted, as pipelines.train_tokenizer makes"
)
SAVED_MODEL = "a SavedModel is wanted, the folder text/ that export.saved_model writes"

# What tells a kind of folder, the first that fits: files in it, and what it is called.
_KINDS = (
    (("dataset.json",), "a data directory"),
    (("building.json",), "a data directory that is not finished"),
    (("albert_config.json",), "a model directory"),
    (("saved_model.pb",), "a SavedModel"),
    (("text/saved_model.pb", "ids/saved_model.pb"), "the folder of an export"),
    (("settings.json", "checkpoints"), "the folder of a pretraining run"),
    (("spiece.model", "tokenizer_config.json"), "a tokenizer's folder"),
    (("vocab.txt", "tokenizer_config.json"), "a tokenizer's folder"),
)
_INSIDE = ("model", "text")  # where a run has its model and an export its SavedModel


def check(path: str | os.PathLike[str], name: str, wanted: str) -> None:
    """Refuses a local folder without the file `name`.

    Args:
      path: the folder.
      name: of the file that tells it.
      wanted: what is wanted, one of the texts above.

    Raises:
      FileNotFoundError: saying what is there instead.
    """
    path = os.fspath(path)
    if is_remote(path) or os.path.exists(os.path.join(path, name)):
        return
    inside = [place for place in _places_inside(path) if os.path.exists(os.path.join(place, name))]
    advice = f"; did you mean {inside[0]}?" if inside else ""
    raise FileNotFoundError(2, f"{_describe(path, name)}; {wanted}{advice}", path)


def _places_inside(path: str) -> Iterator[str]:
    """Folders that may be meant instead: a run's model, an export's SavedModel, the newest of its versions."""
    for place in (path, *(os.path.join(path, folder) for folder in _INSIDE)):
        if os.path.isdir(place):
            yield place
            versions = sorted((name for name in os.listdir(place) if name.isdecimal()), key=int)
            yield from (os.path.join(place, name) for name in versions[-1:])


def _describe(path: str, name: str) -> str:
    """What there is at a local path."""
    if not os.path.exists(path):
        return "no such folder"
    if not os.path.isdir(path):
        return "is a file"
    for names, kind in _KINDS:
        if all(os.path.exists(os.path.join(path, one)) for one in names):
            return f"is {kind}"
    return f"has no {name}" if os.listdir(path) else "is an empty folder"
