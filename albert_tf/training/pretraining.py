"""Pretraining from a data directory to a model directory: what it adds to a run.

output_dir/
  label_counts.npy    how often each piece is a label, for the context-free bound
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

from albert_tf.data import batches
from albert_tf.data.reading import Order
from albert_tf.training import evaluation, objectives, report
from albert_tf.training.building import build_pretraining_trainer
from albert_tf.training.inputs import Inputs, read_inputs
from albert_tf.training.run import Run
from albert_tf.training.settings import PretrainingSettings


class Pretraining(Run):
    """A run on the shards of a data directory.

    Args:
      settings: of the run.
      progress: makes the progress display, as `albert_tf.progress.progress`.
      inputs: what `read_inputs(settings)` returned, where it was called before.
    """

    DESCRIPTION = "pretraining"

    def __init__(
        self,
        settings: PretrainingSettings,
        progress: Callable[..., AbstractContextManager[Any]],
        *,
        inputs: Inputs | None = None,
    ) -> None:
        self.settings = settings
        inputs = inputs or read_inputs(settings)
        self._data, self._held_out, self._start = inputs.data, inputs.held_out, inputs.start
        super().__init__(settings, progress, inputs.tokenizer)
        objective = self._data.sentence_objective
        self._build(
            lambda: build_pretraining_trainer(
                settings, self._strategy, form=self._form, sentence_objective=objective, start=self._start
            ),
            self._data.num_examples,
        )

    def _dataset(self, step: int, **share: int) -> tf.data.Dataset:
        settings = self.settings
        order = Order(data=self._data, seed=settings.seed, group_size=settings.shards_in_flight)
        return batches.training_batches(order, step=step, batch_size=settings.train_batch_size, **share)

    @property
    def _has_evaluation(self) -> bool:
        return self._held_out is not None

    def _measure(self) -> dict[str, float]:
        return self._named(self._evaluator.run())

    @property
    def _best_by(self) -> tuple[str, int]:
        return "masked_lm_loss", -1

    def _in_a_line(self, figures: Mapping[str, float]) -> str:
        return report.line(figures)

    def _named(self, figures: Mapping[str, float]) -> dict[str, float]:
        return objectives.name_figures(figures, self._data.sentence_objective)

    def _provenance(self, step: int, figures: Mapping[str, float]) -> dict[str, Any]:
        return {
            "step": step,
            "max_seq_length": self._data.max_seq_length,
            "sentence_objective": self._data.sentence_objective,
            "start": self.settings.model,
            "settings": self.settings.fingerprint(self._data.digest, self._start.digest if self._start else None),
            "eval_data_dir": self.settings.eval_data_dir,
            "evaluation": dict(figures),
        }

    def _locate(self, example: int) -> str:
        return self._data.locate(example)

    def _explained(self, error: tf.errors.OpError) -> ValueError | None:
        return batches.explain(error, *filter(None, (self._data, self._held_out)))

    def _same_on_all_workers(self) -> dict[str, Any]:
        held_out = self._held_out.digest if self._held_out else ""
        start = self._start.digest if self._start else ""
        data = {"training data": self._data.digest, "held-out data": held_out, "model": start}
        return {**super()._same_on_all_workers(), **data}

    @property
    def _evaluator(self) -> evaluation.Evaluator:
        """The evaluator of the held-out data, made when it is first needed."""
        if self._held_out is None:
            raise RuntimeError("a run without held-out data has nothing to evaluate")
        if not hasattr(self, "_made_evaluator"):
            settings = self.settings
            counts = evaluation.stored_label_counts(settings.output_dir, self._data, writes=self.is_chief)
            self._made_evaluator = evaluation.Evaluator(
                self._model,
                self._strategy,
                self._held_out,
                counts,
                batch_size=settings.eval_batch_size or settings.train_batch_size,
                max_examples=settings.max_eval_examples,
                form=self._form,
            )
        return self._made_evaluator
