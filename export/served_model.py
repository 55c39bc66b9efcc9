"""A SavedModel that takes text, as `export.saved_model` writes it to OUTPUT_DIR/text: found, described, loaded."""

from __future__ import annotations

import json
import os
from typing import Any

from albert_tf import folder_kinds
from albert_tf.files import read_whole
from export.artifacts import SAVED_MODEL_FILE, SIGNATURES_FILE


def read_description(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What is said of a SavedModel beside its signatures; empty where nothing is. A local one needs no TensorFlow."""
    try:
        described = json.loads(read_whole(os.path.join(path, SIGNATURES_FILE)))
    except (OSError, ValueError):
        return {}
    return described if isinstance(described, dict) else {}


def load_served_model(path: str | os.PathLike[str], signature: str) -> Any:
    """The SavedModel at `path`, with its signatures under `signatures`. The object owns the variables that they read.

    Args:
      path: its folder.
      signature: name of one that it must have.

    Raises:
      FileNotFoundError: if there is no SavedModel at `path`.
      ValueError: if it is damaged, or another kind of SavedModel.
    """
    path = os.fspath(path)
    folder_kinds.check(path, SAVED_MODEL_FILE, folder_kinds.SAVED_MODEL)  # before TensorFlow takes its seconds

    import tensorflow as tf
    import tensorflow_text  # noqa: F401  (the tokenizer's operations)

    if not tf.saved_model.contains_saved_model(path):  # a remote one
        raise FileNotFoundError(f"{path}: no SavedModel there ({SAVED_MODEL_FILE} is missing)")
    try:
        model = tf.saved_model.load(path)
    except (tf.errors.OpError, OSError, RuntimeError, ValueError, LookupError, AttributeError) as error:
        # A damaged file shows in whatever part of TensorFlow trips over it first.
        raise ValueError(f"{path}: the SavedModel is damaged or incomplete: {error}") from error
    if signature not in model.signatures:
        raise ValueError(f"{path}: has no signature {signature!r}; give the folder 'text' of an export")
    return model


def as_strings(*texts: str) -> Any:
    """Texts as a tensor, string [N].

    Raises:
      ValueError: for text that is not valid Unicode.
    """
    import tensorflow as tf

    try:
        return tf.constant([text.encode("utf-8") for text in texts], tf.string)
    except UnicodeEncodeError as error:
        raise ValueError(f"text must be valid Unicode, got a lone surrogate at character {error.start}") from None
