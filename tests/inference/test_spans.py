"""Windows beside the original's; the best answers beside a search through all of them."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pytest

from albert_tf.inference.spans import (
    Span,
    SpanWindow,
    best_spans,
    conditional_spans,
    independent_spans,
    span_windows,
)
from albert_tf.tokenizer import AlbertTokenizer


@pytest.fixture(scope="module")
def golden(reference_data: pathlib.Path) -> dict:
    path = reference_data / "golden" / "features" / "squad_v2_features.json"
    found: dict = json.loads(path.read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module")
def squad(reference_data: pathlib.Path) -> list[tuple[str, str]]:
    """Questions and texts of the golden features."""
    path = reference_data / "golden" / "features" / "squad_v2_sample.json"
    paragraphs = [p for entry in json.loads(path.read_text(encoding="utf-8"))["data"] for p in entry["paragraphs"]]
    return [(qa["question"], paragraph["context"]) for paragraph in paragraphs for qa in paragraph["qas"]]


@pytest.fixture(scope="module")
def english(reference_data: pathlib.Path) -> AlbertTokenizer:
    return AlbertTokenizer((reference_data / "data" / "albert_en_30k.model").read_bytes())


def test_windows_are_the_originals(golden: dict, squad: list[tuple[str, str]], english: AlbertTokenizer) -> None:
    length = golden["max_seq_length"]
    windows = [
        window
        for question, context in squad
        for window in span_windows(
            english.encode(question),
            english.encode(context),
            english,
            max_seq_length=length,
            stride=golden["doc_stride"],
            max_query_length=golden["max_query_length"],
        )
    ]
    assert len(windows) == len(golden["features"])
    for number, (window, expected) in enumerate(zip(windows, golden["features"], strict=True)):
        tokens = len(window.inputs["input_ids"])
        assert tokens == expected["paragraph_len"]
        for name, found in window.inputs.items():
            assert found.tolist() == expected[name][:tokens], f"{number} {name}"
        counts = {int(place): value for place, value in expected["token_is_max_context"].items()}
        assert {window.offset + i: bool(value) for i, value in enumerate(window.counts)} == counts


def test_a_question_may_leave_no_room(tokenizer: AlbertTokenizer) -> None:
    with pytest.raises(ValueError, match="a question of 9 tokens leaves no room for the text in 12"):
        span_windows(range(9, 18), range(30, 50), tokenizer, max_seq_length=12)


def make_window(length: int, *, begin: int = 7, offset: int = 4, seed: int = 2) -> SpanWindow:
    counts = np.random.default_rng(seed).random(length) < 0.7
    return SpanWindow({}, offset, slice(begin, begin + length), counts)


@pytest.mark.parametrize(("length", "longest"), [(1, 5), (3, 5), (23, 5), (23, 1), (5, 30)])
def test_independent_spans_are_the_best_of_all(length: int, longest: int) -> None:
    window = make_window(length)
    generator = np.random.default_rng(4)
    start, end = generator.standard_normal((2, 40))
    expected = [
        Span(float(start[4 + i] + end[4 + j]), 7 + i, 7 + j)
        for i in range(length)
        for j in range(i, min(length, i + longest))
        if window.counts[i]
    ]
    found = independent_spans(window, start, end, longest, 6)
    assert found == sorted(expected, reverse=True)[:6]


def test_no_text_has_no_answer() -> None:
    assert independent_spans(make_window(0), np.zeros(9), np.zeros(9), 5, 3) == []


def test_conditional_spans_are_those_that_can_be() -> None:
    window = SpanWindow({}, 4, slice(7, 17), np.array([True] * 6 + [False] * 4))
    outputs = {
        "start_top_log_probs": np.array([-0.5, -1.0, -2.0]),
        "start_top_index": np.array([5, 0, 11]),  # the second is [CLS], the third counts from another window
        "end_top_log_probs": np.array([-0.25, -0.5, -0.75, -0.1, -0.1, -0.1, -0.1, -0.1, -0.1]),
        "end_top_index": np.array([6, 4, 14, 5, 6, 7, 11, 12, 13]),  # then one before the start, one behind the text
    }
    assert conditional_spans(window, outputs, 5) == [Span(-0.75, 8, 9)]
    assert conditional_spans(window, outputs, 1) == []


def test_the_best_of_all_windows_come_once() -> None:
    spans = [Span(1.0, 3, 4), Span(2.0, 5, 5), Span(1.0, 3, 4), Span(2.0, 1, 5), Span(0.5, 0, 0)]
    assert list(best_spans(spans, 3)) == [Span(2.0, 1, 5), Span(2.0, 5, 5), Span(1.0, 3, 4)]
