"""TaskConfig: what a fine-tuned model was made for, `task_config.json` in its model directory."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Self

from albert_tf.json_object import JsonConfig
from albert_tf.tasks.labelled_files import FileTask
from albert_tf.tasks.making import make_task, task_name
from albert_tf.tasks.task import Task

TASK_CONFIG_NAME = "task_config.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskConfig(JsonConfig):
    """The task of a model and how its texts become rows. Checks itself when made and never changes.

    Attributes:
      task: its name.
      options: of `make_task`, labels included.
      max_seq_length: most tokens of a row (S).
      stride: tokens between the starts of two windows; None where long texts are cut.
    """

    task: str
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    max_seq_length: int
    stride: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.task, str):
            raise ValueError(f"task must be a name, got {self.task!r}")
        if not isinstance(self.options, Mapping):
            raise ValueError(f"options must be a JSON object, got {self.options!r}")
        for name in ("max_seq_length", "stride"):
            value = getattr(self, name)
            if value is None and name == "stride":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")
        task_name(self.task)
        self.make_task(None)

    @classmethod
    def of(cls, task: Task, *, max_seq_length: int, stride: int | None = None) -> Self:
        """Config of a task that `make_task` made."""
        return cls(task=task.name, options=dict(task.options), max_seq_length=max_seq_length, stride=stride)

    def make_task(self, data_dir: str | None) -> FileTask:
        """The task, with the labels that the model knows; `data_dir` None to predict only.

        Raises:
          ValueError: for options that the task has not, or files that are not as it wants them.
        """
        return make_task(self.task, data_dir, **self.options)
