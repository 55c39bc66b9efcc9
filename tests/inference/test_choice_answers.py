"""Choices: features beside the original's, answers beside the model called on each question alone."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import pytest

from albert_tf.head_config import HeadConfig
from albert_tf.inference.choice_answers import ChoiceQuestion, choice_row
from albert_tf.modeling.model_runner import pad_rows
from albert_tf.tokenizer import AlbertTokenizer, TokenizerConfig
from tests.inference.conftest import MAX_SEQ_LENGTH, ask, loaded_model, make

HEAD = HeadConfig(head="multiple_choice")
QUESTIONS: tuple[dict[str, Any], ...] = (
    {
        "context": "The value of a name is found.",
        "question": "What is found?",
        "choices": ["a name", "the value", "no"],
    },
    {"context": "A name.", "choices": ["It is a name.", "It is an exception of the module."]},
    {"context": "The names of a module. " * 30, "question": "Which?", "choices": ["names", "modules"]},
)


def test_features_are_the_originals(reference_data: pathlib.Path) -> None:
    golden = json.loads((reference_data / "golden" / "features" / "race_features.json").read_text(encoding="utf-8"))
    cased = TokenizerConfig(lower_case=False)  # as these features were made
    tokenizer = AlbertTokenizer((reference_data / "data" / "albert_en_30k.model").read_bytes(), config=cased)
    for number, example in enumerate(golden["examples"]):
        question = ChoiceQuestion(
            id=str(number),
            source=f"a:{number}",
            context=example["context"],
            question=example["question"],
            choices=tuple(example["choices"]),
        )
        row = choice_row(
            question, tokenizer, max_seq_length=golden["max_seq_length"], max_qa_length=golden["max_qa_length"]
        )
        for name in ("input_ids", "input_mask", "segment_ids"):
            found = np.pad(row[name], ((0, 0), (0, golden["max_seq_length"] - row[name].shape[1])))
            np.testing.assert_array_equal(found, example["features"][name], err_msg=f"{number} {name}")


def test_a_choice_has_the_probability_of_its_question_alone(tokenizer: AlbertTokenizer) -> None:
    found = ask(make(HEAD), QUESTIONS)
    for number, (row, one) in enumerate(zip(QUESTIONS, found, strict=True)):
        question = ChoiceQuestion(
            id="", source="", context=row["context"], question=row.get("question"), choices=tuple(row["choices"])
        )
        inputs = pad_rows([choice_row(question, tokenizer, max_seq_length=MAX_SEQ_LENGTH)])
        logits = loaded_model(HEAD).model.forward(inputs)["logits"].numpy()[0]
        expected = np.exp(logits) / np.exp(logits).sum()
        assert one["id"] == str(number)
        assert one["probabilities"] == pytest.approx(expected.tolist(), abs=1e-5)  # sums in another order
        assert one["choice"] == int(expected.argmax())
        assert one["text"] == row["choices"][one["choice"]]
        assert one["probability"] == max(one["probabilities"])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"context": "a", "choices": "b"}, "a:0: choices must be a list of texts, as a line of JSON has them"),
        ({"context": "a", "choices": ["b"]}, "a:0: choices must be at least 2 texts, got 1"),
        ({"context": "a"}, "a:0: no column 'choices'"),
        ({"context": 1, "choices": ["b", "c"]}, "a:0: context must be text, got 1"),
        ({"context": "a", "choices": ["b", "\ud800"]}, "a:0: text must be valid Unicode"),
    ],
)
def test_what_is_no_question_is_named(row: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ask(make(HEAD), [row])
