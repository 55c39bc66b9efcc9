"""Answers of the pretraining heads: what stands at each [MASK], and whether two texts are in order."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf import features
from albert_tf.inference.answers import Answer, Answerer, AnswerSettings, text_or_none
from albert_tf.inference.loaded_model import LoadedModel
from albert_tf.inference.outputs import rounded
from albert_tf.marked_text import MARKER, MarkedTextEncoder
from albert_tf.modeling.model_runner import ModelRunner
from albert_tf.tasks.predictions import softmax
from albert_tf.tasks.tables import Row


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class MaskQuestion:
    """A text, maybe with "[MASK]" where a piece is to be filled in, and maybe a second one."""

    id: str
    source: str
    text: str
    text_b: str | None


class MaskAnswerer(Answerer):
    """What may stand at each [MASK], and the probability that a second text follows the first.

    {"id", "masks", "in_order"}: for each mask its "position" (tokens from [CLS] = 0) and "candidates", best first, each
    with "piece", "id" and "probability"; "in_order" is null without a second text, or where the model cannot tell.
    """

    COLUMNS = ("text", "text_b")

    def __init__(self, loaded: LoadedModel, runner: ModelRunner, settings: AnswerSettings) -> None:
        super().__init__(loaded, runner, settings)
        if settings.top_k > self.tokenizer.vocab_size:
            raise ValueError(f"top_k must be at most {self.tokenizer.vocab_size}, the pieces, got {settings.top_k}")
        self._encoder = MarkedTextEncoder(self.tokenizer)
        self._knows_order = loaded.model.head_config.head == "pretraining" and loaded.sentence_objective != "none"

    def question(self, row: Row, id: str) -> MaskQuestion:
        text, text_b = row.text(self.columns[0]), text_or_none(row, self.columns[1])
        if MARKER not in f"{text} {text_b or ''}" and (text_b is None or not self._knows_order):
            both = "" if not self._knows_order else ", and no second text whose order could be told"
            raise ValueError(f"{row.source}: there is no {MARKER}, in capitals, where a piece is to be filled in{both}")
        return MaskQuestion(id=id, source=row.source, text=text, text_b=text_b)

    def answer(self, questions: Sequence[MaskQuestion]) -> list[Answer]:
        rows = [self._row(one) for one in questions]
        answers: list[Any] = [None] * len(rows)
        for number, outputs in self.runner.run(rows):
            one, positions = questions[number], rows[number][features.MASKED_LM_POSITIONS]
            places = positions[positions > 0]
            masks = [
                {"position": int(place), "candidates": self._candidates(logits)}
                for place, logits in zip(places, outputs["masked_lm_logits"], strict=False)
            ]
            in_order = None
            if one.text_b is not None and self._knows_order:
                in_order = rounded(float(softmax(outputs["sentence_order_logits"])[0]))
            answers[number] = {"id": one.id, "masks": masks, "in_order": in_order}
        return answers

    def _row(self, question: MaskQuestion) -> Mapping[str, np.ndarray]:
        """The model's inputs; without a mask one position, that of [CLS], of which nothing is said."""
        try:
            ids = self._encoder.encode(question.text)
            ids_b = None if question.text_b is None else self._encoder.encode(question.text_b)
        except ValueError as error:
            raise ValueError(f"{question.source}: {error}") from error
        padded, mask, segments = self.tokenizer.encode_pair(ids, ids_b, self.max_seq_length)
        length = sum(mask)
        row = np.array(padded[:length], np.int32)
        positions = np.flatnonzero(row == self.tokenizer.mask_id)
        markers = (question.text + (question.text_b or "")).count(MARKER)
        if len(positions) < markers:
            raise ValueError(
                f"{question.source}: {markers - len(positions)} of {markers} {MARKER} stand behind the "
                f"{self.max_seq_length} tokens that texts are cut to"
            )
        return {
            features.INPUT_IDS: row,
            features.SEGMENT_IDS: np.array(segments[:length], np.int32),
            features.MASKED_LM_POSITIONS: (positions if markers else np.zeros(1)).astype(np.int32),
        }

    def _candidates(self, logits: np.ndarray) -> list[dict[str, Any]]:
        """The likeliest pieces of `logits` float [V], best first."""
        probabilities = softmax(logits)
        best = np.argsort(-probabilities, kind="stable")[: self.settings.top_k]
        return [
            {
                "piece": self.tokenizer.id_to_piece(int(i)),
                "id": int(i),
                "probability": rounded(float(probabilities[i])),
            }
            for i in best
        ]
