"""SavedModels of the encoder and of the masked-LM head alone, a model without a pooler among them."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import pytest

from albert_tf.head_config import HeadConfig
from albert_tf.inference.embedding import Embedder
from export.artifacts import SIGNATURES_FILE
from export.run_saved_model import ask
from export.runners import SavedModelRunner
from export.served_answers import ServedModel
from tests.export.served_heads import LONG, TEXTS, Case

TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return Case(tmp_path_factory.mktemp("served"), HeadConfig(head="encoder", pooler=False))


@pytest.fixture(scope="module")
def masked_lm(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return Case(tmp_path_factory.mktemp("served"), HeadConfig(head="masked_lm"), top_k=4)


def vectors(case: Case, texts: list[str]) -> np.ndarray:
    length = case.loaded.max_seq_length
    found: np.ndarray = Embedder(case.loaded.model, case.loaded.tokenizer, max_seq_length=length).vectors(texts)
    return found


def described(case: Case) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((pathlib.Path(case.report.text_folder) / SIGNATURES_FILE).read_text())
    return found


def test_vectors_of_texts(encoder: Case) -> None:
    found = encoder.call("serving_default", text=TEXTS)
    assert sorted(found) == ["input_ids", "input_mask", "segment_ids", "sequence_output"]  # no pooler
    means = found["sequence_output"].sum(axis=1) / found["input_mask"].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(means, vectors(encoder, list(TEXTS)), rtol=1e-4, atol=TOLERANCE)
    assert sorted(described(encoder)["signatures"]) == ["ids", "pair", "serving_default", "tokenize"]
    pair = encoder.call("pair", text=["a", "b"], text_b=["c", ""])
    tokenizer = encoder.loaded.tokenizer
    for row, (one, other) in enumerate((("a", "c"), ("b", ""))):
        expected = tokenizer.encode_pair(tokenizer.encode(one), tokenizer.encode(other) or None, 60)
        for name, values in zip(("input_ids", "input_mask", "segment_ids"), expected, strict=True):
            assert pair[name][row].tolist() == values[: pair[name].shape[1]]
    answer = ServedModel(encoder.report.text_folder).ask(LONG)
    np.testing.assert_allclose(answer["vector"], vectors(encoder, [LONG])[0], rtol=1e-4, atol=TOLERANCE)


def test_masks_are_filled_without_a_sentence_order(masked_lm: Case) -> None:
    assert "sentence_order" not in described(masked_lm)["signatures"]
    assert "sentence_objective" not in described(masked_lm)
    runner = SavedModelRunner(masked_lm.report.text_folder)
    for text, text_b in (("The [MASK] is a [MASK].", None), ("It [MASK].", "No [MASK]")):
        answer = ask(runner, text, text_b, top_k=4)
        (expected,) = masked_lm.expected([{"text": text, **({} if text_b is None else {"text_b": text_b})}])
        assert answer["in_order"] is None
        for one, other in zip(answer["masks"], expected["masks"], strict=True):
            assert one["position"] == other["position"]
            assert [c["piece"] for c in one["candidates"]] == [c["piece"] for c in other["candidates"]]
            np.testing.assert_allclose(
                [c["probability"] for c in one["candidates"]],
                [c["probability"] for c in other["candidates"]],
                atol=TOLERANCE,
            )
    with pytest.raises(ValueError, match="has the head 'masked_lm', which answers no question of this kind"):
        ServedModel(masked_lm.report.text_folder)
