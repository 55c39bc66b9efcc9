"""Answers of classifiers, regression and tagging: what fine-tuning on a task of `albert_tf.tasks` gives."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf import features
from albert_tf.head_config import HeadConfig
from albert_tf.inference.answers import Answer, Answerer, AnswerSettings, text_or_none
from albert_tf.inference.loaded_model import LoadedModel
from albert_tf.inference.outputs import rounded
from albert_tf.modeling.model_runner import ModelRunner
from albert_tf.tasks.features import EncodedExamples, encode
from albert_tf.tasks.labelled_files import FileTask
from albert_tf.tasks.predictions import Prediction, predict
from albert_tf.tasks.tables import Row
from albert_tf.tasks.tagging import TaggingTask
from albert_tf.tasks.task import Example
from albert_tf.tasks.text_tasks import TextTask


class TextAnswerer(Answerer):
    """One label, several labels or a number for a text or two.

    A label: {"id", "label", "probability", "probabilities"}; several: {"id", "labels", "probabilities"}; a number:
    {"id", "value"}.
    """

    COLUMNS = ("text", "text_b")

    def __init__(self, loaded: LoadedModel, runner: ModelRunner, settings: AnswerSettings) -> None:
        super().__init__(loaded, runner, settings)
        config = loaded.task_config
        self.task = task_of(loaded)
        self._num_texts = self.task.num_texts if config else None  # None: as the first question has
        if self._num_texts == 1:
            self.columns = (self.columns[0], None)
        self._stride = settings.stride or (config.stride if config else None)

    def question(self, row: Row, id: str) -> Example:
        text_b = text_or_none(row, self.columns[1])
        if self._num_texts == 2 and text_b is None:
            raise ValueError(f"{row.source}: {self.task.name} takes two texts, and there is no {self.columns[1]!r}")
        texts = (row.text(self.columns[0]),) if text_b is None else (row.text(self.columns[0]), text_b)
        return Example(id=id, source=row.source, texts=texts)

    def answer(self, questions: Sequence[Example]) -> list[Answer]:
        pairs = zip(questions, self.predict(questions), strict=True)
        return [{"id": example.id, **self.shown(example, found)} for example, found in pairs]

    def shown(self, example: Example, found: Prediction) -> Answer:
        """The prediction for an example, ready for JSON."""
        if found.probabilities is None:
            return {"value": rounded(float(found.label))}  # type: ignore[arg-type]
        by_label = dict(zip(self.task.labels or (), map(rounded, found.probabilities.tolist()), strict=True))
        if self.task.is_multi_label:
            return {"labels": found.label, "probabilities": by_label}
        return {"label": found.label, "probability": by_label[str(found.label)], "probabilities": by_label}

    def predict(self, examples: Sequence[Example]) -> list[Prediction]:
        """Predictions for examples, with or without labels.

        Raises:
          ValueError: as `encode`.
        """
        if not examples:
            return []
        task = self.task
        if self._num_texts is None and task.head != "token_classifier":
            task = dataclasses.replace(task, num_texts=len(examples[0].texts))
        bare = [dataclasses.replace(example, label=None) for example in examples]
        encoded = encode(bare, task, self.tokenizer, max_seq_length=self.max_seq_length, stride=self._stride)
        return predict(self._logits(encoded), encoded, bare, task)

    def _logits(self, encoded: EncodedExamples) -> list[np.ndarray]:
        """Of each row float [C], for regression a number, for tagging [T_i, C]."""
        found: list[Any] = [None] * len(encoded)
        for number, outputs in self.runner.run(list(_inputs(encoded))):
            logits = outputs["logits"]
            by_token = self.task.head == "token_classifier"
            found[number] = logits[: len(encoded.input_ids[number])] if by_token else logits
        return found


class WordAnswerer(TextAnswerer):
    """A label for each word of a text.

    Words are given, or the text is cut at white space: {"id", "words", "labels", "probabilities"}, of each word the
    label's probability, null where the word was cut off.
    """

    def __init__(self, loaded: LoadedModel, runner: ModelRunner, settings: AnswerSettings) -> None:
        super().__init__(loaded, runner, settings)
        self.columns = (self.columns[0], None)

    def question(self, row: Row, id: str) -> Example:
        key = self.task.words_key if isinstance(self.task, TaggingTask) else "words"
        words = row.cells.get(key)
        if words is None:
            words = row.text(self.columns[0]).split()
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise ValueError(f"{row.source}: {key} must be a list of texts")
        return Example(id=id, source=row.source, texts=tuple(words))

    def shown(self, example: Example, found: Prediction) -> Answer:
        rows = np.zeros((0, 0)) if found.probabilities is None else found.probabilities
        best = [None if np.isnan(row).any() else rounded(float(row.max())) for row in rows]
        return {"words": example.texts, "labels": found.label, "probabilities": best}


def task_of(loaded: LoadedModel) -> FileTask:
    """The task that a model was fine-tuned on; where nothing says it, one with the labels of its head."""
    head = loaded.model.head_config
    if loaded.task_config is not None:
        task = loaded.task_config.make_task(None)
        if task.head != head.head or (task.labels is not None and len(task.labels) != head.num_labels):
            raise ValueError(
                f"{loaded.path}: was fine-tuned on {task.name} by its task_config.json, which does not fit its head "
                f"{head.head!r} of {head.num_labels} labels"
            )
        return task
    kind = TaggingTask if head.head == "token_classifier" else TextTask
    return kind(
        name={"classifier": "classification", "token_classifier": "tagging"}.get(head.head, head.head),
        data_dir=None,
        head=head.head,
        num_texts=1,
        labels=_label_names(head),
        metrics=(),
    )


def _label_names(head: HeadConfig) -> tuple[str, ...] | None:
    if head.num_labels is None:
        return None
    return head.labels or tuple(map(str, range(head.num_labels)))


def _inputs(encoded: EncodedExamples) -> Iterator[Mapping[str, np.ndarray]]:
    for ids, segments in zip(encoded.input_ids, encoded.segment_ids, strict=True):
        yield {features.INPUT_IDS: ids, features.SEGMENT_IDS: segments}
