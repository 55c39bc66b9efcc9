"""[MASK] and the order of two texts, beside the model called on each alone."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from albert_tf.head_config import HeadConfig
from albert_tf.inference.answers import AnswerSettings, make_answerer
from albert_tf.tokenizer import AlbertTokenizer
from tests.inference.conftest import ask, loaded_model, make, runner_of

PRETRAINING, MASKED_LM = HeadConfig(), HeadConfig(head="masked_lm", pooler=False)
ROWS = (
    {"text": "The [MASK] of a name is [MASK]."},
    {"text": "A name.", "text_b": "It is found in the module."},
    {"text": "The value", "text_b": "of [MASK] is it."},
)


def test_candidates_are_the_likeliest_pieces(tokenizer: AlbertTokenizer) -> None:
    found = ask(make(PRETRAINING, top_k=3), ROWS)
    ids = [tokenizer.cls_id]
    for number, part in enumerate(("The", "of a name is", None)):
        ids += [tokenizer.mask_id] * bool(number) + (tokenizer.encode(part) if part else [])
    places = [number for number, i in enumerate(ids) if i == tokenizer.mask_id]
    assert [mask["position"] for mask in found[0]["masks"]] == places
    assert [len(one["masks"]) for one in found] == [2, 0, 1]
    for one in found:
        for mask in one["masks"]:
            probabilities = [candidate["probability"] for candidate in mask["candidates"]]
            assert probabilities == sorted(probabilities, reverse=True)
            assert len(probabilities) == 3
            assert [tokenizer.id_to_piece(c["id"]) for c in mask["candidates"]] == [
                c["piece"] for c in mask["candidates"]
            ]


def test_numbers_are_those_of_the_model_alone(tokenizer: AlbertTokenizer) -> None:
    one = ask(make(PRETRAINING), ROWS)[1]
    ids, mask, segments = tokenizer.encode_pair(tokenizer.encode("A name."), tokenizer.encode(ROWS[1]["text_b"]), 60)
    inputs = {"input_ids": ids, "input_mask": mask, "segment_ids": segments, "masked_lm_positions": [0]}
    outputs = loaded_model(PRETRAINING).model.forward({k: np.array([v], np.int32) for k, v in inputs.items()})
    logits = outputs["sentence_order_logits"].numpy()[0]
    assert one["in_order"] == pytest.approx(float(1 / (1 + np.exp(logits[1] - logits[0]))), abs=1e-5)


def test_the_masked_lm_alone_says_nothing_of_order() -> None:
    found = ask(make(MASKED_LM, top_k=2), [ROWS[0], ROWS[2]])
    assert [one["in_order"] for one in found] == [None, None]
    with pytest.raises(ValueError, match=r"a:0: there is no \[MASK\], in capitals, where a piece is to be filled in$"):
        ask(make(MASKED_LM), [ROWS[1]])


def test_a_model_without_sentence_objective_says_nothing_of_order() -> None:
    loaded = dataclasses.replace(loaded_model(PRETRAINING), sentence_objective="none")
    answerer = make_answerer(loaded, runner_of(PRETRAINING, 3, True), AnswerSettings(top_k=1))
    assert ask(answerer, [ROWS[2]])[0]["in_order"] is None


def test_refusals(tokenizer: AlbertTokenizer) -> None:
    with pytest.raises(ValueError, match=r"a:1: there is no \[MASK\], in capitals, .*, and no second text whose order"):
        ask(make(PRETRAINING), [ROWS[0], {"text": "a [mask]"}])
    with pytest.raises(ValueError, match=r"a:0: 1 of 2 \[MASK\] stand behind the 60 tokens that texts are cut to"):
        ask(make(PRETRAINING), [{"text": "[MASK] " + "name " * 80 + "[MASK]"}])
    with pytest.raises(ValueError, match=f"top_k must be at most {tokenizer.vocab_size}, the pieces, got 9999"):
        make(PRETRAINING, top_k=9999)
