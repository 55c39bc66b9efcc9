"""Names of ALBERT's variables in SavedModels of the TensorFlow Model Garden, and a reader that goes by them.

A SavedModel's checkpoint has keys that are paths in a tree of objects, such as `variables/0/...`; what a variable is
called stands in the tree itself. The names are those that the Model Garden's own converter matches the original's to
(tensorflow/models: official/nlp/tools/tf2_albert_encoder_checkpoint_converter.py), with those of its earlier layers
(dmlc/gluon-nlp: scripts/conversion_toolkits/convert_tf_hub_model.py has them). All layers are one, and attention's
matrices have the heads as an axis of their own: [H, N, H/N] and [N, H/N, H].
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.dialects.tables import SAME, Entry, Transform, reshaped
from albert_tf.head_config import HeadConfig
from albert_tf.weight_files.checkpoint import Checkpoint
from albert_tf.weight_files.weight_file import TensorInfo, WeightFile
from albert_tf.weight_shapes import weight_shapes

OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
QUERY = "transformer/self_attention/query/kernel"
MASKED_LM = "cls/predictions/output_bias/bias"
POOLER = "pooler_transform/kernel"

_LAYERS = {
    "encoder/embeddings/layer_norm": "embeddings/layer_norm",
    "encoder/embedding_projection": "embedding_projection",
    "encoder/group_0/inner_0/attention/query": "transformer/self_attention/query",
    "encoder/group_0/inner_0/attention/key": "transformer/self_attention/key",
    "encoder/group_0/inner_0/attention/value": "transformer/self_attention/value",
    "encoder/group_0/inner_0/attention/output": "transformer/self_attention/attention_output",
    "encoder/group_0/inner_0/attention/layer_norm": "transformer/self_attention_layer_norm",
    "encoder/group_0/inner_0/feed_forward/intermediate": "transformer/intermediate",
    "encoder/group_0/inner_0/feed_forward/output": "transformer/output",
    "encoder/group_0/inner_0/feed_forward/layer_norm": "transformer/output_layer_norm",
    "encoder/pooler": "pooler_transform",
    "masked_lm/dense": "cls/predictions/transform/dense",
    "masked_lm/layer_norm": "cls/predictions/transform/LayerNorm",
}
_SINGLE = {
    "encoder/embeddings/word_embeddings": "word_embeddings/embeddings",
    "encoder/embeddings/position_embeddings": "position_embedding/embeddings",
    "encoder/embeddings/token_type_embeddings": "type_embeddings/embeddings",
    "masked_lm/output_bias": MASKED_LM,
}
# Names of earlier layers -> today's.
_EARLIER = (
    ("position_embedding/position_embeddings", "position_embedding/embeddings"),
    ("transformer/self_attention_output/", "transformer/self_attention/attention_output/"),
)
_KNOWN = (
    *_SINGLE.values(),
    *(f"{layer}/{leaf}" for layer in _LAYERS.values() for leaf in ("kernel", "bias", "gamma", "beta")),
)


def table(config: AlbertConfig, head: HeadConfig) -> tuple[Entry, ...]:
    """The Model Garden's name of each weight.

    Raises:
      ValueError: if the Model Garden has no such model.
    """
    if config.num_hidden_groups > 1 or config.inner_group_num > 1 or config.parameter_sharing != "all":
        raise ValueError(
            "the Model Garden's layers are all the same, this model has num_hidden_groups "
            f"{config.num_hidden_groups}, inner_group_num {config.inner_group_num} and parameter_sharing "
            f"{config.parameter_sharing!r}"
        )
    return tuple(_entry(name, config) for name in weight_shapes(config, head))


def _entry(name: str, config: AlbertConfig) -> Entry:
    if name in _SINGLE:
        return Entry(name, _SINGLE[name])
    layer, _, leaf = name.rpartition("/")
    if layer not in _LAYERS:
        raise ValueError(f"the Model Garden's SavedModels have no {layer}")
    return Entry(name, f"{_LAYERS[layer]}/{leaf}", _transform(layer, leaf, config))


def _transform(layer: str, leaf: str, config: AlbertConfig) -> Transform:
    hidden, heads, size = config.hidden_size, config.num_attention_heads, config.head_size
    if layer.endswith(("/attention/query", "/attention/key", "/attention/value")):
        if leaf == "kernel":
            return reshaped((hidden, heads, size), (hidden, hidden))
        return reshaped((heads, size), (hidden,))
    if layer.endswith("/attention/output") and leaf == "kernel":
        return reshaped((heads, size, hidden), (hidden, hidden))
    return SAME


class NamedVariables(WeightFile):
    """The variables of a SavedModel's checkpoint by the names that the Model Garden gives them.

    What has no known name is listed by the name it has, or by its key.

    Attributes:
      lower_case: what the model says of letters: that they are lowered, that they are not, or nothing (None).
      lower_case_name: name of the variable that says it; None if there is none.

    Raises:
      ValueError: if the tree of objects is damaged, or two variables have the same name.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self.path = checkpoint.path
        graph = _object_graph(checkpoint)
        self._keys = _names(graph, checkpoint)
        self.tensors: Mapping[str, TensorInfo] = {name: checkpoint.tensors[key] for name, key in self._keys.items()}
        key = _key_of_child(graph, "do_lower_case")
        self.lower_case_name = next((name for name, found in self._keys.items() if found == key), None)
        self.lower_case = None if self.lower_case_name is None else bool(self.read(self.lower_case_name))

    def read(self, name: str) -> np.ndarray:
        return self._checkpoint.read(self._keys[name])

    def close(self) -> None:
        self._checkpoint.close()


def _object_graph(checkpoint: Checkpoint) -> Any:
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf import trackable_object_graph_pb2

    graph = trackable_object_graph_pb2.TrackableObjectGraph()
    try:
        graph.ParseFromString(checkpoint.read(OBJECT_GRAPH).item())
    except (DecodeError, KeyError) as error:
        raise ValueError(f"{checkpoint.path}: has no tree of objects, or a damaged one") from error
    return graph


def _names(graph: Any, checkpoint: Checkpoint) -> dict[str, str]:
    """Name -> key of each tensor in the checkpoint."""
    names = {key: key for key in checkpoint.tensors}
    for node in graph.nodes:
        for attribute in node.attributes:
            if attribute.checkpoint_key in names and attribute.full_name:
                names[attribute.checkpoint_key] = _known_name(attribute.full_name)
    keys: dict[str, str] = {}
    for key, name in names.items():
        if name not in _KNOWN and name in keys:
            name = key  # such as "Variable", which says nothing
        if name in keys:
            raise ValueError(f"{checkpoint.path}: has two variables {name} ({keys[name]} and {key})")
        keys[name] = key
    return keys


def _known_name(full_name: str) -> str:
    """The name without what stands before it, such as the name of a model, if it is known."""
    name = full_name.removesuffix(":0")
    for earlier, later in _EARLIER:
        name = name.replace(earlier, later)
    return next((known for known in _KNOWN if name == known or name.endswith("/" + known)), name)


def _key_of_child(graph: Any, child: str) -> str | None:
    """Key of a variable that hangs at the tree's root, None if there is none."""
    for reference in graph.nodes[0].children if graph.nodes else ():
        if reference.local_name == child:
            for attribute in graph.nodes[reference.node_id].attributes:
                return str(attribute.checkpoint_key)
    return None
