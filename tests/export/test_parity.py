"""Comparison of artefacts with their source, for every head."""

from __future__ import annotations

import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.head_config import HEADS, LABELLED, Head, HeadConfig
from albert_tf.modeling.models import make_model
from export import parity

CONFIG = AlbertConfig(
    vocab_size=53,
    embedding_size=7,
    hidden_size=12,
    num_hidden_layers=2,
    num_attention_heads=3,
    intermediate_size=17,
    max_position_embeddings=29,
)


def batch() -> parity.Batch:
    """Three texts of 11, 5 and 8 tokens, the last one a pair."""
    lengths = np.array([11, 5, 8])
    mask = (np.arange(11) < lengths[:, None]).astype(np.int32)
    ids = np.random.default_rng(3).integers(5, 53, (3, 11)).astype(np.int32) * mask
    segments = np.zeros_like(ids)
    segments[2, 5:8] = 1
    positions = np.array([[0, 4], [1, 2], [3, 7]], np.int32)
    return {"input_ids": ids, "input_mask": mask, "segment_ids": segments, "masked_lm_positions": positions}


def head_config(head: Head) -> HeadConfig:
    return HeadConfig(head=head, start_n_top=2, end_n_top=3, num_labels=4 if head in LABELLED else None)


@pytest.mark.parametrize("head", HEADS)
def test_every_head_gives_all_its_outputs_and_agrees_with_itself(head: Head) -> None:
    model = make_model(CONFIG, head_config(head), seed=5)
    inputs = parity.head_inputs(model.head_config, batch())
    assert set(inputs) == set(model.INPUTS)
    outputs = parity.source_outputs(model, inputs)
    assert set(outputs) >= set(model.forward(inputs))
    found = parity.agreement([outputs], [outputs], [batch()], head=head)
    assert found
    assert all(one.relative == 0.0 and one.cosine == pytest.approx(1.0, abs=1e-12) for one in found.values())


@pytest.mark.parametrize("head", ["classifier", "regression", "multiple_choice", "token_classifier", "span"])
def test_a_changed_number_shows(head: Head) -> None:
    model = make_model(CONFIG, head_config(head), seed=5)
    outputs = parity.source_outputs(model, parity.head_inputs(model.head_config, batch()))
    name = "start_logits" if head == "span" else "logits"
    changed = {name: outputs[name].copy()}
    changed[name].reshape(len(changed[name]), -1)[1, 0] += 0.5
    found = parity.agreement([outputs], [changed], [batch()], head=head)[name]
    assert found.relative == pytest.approx(0.5 / np.abs(outputs[name]).max(), rel=0.5)
    assert (found.probability is not None) == (head in ("classifier", "multiple_choice", "token_classifier"))
    if found.probability is not None:
        assert found.probability > 0.05


def test_padding_of_token_outputs_is_left_out() -> None:
    model = make_model(CONFIG, head_config("token_classifier"), seed=5)
    outputs = parity.source_outputs(model, parity.head_inputs(model.head_config, batch()))
    changed = {"logits": outputs["logits"].copy()}
    changed["logits"][1, 5:] = 7.0
    assert parity.agreement([outputs], [changed], [batch()], head="token_classifier")["logits"].relative == 0.0


def test_of_a_conditional_span_the_second_text_may_answer() -> None:
    forbidden = parity.head_inputs(head_config("conditional_span"), batch())["p_mask"]
    assert forbidden.tolist() == [
        [0] * 11,
        [0] * 5 + [1] * 6,
        [0, 1, 1, 1, 1, 0, 0, 0, 1, 1, 1],
    ]


def test_no_artefact_may_give_numbers_that_are_not_finite() -> None:
    outputs = {"logits": np.zeros([3, 4], np.float32)}
    with pytest.raises(ValueError, match="logits is not finite"):
        parity.agreement([outputs], [{"logits": np.full([3, 4], np.nan)}], [batch()], head="classifier")
