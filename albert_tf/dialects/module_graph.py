"""What a SavedModel says of its ALBERT beside the weights: letter case, depth, heads, activation.

A module of TensorFlow 1 (google-research/albert: export_to_tfhub.py) has a graph whose names are those of modeling.py:
`.../group_0_5/layer_5/inner_group_0/attention_1/self/query/Reshape/shape` tells the layers and, as a constant [H, N,
H/N], the heads. A Keras model has its layers' settings as JSON, in `saved_model.pb` or `keras_metadata.pb` beside it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any

from albert_tf.dialects.files_beside import list_folder
from albert_tf.files import read_whole
from albert_tf.weight_files import impostors
from albert_tf.wire_format import fields

SAVED_MODEL = "saved_model.pb"
KERAS_METADATA = "keras_metadata.pb"
_LAYER = re.compile(r"(?:^|/)transformer/group_\d+(?:_\d+)?/layer_(\d+)/")
_HEADS = re.compile(r".*/self/query/Reshape(_\d+)?/shape")
_ACTIVATION = re.compile(r".*/ffn_1(_\d+)?/intermediate/[^/]+")
# The ops of each activation, in the order in which they are looked for: the tanh form of "gelu" has a cube, too.
_ACTIVATIONS = (("Erf", "gelu_exact"), ("Pow", "gelu"), ("Tanh", "tanh"), ("Relu", "relu"))
# Keras' name of an activation -> ours. The Model Garden registers its own gelu, the tanh form, under "Text".
_KERAS_ACTIVATIONS = {
    "Text>gelu": "gelu",
    "gelu": "gelu_exact",
    "relu": "relu",
    "tanh": "tanh",
    "linear": "linear",
}
# The Model Garden's settings of an encoder -> ours.
_KERAS_FIELDS = {
    "vocab_size": "vocab_size",
    "embedding_width": "embedding_size",
    "hidden_size": "hidden_size",
    "num_layers": "num_hidden_layers",
    "num_attention_heads": "num_attention_heads",
    "intermediate_size": "intermediate_size",
    "max_sequence_length": "max_position_embeddings",
    "type_vocab_size": "type_vocab_size",
    "dropout_rate": "hidden_dropout_prob",
    "attention_dropout_rate": "attention_probs_dropout_prob",
}


def read_saved_model(folder: str) -> Any:
    """The SavedModel message of a folder.

    Raises:
      FileNotFoundError: if it is missing.
      ValueError: if it is damaged, or something else.
    """
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf import saved_model_pb2

    path = os.path.join(folder, SAVED_MODEL)
    content = read_whole(path)
    message = saved_model_pb2.SavedModel()
    try:
        message.ParseFromString(content)
    except DecodeError:
        message.Clear()
    if not message.meta_graphs:
        impostors.check(path, content[: impostors.HEAD_SIZE], expected="a SavedModel")
        raise ValueError(f"{path}: is no SavedModel, or is cut short; download or copy it again")
    return message


def module_values(message: Any) -> dict[str, Any]:
    """Depth, heads and activation of a module of TensorFlow 1, as far as its graph shows them, by our fields' names."""
    import tensorflow as tf

    nodes = _inference_graph(message).graph_def.node
    values: dict[str, Any] = {}
    layers = {int(found[1]) for node in nodes if (found := _LAYER.search(node.name))}
    if layers:
        values["num_hidden_layers"] = max(layers) + 1
    for node in nodes:
        if node.op == "Const" and _HEADS.fullmatch(node.name):
            shape = tf.make_ndarray(node.attr["value"].tensor)
            if shape.shape == (3,):
                values["num_attention_heads"] = int(shape[1])
    ops = {node.op for node in nodes if _ACTIVATION.fullmatch(node.name)}
    if layers and ops:
        values["hidden_act"] = next((name for op, name in _ACTIVATIONS if op in ops), "linear")
    return values


def module_lower_case(message: Any) -> bool | None:
    """Whether a module of TensorFlow 1 wants letters lowered; None if it does not say."""
    import tensorflow as tf

    graph = _inference_graph(message)
    if "tokenization_info" not in graph.signature_def:
        return None
    outputs = graph.signature_def["tokenization_info"].outputs
    if "do_lower_case" not in outputs:
        return None
    name = outputs["do_lower_case"].name.partition(":")[0]
    for node in graph.graph_def.node:
        if node.name == name and node.op == "Const":
            return bool(tf.make_ndarray(node.attr["value"].tensor))
    return None


def _inference_graph(message: Any) -> Any:
    """The graph that is not for training."""
    graphs = list(message.meta_graphs)
    return next((graph for graph in graphs if "train" not in graph.meta_info_def.tags), graphs[0])


def keras_values(message: Any, folder: str) -> dict[str, Any]:
    """Settings of the Model Garden's encoder in a Keras model, by our fields' names; empty if there are none.

    Raises:
      ValueError: for an activation that we have not.
    """
    path = os.path.join(folder, SAVED_MODEL)
    for text in _keras_texts(message, folder):
        try:
            settings = next(_encoder_settings(json.loads(text)), None)
        except ValueError:
            continue
        if settings is not None:
            values = {ours: settings[theirs] for theirs, ours in _KERAS_FIELDS.items() if theirs in settings}
            return {**values, "hidden_act": _keras_activation(settings.get("activation"), path)}
    return {}


def _keras_texts(message: Any, folder: str) -> Iterator[str]:
    for node in message.meta_graphs[0].object_graph_def.nodes:
        if node.WhichOneof("kind") == "user_object" and node.user_object.metadata:
            yield node.user_object.metadata
    if KERAS_METADATA in list_folder(folder):
        try:
            for number, node in fields(read_whole(os.path.join(folder, KERAS_METADATA))):
                if number == 1 and isinstance(node, bytes):
                    yield from (
                        content.decode("utf-8", "replace")
                        for field, content in fields(node)
                        if field == 5 and isinstance(content, bytes)
                    )
        except IndexError as error:
            raise ValueError(f"{os.path.join(folder, KERAS_METADATA)}: damaged; download or copy it again") from error


def _encoder_settings(value: Any) -> Iterator[dict[str, Any]]:
    """Every mapping below `value` that has an encoder's settings."""
    if isinstance(value, dict):
        if {"num_layers", "num_attention_heads", "hidden_size"} <= value.keys():
            yield value
        for inner in value.values():
            yield from _encoder_settings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _encoder_settings(inner)


def _keras_activation(value: Any, path: str) -> str:
    name = value.get("config", value.get("class_name")) if isinstance(value, dict) else value
    if name not in _KERAS_ACTIVATIONS:
        raise ValueError(f"{path}: activation is {value!r}, known are {', '.join(_KERAS_ACTIVATIONS)}")
    return _KERAS_ACTIVATIONS[name]
