"""What a run writes into its folder besides checkpoints. With several workers the chief writes, the others do not."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.files import write_whole
from albert_tf.model_directory import save_model_directory
from albert_tf.modeling.head_model import AlbertHeadModel
from albert_tf.tokenizer_base import Tokenizer
from albert_tf.training.agreement import Agreement
from albert_tf.training.metrics_log import MetricsLog


class RunFolder:
    """The folder of a run.

    Args:
      path: the folder.
      tokenizer: of the data, written into model directories; None where there is none.
      agreement: with the other workers; says whether this process writes.
      log_example_ids: whether the examples of each step are written down.
    """

    def __init__(self, path: str, tokenizer: Tokenizer | None, agreement: Agreement, *, log_example_ids: bool) -> None:
        self._path = path
        self._tokenizer = tokenizer
        self._log_example_ids = log_example_ids
        self._agreement = agreement
        self._log: MetricsLog | None = None

    def open_log(self, after: int) -> None:
        """Opens the log, without what was written after the checkpoint of step `after`."""
        if self._agreement.is_chief:
            self._log = MetricsLog(self._path, after=after, log_example_ids=self._log_example_ids)

    def write(self, step: int, kind: str, figures: Mapping[str, Any]) -> None:
        """Figures of a step; `kind` is "train" or "eval"."""
        if self._log is not None:
            self._log.write(step, kind, figures)

    def write_examples(self, first_step: int, epochs: np.ndarray, examples: np.ndarray) -> None:
        """Examples of the steps from `first_step` on: this worker's part of each, int64 [steps, B / workers]."""
        if not self._log_example_ids:
            return
        parts = self._agreement.gather(np.stack([epochs, examples]))  # [workers, 2, steps, B / workers]
        if self._log is not None:
            self._log.write_examples(first_step, *np.concatenate(list(parts), axis=-1))

    def figures(self, kind: str, name: str) -> list[float]:
        """Figures of that name before the checkpoint; none where this process does not write."""
        return [] if self._log is None else self._log.figures(kind, name)

    def has_line(self, step: int, kind: str) -> bool:
        """Whether the log held figures of that step when it was opened; False where this process does not write."""
        return self._log is not None and self._log.has_line(step, kind)

    def write_text(self, name: str, text: str) -> str:
        """Writes a file whole, and returns its path."""
        path = os.path.join(self._path, name)
        if self._agreement.is_chief:
            write_whole(path, text)
        return path

    def save_model(
        self, name: str, model: AlbertHeadModel, *, training: Mapping[str, Any], files: Mapping[str, str]
    ) -> str:
        """Writes the present weights as the model directory `name`, what else is given beside them; returns its path.

        Raises:
          OSError: if it cannot be written.
        """
        path = os.path.join(self._path, name)
        if not self._agreement.is_chief:
            return path
        try:
            save_model_directory(path, model, self._tokenizer, training=training, files=files, replace=True)
        except (OSError, tf.errors.OpError) as error:
            reason = getattr(error, "strerror", None) or getattr(error, "message", None) or error
            raise OSError(
                f"{path}: cannot be written ({reason}). Make room and give the same command again: it goes on from the "
                "newest checkpoint"
            ) from error
        return path
