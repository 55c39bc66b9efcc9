"""Names inside exported artefacts, and what all exporters share. Imports no TensorFlow."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from absl import logging

from albert_tf import features
from albert_tf.files import is_remote

# Named here too, since `albert_tf.modeling.encoder` loads TensorFlow.
ENCODER_INPUTS = (features.INPUT_IDS, features.INPUT_MASK, features.SEGMENT_IDS)

TEXT_FOLDER, IDS_FOLDER = "text", "ids"
SAVED_MODEL_FILE = "saved_model.pb"
# TensorFlow leaves what it finds in assets.extra alone.
SIGNATURES_FILE = os.path.join("assets.extra", "signatures.json")
REPORT_FILE = os.path.join("assets.extra", "export_report.json")
CARD_FILE = os.path.join("assets.extra", "MODEL_CARD.md")


def check_apart(output: str | os.PathLike[str], model_directory: str | os.PathLike[str]) -> None:
    """Refuses an output that is the model directory, lies in it or holds it: replacing it would destroy the model.

    Raises:
      ValueError: naming both.
    """
    paths = []
    for path in (os.fspath(output), os.fspath(model_directory)):
        local = path.removeprefix("file://")  # another way to write a path of this machine
        paths.append(path.rstrip("/") if is_remote(local) else os.path.realpath(local))
    one, other = (f"{path}/" for path in paths)
    if one.startswith(other) or other.startswith(one):
        raise ValueError(
            f"{os.fspath(output)}: must lie apart from the model directory {os.fspath(model_directory)}; name another "
            "output"
        )


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keeps TensorFlow's own account of a save or conversion, hundreds of words, out of ours."""
    before = logging.get_verbosity()
    logging.set_verbosity(min(before, logging.WARNING))
    try:
        yield
    finally:
        logging.set_verbosity(before)
