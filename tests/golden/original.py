"""Reads the original's reference checkpoints for tests: their names, restated here apart from any importer."""

from __future__ import annotations

import pathlib
import re

import numpy as np
import tensorflow as tf

_RENAMED = (
    (r"^bert/embeddings/LayerNorm/", "encoder/embeddings/layer_norm/"),
    (r"^bert/embeddings/", "encoder/embeddings/"),
    (r"^bert/encoder/embedding_hidden_mapping_in/", "encoder/embedding_projection/"),
    (r"^bert/encoder/transformer/group_(\d+)/inner_group_(\d+)/", r"encoder/group_\1/inner_\2/"),
    (r"/attention_1/self/", "/attention/"),
    (r"/attention_1/output/dense/", "/attention/output/"),
    (r"/ffn_1/intermediate/output/dense/", "/feed_forward/output/"),
    (r"/ffn_1/intermediate/dense/", "/feed_forward/intermediate/"),
    (r"/(inner_\d+)/LayerNorm/", r"/\1/attention/layer_norm/"),
    (r"/(inner_\d+)/LayerNorm_1/", r"/\1/feed_forward/layer_norm/"),
    (r"^bert/pooler/dense/", "encoder/pooler/"),
    (r"^cls/predictions/transform/dense/", "masked_lm/dense/"),
    (r"^cls/predictions/transform/LayerNorm/", "masked_lm/layer_norm/"),
    (r"^cls/predictions/output_bias", "masked_lm/output_bias"),
    (r"^cls/seq_relationship/output_weights", "sentence_order/kernel"),
    (r"^cls/seq_relationship/output_bias", "sentence_order/bias"),
    (r"^start_logits/dense/", "conditional_span/start/"),
    (r"^end_logits/dense_0/", "conditional_span/end_hidden/"),
    (r"^end_logits/LayerNorm/", "conditional_span/end_layer_norm/"),
    (r"^end_logits/dense_1/", "conditional_span/end/"),
    (r"^answer_class/dense_0/", "conditional_span/answerable_hidden/"),
    (r"^answer_class/dense_1/", "conditional_span/answerable/"),
)


def read_weights(checkpoint: pathlib.Path, slot: str = "", head: str = "") -> dict[str, np.ndarray]:
    """Weights by our names, or with `slot` ("adam_m", "adam_v") the optimizer's state of each.

    `head` is our name of what the original calls "output_weights" and "output_bias" alone.
    """
    reader = tf.train.load_checkpoint(str(checkpoint))
    weights = {}
    for name in reader.get_variable_to_shape_map():
        stem, _, last = name.rpartition("/")
        if name == "global_step" or (last in ("adam_m", "adam_v")) != bool(slot) or (slot and last != slot):
            continue
        theirs = ours = stem if slot else name
        for pattern, replacement in _RENAMED:
            ours = re.sub(pattern, replacement, ours)
        if theirs in ("output_weights", "output_bias"):
            ours = f"{head}/{'kernel' if theirs == 'output_weights' else 'bias'}"
        value = reader.get_tensor(name)
        weights[ours] = value.T if theirs.endswith("output_weights") else value
    return weights


def read_transformers_weights(path: pathlib.Path, head: str = "classifier") -> dict[str, np.ndarray]:
    """Weights of a transformers file by our names; its dense kernels are stored output first.

    `head` is our name of what is "classifier" there.
    """
    from safetensors.numpy import load_file

    renamed = (
        (r"^albert\.embeddings\.LayerNorm\.weight", "encoder/embeddings/layer_norm/gamma"),
        (r"^albert\.embeddings\.LayerNorm\.bias", "encoder/embeddings/layer_norm/beta"),
        (r"^albert\.embeddings\.(\w+)\.weight", r"encoder/embeddings/\1"),
        (r"^albert\.encoder\.embedding_hidden_mapping_in\.", "encoder/embedding_projection/"),
        (r"^albert\.encoder\.albert_layer_groups\.(\d+)\.albert_layers\.(\d+)\.", r"encoder/group_\1/inner_\2/"),
        (r"/attention\.LayerNorm\.", "/attention/layer_norm."),
        (r"/attention\.dense\.", "/attention/output/"),
        (r"/attention\.(query|key|value)\.", r"/attention/\1/"),
        (r"/ffn\.", "/feed_forward/intermediate/"),
        (r"/ffn_output\.", "/feed_forward/output/"),
        (r"/full_layer_layer_norm\.", "/feed_forward/layer_norm."),
        (r"^albert\.pooler\.", "encoder/pooler/"),
        (r"^predictions\.LayerNorm\.", "masked_lm/layer_norm."),
        (r"^predictions\.dense\.", "masked_lm/dense/"),
        (r"^predictions\.bias$", "masked_lm/output_bias"),
        (r"^sop_classifier\.classifier\.", "sentence_order/"),
        (r"^classifier\.", f"{head}/"),
        (r"^qa_outputs\.", "span/"),
        (r"layer_norm\.weight$", "layer_norm/gamma"),
        (r"layer_norm\.bias$", "layer_norm/beta"),
        (r"/weight$", "/kernel"),
    )
    weights = {}
    for name, value in load_file(path).items():
        ours = name
        for pattern, replacement in renamed:
            ours = re.sub(pattern, replacement, ours)
        weights[ours] = value.T if ours.endswith("/kernel") else value
    return weights
