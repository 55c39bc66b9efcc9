"""Small directories as transformers writes them. Names are written out here, after its source, not taken from a table.

Source: huggingface/transformers, src/transformers/models/albert/modeling_albert.py and modeling_tf_albert.py.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from safetensors.numpy import save_file

# All sizes differ from each other.
V, E, H, F, P, T, G, INNER = 31, 6, 8, 12, 10, 3, 2, 2
CONFIG: Mapping[str, Any] = {
    "model_type": "albert",
    "vocab_size": V,
    "embedding_size": E,
    "hidden_size": H,
    "intermediate_size": F,
    "max_position_embeddings": P,
    "type_vocab_size": T,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "num_hidden_groups": G,
    "inner_group_num": INNER,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
}


def torch_shapes(*heads: str, pooler: bool = True, prefix: str = "albert.") -> dict[str, tuple[int, ...]]:
    """Names and shapes of a state dict with the given heads: "predictions", "sop", "qa" or "classifier:C"."""
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (V, E),
        "embeddings.position_embeddings.weight": (P, E),
        "embeddings.token_type_embeddings.weight": (T, E),
        "embeddings.LayerNorm.weight": (E,),
        "embeddings.LayerNorm.bias": (E,),
        "encoder.embedding_hidden_mapping_in.weight": (H, E),
        "encoder.embedding_hidden_mapping_in.bias": (H,),
    }
    for place in (f"encoder.albert_layer_groups.{g}.albert_layers.{i}" for g in range(G) for i in range(INNER)):
        for name in ("query", "key", "value", "dense"):
            shapes[f"{place}.attention.{name}.weight"] = (H, H)
            shapes[f"{place}.attention.{name}.bias"] = (H,)
        for name in ("attention.LayerNorm", "full_layer_layer_norm"):
            shapes[f"{place}.{name}.weight"] = shapes[f"{place}.{name}.bias"] = (H,)
        shapes[f"{place}.ffn.weight"], shapes[f"{place}.ffn.bias"] = (F, H), (F,)
        shapes[f"{place}.ffn_output.weight"], shapes[f"{place}.ffn_output.bias"] = (H, F), (H,)
    if pooler:
        shapes["pooler.weight"], shapes["pooler.bias"] = (H, H), (H,)
    shapes = {prefix + name: shape for name, shape in shapes.items()}
    for head in heads:
        if head == "predictions":
            shapes |= {"predictions.dense.weight": (E, H), "predictions.dense.bias": (E,), "predictions.bias": (V,)}
            shapes |= {"predictions.LayerNorm.weight": (E,), "predictions.LayerNorm.bias": (E,)}
            continue
        name, _, count = head.partition(":")
        name = {"sop": "sop_classifier.classifier", "qa": "qa_outputs"}.get(name, name)
        shapes[f"{name}.weight"], shapes[f"{name}.bias"] = (int(count or 2), H), (int(count or 2),)
    return shapes


def random_arrays(shapes: Mapping[str, tuple[int, ...]], *, dtype: Any = np.float32) -> dict[str, np.ndarray]:
    """Other numbers for each name."""
    generator = np.random.default_rng(11)
    return {name: generator.normal(size=shape).astype(dtype) for name, shape in shapes.items()}


def write_config(folder: pathlib.Path, **changes: Any) -> None:
    """`config.json` of the small model; a key with the value `...` is left out."""
    folder.mkdir(parents=True, exist_ok=True)
    values = {key: value for key, value in {**CONFIG, **changes}.items() if value is not ...}
    (folder / "config.json").write_text(json.dumps(values), encoding="utf-8")


def write_directory(folder: pathlib.Path, arrays: Mapping[str, np.ndarray], **changes: Any) -> None:
    """The small model with these tensors as `model.safetensors`."""
    write_config(folder, **changes)
    save_file(dict(arrays), folder / "model.safetensors", metadata={"format": "pt"})


def keras_paths(model: str, *heads: str, pooler: bool = True) -> dict[str, tuple[int, ...]]:
    """Paths and shapes of the datasets of a `tf_model.h5`: layer / name of the model / layer / ... / variable:0."""
    main = f"albert/{model}/albert"
    shapes: dict[str, tuple[int, ...]] = {
        f"{main}/embeddings/word_embeddings/weight:0": (V, E),
        f"{main}/embeddings/position_embeddings/embeddings:0": (P, E),
        f"{main}/embeddings/token_type_embeddings/embeddings:0": (T, E),
        f"{main}/embeddings/LayerNorm/gamma:0": (E,),
        f"{main}/embeddings/LayerNorm/beta:0": (E,),
        f"{main}/encoder/embedding_hidden_mapping_in/kernel:0": (E, H),
        f"{main}/encoder/embedding_hidden_mapping_in/bias:0": (H,),
    }
    for g in range(G):
        for i in range(INNER):
            place = f"{main}/encoder/albert_layer_groups_._{g}/albert_layers_._{i}"
            for name in ("query", "key", "value", "dense"):
                shapes[f"{place}/attention/{name}/kernel:0"] = (H, H)
                shapes[f"{place}/attention/{name}/bias:0"] = (H,)
            for name in ("attention/LayerNorm", "full_layer_layer_norm"):
                shapes[f"{place}/{name}/gamma:0"] = shapes[f"{place}/{name}/beta:0"] = (H,)
            shapes[f"{place}/ffn/kernel:0"], shapes[f"{place}/ffn/bias:0"] = (H, F), (F,)
            shapes[f"{place}/ffn_output/kernel:0"], shapes[f"{place}/ffn_output/bias:0"] = (F, H), (H,)
    if pooler:
        shapes[f"{main}/pooler/kernel:0"], shapes[f"{main}/pooler/bias:0"] = (H, H), (H,)
    for head in heads:
        if head == "predictions":
            place = f"predictions/{model}/predictions"
            shapes |= {f"{place}/dense/kernel:0": (H, E), f"{place}/dense/bias:0": (E,)}
            shapes |= {f"{place}/LayerNorm/gamma:0": (E,), f"{place}/LayerNorm/beta:0": (E,)}
            shapes |= {f"{place}/bias:0": (V,), f"{place}/decoder/bias:0": (V,)}
            continue
        name, _, count = head.partition(":")
        layer = {"sop": "sop_classifier", "qa": "qa_outputs"}.get(name, name)
        place = f"{layer}/{model}/{layer}/classifier" if name == "sop" else f"{layer}/{model}/{layer}"
        shapes[f"{place}/kernel:0"], shapes[f"{place}/bias:0"] = (H, int(count or 2)), (int(count or 2),)
    return shapes
