"""Where KerasHub keeps each weight of an ALBERT model: paths in `model.weights.h5` and `task.weights.h5`.

Names here begin with "model/" or "task/" for the file, and go on with the path in it. Paths count the layers of one
class in the order of the functional model, and the weights of one layer in the order in which it makes them
(keras_hub/src/models/albert/albert_backbone.py, albert_masked_lm.py, albert_text_classifier.py;
keras/src/saving/saving_lib.py, `_save_container_state`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from albert_tf.config import AlbertConfig
from albert_tf.dialects.tables import SAME, Entry, Transform, split_into_heads
from albert_tf.head_config import HeadConfig
from albert_tf.weight_shapes import block_places

MODEL, TASK = "model/", "task/"

# (regular expression, reason) of what the files hold beside weights.
IGNORED = (
    (r"(model|task)/optimizer/vars/\d+", "state of an optimizer"),
    (r"(model|task)/(.*/)?seed_generator/vars/\d+", "state of a random generator"),
)


def table(config: AlbertConfig, head: HeadConfig) -> tuple[Entry, ...]:
    """An entry for each weight of `weight_shapes(config, head)`."""
    return tuple(_entries(config, head))


def current_name(path: str) -> str:
    """The path that today's Keras gives a weight, for one of an older Keras.

    Keras 2.13 wrote `_layer_checkpoint_dependencies` for `layers`; Keras 3 before 3.6 the private names of the
    attention's matrices, such as `_query_dense`. Keras reads both still.
    """
    path = re.sub(r"^_layer_checkpoint_dependencies/", "layers/", path)
    return re.sub(r"(_self_attention_layer/)_(query|key|value|output)_dense/", r"\1\2_dense/", path)


def _entries(config: AlbertConfig, head: HeadConfig) -> Iterator[Entry]:
    embeddings = "encoder/embeddings"
    layers = f"{MODEL}layers"
    yield Entry(f"{embeddings}/word_embeddings", f"{layers}/reversible_embedding/vars/0")
    yield Entry(f"{embeddings}/position_embeddings", f"{layers}/position_embedding/vars/0")
    yield Entry(f"{embeddings}/token_type_embeddings", f"{layers}/embedding/vars/0")
    yield from _layer_norm(f"{embeddings}/layer_norm", f"{layers}/layer_normalization")
    yield from _dense("encoder/embedding_projection", f"{layers}/dense")
    for number, (place, _) in enumerate(block_places(config)):
        yield from _block(place, _numbered(f"{layers}/transformer_encoder", number), config)
    yield from _dense("encoder/pooler", f"{layers}/dense_1")
    if head.head == "masked_lm":
        theirs = f"{TASK}layers/masked_lm_head"
        yield from _dense("masked_lm/dense", f"{theirs}/_intermediate_dense")
        yield from _layer_norm("masked_lm/layer_norm", f"{theirs}/_intermediate_layer_norm")
        yield Entry("masked_lm/output_bias", f"{theirs}/vars/0")
    elif head.head in ("classifier", "regression"):
        yield from _dense(head.head, f"{TASK}layers/dense")


def _block(ours: str, theirs: str, config: AlbertConfig) -> Iterator[Entry]:
    into_heads, bias_of_heads, out_of_heads = split_into_heads(config)
    attention = f"{theirs}/_self_attention_layer"
    for name in ("query", "key", "value"):
        yield from _dense(f"{ours}/attention/{name}", f"{attention}/{name}_dense", into_heads, bias_of_heads)
    yield from _dense(f"{ours}/attention/output", f"{attention}/output_dense", out_of_heads)
    yield from _layer_norm(f"{ours}/attention/layer_norm", f"{theirs}/_self_attention_layer_norm")
    for name in ("intermediate", "output"):
        yield from _dense(f"{ours}/feed_forward/{name}", f"{theirs}/_feedforward_{name}_dense")
    yield from _layer_norm(f"{ours}/feed_forward/layer_norm", f"{theirs}/_feedforward_layer_norm")


def _dense(ours: str, theirs: str, kernel: Transform = SAME, bias: Transform = SAME) -> Iterator[Entry]:
    yield Entry(f"{ours}/kernel", f"{theirs}/vars/0", kernel)
    yield Entry(f"{ours}/bias", f"{theirs}/vars/1", bias)


def _layer_norm(ours: str, theirs: str) -> Iterator[Entry]:
    yield Entry(f"{ours}/gamma", f"{theirs}/vars/0")
    yield Entry(f"{ours}/beta", f"{theirs}/vars/1")


def _numbered(name: str, number: int) -> str:
    return f"{name}_{number}" if number else name
