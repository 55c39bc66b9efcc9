"""Answers of models that find the answer to a question in a text (SQuAD 1.1 and 2.0)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from albert_tf.inference.answers import Answer, Answerer
from albert_tf.inference.outputs import rounded
from albert_tf.inference.piece_places import PlacedPieces, place_pieces
from albert_tf.inference.spans import (
    MAX_ANSWER_LENGTH,
    STRIDE,
    Span,
    SpanWindow,
    best_spans,
    conditional_spans,
    independent_spans,
    span_windows,
)
from albert_tf.tasks.predictions import sigmoid, softmax
from albert_tf.tasks.tables import Row

COMPARED = 20  # answers that share the probability, as in the original


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class SpanQuestion:
    """A question and the text that holds the answer."""

    id: str
    source: str
    question: str
    context: str


class SpanAnswerer(Answerer):
    """What a text says to a question, and where.

    {"id", "answer", "start", "end", "probability", "answers"}: the answer stands at `context[start:end]`, counted in
    characters; null where the tokenizer cannot tell. Under "answers" the best ones, best first, each with "text",
    "start", "end", "score" (of SQuAD 1.1 a sum of logits, of SQuAD 2.0 of log probabilities) and "probability" among
    them. Models of SQuAD 2.0 give "no_answer_probability" too, and the answer null where that is above one half.
    """

    COLUMNS = ("question", "context")

    def question(self, row: Row, id: str) -> SpanQuestion:
        return SpanQuestion(
            id=id, source=row.source, question=row.text(self.columns[0]), context=row.text(self.columns[1] or "")
        )

    def answer(self, questions: Sequence[SpanQuestion]) -> list[Answer]:
        windows: list[SpanWindow] = []
        owners: list[int] = []
        placed: list[PlacedPieces] = []
        for number, one in enumerate(questions):
            try:
                placed.append(place_pieces(one.context, self.tokenizer))
                found = self._windows(self.tokenizer.encode(one.question), placed[-1].ids)
            except ValueError as error:
                raise ValueError(f"{one.source}: {error}") from error
            windows += found
            owners += [number] * len(found)
        spans: list[list[Span]] = [[] for _ in questions]
        no_answer = [np.inf] * len(questions)  # logits; the least of all windows
        for row, outputs in self.runner.run([window.inputs for window in windows]):
            owner = owners[row]
            if "cls_logits" in outputs:
                spans[owner] += conditional_spans(windows[row], outputs, MAX_ANSWER_LENGTH)
                no_answer[owner] = min(no_answer[owner], float(outputs["cls_logits"]))
            else:
                start_logits, end_logits = outputs["start_logits"], outputs["end_logits"]
                spans[owner] += independent_spans(windows[row], start_logits, end_logits, MAX_ANSWER_LENGTH, COMPARED)
        return [
            self._answer(one, spans[number], placed[number], no_answer[number]) for number, one in enumerate(questions)
        ]

    def _windows(self, question: Sequence[int], context: Sequence[int]) -> list[SpanWindow]:
        stride = self.settings.stride or STRIDE
        return span_windows(question, context, self.tokenizer, max_seq_length=self.max_seq_length, stride=stride)

    def _answer(self, question: SpanQuestion, spans: list[Span], placed: PlacedPieces, no_answer: float) -> Answer:
        """Of all windows' answers the best, ready for JSON."""
        best = list(best_spans(spans, max(COMPARED, self.settings.top_k)))
        probabilities = softmax(np.array([span.score for span in best])) if best else np.zeros(0)
        answers = [
            {
                **self._place(question.context, span, placed),
                "score": rounded(span.score),
                "probability": rounded(float(probability)),
            }
            for span, probability in zip(best, probabilities, strict=True)
        ]
        first = answers[0] if answers else {}
        answer: Answer = {"id": question.id}
        if np.isfinite(no_answer):
            probability = float(sigmoid(np.array(no_answer)))
            first = {} if probability > 0.5 else first
            answer["no_answer_probability"] = rounded(probability)
        shown = {"answer": first.get("text"), **{name: first.get(name) for name in ("start", "end", "probability")}}
        return {**answer, **shown, "answers": answers[: self.settings.top_k]}

    def _place(self, context: str, span: Span, placed: PlacedPieces) -> Answer:
        """Text and place of an answer."""
        if placed.places is None:
            text = self.tokenizer.decode(placed.ids[span.first : span.last + 1])
            return {"text": text, "start": None, "end": None}
        start, end = placed.places[span.first][0], placed.places[span.last][1]
        return {"text": context[start:end], "start": start, "end": end}
