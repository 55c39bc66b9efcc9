"""A model directory and its SavedModels for every head, and what is asked of them; all weights random."""

from __future__ import annotations

import pathlib
from typing import Any

import tensorflow as tf

from albert_tf.head_config import HeadConfig
from albert_tf.inference.answers import AnswerSettings, make_answerer
from albert_tf.inference.loaded_model import load
from albert_tf.modeling.model_runner import ModelRunner
from albert_tf.tasks.tables import Row
from albert_tf.tasks.task_config import TaskConfig
from export.saved_model import SavedModelReport, export_saved_model
from tests.export.texts import ODD_TEXTS
from tests.inference.conftest import save

LABELS = ("bad", "fair é", "good")
LONG = "The Café stood at Élan street; in 2010, it was red. The object's value may be None in Python.  " * 4
TEXTS = ("The value of the object is returned.", "In 2010, they came back.", LONG, *ODD_TEXTS)
LENGTH = 60  # tokens of a row: `LONG` does not fit

Answer = dict[str, Any]


class Case:
    """A head with a task, its model directory, both SavedModels, and its answers in Python.

    Args:
      folder: where all is written.
      head: the head.
      task: what the model was fine-tuned on; None for nothing.
      settings: of the export.
    """

    def __init__(self, folder: pathlib.Path, head: HeadConfig, task: TaskConfig | None = None, **settings: Any) -> None:
        self.directory = save(folder / "model", head, task)
        self.report: SavedModelReport = export_saved_model(self.directory, folder / "exported", **settings)
        self.text = tf.saved_model.load(self.report.text_folder)
        self.ids = tf.saved_model.load(self.report.ids_folder)
        self.loaded = load(self.directory)
        self.runner = ModelRunner(self.loaded.model, batch_size=4)
        self.top_k = settings.get("top_k", 10)
        self.stride = settings.get("stride")

    def call(self, signature: str, **texts: Any) -> dict[str, Any]:
        """Outputs of a signature of the SavedModel that takes text."""
        given = {name: tf.constant(value, tf.string) for name, value in texts.items()}
        return {name: value.numpy() for name, value in self.text.signatures[signature](**given).items()}

    def expected(self, rows: list[dict[str, Any]]) -> list[Answer]:
        """What `albert_tf.inference` says of the same."""
        answerer = make_answerer(self.loaded, self.runner, AnswerSettings(top_k=self.top_k, stride=self.stride))
        questions = [answerer.question(Row(f"a:{number}", row), str(number)) for number, row in enumerate(rows)]
        return answerer.answer(questions)
