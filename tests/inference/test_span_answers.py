"""Answers out of texts: they stand where it is said, in windows as in one, and with and without answerability."""

from __future__ import annotations

import numpy as np
import pytest

from albert_tf.head_config import HeadConfig
from albert_tf.inference.piece_places import place_pieces
from albert_tf.inference.spans import MAX_ANSWER_LENGTH, span_windows
from albert_tf.modeling.model_runner import pad_rows
from albert_tf.tokenizer import AlbertTokenizer
from tests.inference.conftest import MAX_SEQ_LENGTH, ask, loaded_model, make

SPAN = HeadConfig(head="span", pooler=False)
CONDITIONAL = HeadConfig(head="conditional_span", start_n_top=3, end_n_top=2)
LONG = "The Café stood at Élan street; in 2010, it was red. The object's value may be None in Python.  " * 4
ROWS = (
    {"question": "What was red?", "context": "In 2010, the Café was red."},
    {"question": "Where was it?", "context": LONG},
    {"question": "Why?", "context": ""},
)


@pytest.mark.parametrize("head", [SPAN, CONDITIONAL])
def test_answers_stand_where_it_is_said(head: HeadConfig) -> None:
    found = ask(make(head, top_k=4), ROWS)
    assert [one["id"] for one in found] == list("012")
    for row, one in zip(ROWS[:2], found, strict=False):
        assert 0 < len(one["answers"]) <= 4
        for answer in one["answers"]:
            assert row["context"][answer["start"] : answer["end"]] == answer["text"]
            assert answer["text"] == answer["text"].strip() != ""
        scores = [answer["score"] for answer in one["answers"]]
        assert scores == sorted(scores, reverse=True)
    assert (found[2]["answer"], found[2]["start"], found[2]["answers"]) == (None, None, [])


def test_the_answer_is_the_best_of_the_model_alone(tokenizer: AlbertTokenizer) -> None:
    row = ROWS[0]
    placed = place_pieces(row["context"], tokenizer)
    (window,) = span_windows(tokenizer.encode(row["question"]), placed.ids, tokenizer, max_seq_length=MAX_SEQ_LENGTH)
    inputs = pad_rows([window.inputs])
    outputs = loaded_model(SPAN).model.forward(inputs)
    start, end = (outputs[name].numpy()[0, window.offset :] for name in ("start_logits", "end_logits"))
    count = len(placed.ids)
    best = max(
        (float(start[i] + end[j]), i, j) for i in range(count) for j in range(i, min(count, i + MAX_ANSWER_LENGTH))
    )
    found = ask(make(SPAN), [row])[0]
    assert placed.places is not None
    assert (found["start"], found["end"]) == (placed.places[best[1]][0], placed.places[best[2]][1])
    assert found["answers"][0]["score"] == pytest.approx(best[0], abs=1e-4)  # sums in another order


def test_answerability() -> None:
    for one in ask(make(CONDITIONAL), ROWS[:2]):
        assert 0.0 <= one["no_answer_probability"] <= 1.0
        assert (one["answer"] is None) == (one["no_answer_probability"] > 0.5)
    # Weights that say there is none.
    weight = loaded_model(CONDITIONAL).model.named_weights()["conditional_span/answerable/kernel"]
    value = weight.numpy()
    sign = -1.0 if ask(make(CONDITIONAL), ROWS[:1])[0]["answer"] is not None else 1.0
    try:
        weight.assign(sign * value)
        one = ask(make(CONDITIONAL), ROWS[:1])[0]
        assert one["no_answer_probability"] > 0.5
        assert (one["answer"], one["probability"]) == (None, None)
        assert one["answers"]
    finally:
        weight.assign(value)


def test_a_stride_is_the_callers() -> None:
    one, other = (ask(make(SPAN, stride=stride), ROWS[1:2])[0] for stride in (None, 10))
    assert np.isfinite([one["probability"], other["probability"]]).all()
    assert one["answers"] != other["answers"]


def test_refusals() -> None:
    with pytest.raises(ValueError, match="a:0: no column 'context'; columns: 'question'"):
        ask(make(SPAN), [{"question": "Why?"}])
    with pytest.raises(ValueError, match="a:0: text must be valid Unicode"):
        ask(make(SPAN), [{"question": "Why?", "context": "\ud800"}])
    with pytest.raises(ValueError, match=r"a:0: a question of \d+ tokens leaves no room for the text in 6"):
        ask(make(SPAN, max_seq_length=6), ROWS[:1])
