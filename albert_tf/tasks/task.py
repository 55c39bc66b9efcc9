"""What a task is: examples out of files, labels, head and metrics. Knows neither tokenizer nor model."""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Collection, Mapping
from typing import Any

from albert_tf.head_config import Head

Label = str | float | tuple[str, ...] | None
TRAIN = "train"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    """One line of a file: texts with their label.

    Attributes:
      id: as the file gives it, else file and line, such as "train.tsv:17". No two of a file are equal.
      source: "path:line", for messages.
      texts: one or two texts; for tagging the words of one.
      label: a name; a number for regression; names for multi-label (a set, sorted) and for tagging (one a word); None
        where the file has none.
    """

    id: str
    source: str
    texts: tuple[str, ...]
    label: Label = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task(abc.ABC):
    """A task and where its files are. Never changes.

    Attributes:
      name: such as "sst-2", "classification" or "tagging"; what `make_task` takes.
      data_dir: folder of the files; None for a task that only says how predictions are made.
      head: which head of the model learns it: "classifier", "regression" or "token_classifier".
      num_texts: texts of an example, 1 or 2; 1 for tagging.
      labels: names in the order of their ids, None for regression.
      metrics: names of `albert_tf.tasks.metrics`; the first decides which model is the best.
      is_multi_label: whether an example may have any number of labels.
      options: what `make_task` takes besides name and folder to make the same task again, ready for JSON.
    """

    name: str
    data_dir: str | None
    head: Head
    num_texts: int
    labels: tuple[str, ...] | None
    metrics: tuple[str, ...]
    is_multi_label: bool = False
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @abc.abstractmethod
    def splits(self) -> tuple[str, ...]:
        """Splits that `data_dir` has a file of, such as ("train", "dev"); two dev sets have two names."""

    @abc.abstractmethod
    def read(self, split: str) -> list[Example]:
        """Examples of a split, in the file's order.

        Raises:
          ValueError: for a split without a file, a file that is not as the task wants it (path and line are named), or
            a label that the task does not know.
          OSError: if the file cannot be read.
        """

    @functools.cached_property
    def label_ids(self) -> dict[str, int] | None:
        """Label -> its id, in the order of the ids; None where there are no labels."""
        return None if self.labels is None else {label: i for i, label in enumerate(self.labels)}

    @property
    def dev_splits(self) -> tuple[str, ...]:
        """Splits to choose the best model on: "dev", or MNLI's "dev_matched" and "dev_mismatched"."""
        return tuple(split for split in self.splits() if split.startswith("dev"))


def check_label(label: str, labels: Collection[str] | None, *, source: str) -> None:
    """Refuses a label that is none of `labels`, which may be a task's `label_ids`; None takes every one.

    Raises:
      ValueError: if it is not among them.
    """
    if labels is not None and label not in labels:
        shown = ", ".join(map(repr, list(labels)[:20])) + (f" and {len(labels) - 20} more" if len(labels) > 20 else "")
        raise ValueError(f"{source}: label must be one of {shown}, as in training, got {label!r}")
