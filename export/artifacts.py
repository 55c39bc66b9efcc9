"""Names inside exported artefacts, and what all exporters share. Imports no TensorFlow."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from absl import logging

from albert_tf import features

# Named here too, since `albert_tf.modeling.encoder` loads TensorFlow.
ENCODER_INPUTS = (features.INPUT_IDS, features.INPUT_MASK, features.SEGMENT_IDS)

TEXT_FOLDER, IDS_FOLDER = "text", "ids"
# TensorFlow leaves what it finds in assets.extra alone.
SIGNATURES_FILE = os.path.join("assets.extra", "signatures.json")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keeps TensorFlow's own account of a save or conversion, hundreds of words, out of ours."""
    before = logging.get_verbosity()
    logging.set_verbosity(min(before, logging.WARNING))
    try:
        yield
    finally:
        logging.set_verbosity(before)
