"""Warm-up requests: what TensorFlow Serving sends to a model itself before it serves it, so that no client waits.

They lie in assets.extra of a SavedModel, one a signature: a TFRecord file of `tensorflow.serving.PredictionLog`. Of its
definitions a few fields are needed, so that they are written here by number; tensorflow_serving is not.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.wire_format import BYTES, field
from export import parity

FILE = os.path.join("assets.extra", "tf_serving_warmup_requests")
_MODEL = "albert"  # of the request; the server asks the model that it loads, whatever its name

# Fields of tensorflow_serving/apis/{prediction_log,predict,model}.proto.
_LOG_PREDICT, _PREDICT_REQUEST = 6, 1
_REQUEST_MODEL, _REQUEST_INPUTS = 1, 2
_MODEL_NAME, _MODEL_SIGNATURE = 1, 3
_KEY, _VALUE = 1, 2  # of an entry of a map

Inputs = Mapping[str, np.ndarray]

_TEXTS: dict[str, Any] = {
    "text": [parity.SENTENCES[1], parity.SENTENCES[0]],
    "text_b": [parity.SENTENCES[2], parity.SENTENCES[0]],
    "question": ["Who carried the flour upstairs?", "Where are the maps?"],
    "context": [parity.SENTENCES[3], parity.SENTENCES[1]],
    "choices": [["The miller did.", "Nobody did."], ["In a room.", "At sea."]],
    "words": [["The", "river", "rose", "."], ["Yes", ".", "", ""]],
}
_MARKED = {"text": ["The [MASK] is red.", "It rained [MASK] night."], "text_b": ["Yes.", "The [MASK] rose."]}


def example_inputs(signature: str, names: Iterable[str], ids: Inputs) -> dict[str, np.ndarray]:
    """A small request to a signature.

    Args:
      signature: its name.
      names: of its inputs.
      ids: the model's own inputs by name, of which the first rows are taken.

    Raises:
      KeyError: for an input that there is no example of.
    """
    texts = {**_TEXTS, **(_MARKED if signature.startswith("fill_mask") else {})}
    return {name: ids[name][:2] if name in ids else np.array(texts[name], object) for name in names}


def write_requests(folder: str, requests: Mapping[str, Inputs]) -> None:
    """Writes the requests, by signature, into the SavedModel `folder`."""
    path = os.path.join(folder, FILE)
    tf.io.gfile.makedirs(os.path.dirname(path))
    with tf.io.TFRecordWriter(path) as writer:
        for signature, inputs in requests.items():
            writer.write(prediction_log(signature, inputs))


def prediction_log(signature: str, inputs: Inputs) -> bytes:
    """A `PredictionLog` of one request to a signature."""
    model = field(_MODEL_NAME, BYTES, _MODEL.encode()) + field(_MODEL_SIGNATURE, BYTES, signature.encode())
    request = field(_REQUEST_MODEL, BYTES, model)
    for name, value in inputs.items():
        tensor = tf.make_tensor_proto(value).SerializeToString()
        request += field(_REQUEST_INPUTS, BYTES, field(_KEY, BYTES, name.encode()) + field(_VALUE, BYTES, tensor))
    return field(_LOG_PREDICT, BYTES, field(_PREDICT_REQUEST, BYTES, request))
