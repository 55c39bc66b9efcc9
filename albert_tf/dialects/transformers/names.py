"""Names of the weights in transformers' files, in both directions.

Source: huggingface/transformers, modeling_albert.py (PyTorch) and, up to 4.57, modeling_tf_albert.py (`tf_model.h5`).
PyTorch stores a matrix as [outputs, inputs], Keras as [inputs, outputs].
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from albert_tf.config import AlbertConfig
from albert_tf.dialects.tables import SAME, TRANSPOSED, Entry
from albert_tf.head_config import HeadConfig
from albert_tf.weight_shapes import weight_shapes

PREFIX = "albert."
WORD_EMBEDDINGS = "embeddings.word_embeddings.weight"
PROJECTION = "encoder.embedding_hidden_mapping_in"

# Our name of a part -> theirs. {albert} is the prefix that a model with a head puts before its encoder.
_PARTS: Mapping[str, str] = {
    "encoder/embeddings/word_embeddings": "{albert}" + WORD_EMBEDDINGS,
    "encoder/embeddings/position_embeddings": "{albert}embeddings.position_embeddings.weight",
    "encoder/embeddings/token_type_embeddings": "{albert}embeddings.token_type_embeddings.weight",
    "encoder/embeddings/layer_norm": "{albert}embeddings.LayerNorm",
    "encoder/embedding_projection": "{albert}" + PROJECTION,
    "encoder/pooler": "{albert}pooler",
    "masked_lm/dense": "predictions.dense",
    "masked_lm/layer_norm": "predictions.LayerNorm",
    "masked_lm/output_bias": "predictions.bias",
    "sentence_order": "sop_classifier.classifier",
    "classifier": "classifier",
    "regression": "classifier",
    "multiple_choice": "classifier",
    "token_classifier": "classifier",
    "span": "qa_outputs",
}
_BLOCK = re.compile(r"encoder/group_(\d+)/inner_(\d+)/(.+)")
_BLOCK_PARTS: Mapping[str, str] = {
    "attention/query": "attention.query",
    "attention/key": "attention.key",
    "attention/value": "attention.value",
    "attention/output": "attention.dense",
    "attention/layer_norm": "attention.LayerNorm",
    "feed_forward/intermediate": "ffn",
    "feed_forward/output": "ffn_output",
    "feed_forward/layer_norm": "full_layer_layer_norm",
}
_LEAVES: Mapping[str, str] = {"kernel": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}

# What belongs to a head, in any file.
OF_A_HEAD = re.compile(r"(predictions|sop_classifier|classifier|qa_outputs)\..+")
BUFFERS = (r"(albert\.)?embeddings\.(position_ids|token_type_ids)", "a buffer of counters, no weight")


def table(config: AlbertConfig, head: HeadConfig) -> tuple[Entry, ...]:
    """An entry for each weight, as the current release names it.

    Raises:
      ValueError: if the library has no such model.
    """
    check_expressible(config, head)
    prefix = "" if head.head == "encoder" else PREFIX
    return tuple(
        Entry(ours, their_name(ours, prefix), TRANSPOSED if ours.endswith("/kernel") else SAME)
        for ours in weight_shapes(config, head)
    )


def their_name(ours: str, prefix: str) -> str:
    """Name in a PyTorch state dict of the weight `ours`, the encoder's under `prefix`."""
    if ours in _PARTS:
        return _PARTS[ours].format(albert=prefix)
    part, _, leaf = ours.rpartition("/")
    block = _BLOCK.fullmatch(part)
    if block is None:
        return f"{_PARTS[part].format(albert=prefix)}.{_LEAVES[leaf]}"
    group, inner, rest = block.groups()
    place = f"{prefix}encoder.albert_layer_groups.{group}.albert_layers.{inner}"
    return f"{place}.{_BLOCK_PARTS[rest]}.{_LEAVES[leaf]}"


def check_expressible(config: AlbertConfig, head: HeadConfig) -> None:
    """Refuses a model that the library has no class or no setting for.

    Raises:
      ValueError: says what it lacks.
    """
    lacks = "transformers has no ALBERT with"
    if config.parameter_sharing != "all":
        raise ValueError(f'{lacks} parameter_sharing {config.parameter_sharing!r}; only "all" can be written')
    if config.embedding_factorization != "all":
        raise ValueError(
            f'{lacks} embedding_factorization {config.embedding_factorization!r}; only "all" can be written'
        )
    if head.head == "conditional_span":
        raise ValueError(f"{lacks} the head 'conditional_span'; its question answering head is 'span'")
    check_groups(config)


def check_groups(config: AlbertConfig) -> None:
    """Refuses numbers of layers and groups that the library assigns to each other in another way.

    The library takes group `int(i / (L / G))` for layer i, the original `int(i / L * G)`; rounding makes them differ
    for a few pairs.

    Raises:
      ValueError: names the first layer that would use other weights.
    """
    layers, groups = config.num_hidden_layers, config.num_hidden_groups
    for layer in range(layers):
        theirs, ours = int(layer / (layers / groups)), config.group_of_layer(layer)
        if theirs != ours:
            raise ValueError(
                f"num_hidden_groups {groups} of num_hidden_layers {layers}: layer {layer} is of group {theirs} in "
                f"transformers and of group {ours} here, so that the model would compute something else; only pairs "
                "that both group alike can be converted"
            )


# --- Names in files of other ages and kinds ---------------------------------------------------------------------------

_OLD_LAYER_NORM = re.compile(r"(.+\.(?:LayerNorm|full_layer_layer_norm))\.(gamma|beta)")
# LAYER/MODEL/LAYER/...:0, where MODEL is a name that Keras gave, such as tf_albert_for_pre_training_1.
_KERAS = re.compile(r"(?P<layer>[^/]+)/[^/]+/(?P<name>.+):0")
_KERAS_LEAVES: Mapping[str, str] = {**_LEAVES, "embeddings": "weight", "weight": "weight"}


def torch_names(stored: Collection[str]) -> dict[str, str]:
    """Current name -> stored one, of a PyTorch file: the oldest have "gamma" and "beta" in a LayerNorm."""
    found = {}
    for name in stored:
        old = _OLD_LAYER_NORM.fullmatch(name)
        found[f"{old[1]}.{_LEAVES[old[2]]}" if old else name] = name
    return found


def keras_names(stored: Collection[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Name in a state dict -> path of the dataset, of a `tf_model.h5`; and the same of copies of the embeddings.

    Keras stores under each layer all that the layer reaches. The masked-LM head reaches the embeddings, whose table it
    uses: they are there twice.
    """
    found: dict[str, str] = {}
    copies: dict[str, str] = {}
    for path in stored:
        match = _KERAS.fullmatch(path)
        if match is None:
            found[path] = path
            continue
        layer, name = match["layer"], match["name"]
        parts = re.sub(r"_\._(\d+)", r"/\1", name).split("/")
        parts[-1] = _KERAS_LEAVES.get(parts[-1], parts[-1])
        (found if name.startswith(f"{layer}/") else copies)[".".join(parts)] = path
    return found, copies
