"""What a run writes into its folder besides checkpoints. With several workers the chief writes, the others do not."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from albert_tf.data.manifest import DataDirectory
from albert_tf.files import write_whole
from albert_tf.model_directory import save_model_directory
from albert_tf.modeling.models import AlbertPretrainingModel
from albert_tf.tokenizer_base import Tokenizer
from albert_tf.training import evaluation
from albert_tf.training.agreement import Agreement
from albert_tf.training.metrics_log import MetricsLog
from albert_tf.training.settings import PretrainingSettings


class RunFolder:
    """The folder of a run.

    Args:
      settings: of the run.
      data: what it trains on.
      tokenizer: of the data, written into model directories.
      agreement: with the other workers; says whether this process writes.
    """

    def __init__(
        self, settings: PretrainingSettings, data: DataDirectory, tokenizer: Tokenizer, agreement: Agreement
    ) -> None:
        self._settings = settings
        self._data = data
        self._tokenizer = tokenizer
        self._agreement = agreement
        self._log: MetricsLog | None = None

    def open_log(self, after: int) -> None:
        """Opens the log, without what was written after the checkpoint of step `after`."""
        if self._agreement.is_chief:
            named = self._settings.log_example_ids
            self._log = MetricsLog(self._settings.output_dir, after=after, log_example_ids=named)

    def write(self, step: int, kind: str, figures: Mapping[str, Any]) -> None:
        """Figures of a step; `kind` is "train" or "eval"."""
        if self._log is not None:
            self._log.write(step, kind, figures)

    def write_examples(self, first_step: int, epochs: np.ndarray, examples: np.ndarray) -> None:
        """Examples of the steps from `first_step` on: this worker's part of each, int64 [steps, B / workers]."""
        if not self._settings.log_example_ids:
            return
        parts = self._agreement.gather(np.stack([epochs, examples]))  # [workers, 2, steps, B / workers]
        if self._log is not None:
            self._log.write_examples(first_step, *np.concatenate(list(parts), axis=-1))

    def label_counts(self) -> np.ndarray:
        """Counts of the training labels, int64 [V], from the folder if it has them."""
        path = os.path.join(self._settings.output_dir, "label_counts.npy")
        if tf.io.gfile.exists(path):
            with tf.io.gfile.GFile(path, "rb") as stream:
                content = stream.read()
            try:
                counts: np.ndarray = np.load(io.BytesIO(content))
                if counts.shape == (self._data.vocab_size,):
                    return counts
            except (ValueError, EOFError, OSError):
                pass  # counted anew
            logging.warning("%s is damaged; the labels are counted again", path)
        counts = evaluation.count_labels(self._data)
        if self._agreement.is_chief:
            written = io.BytesIO()
            np.save(written, counts)
            write_whole(path, written.getvalue())
        return counts

    def smallest(self, kind: str, name: str) -> float:
        """Smallest figure of that name before the checkpoint; infinity where there is none."""
        return math.inf if self._log is None else self._log.smallest(kind, name)

    def has_line(self, step: int, kind: str) -> bool:
        """Whether the log held figures of that step when it was opened; False where this process does not write."""
        return self._log is not None and self._log.has_line(step, kind)

    def write_text(self, name: str, text: str) -> str:
        """Writes a file whole, and returns its path."""
        path = os.path.join(self._settings.output_dir, name)
        if self._agreement.is_chief:
            write_whole(path, text)
        return path

    def save_model(self, name: str, model: AlbertPretrainingModel, *, step: int, figures: Mapping[str, float]) -> str:
        """Writes the present weights, of step `step`, as the model directory `name`, and returns its path.

        Raises:
          OSError: if it cannot be written.
        """
        path = os.path.join(self._settings.output_dir, name)
        if not self._agreement.is_chief:
            return path
        training = {
            "step": step,
            "max_seq_length": self._data.max_seq_length,
            "sentence_objective": self._data.sentence_objective,
            "settings": self._settings.fingerprint(self._data.digest),
            "eval_data_dir": self._settings.eval_data_dir,
            "evaluation": dict(figures),
        }
        try:
            save_model_directory(path, model, self._tokenizer, training=training, replace=True)
        except (OSError, tf.errors.OpError) as error:
            reason = getattr(error, "strerror", None) or getattr(error, "message", None) or error
            raise OSError(
                f"{path}: cannot be written ({reason}). Make room and give the same command again: it goes on from the "
                "newest checkpoint"
            ) from error
        return path
