"""Every head against values of the original's fine-tuning code and of transformers.

Losses are those of google-research/albert (`classifier_utils.py`, `race_utils.py`), restated here.

Tolerance: as in test_reference_values; log probabilities of forbidden positions are of size 1e30 and equal.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.head_config import HeadConfig
from albert_tf.model_directory import assign_weights
from albert_tf.modeling.head_model import AlbertHeadModel
from albert_tf.modeling.models import make_model
from tests.golden import original
from tests.reference.albert_numpy import log_softmax

pytestmark = pytest.mark.golden
FORWARD = 1e-5
Arrays = dict[str, Any]
CALLS = ["functional", "unrolled", "loop"]


def load(folder: pathlib.Path, head: HeadConfig) -> tuple[AlbertHeadModel, Arrays]:
    """Model with the weights of the original's checkpoint or of a transformers file, and expected.npz."""
    if (folder / "config.json").exists():
        theirs = json.loads((folder / "config.json").read_text())
        shared = {key: theirs[key] for key in AlbertConfig().to_dict() if key in theirs}
        config = AlbertConfig.from_dict({**shared, "hidden_act": "gelu", "embedding_projection": True})
        weights = original.read_transformers_weights(folder / "model.safetensors", head.head)
    else:
        config = AlbertConfig.from_json((folder / "albert_config.json").read_text())
        weights = original.read_weights(folder / "model.ckpt-0", head=head.head)
    model = make_model(config, head)
    assign_weights(model.named_weights(), weights, source=str(folder))
    arrays: Arrays = dict(np.load(folder / "expected.npz"))
    ours: dict[str, str] = {"attention_mask": "input_mask", "token_type_ids": "segment_ids"}
    return model, {ours.get(key, key): value for key, value in arrays.items()}


def run(model: AlbertHeadModel, arrays: Arrays, call: str) -> Arrays:
    inputs = {key: arrays[key] for key in model.input}
    outputs = model(inputs) if call == "functional" else model.forward(inputs, form=call)  # type: ignore[arg-type]
    return {key: np.asarray(value) for key, value in outputs.items()}


def close(actual: Any, expected: Any) -> None:
    np.testing.assert_allclose(actual, expected, rtol=0, atol=FORWARD)


def mean_cross_entropy(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return -np.take_along_axis(log_softmax(logits), labels[:, None], 1)[:, 0]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", ["tf1_classifier_3", "hf_classifier_3"])
def test_classifier(reference_data: pathlib.Path, name: str, call: str) -> None:
    model, arrays = load(reference_data / "golden" / name, HeadConfig(head="classifier", num_labels=3))
    logits = run(model, arrays, call)["logits"]
    close(logits, arrays["logits"])
    if "labels" in arrays:
        losses = mean_cross_entropy(logits, arrays["labels"])
        close(losses, arrays["per_example_loss"])
        close(losses.mean(), arrays["loss"])


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", ["tf1_race", "hf_multiple_choice"])
def test_multiple_choice(reference_data: pathlib.Path, name: str, call: str) -> None:
    model, arrays = load(reference_data / "golden" / name, HeadConfig(head="multiple_choice"))
    logits = run(model, arrays, call)["logits"]
    close(logits, arrays["logits"])
    if "labels" in arrays:
        close(mean_cross_entropy(logits, arrays["labels"]).mean(), arrays["loss"])


@pytest.mark.parametrize("call", CALLS)
def test_span(reference_data: pathlib.Path, call: str) -> None:
    # transformers' model for questions has no pooler
    model, arrays = load(reference_data / "golden" / "hf_question_answering", HeadConfig(head="span", pooler=False))
    outputs = run(model, arrays, call)
    for key in ("start_logits", "end_logits"):
        close(outputs[key], arrays[key])


@pytest.mark.parametrize("call", CALLS)
def test_masked_lm_alone(reference_data: pathlib.Path, call: str) -> None:
    """The masked-LM and encoder models with the pretraining model's weights."""
    folder = reference_data / "golden" / "hf_pretraining"
    model, arrays = load(folder, HeadConfig())
    rows, length = arrays["input_ids"].shape
    arrays["masked_lm_positions"] = np.tile(np.arange(length, dtype=np.int32), (rows, 1))
    alone = make_model(model.config, HeadConfig(head="masked_lm", pooler=False))
    encoder = make_model(model.config, HeadConfig(head="encoder"))
    whole = model.named_weights()
    for part in (alone, encoder):
        named = part.named_weights()
        assign_weights(named, {name: whole[name].numpy() for name in named}, source="the pretraining model")
    close(run(model, arrays, call)["sentence_order_logits"], arrays["sop_logits"])
    close(run(alone, arrays, call)["masked_lm_logits"], arrays["prediction_logits"])
    close(run(encoder, arrays, call)["sequence_output"], arrays["hidden_states"][-1])


@pytest.mark.parametrize("call", CALLS)
def test_conditional_span(reference_data: pathlib.Path, call: str) -> None:
    head = HeadConfig(head="conditional_span", start_n_top=3, end_n_top=2)
    model, arrays = load(reference_data / "golden" / "tf1_squad_v2", head)
    assert (arrays["start_n_top"], arrays["end_n_top"]) == (3, 2)
    outputs = run(model, arrays, call)
    for key in ("start_top_index", "end_top_index"):
        assert outputs[key].dtype == np.int32
        np.testing.assert_array_equal(outputs[key], arrays[key], err_msg=key)
    for key in ("start_top_log_probs", "end_top_log_probs", "cls_logits"):
        close(outputs[key], arrays[key])


@pytest.mark.parametrize("form", ["unrolled", "loop"])
def test_conditional_span_in_training(reference_data: pathlib.Path, form: Any) -> None:
    model, arrays = load(reference_data / "golden" / "tf1_squad_v2_train", HeadConfig(head="conditional_span"))
    outputs = model.forward({key: arrays[key] for key in (*model.input, "start_positions")}, form=form)
    for key in ("start_log_probs", "end_log_probs"):
        expected = arrays[f"train_{key}"]
        allowed = arrays["p_mask"] == 0
        assert allowed.any(1).all()
        close(np.asarray(outputs[key])[allowed], expected[allowed])
        # float32 keeps 24 bits of 1e30
        np.testing.assert_allclose(np.asarray(outputs[key])[~allowed], expected[~allowed], rtol=1e-6)
    close(outputs["cls_logits"], arrays["cls_logits"])
