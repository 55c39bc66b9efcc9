"""Two models beside each other: every head, equal and different weights, other heads, other tokenizers."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from albert_tf.head_config import HeadConfig
from albert_tf.weight_files.safetensors_file import write_safetensors
from export import verify
from tests.modeling.small_models import make_config
from tests.test_conversion import write

HEADS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "pretraining": ({}, {"masked_lm_logits", "sentence_order_logits"}),
    "encoder": ({}, set()),
    "classifier": ({"num_labels": 5}, {"logits"}),
    "multiple_choice": ({}, {"logits"}),
    "token_classifier": ({"num_labels": 5, "pooler": False}, {"logits"}),
    "conditional_span": (
        {"start_n_top": 2, "end_n_top": 1},
        {"start_top_log_probs", "start_top_index", "end_top_log_probs", "end_top_index", "cls_logits"},
    ),
}


def change(path: pathlib.Path, name: str, place: tuple[int, ...], by: float) -> None:
    file = path / "model.safetensors"
    weights = load_file(file)
    weights[name] = weights[name].copy()
    weights[name][place] += by
    write_safetensors(file, weights, {"format": "albert_tf"})


@pytest.mark.parametrize("name", HEADS)
def test_a_model_agrees_with_itself_in_every_output(tmp_path: pathlib.Path, name: str) -> None:
    settings, outputs = HEADS[name]
    path = write(tmp_path / "a", HeadConfig(head=name, **settings))  # type: ignore[arg-type]
    found = verify.compare(path, path)
    encoder = {"sequence_output"} | ({"pooled_output"} if settings.get("pooler", True) else set())
    assert {one.output for one in found.differences} == outputs | encoder
    assert {one.inputs for one in found.differences} == {"random"}
    assert all(one.largest == 0.0 for one in found.differences)
    assert all(one.magnitude > 0.0 for one in found.differences if not one.output.endswith("_index"))
    assert (found.left_out, found.different_ids) == ((), None)
    assert verify.within(found, 0.0)


def test_one_other_weight_is_seen_where_it_acts(tmp_path: pathlib.Path) -> None:
    a, b = (write(tmp_path / name, HeadConfig(head="classifier", num_labels=5)) for name in ("a", "b"))
    change(b, "classifier/bias", (3,), 0.25)
    found = verify.compare(a, b)
    largest = {one.output: one.largest for one in found.differences}
    assert largest["sequence_output"] == largest["pooled_output"] == 0.0
    assert largest["logits"] == pytest.approx(0.25, abs=1e-5)  # a sum in float32
    assert verify.within(found, 0.26)
    assert not verify.within(found, 0.24)


def test_models_with_other_heads_share_the_encoder(tmp_path: pathlib.Path) -> None:
    a = write(tmp_path / "a", HeadConfig(head="regression"))
    b = write(tmp_path / "b", HeadConfig(head="span"))
    found = verify.compare(a, b)
    assert {one.output for one in found.differences} == {"sequence_output", "pooled_output"}
    assert (found.heads, found.left_out) == (("regression", "span"), ())


def test_heads_of_other_sizes_cannot_be_compared(tmp_path: pathlib.Path) -> None:
    a, b = (write(tmp_path / f"{n}", HeadConfig(head="classifier", num_labels=n)) for n in (3, 4))
    with pytest.raises(ValueError, match="the heads differ in num_labels: 3 and 4"):
        verify.compare(a, b)


def test_the_masked_lm_part_is_compared_with_the_whole(tmp_path: pathlib.Path) -> None:
    found = verify.compare(write(tmp_path / "a"), write(tmp_path / "b", HeadConfig(head="masked_lm")))
    assert {one.output for one in found.differences} == {"sequence_output", "pooled_output", "masked_lm_logits"}
    assert (found.heads, found.left_out) == (None, ("sentence_order_logits",))


def test_other_vocabularies_cannot_be_compared(tmp_path: pathlib.Path) -> None:
    a, b = write(tmp_path / "a"), write(tmp_path / "b", vocab_size=98)
    with pytest.raises(ValueError, match="vocabularies of 97 and 98 pieces: nothing to compare"):
        verify.compare(a, b)


def test_differing_ids_are_a_difference() -> None:
    same = verify.Comparison(differences=(), left_out=(), different_ids=0)
    assert verify.within(same, 0.0)
    assert not verify.within(verify.Comparison(differences=(), left_out=(), different_ids=1), 0.0)


def test_ragged_batches_mix_lengths() -> None:
    for batch in verify._random_batches(make_config(), np.random.default_rng(0)):
        lengths = batch["input_mask"].sum(1)
        assert lengths.max() == 17
        assert len(set(lengths.tolist())) > 1
        assert batch["input_ids"].max() > 60
        assert set(np.unique(batch["segment_ids"])) == {0, 1}
