"""SavedModels that find answers in texts say the same as `albert_tf.inference`: answers, places, probabilities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.head_config import HeadConfig
from albert_tf.inference.answers import AnswerSettings, make_answerer
from albert_tf.inference.loaded_model import LoadedModel
from albert_tf.inference.piece_places import place_pieces
from albert_tf.modeling.model_runner import ModelRunner
from albert_tf.modeling.models import make_model
from albert_tf.tasks.tables import Row
from albert_tf.tokenizer import AlbertTokenizer, TokenizerConfig
from albert_tf.tokenizer_base import Tokenizer
from export.place_graph import PlaceGraph
from export.saved_model_files import ServedSettings, served_from
from export.served_answers import ServedModel
from export.signatures.making import make_signatures
from export.text_graph import make_text_graph
from tests import wordpiece_toys
from tests.export.conftest import tiny_config
from tests.export.served_heads import LONG, TEXTS, Case
from tests.inference.conftest import small_tokenizer

TOLERANCE = 1e-5
QUESTIONS = ("What was red?", "", "Where is it? " * 30)
HEADS = {
    "span": HeadConfig(head="span", pooler=False),
    "conditional_span": HeadConfig(head="conditional_span", start_n_top=3, end_n_top=2, pooler=False),
}


@pytest.fixture(scope="module", params=HEADS)
def case(request, tmp_path_factory: pytest.TempPathFactory) -> Case:
    return Case(tmp_path_factory.mktemp("served"), HEADS[request.param], top_k=4, stride=9)


def rows() -> list[dict[str, Any]]:
    # The question of many tokens leaves no room in 60, and Python refuses it: only its start is asked.
    return [{"question": QUESTIONS[number % 2], "context": text} for number, text in enumerate(TEXTS)]


def test_answers_are_those_of_python(case: Case) -> None:
    asked = rows()
    found = case.call("serving_default", **{name: [row[name] for row in asked] for name in ("question", "context")})
    expected = case.expected(asked)
    without = 0
    for row, one in enumerate(expected):
        count = len(one["answers"])
        assert (found["probabilities"][row] > 0).sum() == count
        for name, output in (("text", "answers"), ("start", "starts"), ("end", "ends")):
            values = found[output][row].tolist()
            shown = [value.decode() for value in values] if name == "text" else values
            assert shown[:count] == [answer[name] for answer in one["answers"]], (row, name)
            assert all(value in ("", -1) for value in shown[count:])
        for name, output in (("score", "scores"), ("probability", "probabilities")):
            values = [answer[name] for answer in one["answers"]]
            np.testing.assert_allclose(found[output][row, :count], values, rtol=1e-4, atol=TOLERANCE)
            assert not found[output][row, count:].any()
        has_answer = one["answer"] is not None
        without += not has_answer
        assert found["answer"][row].decode() == (one["answer"] if has_answer else "")
        assert found["start"][row] == (one["start"] if has_answer else -1)
        assert found["end"][row] == (one["end"] if has_answer else -1)
        np.testing.assert_allclose(found["probability"][row], one["probability"] or 0.0, atol=TOLERANCE)
        if "no_answer_probability" in one:
            np.testing.assert_allclose(
                found["no_answer_probability"][row], one["no_answer_probability"], atol=TOLERANCE
            )
    assert without >= 2  # the empty texts


def test_a_question_of_any_length_gets_an_answer(case: Case) -> None:
    found = case.call("serving_default", question=[QUESTIONS[2]], context=[LONG])
    assert found["answers"].shape == (1, 4)
    assert np.isfinite(found["scores"]).all()
    begin, end = int(found["starts"][0, 0]), int(found["ends"][0, 0])
    assert LONG[begin:end].encode() == found["answers"][0, 0] != b""


def test_asked_one_by_one_they_answer_in_the_form_of_predict(case: Case) -> None:
    for question, context in ((QUESTIONS[0], LONG), ("Why?", "")):
        found = ServedModel(case.report.text_folder).ask(question, context, top_k=4)
        assert (found.pop("question"), found.pop("context")) == (question, context)
        (expected,) = case.expected([{"question": question, "context": context}])
        assert list(found) == list(expected)[1:]
        assert {name: found[name] for name in ("answer", "start", "end")} == {
            name: expected[name] for name in ("answer", "start", "end")
        }
        shown = [[one["text"], one["start"], one["end"]] for one in found["answers"]]
        assert shown == [[one["text"], one["start"], one["end"]] for one in expected["answers"]]
    with pytest.raises(ValueError, match="top_k must be at most 4, as the SavedModel was exported, got 5"):
        ServedModel(case.report.text_folder).ask("a", "b")
    with pytest.raises(ValueError, match="give the text that holds the answer as text_b"):
        ServedModel(case.report.text_folder).ask("a")


def test_where_a_piece_holds_white_space_the_text_is_that_of_the_tokens() -> None:
    tokenizer = wordpiece_toys.tokenizer()
    model = make_model(tiny_config(tokenizer), HEADS["span"], seed=3)
    loaded = LoadedModel(path="a_model", model=model, tokenizer=tokenizer, max_seq_length=60)
    row = {"question": "What?", "context": "again\x1cand the installer's (Debian) 安装系统 resume"}
    function = (
        make_signatures(served_from(loaded, ServedSettings(top_k=4))).text_signatures()["serving_default"].function
    )
    found = function(**{name: tf.constant([text]) for name, text in row.items()})
    answerer = make_answerer(loaded, ModelRunner(model), AnswerSettings(top_k=4))
    (expected,) = answerer.answer([answerer.question(Row("a:0", row), "0")])
    assert [text.decode() for text in found["answers"][0].numpy()] == [one["text"] for one in expected["answers"]]
    assert [one["start"] for one in expected["answers"]] == [None] * 4
    for name in ("start", "end", "starts", "ends"):
        assert set(found[name].numpy().reshape(-1).tolist()) == {-1}
    np.testing.assert_allclose(found["probability"][0], expected["probability"], atol=TOLERANCE)


TOKENIZERS: dict[str, Callable[[], Tokenizer]] = {
    "english": small_tokenizer,
    "accents": lambda: AlbertTokenizer(small_tokenizer().model_proto, config=TokenizerConfig(strip_accents=False)),
    "wordpiece": wordpiece_toys.tokenizer,
    "cased wordpiece": lambda: wordpiece_toys.tokenizer(lower_case=False),
}
PLACED = (
    *TEXTS,
    *wordpiece_toys.SENTENCES,
    "  The  café,\tin 2010,\u00a0was ½ full\n",
    "İİ and ﬁne ﬁﬁ; x\u0301\u0302y ☃a☃b ☃5, 가각힣s",
    "a\x1cb \x1f \u0085c",
)


@pytest.mark.parametrize("name", TOKENIZERS)
def test_places_of_pieces_are_those_of_python(name: str) -> None:
    tokenizer = TOKENIZERS[name]()
    placed = PlaceGraph(tokenizer, make_text_graph(tokenizer, 60)).place(tf.constant(PLACED))
    unplaced = 0
    for row, text in enumerate(PLACED):
        expected = place_pieces(text, tokenizer)
        assert placed.ids[row].numpy().tolist() == expected.ids
        assert bool(placed.is_placed[row]) == (expected.places is not None), text
        if expected.places is None:
            unplaced += 1
            continue
        first = int(placed.first[row])
        places = [part[first : first + len(expected.ids)].numpy().tolist() for part in (placed.begins, placed.ends)]
        assert list(zip(*places, strict=True)) == expected.places, text
    assert unplaced == (1 if "wordpiece" in name else 0)
