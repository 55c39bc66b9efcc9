"""A training run, whatever its objective: checks, resume, the loop with its events, the result.

output_dir/
  settings.json       what decides the weights; a run with other settings is refused
  checkpoints/        the newest few
  best/               model directory of the best evaluation, with eval_steps
  diverged.json       where a step gave values that are not finite: its batch
  metrics.jsonl       figures of training and evaluation by step
  tensorboard/        the same for TensorBoard
  example_ids.tsv     with log_example_ids: the examples of each step
  model/              the model directory, when the run has ended
"""

from __future__ import annotations

import abc
import contextlib
import functools
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf
from absl import logging

from albert_tf.tokenizer_base import Tokenizer
from albert_tf.training import divergence, footprint, metrics_log, strategies
from albert_tf.training.agreement import Agreement
from albert_tf.training.building import build_checkpoints, choose_form
from albert_tf.training.cluster import outlast_workers
from albert_tf.training.loop import DivergedError, Trainer
from albert_tf.training.run_folder import RunFolder
from albert_tf.training.settings import RunSettings

# Steps of one call into the graph: few, and of a second at most where a step takes less, so that Ctrl-C, SIGTERM and
# the progress bar come soon.
_STEPS_PER_CALL = 10
_SECONDS_PER_CALL = 1.0


