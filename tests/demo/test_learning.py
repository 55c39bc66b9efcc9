"""Examples, candidates and the verdict, with a tokenizer of words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from demo import answers, learning

PIECES = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]", "▁the", "▁cat", "s", "▁sat", ".", "▁on", "▁"]


class WordTokenizer:
    """Splits at spaces; ids are places in PIECES."""

    cls_id, sep_id, mask_id = 2, 3, 4

    def id_to_piece(self, piece_id: int) -> str:
        return PIECES[piece_id]

    def encode(self, text: str) -> list[int]:
        return [PIECES.index(f"▁{word}") for word in text.split()]

    def decode(self, ids: list[int]) -> str:
        return "".join(PIECES[one] for one in ids).replace("▁", " ").strip()


def make_batch() -> dict[str, np.ndarray]:
    """Four rows: masks on "s" and "sat"; on "." only; on a piece that is shown; on a word at a segment's end."""
    return {
        "input_ids": np.array(
            [[2, 5, 6, 4, 4, 9, 3], [2, 5, 6, 8, 4, 3, 0], [2, 5, 6, 8, 9, 3, 0], [2, 5, 4, 3, 8, 3, 0]]
        ),
        "input_mask": np.array([[1] * 7] + [[1] * 6 + [0]] * 3),
        "masked_lm_positions": np.array([[3, 4], [4, 0], [3, 0], [2, 0]]),
        "masked_lm_ids": np.array([[7, 8], [9, 0], [8, 0], [6, 0]]),
        "masked_lm_weights": np.array([[1.0, 1.0], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]),
    }


def test_examples_ask_for_whole_words_and_show_the_other_masks() -> None:
    logits = np.zeros((4, 2, 12), np.float32)
    logits[0, 1, 8] = 10.0
    found = learning.mask_examples(make_batch(), logits, WordTokenizer())
    assert [(one["text"], one["answer"]) for one in found] == [("the cats [MASK] .", "sat")]
    assert found[0]["candidates"][0]["piece"] == "sat"


def test_candidates_are_best_first_with_probabilities() -> None:
    logits = np.log(np.array([0.01] * 8 + [0.5, 0.1, 0.25, 0.07]))
    found = learning.top_candidates(logits, WordTokenizer(), 4)
    assert [one["piece"] for one in found] == ["sat", "on", ".", "▁"]
    # Rounding of the exponential function.
    assert [one["probability"] for one in found] == pytest.approx([0.5, 0.25, 0.1, 0.07], rel=1e-12)


def test_chosen_examples_are_the_surest_right_and_wrong_ones_with_different_answers() -> None:
    def example(answer: str, piece: str, probability: float) -> dict[str, Any]:
        return {"answer": answer, "candidates": [{"piece": piece, "probability": probability}]}

    wrong = [example("a", "x", 0.2), example("b", "x", 0.9), example("b", "x", 0.8)]
    right = [example("c", "c", 0.3), example("d", "d", 0.4), example("c", "c", 0.5)]
    assert learning.choose_examples([*wrong, *right], 4) == [right[2], right[1], wrong[1], wrong[0]]
    assert learning.choose_examples(wrong, 4) == [wrong[1], wrong[0]]


def test_surest_query_has_the_widest_lead() -> None:
    def forward(batch: Mapping[str, np.ndarray]) -> np.ndarray:
        assert batch["input_ids"].shape == (1, 5)
        assert batch["input_ids"][0, batch["masked_lm_positions"][0, 0]] == WordTokenizer.mask_id
        lead = 3.0 if 10 in batch["input_ids"] else 1.0
        return np.array([[[5.0, 5.0 + lead, 0.0]]])

    queries = ("the [MASK] sat", "the [MASK] on", "cat sat [MASK]")
    assert learning.surest_query(queries, forward, WordTokenizer(), 9) == "the [MASK] on"


def test_curve_takes_the_evaluations_at_mask() -> None:
    records = [
        {"step": 20, "kind": "train", "masked_lm_loss": 7.0},
        {"step": 40, "kind": "eval", "masked_lm_loss_at_mask": 6.0, "sentence_order_accuracy": 0.75},
    ]
    assert learning.curve_points(records) == [{"step": 40, "masked_lm_loss": 6.0, "order_accuracy": 0.75}]


def test_verdict_forgives_a_slow_machine_only() -> None:
    figures = {
        "positions": 12_345,
        "loss": 6.2,
        "below_bound": 0.05,
        "below_bound_error": 0.01,
        "below_permuted": 0.02,
        "below_permuted_error": 0.03,
        "learned": False,
    }
    with pytest.raises(ValueError, match=r"12,345 held-out .* 0\.050 \+- 0\.010 below .*; at least 0\.1 nats and 5"):
        learning.verdict(figures, reduced=False)
    assert "too slow" in learning.verdict(figures, reduced=True)
    assert learning.verdict({**figures, "learned": True}, reduced=False).endswith("the model uses the context.")


@pytest.mark.parametrize(
    ("float32", "int8", "problem"),
    [
        (["a", "b", "c"], ["a", "c", "d"], None),
        (["a", "c", "b"], ["a", "b", "c"], r"TFLite float32 must answer .* a, b, c; got a, c, b"),
        (["a", "b", "c"], ["b", "a", "c"], r"TFLite int8 must answer .* a; got b"),
    ],
)
def test_exported_models_must_agree(float32: list[str], int8: list[str], problem: str | None) -> None:
    found = answers.disagreement({"SavedModel": ["a", "b", "c"], "TFLite float32": float32, "TFLite int8": int8})
    if problem is None:
        assert found is None
    else:
        assert found is not None
        with pytest.raises(ValueError, match=problem):
            raise ValueError(found)
