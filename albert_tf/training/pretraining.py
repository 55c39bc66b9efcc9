"""Pretraining from a data directory to a model directory: checks, resume, the loop with its events, the result.

output_dir/
  settings.json       what decides the weights; a run with other settings is refused
  checkpoints/        the newest few
  best/               model directory of the evaluation with the smallest held-out loss, with eval_steps
  diverged.json       where a step gave values that are not finite: its batch
  metrics.jsonl       figures of training and evaluation by step
  tensorboard/        the same for TensorBoard
  label_counts.npy    how often each piece is a label, for the context-free bound
  example_ids.tsv     with log_example_ids: the examples of each step
  model/              the model directory, when the run has ended
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from albert_tf.data import batches
from albert_tf.data.reading import Order
from albert_tf.files import write_whole
from albert_tf.model_directory import save_model_directory
from albert_tf.modeling.encoder import Form
from albert_tf.modeling.models import AlbertPretrainingModel
from albert_tf.training import divergence, evaluation, footprint, interrupts, objectives, schedules, strategies
from albert_tf.training.averages import WeightAverage
from albert_tf.training.checkpoints import Checkpoints
from albert_tf.training.inputs import Inputs, read_inputs
from albert_tf.training.loop import METRICS, DivergedError, Trainer
from albert_tf.training.loss_scale import LossScale
from albert_tf.training.metrics_log import MetricsLog
from albert_tf.training.optimizers import AdamWeightDecay, Lamb
from albert_tf.training.settings import PretrainingSettings

# Steps of one call into the graph: few, and of a second at most where a step takes less, so that Ctrl-C, SIGTERM and
# the progress bar come soon.
_STEPS_PER_CALL = 10
_SECONDS_PER_CALL = 1.0
_BEST_BY = "masked_lm_loss"
_SCALE = METRICS.index("loss_scale")


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
        self._strategy = strategies.make_strategy(
            settings.strategy,
            num_devices=settings.num_devices,
            tpu=settings.tpu,
            tpu_zone=settings.tpu_zone,
            gcp_project=settings.gcp_project,
        )
        replicas = self._strategy.num_replicas_in_sync
        pieces = settings.gradient_accumulation_steps
        if settings.train_batch_size % (replicas * pieces):
            times = f" times {pieces} gradient_accumulation_steps" if pieces > 1 else ""
            raise ValueError(
                f"train_batch_size must be a multiple of the {replicas} devices{times}, got {settings.train_batch_size}"
            )
        if settings.dtype == "float64":
            keras.config.set_floatx("float64")
        policy = {"bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}.get(settings.dtype, settings.dtype)
        with self._strategy.scope():
            self._model = AlbertPretrainingModel(settings.config, seed=settings.seed, dtype=policy)
            weights = self._model.named_weights()
            self._schedule = schedules.WarmupPolynomialDecay(
                settings.learning_rate, settings.num_train_steps, settings.num_warmup_steps
            )
            optimizer_class = {"lamb": Lamb, "adamw": AdamWeightDecay}[settings.optimizer]
            self._optimizer = optimizer_class(self._schedule, weight_decay_rate=settings.weight_decay)
            self._optimizer.build(list(weights.values()))
            decay = settings.moving_average_decay
            self._average = WeightAverage(weights, decay) if decay else None
            scale = LossScale() if settings.dtype == "float16" else None
        self._trainer = Trainer(
            self._model,
            self._optimizer,
            self._strategy,
            seed=settings.seed,
            clip_norm=settings.clip_norm,
            form=self._form,
            sentence_objective=self._data.sentence_objective,
            micro_batches=pieces,
            rematerialize=settings.remat,
            average=self._average,
            scale=scale,
        )
        more: dict[str, Any] = {"average": self._average.values} if self._average else {}
        if scale is not None:
            more |= {"loss_scale": scale.scale, "good_steps": scale.good_steps}
        self._checkpoints = Checkpoints(
            os.path.join(settings.output_dir, "checkpoints"),
            weights=weights,
            optimizer=self._optimizer,
            keep=settings.keep_checkpoints,
            more=more,
        )
        logging.info("%s examples, %d device(s), %s form", f"{self._data.num_examples:,}", replicas, self._form)

    def footprint(self) -> list[tuple[str, ...]]:
        """Table of what the run holds and moves; see `footprint.rows`."""
        return footprint.rows(
            self.settings.config,
            bytes_per_weight=8 if self.settings.dtype == "float64" else 4,
            num_replicas=self._strategy.num_replicas_in_sync,
            has_average=self._average is not None,
        )

    @property
    def has_checkpoint(self) -> bool:
        """Whether the run's folder holds a checkpoint to go on from."""
        return self._checkpoints.newest is not None

    def stop(self) -> str:
        """Saves what an interrupted run has done; says at which step it is, and where the same command goes on."""
        step = self._trainer.step
        if step and step != self._checkpoints.newest_step and self.settings.strategy != "multi_worker":
            self._checkpoints.save()  # with several workers each would have to
        saved = self._checkpoints.newest_step
        goes_on = "there is no checkpoint yet: the same command begins anew"
        if saved is not None:
            goes_on = f"the same command goes on from the checkpoint of step {saved}"
        return f"stopped at step {self._trainer.step} of {self.settings.num_train_steps}; {goes_on}"

    def remove_output(self) -> None:
        """Removes the run's folder."""
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
        settings = self.settings
        begun = self._checkpoints.restore()
        log = MetricsLog(settings.output_dir, after=begun, log_example_ids=settings.log_example_ids)
        self._best = log.smallest("eval", _BEST_BY)
        left = settings.num_train_steps - begun
        logging.info("%d of %d steps to do", left, settings.num_train_steps)
        figures: dict[str, float] = {}
        try:
            if left:
                iterator = self._batches(begun)
                with self._progress(
                    total=settings.num_train_steps, description="pretraining", unit="steps", completed=begun
                ) as bar:
                    figures = self._train(iterator, begun, log, bar)
            elif self._evaluator is not None:
                figures = self._evaluate(settings.num_train_steps, log)
        except DivergedError as error:
            account = self._account_of(error)
            raise DivergedError(account, step=error.step, epochs=error.epochs, examples=error.examples) from error
        except tf.errors.OpError as error:
            explained = batches.explain(error, *filter(None, (self._data, self._held_out)))
            if explained is None:
                raise
            raise explained from error
        with self._averaged():
            self._write_model("model", settings.num_train_steps, figures)
        return figures

    def _averaged(self) -> AbstractContextManager[None]:
        """Puts the moving average in the place of the weights for a block, where there is one."""
        return self._average.in_use() if self._average is not None else contextlib.nullcontext()

    def _write_model(self, name: str, step: int, figures: Mapping[str, float]) -> None:
        """Writes the present weights as a model directory into the run's folder."""
        settings = self.settings
        save_model_directory(
            os.path.join(settings.output_dir, name),
            self._model,
            self._tokenizer,
            training={
                "step": step,
                "max_seq_length": self._data.max_seq_length,
                "sentence_objective": self._data.sentence_objective,
                "settings": settings.fingerprint(self._data.digest),
                "eval_data_dir": settings.eval_data_dir,
                "evaluation": dict(figures),
            },
            replace=True,
        )

    def _account_of(self, error: DivergedError) -> str:
        """Finds out what went wrong in a step, writes it down, and saves the state from before."""
        batch = next(self._batches(error.step - 1))
        found = divergence.describe(error, self._data, divergence.first_not_finite(self._trainer, batch))
        path = os.path.join(self.settings.output_dir, divergence.FILE)
        write_whole(path, divergence.to_json(found))
        return f"{divergence.in_words(found, path)}. The weights before that step are kept: {self.stop()}"

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

    def _train(self, iterator: Iterator[Any], step: int, log: MetricsLog, bar: Any) -> dict[str, float]:
        settings, last = self.settings, self.settings.num_train_steps
        eval_steps = settings.eval_steps or last
        interval = 60.0 * (settings.save_checkpoints_minutes or math.inf)
        recent: list[np.ndarray] = []
        figures: dict[str, float] = {}
        saved = time.monotonic()
        affordable = 1  # the first call builds the graph, too
        while step < last:
            events = (settings.log_steps, settings.save_checkpoints_steps, eval_steps)
            count = min(affordable, last - step, *(every - step % every for every in events))
            began = time.monotonic()
            with interrupts.held_back():
                reported, epochs, examples = self._trainer.run(iterator, count)
                log.write_examples(step + 1, epochs, examples)
            seconds = (time.monotonic() - began) / count
            affordable = min(max(int(_SECONDS_PER_CALL / seconds), 1), _STEPS_PER_CALL, 2 * affordable)
            step += count
            recent.extend(reported)
            shown = dict(zip(METRICS[:2], reported[-1][:2].tolist(), strict=True))
            bar.advance(count, **objectives.name_figures(shown, self._data.sentence_objective))
            if step % settings.log_steps == 0 or step == last:
                rate = float(self._schedule(step - 1))  # of the step just made
                log.write(step, "train", {**self._means(recent), "learning_rate": rate, "epoch": int(epochs[-1][-1])})
                recent = []
            if self._evaluator is not None and (step % eval_steps == 0 or step == last):
                figures = self._evaluate(step, log)
            if step % settings.save_checkpoints_steps == 0 or step == last or time.monotonic() - saved > interval:
                self._checkpoints.save()
                saved = time.monotonic()
        return figures

    def _means(self, reported: Sequence[np.ndarray]) -> dict[str, float]:
        """Means of what steps reported, by name; steps that moved nothing are counted instead."""
        sound = [values for values in reported if np.isfinite(values).all()]
        means = np.mean(sound, axis=0).astype(float) if sound else np.full(len(METRICS), 0.0)
        figures = objectives.name_figures(
            dict(zip(METRICS, means.tolist(), strict=True)), self._data.sentence_objective
        )
        if self.settings.dtype != "float16":
            del figures["loss_scale"]
            return figures
        return {**figures, "loss_scale": float(reported[-1][_SCALE]), "skipped_steps": len(reported) - len(sound)}

    def _evaluate(self, step: int, log: MetricsLog) -> dict[str, float]:
        with self._averaged():
            figures = objectives.name_figures(self._evaluator.run(), self._data.sentence_objective)
            if self.settings.eval_steps and figures[_BEST_BY] < self._best:
                self._best = figures[_BEST_BY]
                self._write_model("best", step, figures)
        log.write(step, "eval", figures)
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
                self._label_counts(),
                batch_size=settings.eval_batch_size or settings.train_batch_size,
                max_examples=settings.max_eval_examples,
                form=self._form,
            )
        return self._made_evaluator

    def _label_counts(self) -> np.ndarray:
        """Counts of the training labels, from the run's folder if it has them."""
        path = os.path.join(self.settings.output_dir, "label_counts.npy")
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
        written = io.BytesIO()
        np.save(written, counts)
        write_whole(path, written.getvalue())
        return counts
