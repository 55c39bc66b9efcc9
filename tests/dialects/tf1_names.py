"""Models as the TensorFlow 1 programs name their variables, written down from those programs' scopes.

google-research/albert: modeling.py (AlbertModel, transformer_model, attention_ffn_block), run_pretraining.py,
classifier_utils.py, squad_utils.py. brightmart/albert_zh: modeling.py, run_pretraining.py, run_classifier.py.
Nothing here uses the readers' tables.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.head_config import HeadConfig
from albert_tf.weight_files.checkpoint import write_checkpoint
from albert_tf.weight_shapes import weight_shapes

Weights = dict[str, np.ndarray]
Pairs = Iterator[tuple[str, np.ndarray]]


def random_weights(config: AlbertConfig, head: HeadConfig, seed: int = 23) -> Weights:
    """Our weights, all random, biases and LayerNorms too."""
    generator = np.random.default_rng(seed)
    return {n: generator.standard_normal(s).astype(np.float32) for n, s in weight_shapes(config, head).items()}


def original_tensors(config: AlbertConfig, head: HeadConfig, weights: Weights) -> Weights:
    """The original's variables."""
    return dict([*_original_encoder(config, weights), *_heads(head, weights)])


def _dense(scope: str, weights: Weights, ours: str) -> Pairs:
    yield f"{scope}/kernel", weights[f"{ours}/kernel"]
    yield f"{scope}/bias", weights[f"{ours}/bias"]


def _norm(scope: str, weights: Weights, ours: str) -> Pairs:
    yield f"{scope}/beta", weights[f"{ours}/beta"]
    yield f"{scope}/gamma", weights[f"{ours}/gamma"]


def _tables(weights: Weights) -> Pairs:
    for name in ("word_embeddings", "token_type_embeddings", "position_embeddings"):
        yield f"bert/embeddings/{name}", weights[f"encoder/embeddings/{name}"]
    yield from _norm("bert/embeddings/LayerNorm", weights, "encoder/embeddings/layer_norm")


def _original_encoder(config: AlbertConfig, weights: Weights) -> Pairs:
    yield from _tables(weights)
    if config.embedding_size != config.hidden_size:
        yield from _dense("bert/encoder/embedding_hidden_mapping_in", weights, "encoder/embedding_projection")
    for layer in range(config.num_hidden_layers):
        group = int(layer / config.num_hidden_layers * config.num_hidden_groups)
        for inner in range(config.inner_group_num):
            scope = f"bert/encoder/transformer/group_{group}/inner_group_{inner}"
            ours = f"encoder/group_{group}/inner_{inner}"
            for part in ("query", "key", "value"):
                yield from _dense(f"{scope}/attention_1/self/{part}", weights, f"{ours}/attention/{part}")
            yield from _dense(f"{scope}/attention_1/output/dense", weights, f"{ours}/attention/output")
            yield from _norm(f"{scope}/LayerNorm", weights, f"{ours}/attention/layer_norm")
            yield from _dense(f"{scope}/ffn_1/intermediate/dense", weights, f"{ours}/feed_forward/intermediate")
            yield from _dense(f"{scope}/ffn_1/intermediate/output/dense", weights, f"{ours}/feed_forward/output")
            yield from _norm(f"{scope}/LayerNorm_1", weights, f"{ours}/feed_forward/layer_norm")
    yield from _dense("bert/pooler/dense", weights, "encoder/pooler")


def _heads(head: HeadConfig, weights: Weights) -> Pairs:
    def outputs(scope: str, ours: str) -> Pairs:
        yield f"{scope}output_weights", weights[f"{ours}/kernel"].T
        yield f"{scope}output_bias", weights[f"{ours}/bias"]

    if head.head in ("pretraining", "masked_lm"):
        yield from _dense("cls/predictions/transform/dense", weights, "masked_lm/dense")
        yield from _norm("cls/predictions/transform/LayerNorm", weights, "masked_lm/layer_norm")
        yield "cls/predictions/output_bias", weights["masked_lm/output_bias"]
    if head.head == "pretraining":
        yield from outputs("cls/seq_relationship/", "sentence_order")
    elif head.head in ("classifier", "regression", "multiple_choice", "token_classifier"):
        yield from outputs("", head.head)
    elif head.head == "span":
        yield from outputs("cls/squad/", "span")
    elif head.head == "conditional_span":
        yield from _dense("start_logits/dense", weights, "conditional_span/start")
        yield from _dense("end_logits/dense_0", weights, "conditional_span/end_hidden")
        yield from _norm("end_logits/LayerNorm", weights, "conditional_span/end_layer_norm")
        yield from _dense("end_logits/dense_1", weights, "conditional_span/end")
        yield from _dense("answer_class/dense_0", weights, "conditional_span/answerable_hidden")
        yield "answer_class/dense_1/kernel", weights["conditional_span/answerable/kernel"]


def zh_tensors(head: HeadConfig, weights: Weights) -> Weights:
    """albert_zh's variables."""
    scope, ours = "bert/encoder/layer_shared", "encoder/group_0/inner_0"
    pairs = [
        *_tables(weights),
        ("bert/embeddings/word_embeddings_2", weights["encoder/embeddings/word_projection"]),
        *_dense(f"{scope}/attention/self/query", weights, f"{ours}/attention/query"),
        *_dense(f"{scope}/attention/self/key", weights, f"{ours}/attention/key"),
        *_dense(f"{scope}/attention/self/value", weights, f"{ours}/attention/value"),
        *_dense(f"{scope}/attention/output/dense", weights, f"{ours}/attention/output"),
        *_norm(f"{scope}/attention/output/LayerNorm", weights, f"{ours}/attention/layer_norm"),
        *_dense(f"{scope}/intermediate/dense", weights, f"{ours}/feed_forward/intermediate"),
        *_dense(f"{scope}/output/dense", weights, f"{ours}/feed_forward/output"),
        *_norm(f"{scope}/output/LayerNorm", weights, f"{ours}/feed_forward/layer_norm"),
        *_dense("bert/pooler/dense", weights, "encoder/pooler"),
        *_heads(head, weights),
    ]
    return dict(pairs)


def write_original(
    folder: pathlib.Path, tensors: dict[str, np.ndarray], config: AlbertConfig, **changes: Any
) -> pathlib.Path:
    """Folder as of a published archive; a field that is changed to None is left out of the configuration."""
    folder.mkdir(exist_ok=True)
    write_checkpoint(str(folder / "model.ckpt-best"), tensors)
    values = config.to_dict()
    for ours in ("parameter_sharing", "embedding_projection", "embedding_factorization"):
        del values[ours]
    values |= {"net_structure_type": 0, "layers_to_keep": [], "gap_size": 0, "num_memory_blocks": 0, **changes}
    values = {name: value for name, value in values.items() if value is not None}
    (folder / "albert_config.json").write_text(json.dumps(values))
    return folder
