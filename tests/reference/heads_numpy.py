"""ALBERT's heads restated in plain NumPy, float64, for tests. Reads weights by their canonical names."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.head_config import HeadConfig
from tests.reference.albert_numpy import Weights, dense, encode, log_softmax, masked_lm, normalize

Arrays = Mapping[str, np.ndarray]


def forward(config: AlbertConfig, head: HeadConfig, weights: Weights, inputs: Arrays) -> dict[str, np.ndarray]:
    """Outputs of the model with `head`, float64."""
    if head.head == "multiple_choice":
        choices = [{key: value[:, i] for key, value in inputs.items()} for i in range(inputs["input_ids"].shape[1])]
        scores = [dense(weights, head.head, encode(config, weights, one)["pooled_output"]) for one in choices]
        return {"logits": np.concatenate(scores, axis=1)}
    encoded = encode(config, weights, inputs)
    hidden, pooled = encoded["sequence_output"], encoded.get("pooled_output", np.zeros(()))
    outputs: dict[str, np.ndarray] = {}
    if head.head in ("pretraining", "masked_lm"):
        outputs["masked_lm_logits"] = masked_lm(config, weights, hidden, inputs["masked_lm_positions"])
    if head.head == "pretraining":
        outputs["sentence_order_logits"] = dense(weights, "sentence_order", pooled)
    elif head.head == "encoder":
        outputs = {key: encoded[key] for key in ("sequence_output", "pooled_output") if key in encoded}
    elif head.head == "classifier":
        outputs["logits"] = dense(weights, "classifier", pooled)
    elif head.head == "regression":
        outputs["logits"] = dense(weights, "regression", pooled)[:, 0]
    elif head.head == "token_classifier":
        outputs["logits"] = dense(weights, "token_classifier", hidden)
    elif head.head == "span":
        logits = dense(weights, "span", hidden)
        outputs = {"start_logits": logits[..., 0], "end_logits": logits[..., 1]}
    elif head.head == "conditional_span":
        outputs = conditional_span(head, weights, hidden, inputs)
    return outputs


def conditional_span(head: HeadConfig, weights: Weights, hidden: np.ndarray, inputs: Arrays) -> dict[str, np.ndarray]:
    """One text at a time, one start at a time: `hidden` [B, S, H]."""
    rows = [_one_text(head, weights, *one) for one in zip(hidden, inputs["p_mask"], _starts(inputs), strict=True)]
    return {key: np.stack([row[key] for row in rows]) for key in rows[0]}


def _starts(inputs: Arrays) -> list[int | None]:
    return inputs["start_positions"].tolist() if "start_positions" in inputs else [None] * len(inputs["p_mask"])


def _one_text(
    head: HeadConfig, weights: Weights, hidden: np.ndarray, p_mask: np.ndarray, true_start: int | None
) -> dict[str, np.ndarray]:
    starts = _log_probs(dense(weights, "conditional_span/start", hidden)[:, 0], p_mask)
    expected_start = np.exp(starts) @ hidden
    features = np.concatenate([expected_start, hidden[0]])
    answerable = np.tanh(dense(weights, "conditional_span/answerable_hidden", features))
    no_answer = (answerable @ weights["conditional_span/answerable/kernel"])[0]
    if true_start is not None:
        ends = _ends(weights, hidden, p_mask, true_start)
        return {"start_log_probs": starts, "end_log_probs": ends, "cls_logits": no_answer}
    best = _best(starts, head.start_n_top)
    ends_of_best = [_ends(weights, hidden, p_mask, start) for start in best]
    best_ends = [_best(ends, head.end_n_top) for ends in ends_of_best]
    return {
        "start_top_log_probs": starts[best],
        "start_top_index": best,
        "end_top_log_probs": np.concatenate([ends[at] for ends, at in zip(ends_of_best, best_ends, strict=True)]),
        "end_top_index": np.concatenate(best_ends),
        "cls_logits": no_answer,
    }


def _ends(weights: Weights, hidden: np.ndarray, p_mask: np.ndarray, start: int) -> np.ndarray:
    joined = np.concatenate([hidden, np.tile(hidden[start], (len(hidden), 1))], axis=1)  # [S, 2H]
    inner = np.tanh(dense(weights, "conditional_span/end_hidden", joined))
    logits = dense(weights, "conditional_span/end", normalize(weights, "conditional_span/end_layer_norm", inner))
    return _log_probs(logits[:, 0], p_mask)


def _log_probs(logits: np.ndarray, p_mask: np.ndarray) -> np.ndarray:
    return log_softmax(np.where(p_mask > 0, -1e30, logits))


def _best(values: np.ndarray, count: int) -> np.ndarray:
    """Places of the largest values, of equal ones the first."""
    return np.argsort(-values, kind="stable")[:count]