class Run(abc.ABC):
    """One run: builds what it needs, restores the newest checkpoint, trains the rest, writes the model directory.

    A subclass says what is trained on what: it sets up `_trainer` with `_build`, and gives batches and evaluations.

    Args:
      settings: of the run.
      progress: makes the progress display, as `albert_tf.progress.progress`.
      tokenizer: of the data, written into model directories.
    """

    # What is being done, for the progress display.
    DESCRIPTION: ClassVar[str]

    def __init__(
        self, settings: RunSettings, progress: Callable[..., AbstractContextManager[Any]], tokenizer: Tokenizer | None
    ) -> None:
        self._run_settings = settings
        self._progress = progress
        self._files: Mapping[str, str] = {}  # texts by file name that belong into the model directory as well
        cluster = settings.cluster()
        self._strategy = strategies.make_strategy(
            settings.strategy,
            num_devices=settings.num_devices,
            tpu=settings.tpu,
            tpu_zone=settings.tpu_zone,
            gcp_project=settings.gcp_project,
            cluster=cluster,
        )
        self._agreement = Agreement(self._strategy, cluster)
        self._folder = RunFolder(
            settings.output_dir, tokenizer, self._agreement, log_example_ids=settings.log_example_ids
        )
        settings.check_devices(self._strategy.num_replicas_in_sync)
        self._form = choose_form(settings, self._strategy)

    def _build(self, make_trainer: Callable[[], Trainer], num_examples: int) -> None:
        """Makes the trainer and its checkpoints."""
        with self._agreement.naming_losses(lambda: None):
            self._trainer: Trainer = make_trainer()
        self._model = self._trainer.model
        self._checkpoints = build_checkpoints(self._run_settings, self._trainer)
        replicas = self._strategy.num_replicas_in_sync
        logging.info("%s examples, %d device(s), %s form", f"{num_examples:,}", replicas, self._form)

    def _batches(self, step: int) -> Iterator[Any]:
        """Distributed batches from step `step` on."""

        def pipeline(context: tf.distribute.InputContext) -> tf.data.Dataset:
            return self._dataset(
                step,
                num_pipelines=context.num_input_pipelines,
                pipeline=context.input_pipeline_id,
                num_replicas=context.num_replicas_in_sync // context.num_input_pipelines,
            )

        return iter(self._strategy.distribute_datasets_from_function(pipeline))

    @abc.abstractmethod
    def _dataset(self, step: int, **share: int) -> tf.data.Dataset:
        """Batches from step `step` on; `share`: num_pipelines, pipeline and num_replicas, as `training_batches`."""

    @property
    def _ends(self) -> tuple[int, ...]:
        """The steps that the run's stages end with; batches of a stage are all of one shape."""
        return (self._run_settings.num_train_steps,)

    @property
    @abc.abstractmethod
    def _has_evaluation(self) -> bool:
        """Whether there is something to evaluate on."""

    @abc.abstractmethod
    def _measure(self) -> dict[str, float]:
        """Figures of the present weights on held-out data."""

    @property
    @abc.abstractmethod
    def _best_by(self) -> tuple[str, int]:
        """Figure of an evaluation that says which is the best, and 1 where more is better, -1 where less is."""

    @abc.abstractmethod
    def _in_a_line(self, figures: Mapping[str, float]) -> str:
        """The most important figures of an evaluation."""

    def _named(self, figures: Mapping[str, float]) -> dict[str, float]:
        """Figures of training steps by the names under which they are shown."""
        return dict(figures)

    @abc.abstractmethod
    def _provenance(self, step: int, figures: Mapping[str, float]) -> dict[str, Any]:
        """Content of the model directory's training.json."""

    @abc.abstractmethod
    def _locate(self, step: int, example: int) -> str:
        """Where the training example of that number comes from that step `step`, counted from 1, has seen."""

    def _explained(self, error: tf.errors.OpError) -> ValueError | None:
        """What an error says to a user, where bad data was its cause."""
        return None

    def _same_on_all_workers(self) -> dict[str, Any]:
        """What a run of several workers checks before its first step."""
        return {**self._run_settings.same_on_all_workers(), "TensorFlow": tf.__version__}

    def footprint(self) -> list[tuple[str, ...]]:
        """Table of what the run holds and moves; see `footprint.rows`."""
        return footprint.rows(
            self._model.config,
            bytes_per_weight=8 if self._run_settings.dtype == "float64" else 4,
            num_replicas=self._strategy.num_replicas_in_sync,
            has_average=self._trainer.average is not None,
        )

    @property
    def has_checkpoint(self) -> bool:
        """Whether the run's folder holds a checkpoint to go on from."""
        return self._checkpoints.newest is not None

    def stop(self) -> str:
        """Saves what an interrupted run has done; says at which step it is, and where the same command goes on."""
        if not self._agreement.is_needed:
            self._save_if_new()  # several workers did so when they agreed to stop
        saved = self._checkpoints.newest_step
        goes_on = "there is no checkpoint yet: the same command begins anew"
        if saved is not None:
            goes_on = f"the same command goes on from the checkpoint of step {saved}"
        return f"stopped at step {self._trainer.step} of {self._run_settings.num_train_steps}; {goes_on}"

    @property
    def is_chief(self) -> bool:
        """Whether this process writes into the run's folder: the only one, or the chief of several workers."""
        return self._agreement.is_chief

    def outlast_workers(self) -> None:
        """Lets the other workers end first, where this is the chief of several; call it last."""
        if (cluster := self._run_settings.cluster()) is not None:
            outlast_workers(cluster)

    def remove_output(self) -> None:
        """Removes the run's folder, unless it is another worker's."""
        if self.is_chief:
            tf.io.gfile.rmtree(self._run_settings.output_dir)

    def run(self) -> dict[str, float]:
        """Trains from the newest checkpoint to the end and returns the last evaluation's figures (none without data).

        Raises:
          DivergedError: if a loss or gradient was not finite.
          ValueError: for damaged data, naming file and record.
        """
        try:
            with (
                self._agreement.naming_losses(lambda: self._checkpoints.newest_step),
                self._agreement.noting_interrupts(),
            ):
                return self._run()
        except DivergedError as error:
            account = self._account_of(error)
            raise DivergedError(account, step=error.step, epochs=error.epochs, examples=error.examples) from error
        except tf.errors.OpError as error:
            explained = self._explained(error)
            if explained is None:
                raise
            raise explained from error

    def _run(self) -> dict[str, float]:
        settings = self._run_settings
        begun = self._checkpoints.restore()
        self._agreement.check_start(begun, self._same_on_all_workers())
        self._folder.open_log(after=begun)
        name, sign = self._best_by
        self._best = max((sign * value for value in self._folder.figures("eval", name)), default=-math.inf)
        left = settings.num_train_steps - begun
        first = "; the first takes longer, since it builds the graph" if left else ""
        logging.info("%d of %d steps to do%s", left, settings.num_train_steps, first)
        figures: dict[str, float] = {}
        was_evaluated = self._agreement.gather(np.array([self._folder.has_line(begun, "eval")]))[0].any()  # the chief's
        if left:
            every = settings.eval_steps or settings.num_train_steps
            is_due = begun and (begun % every == 0 or begun in self._ends)
            if is_due and not was_evaluated and self._has_evaluation:  # a stop has come before it
                self._evaluate(begun)
            with self._progress(
                total=settings.num_train_steps, description=self.DESCRIPTION, unit="steps", completed=begun
            ) as bar:
                for end in self._ends:
                    if begun < end:
                        figures = self._train(begun, end, bar)
                        begun = end
        elif self._has_evaluation:
            figures = self._evaluate(begun, is_noted=not was_evaluated)
        with self._averaged():
            self._save_model("model", settings.num_train_steps, figures)
        self._agreement.wait()
        return figures

    def _averaged(self) -> AbstractContextManager[None]:
        """Puts the moving average in the place of the weights for a block, where there is one."""
        average = self._trainer.average
        return average.in_use() if average is not None else contextlib.nullcontext()

    def _account_of(self, error: DivergedError) -> str:
        """Finds out what went wrong in a step, writes it down, and saves the state from before."""
        tensor = divergence.first_not_finite(self._trainer, next(self._batches(error.step - 1)))
        # [workers, 2, B / workers] to [2, B]
        parts = self._agreement.gather(np.stack([error.epochs, error.examples]))
        epochs, examples = np.concatenate(list(parts), axis=-1)
        locate = functools.partial(self._locate, error.step)
        found = divergence.describe(str(error), error.step, tensor, locate, epochs, examples)
        path = self._folder.write_text(divergence.FILE, divergence.to_json(found))
        self._save_if_new()
        return f"{divergence.in_words(found, path)}. The weights before that step are kept: {self.stop()}"

    def _save(self) -> None:
        if self._agreement.is_chief:
            self._checkpoints.save()

    def _save_if_new(self) -> None:
        """Saves the present step, unless it is saved or nothing has been done yet."""
        if self._trainer.step and self._trainer.step != self._checkpoints.newest_step:
            self._save()

    def _save_model(self, name: str, step: int, figures: Mapping[str, float]) -> str:
        return self._folder.save_model(name, self._model, training=self._provenance(step, figures), files=self._files)

    def _train(self, step: int, last: int, bar: Any) -> dict[str, float]:
        """Goes from step `step` to step `last`, on batches of one kind; figures of the last evaluation."""
        settings, iterator = self._run_settings, self._batches(step)
        eval_steps = settings.eval_steps or settings.num_train_steps
        interval = 60.0 * (settings.save_checkpoints_minutes or math.inf)
        losses = self._trainer.objective.metrics[:2]
        recent: list[np.ndarray] = []
        figures: dict[str, float] = {}
        saved = math.inf  # minutes count from the first step's end
        affordable = 1  # the first call builds the graph, too
        while step < last:
            affordable = self._agreement.next_steps(affordable)
            if not affordable:  # a worker was told to stop
                self._save_if_new()
                self._agreement.wait()
                self._agreement.leave()
            events = (settings.log_steps, settings.save_checkpoints_steps, eval_steps)
            count = min(affordable, last - step, *(every - step % every for every in events))
            began = time.monotonic()
            with self._agreement.held_back():  # what is written must be of the step that a stop would save
                reported, epochs, examples = self._trainer.run(iterator, count)
                seconds = (time.monotonic() - began) / count
                self._folder.write_examples(step + 1, epochs, examples)
                step += count
                recent.extend(reported)
                if step % settings.log_steps == 0 or step == last:
                    means = self._named(metrics_log.means_of_steps(recent, self._trainer.metrics))
                    rate = self._trainer.learning_rate(step)
                    self._folder.write(step, "train", {**means, "learning_rate": rate, "epoch": int(epochs[-1][-1])})
                    recent = []
            affordable = min(max(int(_SECONDS_PER_CALL / seconds), 1), _STEPS_PER_CALL, 2 * affordable)
            saved = min(saved, time.monotonic())
            shown = dict(zip(losses, reported[-1][: len(losses)].tolist(), strict=True))
            bar.advance(count, **self._named(shown))
            if step % settings.save_checkpoints_steps == 0 or step == last or time.monotonic() - saved > interval:
                self._save()
                saved = time.monotonic()
            if self._has_evaluation and (step % eval_steps == 0 or step == last):
                figures = self._evaluate(step)
        return figures

    def _evaluate(self, step: int, *, is_noted: bool = True) -> dict[str, float]:
        """Figures of the held-out data; `is_noted`: whether they go into the log and count for the best model."""
        with self._averaged():
            figures = self._measure()
            name, sign = self._best_by
            if is_noted and self._run_settings.eval_steps and sign * figures[name] > self._best:
                self._best = sign * figures[name]
                path = self._save_model("best", step, figures)
                logging.info("step %d is the best so far: %s", step, path)
        if is_noted:
            self._folder.write(step, "eval", figures)
        logging.info("step %d, held out: %s", step, self._in_a_line(figures))
        return figures
