"""Pretraining from a data directory to a model directory: checks, resume, the loop with its events, the result.

output_dir/
  settings.json       what decides the weights; a run with other settings is refused
  checkpoints/        the newest few
  metrics.jsonl       figures of training and evaluation by step
  tensorboard/        the same for TensorBoard
  label_counts.npy    how often each piece is a label, for the context-free bound
  example_ids.tsv     with log_example_ids: the examples of each step
  model/              the model directory, when the run has ended
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from albert_tf.data import batches
from albert_tf.data.reading import Order
from albert_tf.modeling.encoder import Form
from albert_tf.modeling.models import AlbertPretrainingModel
from albert_tf.training import evaluation, objectives, schedules, strategies
from albert_tf.training.agreement import Agreement
from albert_tf.training.checkpoints import Checkpoints
from albert_tf.training.cluster import outlast_workers
from albert_tf.training.inputs import Inputs, read_inputs
from albert_tf.training.loop import METRICS, Trainer
from albert_tf.training.optimizers import AdamWeightDecay, Lamb
from albert_tf.training.run_folder import RunFolder
from albert_tf.training.settings import PretrainingSettings

# Steps of one call into the graph: few, and of a second at most where a step takes less, so that Ctrl-C, SIGTERM and
# the progress bar come soon.
_STEPS_PER_CALL = 10
_SECONDS_PER_CALL = 1.0


class Pretraining:
    """One run: builds what it needs, restores the newest checkpoint, trains the rest, writes the model directory.

    Args:
      settings: of the run.
      progress: makes the progress display, as `albert_tf.progress.progress`.
      inputs: what `read_inputs(settings)` returned, where it was called before.
    """

    def __init__(
        self,
        settings: PretrainingSettings,
        progress: Callable[..., AbstractContextManager[Any]],
        *,
        inputs: Inputs | None = None,
    ) -> None:
        self.settings = settings
        self._progress = progress
        inputs = inputs or read_inputs(settings)
        self._data, self._held_out, self._tokenizer = inputs.data, inputs.held_out, inputs.tokenizer
        cluster = settings.cluster()
        self._strategy = strategies.make_strategy(
            settings.strategy, num_devices=settings.num_devices, tpu=settings.tpu, cluster=cluster
        )
        self._agreement = Agreement(self._strategy, cluster)
        self._folder = RunFolder(settings, self._data, self._agreement)
        replicas = self._strategy.num_replicas_in_sync
        if settings.train_batch_size % replicas:
            raise ValueError(
                f"train_batch_size must be a multiple of the {replicas} devices, got {settings.train_batch_size}"
            )
        if settings.dtype == "float64":
            keras.config.set_floatx("float64")
        policy = {"bfloat16": "mixed_bfloat16"}.get(settings.dtype, settings.dtype)
        with self._agreement.naming_losses(lambda: None), self._strategy.scope():
            self._model = AlbertPretrainingModel(settings.config, seed=settings.seed, dtype=policy)
            weights = self._model.named_weights()
            self._schedule = schedules.WarmupPolynomialDecay(
                settings.learning_rate, settings.num_train_steps, settings.num_warmup_steps
            )
            optimizer_class = {"lamb": Lamb, "adamw": AdamWeightDecay}[settings.optimizer]
            self._optimizer = optimizer_class(self._schedule, weight_decay_rate=settings.weight_decay)
            self._optimizer.build(list(weights.values()))
        self._trainer = Trainer(
            self._model,
            self._optimizer,
            self._strategy,
            seed=settings.seed,
            clip_norm=settings.clip_norm,
            form=self._form,
            sentence_objective=self._data.sentence_objective,
        )
        self._checkpoints = Checkpoints(
            os.path.join(settings.output_dir, "checkpoints"),
            weights=weights,
            optimizer=self._optimizer,
            keep=settings.keep_checkpoints,
        )
        parameters = sum(int(np.prod(weight.shape)) for weight in weights.values())
        logging.info(
            "%s parameters, %s examples, %d device(s), %s form",
            f"{parameters:,}",
            f"{self._data.num_examples:,}",
            replicas,
            self._form,
        )

    @property
    def has_checkpoint(self) -> bool:
        """Whether the run's folder holds a checkpoint to go on from."""
        return self._checkpoints.newest is not None

    def stop(self) -> str:
        """Saves what an interrupted run has done; says at which step it is, and where the same command goes on."""
        step = self._trainer.step
        if step and step != self._checkpoints.newest_step and not self._agreement.is_needed:
            self._checkpoints.save()  # several workers did so when they agreed to stop
        saved = self._checkpoints.newest_step
        goes_on = "there is no checkpoint yet: the same command begins anew"
        if saved is not None:
            goes_on = f"the same command goes on from the checkpoint of step {saved}"
        return f"stopped at step {self._trainer.step} of {self.settings.num_train_steps}; {goes_on}"

    @property
    def is_chief(self) -> bool:
        """Whether this process writes into the run's folder: the only one, or the chief of several workers."""
        return self._agreement.is_chief

    def outlast_workers(self) -> None:
        """Lets the other workers end first, where this is the chief of several; call it last."""
        if (cluster := self.settings.cluster()) is not None:
            outlast_workers(cluster)

    def remove_output(self) -> None:
        """Removes the run's folder, unless it is another worker's."""
        if self.is_chief:
            tf.io.gfile.rmtree(self.settings.output_dir)

    @property
    def _form(self) -> Form:
        is_tpu = isinstance(self._strategy, tf.distribute.TPUStrategy)
        skips = self.settings.skip_padding == "yes" or (self.settings.skip_padding == "auto" and not is_tpu)
        return "packed" if skips else "unrolled"

    def run(self) -> dict[str, float]:
        """Trains from the newest checkpoint to the end and returns the last evaluation's figures (none without data).

        Raises:
          DivergedError: if a loss or gradient was not finite.
          ValueError: for damaged data, naming file and record.
        """
        try:
            with self._agreement.naming_losses(self._newest_step), self._agreement.noting_interrupts():
                return self._run()
        except tf.errors.OpError as error:
            explained = batches.explain(error, *filter(None, (self._data, self._held_out)))
            if explained is None:
                raise
            raise explained from error

    def _run(self) -> dict[str, float]:
        settings = self.settings
        begun = self._checkpoints.restore()
        self._agreement.check_start(begun, self._same_on_all_workers())
        self._folder.open_log(after=begun)
        left = settings.num_train_steps - begun
        logging.info("%d of %d steps to do", left, settings.num_train_steps)
        figures: dict[str, float] = {}
        if left:
            iterator = self._batches(begun)
            with self._progress(
                total=settings.num_train_steps, description="pretraining", unit="steps", completed=begun
            ) as bar:
                figures = self._train(iterator, begun, bar)
        elif self._evaluator is not None:
            figures = self._evaluate(settings.num_train_steps)
        self._folder.save_model(self._model, self._tokenizer, step=settings.num_train_steps, figures=figures)
        self._agreement.wait()
        return figures

    def _same_on_all_workers(self) -> dict[str, Any]:
        """What a run of several workers checks before its first step."""
        held_out = self._held_out.digest if self._held_out else ""
        data = {"training data": self._data.digest, "held-out data": held_out}
        return {**self.settings.same_on_all_workers(), **data, "TensorFlow": tf.__version__}

    def _newest_step(self) -> int | None:
        return self._checkpoints.newest_step

    def _save(self) -> None:
        if self._agreement.is_chief:
            self._checkpoints.save()

    def _batches(self, step: int) -> Iterator[Any]:
        """Distributed batches from step `step` on."""
        settings = self.settings
        order = Order(data=self._data, seed=settings.seed, group_size=settings.shards_in_flight)

        def pipeline(context: tf.distribute.InputContext) -> tf.data.Dataset:
            return batches.training_batches(
                order,
                step=step,
                batch_size=settings.train_batch_size,
                num_pipelines=context.num_input_pipelines,
                pipeline=context.input_pipeline_id,
                num_replicas=context.num_replicas_in_sync // context.num_input_pipelines,
            )

        return iter(self._strategy.distribute_datasets_from_function(pipeline))

    def _train(self, iterator: Iterator[Any], step: int, bar: Any) -> dict[str, float]:
        settings, last = self.settings, self.settings.num_train_steps
        eval_steps = settings.eval_steps or last
        recent: list[np.ndarray] = []
        figures: dict[str, float] = {}
        affordable = 1  # the first call builds the graph, too
        while step < last:
            affordable = self._agreement.next_steps(affordable)
            if not affordable:  # a worker was told to stop
                if step and step != self._checkpoints.newest_step:
                    self._save()
                self._agreement.wait()
                self._agreement.leave()
            events = (settings.log_steps, settings.save_checkpoints_steps, eval_steps)
            count = min(affordable, last - step, *(every - step % every for every in events))
            began = time.monotonic()
            with self._agreement.held_back():
                reported, epochs, examples = self._trainer.run(iterator, count)
                self._folder.write_examples(step + 1, epochs, examples)
            seconds = (time.monotonic() - began) / count
            affordable = min(max(int(_SECONDS_PER_CALL / seconds), 1), _STEPS_PER_CALL, 2 * affordable)
            step += count
            recent.extend(reported)
            shown = dict(zip(METRICS[:2], reported[-1][:2].tolist(), strict=True))
            bar.advance(count, **objectives.name_figures(shown, self._data.sentence_objective))
            if step % settings.log_steps == 0 or step == last:
                means = dict(zip(METRICS, np.mean(recent, axis=0).astype(float).tolist(), strict=True))
                means = objectives.name_figures(means, self._data.sentence_objective)
                rate = float(self._schedule(step - 1))  # of the step just made
                self._folder.write(step, "train", {**means, "learning_rate": rate, "epoch": int(epochs[-1][-1])})
                recent = []
            if self._evaluator is not None and (step % eval_steps == 0 or step == last):
                figures = self._evaluate(step)
            if step % settings.save_checkpoints_steps == 0 or step == last:
                self._save()
        return figures

    def _evaluate(self, step: int) -> dict[str, float]:
        figures = objectives.name_figures(self._evaluator.run(), self._data.sentence_objective)
        self._folder.write(step, "eval", figures)
        logging.info(
            "step %d, held out: masked-LM loss %.3f (at [MASK] %.3f, context-free %.3f), accuracy %.1f %% (at [MASK] "
            "%.1f %%)%s",
            step,
            figures["masked_lm_loss"],
            figures["masked_lm_loss_at_mask"],
            figures["context_free_loss_at_mask"],
            100 * figures["masked_lm_accuracy"],
            100 * figures["masked_lm_accuracy_at_mask"],
            "".join(
                f", {name.replace('_', ' ')} {value:.1%}"
                for name, value in figures.items()
                if name in ("sentence_order_accuracy", "next_sentence_accuracy")
            ),
        )
        return figures

    @property
    def _evaluator(self) -> Any:
        """The evaluator, made when it is first needed; None without held-out data."""
        if self._held_out is None:
            return None
        if not hasattr(self, "_made_evaluator"):
            settings = self.settings
            self._made_evaluator = evaluation.Evaluator(
                self._model,
                self._strategy,
                self._held_out,
                self._folder.label_counts(),
                batch_size=settings.eval_batch_size or settings.train_batch_size,
                max_examples=settings.max_eval_examples,
                form=self._form,
            )
        return self._made_evaluator
