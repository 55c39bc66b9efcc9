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
from albert_tf.training import evaluation, objectives, report, stages
from albert_tf.training.building import build_pretraining_trainer
from albert_tf.training.inputs import Inputs, fingerprint, read_inputs
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
        self._stages, self._held_out, self._start = inputs.stages, inputs.held_out, inputs.start
        self._data = self._stages[0]
        super().__init__(settings, progress, inputs.tokenizer)
        objective = self._data.sentence_objective
        self._build(
            lambda: build_pretraining_trainer(
                settings, self._strategy, form=self._form, sentence_objective=objective, start=self._start
            ),
            sum(data.num_examples for data in self._stages),
        )

    def _dataset(self, step: int, **share: int) -> tf.data.Dataset:
        settings = self.settings
        number, done = stages.at(settings.all_stages, step)
        order = Order(data=self._stages[number], seed=settings.seed, group_size=settings.shards_in_flight)
        size = settings.all_stages[number].train_batch_size
        return batches.training_batches(order, step=done, batch_size=size, **share)

    @property
    def _ends(self) -> tuple[int, ...]:
        return stages.ends(self.settings.all_stages)

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
            "max_seq_length": max(data.max_seq_length for data in self._stages),
            "sentence_objective": self._data.sentence_objective,
            "start": self.settings.model,
            "settings": fingerprint(self.settings, self._stages, self._start),
            "eval_data_dir": self.settings.eval_data_dir,
            "evaluation": dict(figures),
        }

    def _locate(self, step: int, example: int) -> str:
        number, _ = stages.at(self.settings.all_stages, step - 1)
        return self._stages[number].locate(example)

    def _explained(self, error: tf.errors.OpError) -> ValueError | None:
        return batches.explain(error, *filter(None, (*self._stages, self._held_out)))

    def _same_on_all_workers(self) -> dict[str, Any]:
        held_out = self._held_out.digest if self._held_out else ""
        start = self._start.digest if self._start else ""
        training = [data.digest for data in self._stages]
        data = {"training data": training, "held-out data": held_out, "model": start}
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
