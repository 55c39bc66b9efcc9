"""Checkpoints of the original and directories of transformers, converted, and the source deleted: the same values.

Tolerance: as in test_reference_values.
"""

from __future__ import annotations

import pathlib
import shutil
from typing import Any

import numpy as np
import pytest

import albert_tf
from albert_tf.conversion import convert

pytestmark = pytest.mark.golden
FORWARD = 1e-5
SETTINGS: dict[str, dict[str, Any]] = {"tf1_squad_v2": {"head_settings": {"start_n_top": 3, "end_n_top": 2}}}
# Names of inputs and outputs that differ from ours.
RENAMED = {
    "attention_mask": "input_mask",
    "token_type_ids": "segment_ids",
    "prediction_logits": "masked_lm_logits",
    "sop_logits": "sentence_order_logits",
}
OUTPUTS = {
    "tf1_shared_lamb": ("masked_lm_log_probs", "sentence_order_log_probs"),
    "tf1_two_groups": ("masked_lm_log_probs", "sentence_order_log_probs"),
    "tf1_classifier_3": ("logits",),
    "tf1_race": ("logits",),
    "tf1_squad_v2": ("start_top_log_probs", "start_top_index", "end_top_log_probs", "end_top_index", "cls_logits"),
    "hf_pretraining": ("masked_lm_logits", "sentence_order_logits"),
    "hf_classifier_3": ("logits",),
    "hf_multiple_choice": ("logits",),
    "hf_question_answering": ("start_logits", "end_logits"),
}


def source(reference_data: pathlib.Path, name: str, folder: pathlib.Path) -> pathlib.Path:
    """A copy of a golden set's model, without its values."""
    ignored = shutil.ignore_patterns("*.npz", "train.json", "model.ckpt-3*", "checkpoint")
    shutil.copytree(reference_data / "golden" / name, folder, ignore=ignored)
    return folder / "model.ckpt-0" if name.startswith("tf1_") else folder


def expected(reference_data: pathlib.Path, name: str) -> dict[str, np.ndarray]:
    path = reference_data / "golden" / name
    arrays = dict(np.load(path / ("forward.npz" if (path / "forward.npz").exists() else "expected.npz")))
    arrays = {RENAMED.get(key, key): value for key, value in arrays.items()}
    if "masked_lm_logits" in arrays:  # of every position
        shape = arrays["input_ids"].shape
        arrays["masked_lm_positions"] = np.broadcast_to(np.arange(shape[1], dtype=np.int32), shape)
    return arrays


def log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


@pytest.mark.parametrize("way", ["converted", "straight"])
@pytest.mark.parametrize("name", OUTPUTS)
def test_a_converted_model_gives_the_values(
    reference_data: pathlib.Path, tmp_path: pathlib.Path, name: str, way: str
) -> None:
    path = source(reference_data, name, tmp_path / "source")
    settings = SETTINGS.get(name, {})
    if way == "converted":
        report = convert(path, tmp_path / "ours", **settings)
        assert report.counts()["missing"] == report.counts()["left over"] == 0
        shutil.rmtree(tmp_path / "source")
        model = albert_tf.load_model(tmp_path / "ours")
    else:
        model = albert_tf.load_model(path, **settings)
    arrays = expected(reference_data, name)
    outputs: dict[str, Any] = {
        key: np.asarray(value) for key, value in model.forward({key: arrays[key] for key in model.input}).items()
    }
    if "masked_lm_log_probs" in arrays:
        outputs["masked_lm_log_probs"] = log_softmax(outputs["masked_lm_logits"]).reshape(-1, model.config.vocab_size)
        outputs["sentence_order_log_probs"] = log_softmax(outputs["sentence_order_logits"])
    for key in OUTPUTS[name]:
        np.testing.assert_allclose(outputs[key], arrays[key], rtol=0, atol=FORWARD, err_msg=key)
