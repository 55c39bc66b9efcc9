"""Answers of models that choose one of several texts (RACE)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf import features
from albert_tf.inference.answers import Answer, Answerer, text_or_none
from albert_tf.inference.outputs import rounded
from albert_tf.modeling.model_runner import pad_rows
from albert_tf.tasks.predictions import softmax
from albert_tf.tasks.tables import Row
from albert_tf.tokenizer_base import Tokenizer, truncate_pair

MAX_QA_LENGTH = 128  # tokens of question and choice, as in the original
_LEAST_CHOICES = 2


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ChoiceQuestion:
    """A text, a question on it (maybe none) and what may be the answer."""

    id: str
    source: str
    context: str
    question: str | None
    choices: tuple[str, ...]


class ChoiceAnswerer(Answerer):
    """Which of several texts answers a question: {"id", "choice", "text", "probability", "probabilities"}.

    Columns "context" and "question" hold texts, the latter may be missing; "choices" is a list.
    """

    COLUMNS = ("context", "question")

    def question(self, row: Row, id: str) -> ChoiceQuestion:
        choices = row["choices"]
        if not isinstance(choices, list) or not all(isinstance(choice, str) for choice in choices):
            raise ValueError(f"{row.source}: choices must be a list of texts, as a line of JSON has them")
        if len(choices) < _LEAST_CHOICES:
            raise ValueError(f"{row.source}: choices must be at least {_LEAST_CHOICES} texts, got {len(choices)}")
        return ChoiceQuestion(
            id=id,
            source=row.source,
            context=row.text(self.columns[0]),
            question=text_or_none(row, self.columns[1]),
            choices=tuple(choices),
        )

    def answer(self, questions: Sequence[ChoiceQuestion]) -> list[Answer]:
        rows = [choice_row(one, self.tokenizer, max_seq_length=self.max_seq_length) for one in questions]
        answers: list[Any] = [None] * len(rows)
        for number, outputs in self.runner.run(rows):
            one, probabilities = questions[number], softmax(outputs["logits"])
            best = int(probabilities.argmax())
            answers[number] = {
                "id": one.id,
                "choice": best,
                "text": one.choices[best],
                "probability": rounded(float(probabilities[best])),
                "probabilities": [rounded(value) for value in probabilities.tolist()],
            }
        return answers


def choice_row(
    question: ChoiceQuestion, tokenizer: Tokenizer, *, max_seq_length: int, max_qa_length: int = MAX_QA_LENGTH
) -> Mapping[str, np.ndarray]:
    """The model's inputs, int32 [C, T]: `[CLS] context [SEP] question choice [SEP]` for each choice, padded.

    As the original's `race_utils.py` makes them: question and choice keep their last `max_qa_length` tokens; where
    they and the text do not fit, the longer one loses its end.

    Raises:
      ValueError: for text that is not valid Unicode, with the question's place.
    """
    try:
        context, asked, *choices = tokenizer.encode_batch(
            [question.context, question.question or "", *question.choices]
        )
    except ValueError as error:
        raise ValueError(f"{question.source}: {error}") from error
    rows = []
    for choice in choices:
        answer = [*asked, *choice][-max_qa_length:]
        keep_context, keep_answer = truncate_pair(len(context), len(answer), max_seq_length - 3)
        first = [tokenizer.cls_id, *context[:keep_context], tokenizer.sep_id]
        second = [*answer[:keep_answer], tokenizer.sep_id]
        rows.append(
            {
                features.INPUT_IDS: np.array(first + second, np.int32),
                features.SEGMENT_IDS: np.repeat(np.array([0, 1], np.int32), [len(first), len(second)]),
            }
        )
    return pad_rows(rows)
