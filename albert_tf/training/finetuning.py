"""Fine-tuning on examples in memory, from a warm start to a model directory: what it adds to a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from absl import logging

from albert_tf.modeling.head_model import AlbertHeadModel
from albert_tf.modeling.model_runner import ModelRunner
from albert_tf.modeling.models import make_model
from albert_tf.training import collapse, interrupts
from albert_tf.training.building import build_trainer
from albert_tf.training.example_batches import ExampleOrder, training_batches
from albert_tf.training.finetuning_inputs import FinetuningInputs, Logits, examples_digest
from albert_tf.training.finetuning_objectives import make_objective
from albert_tf.training.finetuning_settings import FinetuningSettings
from albert_tf.training.prediction import predict_logits
from albert_tf.training.run import Run

if TYPE_CHECKING:
    from albert_tf.tasks.features import EncodedExamples

_SAMPLE = 1000  # training rows that are looked at where there are no held-out ones


class Finetuning(Run):
    """A run on examples of a task.

    Args:
      settings: of the run.
      inputs: what it learns.
      progress: makes the progress display, as `albert_tf.progress.progress`.
    """

    DESCRIPTION = "fine-tuning"

    def __init__(
        self,
        settings: FinetuningSettings,
        inputs: FinetuningInputs,
        progress: Callable[..., AbstractContextManager[Any]],
    ) -> None:
        self.settings = settings
        self._inputs = inputs
        self._fingerprint = inputs.fingerprint(settings)
        super().__init__(settings, progress, inputs.start.tokenizer)
        self._files = inputs.files
        is_tpu = isinstance(self._strategy, tf.distribute.TPUStrategy)
        self._seq_length = settings.max_seq_length if is_tpu else None
        self._is_multi_label = bool(inputs.task["is_multi_label"])
        self._objective = make_objective(inputs.head.head, is_multi_label=self._is_multi_label)
        self._order = ExampleOrder(
            lengths=inputs.train.lengths,
            batch_size=settings.train_batch_size,
            seed=settings.seed,
            bucket_by_length=settings.bucket_by_length,
        )
        self.collapse: str | None = None  # what the last evaluation says of it
        self._build(
            lambda: build_trainer(settings, self._strategy, self._make_model, self._objective, form=self._form),
            len(inputs.train),
        )
        self._runner = ModelRunner(
            self._model,
            self._strategy,
            batch_size=settings.eval_batch_size or settings.train_batch_size,
            form=self._form,
            seq_length=self._seq_length,
            around_batch=interrupts.held_back,  # TensorFlow does not bear an exception while it builds a graph
        )

    def _make_model(self, policy: str) -> AlbertHeadModel:
        inputs = self._inputs
        config = self.settings.config(inputs.start.config)
        model = make_model(config, inputs.head, seed=self.settings.seed, dtype=policy)
        inputs.start.assign(model)
        return model

    def _dataset(self, step: int, **share: int) -> tf.data.Dataset:
        return training_batches(self._inputs.train, self._order, step=step, seq_length=self._seq_length, **share)

    @property
    def _has_evaluation(self) -> bool:
        return True  # on some training rows where there is nothing else: a collapse must show

    def _measure(self) -> dict[str, float]:
        """Figures of all sets; names begin with the set's where there are several."""
        inputs = self._inputs
        figures: dict[str, float] = {}
        if not inputs.held_out:
            sample = inputs.train.select(np.arange(min(len(inputs.train), _SAMPLE)))
            logits = predict_logits(self._runner, sample)
            figures = {f"train_{name}": value for name, value in self._loss(sample, logits).items()}
            self.collapse = self._notice(sample, logits)
        for number, (name, held_out) in enumerate(inputs.held_out.items()):
            logits = predict_logits(self._runner, held_out.examples)
            found = {"loss": self._loss(held_out.examples, logits)["loss"], **held_out.score(logits)}
            start = f"{name}_" if len(inputs.held_out) > 1 else ""
            figures |= {f"{start}{figure}": float(value) for figure, value in found.items()}
            if number == 0:
                self.collapse = self._notice(held_out.examples, logits)
        return figures

    def _loss(self, examples: EncodedExamples, logits: Logits) -> dict[str, float]:
        return self._objective.figures(logits, _labels(examples))

    def _notice(self, examples: EncodedExamples, logits: Logits) -> str | None:
        head = self._inputs.head
        found = collapse.notice(
            head.head, logits, _labels(examples), is_multi_label=self._is_multi_label, names=head.labels
        )
        if found is not None:
            logging.warning("the model has collapsed: %s", found)
        return found

    @property
    def _best_by(self) -> tuple[str, int]:
        name, more_is_better = self._inputs.deciding_figure
        return name, 1 if more_is_better else -1

    def _in_a_line(self, figures: Mapping[str, float]) -> str:
        return ", ".join(f"{name.replace('_', ' ')} {value:.4f}" for name, value in figures.items())

    def _provenance(self, step: int, figures: Mapping[str, float]) -> dict[str, Any]:
        return {
            "step": step,
            "max_seq_length": self.settings.max_seq_length,
            "task": dict(self._inputs.task),
            "start": self._inputs.start.path,
            "settings": self._fingerprint,
            "evaluation": dict(figures),
            "collapse": self.collapse,
        }

    def _locate(self, step: int, example: int) -> str:
        return self._inputs.locate(example)

    def _same_on_all_workers(self) -> dict[str, Any]:
        held_out = {name: examples_digest(part.examples) for name, part in self._inputs.held_out.items()}
        return {**super()._same_on_all_workers(), **self._fingerprint, "held-out data": held_out}


def _labels(examples: EncodedExamples) -> np.ndarray | list[np.ndarray]:
    if examples.labels is None:
        raise ValueError("an evaluation needs examples with labels")
    return examples.labels
