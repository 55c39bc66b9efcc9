"""Table and words about the last evaluation."""

from __future__ import annotations

import pytest

from albert_tf.training import report

FIGURES = {
    "examples": 400,
    "positions": 2345,
    "positions_at_mask": 1876,
    "masked_lm_loss": 4.5,
    "masked_lm_loss_at_mask": 5.25,
    "masked_lm_accuracy": 0.25,
    "masked_lm_accuracy_at_mask": 0.125,
    "context_free_loss": 5.625,
    "context_free_loss_at_mask": 5.75,
    "context_free_accuracy": 0.0625,
    "context_free_accuracy_at_mask": 0.0703125,
    "gain_over_context_free": 1.125,
    "gain_over_context_free_error": 0.03125,
    "gain_over_context_free_at_mask": 0.5,
    "gain_over_context_free_at_mask_error": 0.015625,
    "permuted_loss": 6.0,
    "permuted_loss_at_mask": 5.875,
    "gain_over_permuted": 1.5,
    "gain_over_permuted_error": 0.04,
    "gain_over_permuted_at_mask": 0.625,
    "gain_over_permuted_at_mask_error": 0.02,
    "sentence_order_accuracy": 0.75,
    "sentence_order_majority": 0.51,
}


def test_rows_hold_both_sets_of_positions() -> None:
    shown = {title.strip(): values for title, *values in report.rows(FIGURES)}
    assert shown["predictions"] == ["1,876", "2,345"]
    assert shown["masked-LM loss"] == ["5.250", "4.500"]
    assert shown["below that bound, +- standard error"] == ["0.500 +- 0.016", "1.125 +- 0.031"]
    assert shown["below that where both rows have a prediction, +- error"] == ["0.625 +- 0.020", "1.500 +- 0.040"]
    assert shown["masked-LM accuracy"] == ["12.5%", "25.0%"]
    assert len(shown) == 8


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, "uses context: at [MASK] it is 0.50 nats below the context-free bound and 0.62 below its own"),
        ({"gain_over_context_free_at_mask": 0.09}, "begins to use context (permuted contexts cost it 0.62 nats"),
        ({"gain_over_context_free_at_mask_error": 0.11}, "begins to use context"),
        ({"gain_over_context_free_at_mask": -0.1, "gain_over_permuted_at_mask": 0.09}, "does not use context yet"),
        (
            {"gain_over_context_free_at_mask": -1.25},
            "does not know yet how frequent pieces are: at [MASK] it is 1.25 nats",
        ),
        ({"positions_at_mask": 0}, "No held-out position shows [MASK]"),
        ({}, "It recognises the order of segments: 75.0% right, 51.0% by always the same answer."),
        (
            {"next_sentence_accuracy": 0.53, "next_sentence_majority": 0.52},
            "It does not clearly recognise segments of other documents: 53.0% right",
        ),
        # One standard error of a share of 400 examples is 0.025.
        ({"sentence_order_accuracy": 0.63}, "It does not clearly recognise the order of segments: 63.0% right"),
    ],
)
def test_verdict(change: dict[str, float], words: str) -> None:
    assert words in report.verdict({**FIGURES, **change})
