"""What a fine-tuning run learns: rows with labels, the model to start from, and sets to evaluate on."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from albert_tf.head_config import HeadConfig
from albert_tf.training.finetuning_settings import FinetuningSettings
from albert_tf.training.warm_start import WarmStart

if TYPE_CHECKING:
    from albert_tf.tasks.features import EncodedExamples

Logits = np.ndarray | list[np.ndarray]


@dataclasses.dataclass(frozen=True, kw_only=True)
class HeldOut:
    """Examples to evaluate on.

    Attributes:
      examples: their rows, with labels.
      score: figures by name of the logits of all rows, as `predict_logits` gives them.
    """

    examples: EncodedExamples
    score: Callable[[Logits], Mapping[str, float]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuningInputs:
    """What a run learns.

    Attributes:
      start: the model to start from.
      head: the head that is wanted, with the names of the labels.
      train: training rows, with labels.
      locate: where a training row of that number comes from, for messages.
      held_out: sets to evaluate on, by name; the first decides which model is the best.
      best_by: name of the figure that decides.
      more_is_better: whether more of it is better; of "loss" less always is.
      task: what is known of the task, ready for JSON, with "name" and "is_multi_label"; goes into training.json.
      files: texts by file name that are written into the model directory as well.
    """

    start: WarmStart
    head: HeadConfig
    train: EncodedExamples
    locate: Callable[[int], str]
    held_out: Mapping[str, HeldOut]
    best_by: str
    task: Mapping[str, Any]
    more_is_better: bool = True
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def fingerprint(self, settings: FinetuningSettings) -> dict[str, Any]:
        """What decides the weights, ready for JSON."""
        return settings.fingerprint(
            data=examples_digest(self.train),
            start=self.start.digest,
            config=settings.config(self.start.config),
            head=self.head,
            task=self.task,
        )

    @property
    def deciding_figure(self) -> tuple[str, bool]:
        """Name, in an evaluation, of the figure that decides, and whether more of it is better."""
        if not self.held_out:
            return "train_loss", False
        start = f"{next(iter(self.held_out))}_" if len(self.held_out) > 1 else ""
        return f"{start}{self.best_by}", self.more_is_better and self.best_by != "loss"


def examples_digest(examples: EncodedExamples) -> str:
    """SHA-256 over all rows with their labels, in hexadecimal."""
    digest = hashlib.sha256()
    labels = [] if examples.labels is None else list(examples.labels)
    for rows in (examples.input_ids, examples.segment_ids, labels):
        digest.update(np.array([np.size(row) for row in rows], np.int64).tobytes())
        for row in rows:
            digest.update(np.asarray(row).tobytes())
    return digest.hexdigest()
