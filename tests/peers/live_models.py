"""Random models of transformers, and the outputs of theirs and ours side by side."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np

# All sizes differ from each other.
SIZES: Mapping[str, Any] = {
    "vocab_size": 101,
    "embedding_size": 14,
    "hidden_size": 24,
    "num_attention_heads": 3,
    "intermediate_size": 40,
    "max_position_embeddings": 19,
    "type_vocab_size": 2,
    "num_hidden_layers": 4,
}
CONFIGURATIONS: Mapping[str, Mapping[str, Any]] = {
    "shared": {},
    "two groups": {"num_hidden_groups": 2},
    "inner groups": {"num_hidden_groups": 2, "inner_group_num": 3},
    "relu": {"hidden_act": "relu"},
    "exact gelu": {"hidden_act": "gelu"},
    "equal widths": {"embedding_size": 24},
}
# Class of theirs -> settings, the head of ours, and pairs of outputs, theirs and ours.
HEADS: Mapping[str, tuple[Mapping[str, Any], str, Mapping[str, str]]] = {
    "AlbertModel": ({}, "encoder", {"last_hidden_state": "sequence_output", "pooler_output": "pooled_output"}),
    "AlbertForPreTraining": (
        {},
        "pretraining",
        {"prediction_logits": "masked_lm_logits", "sop_logits": "sentence_order_logits"},
    ),
    "AlbertForMaskedLM": ({}, "masked_lm", {"logits": "masked_lm_logits"}),
    "AlbertForSequenceClassification": ({"num_labels": 5}, "classifier", {"logits": "logits"}),
    "AlbertForSequenceClassification, one output": ({"num_labels": 1}, "regression", {"logits": "logits"}),
    "AlbertForMultipleChoice": ({}, "multiple_choice", {"logits": "logits"}),
    "AlbertForTokenClassification": ({"num_labels": 7}, "token_classifier", {"logits": "logits"}),
    "AlbertForQuestionAnswering": ({}, "span", {"start_logits": "start_logits", "end_logits": "end_logits"}),
}


def random_model(hf: ModuleType, head: str, *, dtype: Any = None, **settings: Any) -> Any:
    """A model of theirs whose weights are all random, biases and LayerNorms included."""
    import torch

    model = getattr(hf, head.partition(",")[0])(hf.AlbertConfig(**{**SIZES, **HEADS[head][0], **settings}))
    generator = torch.Generator().manual_seed(29)
    with torch.no_grad():
        for name, value in model.named_parameters():
            noise = torch.randn(value.shape, generator=generator)
            # LayerNorms near one, so that later layers see numbers of all sizes.
            value.copy_(1 + 0.3 * noise if "orm.weight" in name or "norm.weight" in name else 0.25 * noise)
    return (model if dtype is None else model.to(dtype)).eval()


def inputs(head: str) -> dict[str, np.ndarray]:
    """Random ids int32 [B, S] or [B, C, S], where sequences have different lengths."""
    generator = np.random.default_rng(31)
    shape = (3, 4, 17) if head == "AlbertForMultipleChoice" else (3, 17)
    lengths = generator.integers(5, shape[-1], size=(*shape[:-1], 1))
    return {
        "input_ids": generator.integers(0, SIZES["vocab_size"], shape).astype(np.int32),
        "input_mask": (np.arange(shape[-1]) < lengths).astype(np.int32),
        "segment_ids": generator.integers(0, 2, shape).astype(np.int32),
    }


def their_outputs(model: Any, head: str) -> dict[str, np.ndarray]:
    """Outputs of theirs under our names, float32."""
    import torch

    values = {name: torch.from_numpy(value.astype(np.int64)) for name, value in inputs(head).items()}
    with torch.inference_mode():
        found = model(
            input_ids=values["input_ids"],
            attention_mask=values["input_mask"],
            token_type_ids=values["segment_ids"],
        )
    outputs = {ours: found[theirs].float().numpy() for theirs, ours in HEADS[head][2].items()}
    return {name: value[:, 0] for name, value in outputs.items()} if head.endswith("one output") else outputs


def our_outputs(model: Any, head: str) -> dict[str, np.ndarray]:
    """Outputs of ours, the masked-LM head's at every position."""
    values = inputs(head)
    if "masked_lm_logits" in HEADS[head][2].values():
        size, length = values["input_ids"].shape
        values["masked_lm_positions"] = np.tile(np.arange(length, dtype=np.int32), (size, 1))
    return {name: np.asarray(value) for name, value in model(values).items()}


def save(model: Any, folder: pathlib.Path, **settings: Any) -> pathlib.Path:
    """`save_pretrained`; its folder."""
    model.save_pretrained(folder, **settings)
    return folder


def assert_same_outputs(theirs: Mapping[str, np.ndarray], ours: Mapping[str, np.ndarray]) -> None:
    """Equal within 1e-5: both compute in float32, in another order."""
    assert theirs.keys() == ours.keys()
    for name, value in theirs.items():
        assert np.abs(value).max() > 0.1, name  # else nothing is compared
        # Of the largest number, where that is more than 1: the error grows with what is summed.
        np.testing.assert_allclose(ours[name], value, rtol=0, atol=1e-5 * max(1.0, np.abs(value).max()), err_msg=name)
