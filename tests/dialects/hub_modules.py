"""Module directories as TensorFlow Hub has them, made without the readers' tables.

TensorFlow 1: a graph with the scopes of google-research/albert's modeling.py, signatures and assets of its
export_to_tfhub.py, saved as tensorflow/hub's native_module.py does, `tfhub_module.pb` included. TensorFlow 2: variables
named as by the layers of tensorflow/models' AlbertEncoder and MaskedLM (official/nlp/modeling), hung into a tree whose
paths say nothing, with the settings of the layers as Keras keeps them.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.config import AlbertConfig
from tests.dialects.tf1_names import Weights

v1 = tf.compat.v1


def write_module(
    folder: pathlib.Path,
    config: AlbertConfig,
    tensors: Weights,
    assets: dict[str, bytes],
    *,
    lower_case: bool | None = True,
    with_layers: bool = True,
) -> str:
    """A module of TensorFlow 1 with these variables and files."""
    builder = v1.saved_model.Builder(str(folder))
    for tags in (["train"], []):
        with tf.Graph().as_default(), v1.Session() as session, v1.variable_scope("", use_resource=True):
            for name, value in tensors.items():
                v1.get_variable(name, initializer=value)
            with v1.variable_scope("", reuse=True):
                if with_layers:
                    _layers(config)
                signatures = {} if lower_case is None else _tokenization_info(lower_case and not tags)
            session.run(v1.global_variables_initializer())
            if tags:
                builder.add_meta_graph_and_variables(session, tags, signature_def_map=signatures)
            else:
                builder.add_meta_graph(tags, signature_def_map=signatures)
    builder.save()
    (folder / "tfhub_module.pb").write_bytes(b"\x08\x03")
    (folder / "assets").mkdir()
    for name, content in assets.items():
        (folder / "assets" / name).write_bytes(content)
    return str(folder)


def _tokenization_info(lower_case: bool) -> dict[str, Any]:
    output = v1.saved_model.build_tensor_info(tf.constant(lower_case))
    return {"tokenization_info": v1.saved_model.build_signature_def(outputs={"do_lower_case": output})}


def _layers(config: AlbertConfig) -> None:
    """The part of the graph that depends on depth, heads and activation."""
    value = v1.placeholder(tf.float32, [None, None, config.hidden_size])
    with v1.variable_scope("bert"), v1.variable_scope("encoder"), v1.variable_scope("transformer"):
        for layer in range(config.num_hidden_layers):
            group = int(layer / config.num_hidden_layers * config.num_hidden_groups)
            with v1.variable_scope(f"group_{group}"), tf.name_scope(f"layer_{layer}"):
                for inner in range(config.inner_group_num):
                    with v1.variable_scope(f"inner_group_{inner}"):
                        _block(config, value)


def _block(config: AlbertConfig, value: tf.Tensor) -> None:
    hidden, heads = config.hidden_size, config.num_attention_heads
    with v1.variable_scope("attention_1"), v1.variable_scope("self"), v1.variable_scope("query"):
        kernel = v1.get_variable("kernel", [hidden, hidden])
        tf.einsum("BFH,HND->BFND", value, tf.reshape(kernel, [hidden, heads, hidden // heads]))
    with v1.variable_scope("ffn_1"), v1.variable_scope("intermediate"):
        with v1.variable_scope("dense"):
            inner = tf.matmul(value, v1.get_variable("kernel", [hidden, config.intermediate_size]))
        if config.hidden_act == "gelu":
            inner * (0.5 * (1.0 + tf.tanh(np.sqrt(2 / np.pi) * (inner + 0.044715 * tf.pow(inner, 3)))))
        elif config.hidden_act == "relu":
            tf.nn.relu(inner)


def garden_tensors(config: AlbertConfig, weights: Weights, *, earlier: bool = False) -> Weights:
    """Variables of the Model Garden's AlbertEncoder, and of its MaskedLM if there are weights of it."""
    hidden, heads = config.hidden_size, config.num_attention_heads
    ours = "encoder/group_0/inner_0"
    attention_output = "self_attention_output" if earlier else "self_attention/attention_output"
    positions = "position_embeddings" if earlier else "embeddings"
    found = {
        "word_embeddings/embeddings": weights["encoder/embeddings/word_embeddings"],
        f"position_embedding/{positions}": weights["encoder/embeddings/position_embeddings"],
        "type_embeddings/embeddings": weights["encoder/embeddings/token_type_embeddings"],
        "embeddings/layer_norm/gamma": weights["encoder/embeddings/layer_norm/gamma"],
        "embeddings/layer_norm/beta": weights["encoder/embeddings/layer_norm/beta"],
        "embedding_projection/kernel": weights["encoder/embedding_projection/kernel"],
        "embedding_projection/bias": weights["encoder/embedding_projection/bias"],
        f"transformer/{attention_output}/kernel": weights[f"{ours}/attention/output/kernel"].reshape(
            heads, hidden // heads, hidden
        ),
        f"transformer/{attention_output}/bias": weights[f"{ours}/attention/output/bias"],
        "transformer/self_attention_layer_norm/gamma": weights[f"{ours}/attention/layer_norm/gamma"],
        "transformer/self_attention_layer_norm/beta": weights[f"{ours}/attention/layer_norm/beta"],
        "transformer/intermediate/kernel": weights[f"{ours}/feed_forward/intermediate/kernel"],
        "transformer/intermediate/bias": weights[f"{ours}/feed_forward/intermediate/bias"],
        "transformer/output/kernel": weights[f"{ours}/feed_forward/output/kernel"],
        "transformer/output/bias": weights[f"{ours}/feed_forward/output/bias"],
        "transformer/output_layer_norm/gamma": weights[f"{ours}/feed_forward/layer_norm/gamma"],
        "transformer/output_layer_norm/beta": weights[f"{ours}/feed_forward/layer_norm/beta"],
        "pooler_transform/kernel": weights["encoder/pooler/kernel"],
        "pooler_transform/bias": weights["encoder/pooler/bias"],
    }
    for part in ("query", "key", "value"):
        kernel, bias = (weights[f"{ours}/attention/{part}/{leaf}"] for leaf in ("kernel", "bias"))
        found[f"transformer/self_attention/{part}/kernel"] = kernel.reshape(hidden, heads, hidden // heads)
        found[f"transformer/self_attention/{part}/bias"] = bias.reshape(heads, hidden // heads)
    if "masked_lm/output_bias" in weights:
        found["bert/cls/predictions/transform/dense/kernel"] = weights["masked_lm/dense/kernel"]
        found["bert/cls/predictions/transform/dense/bias"] = weights["masked_lm/dense/bias"]
        found["bert/cls/predictions/transform/LayerNorm/gamma"] = weights["masked_lm/layer_norm/gamma"]
        found["bert/cls/predictions/transform/LayerNorm/beta"] = weights["masked_lm/layer_norm/beta"]
        found["bert/cls/predictions/output_bias/bias"] = weights["masked_lm/output_bias"]
    return found


def encoder_settings(config: AlbertConfig, activation: Any = "Text>gelu") -> dict[str, Any]:
    """`AlbertEncoder.get_config()` inside the configuration of the model that is exported."""
    encoder = {
        "vocab_size": config.vocab_size,
        "embedding_width": config.embedding_size,
        "hidden_size": config.hidden_size,
        "num_layers": config.num_hidden_layers,
        "num_attention_heads": config.num_attention_heads,
        "max_sequence_length": config.max_position_embeddings,
        "type_vocab_size": config.type_vocab_size,
        "intermediate_size": config.intermediate_size,
        "activation": activation,
        "dropout_rate": config.hidden_dropout_prob,
        "attention_dropout_rate": config.attention_probs_dropout_prob,
        "initializer": {"class_name": "TruncatedNormal", "config": {"mean": 0.0, "stddev": 0.02, "seed": None}},
    }
    layers = [{"class_name": "InputLayer", "config": {}}, {"class_name": "Text>AlbertEncoder", "config": encoder}]
    return {"class_name": "Functional", "config": {"name": "model", "layers": layers}}


def write_keras_model(
    folder: pathlib.Path,
    tensors: Weights,
    vocabulary: pathlib.Path | None,
    *,
    settings: dict[str, Any] | None = None,
    lower_case: bool | None = None,
) -> str:
    """A SavedModel of TensorFlow 2 with these variables."""
    root = tf.Module()
    root.kept = [tf.Variable(value, name=name) for name, value in tensors.items()]
    if vocabulary is not None:
        root.sp_model_file = tf.saved_model.Asset(str(vocabulary))
    if lower_case is not None:
        root.do_lower_case = tf.Variable(lower_case, trainable=False)
    tf.saved_model.save(root, str(folder))
    if settings is not None:
        (folder / "keras_metadata.pb").write_bytes(keras_metadata({"class_name": "Functional"}, settings))
    return str(folder)


def keras_metadata(*nodes: dict[str, Any]) -> bytes:
    """A `SavedMetadata` message (tensorflow: keras/protobuf/saved_metadata.proto) of nodes with this metadata."""
    content = b""
    for number, metadata in enumerate(nodes):
        path, identifier = b"root.layer", b"_tf_keras_network"
        node = bytes([0x10, number]) + _text(3, path) + _text(4, identifier) + _text(5, json.dumps(metadata).encode())
        content += _text(1, node)
    return content


def _text(field: int, value: bytes) -> bytes:
    size, length = len(value), b""
    while size > 0x7F:
        length += bytes([size & 0x7F | 0x80])
        size >>= 7
    return bytes([field << 3 | 2]) + length + bytes([size]) + value
