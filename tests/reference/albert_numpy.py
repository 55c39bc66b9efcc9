"""ALBERT's forward pass restated in plain NumPy, float64, for tests. Reads weights by their canonical names."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from albert_tf.config import AlbertConfig

Weights = Mapping[str, np.ndarray]


def gelu_tanh(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * x**3)))


def layer_norm(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> np.ndarray:
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-12) * gamma + beta


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def log_softmax(x: np.ndarray) -> np.ndarray:
    shifted = x - x.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def dense(weights: Weights, name: str, x: np.ndarray) -> np.ndarray:
    return x @ weights[f"{name}/kernel"] + weights[f"{name}/bias"]


def normalize(weights: Weights, name: str, x: np.ndarray) -> np.ndarray:
    return layer_norm(x, weights[f"{name}/gamma"], weights[f"{name}/beta"])


def attention(weights: Weights, name: str, x: np.ndarray, mask: np.ndarray, heads: int) -> np.ndarray:
    """One sequence at a time, one head at a time: x [B, S, H], mask [B, S]."""
    context = np.empty_like(x)
    width = x.shape[-1] // heads
    for row in range(len(x)):
        query, key, value = (dense(weights, f"{name}/{part}", x[row]) for part in ("query", "key", "value"))
        for head in range(heads):
            part = slice(head * width, (head + 1) * width)
            scores = query[:, part] @ key[:, part].T / np.sqrt(width)
            scores = scores - 10000.0 * (1 - mask[row])[None, :]
            context[row, :, part] = softmax(scores) @ value[:, part]
    return normalize(weights, f"{name}/layer_norm", x + dense(weights, f"{name}/output", context))


def feed_forward(weights: Weights, name: str, x: np.ndarray) -> np.ndarray:
    update = dense(weights, f"{name}/output", gelu_tanh(dense(weights, f"{name}/intermediate", x)))
    return normalize(weights, f"{name}/layer_norm", x + update)


def place(weights: Weights, layer: int, group: int, inner: int, part: str) -> str:
    """Canonical prefix of a sublayer, whether its weights belong to the layer or to its group."""
    own = f"encoder/layer_{layer}/inner_{inner}/{part}"
    return own if f"{own}/layer_norm/gamma" in weights else f"encoder/group_{group}/inner_{inner}/{part}"


def embed(config: AlbertConfig, weights: Weights, ids: np.ndarray, segments: np.ndarray) -> np.ndarray:
    words = weights["encoder/embeddings/word_embeddings"][ids]
    if config.embedding_factorization == "words":
        words = words @ weights["encoder/embeddings/word_projection"]
    summed = (
        words
        + weights["encoder/embeddings/token_type_embeddings"][segments]
        + weights["encoder/embeddings/position_embeddings"][: ids.shape[1]]
    )
    return normalize(weights, "encoder/embeddings/layer_norm", summed)


def encode(config: AlbertConfig, weights: Weights, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Everything that the encoder computes, float64; no `pooled_output` without a pooler."""
    embedded = embed(config, weights, inputs["input_ids"], inputs["segment_ids"])
    x = dense(weights, "encoder/embedding_projection", embedded) if config.embedding_projection else embedded
    outputs = []
    for layer in range(config.num_hidden_layers):
        group = int(layer / config.num_hidden_layers * config.num_hidden_groups)
        for inner in range(config.inner_group_num):
            name = place(weights, layer, group, inner, "attention")
            x = attention(weights, name, x, inputs["input_mask"], config.num_attention_heads)
            x = feed_forward(weights, place(weights, layer, group, inner, "feed_forward"), x)
        outputs.append(x)
    found = {"embedding_output": embedded, "encoder_outputs": np.stack(outputs), "sequence_output": x}
    if "encoder/pooler/kernel" in weights:
        found["pooled_output"] = np.tanh(dense(weights, "encoder/pooler", x[:, 0]))
    return found


def masked_lm(config: AlbertConfig, weights: Weights, x: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Logits [B, P, V] at `positions` [B, P] of `x` [B, S, H]."""
    rows = np.arange(len(x))[:, None]
    transformed = normalize(
        weights, "masked_lm/layer_norm", gelu_tanh(dense(weights, "masked_lm/dense", x[rows, positions]))
    )
    table = weights["encoder/embeddings/word_embeddings"]
    if config.embedding_factorization == "words":
        table = table @ weights["encoder/embeddings/word_projection"]
    return transformed @ table.T + weights["masked_lm/output_bias"]


def forward(config: AlbertConfig, weights: Weights, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Everything that the pretraining model computes, float64."""
    encoded = encode(config, weights, inputs)
    return {
        **encoded,
        "masked_lm_logits": masked_lm(config, weights, encoded["sequence_output"], inputs["masked_lm_positions"]),
        "sentence_order_logits": dense(weights, "sentence_order", encoded["pooled_output"]),
    }
