"""This project: predictions by what `albert_tf.predict` calls, from texts on; steps by fine-tuning's own trainer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.contenders import OPTIMIZER, THREADS, padded_batches


class Contender:
    """See `benchmarks.contenders.Contender`."""

    def __init__(self, job: dict[str, Any]) -> None:
        from albert_tf import startup

        if "labels" in job:
            startup.prepare_training(remat=False, strategy="cpu")  # as finetune does

        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(THREADS)
        tf.config.threading.set_inter_op_parallelism_threads(THREADS)
        self.versions = {"tensorflow": tf.__version__}
        self._job = job
        if "labels" in job:
            self._make_trainer()
        else:
            self._make_answerer()

    def _make_answerer(self) -> None:
        from albert_tf.inference.answers import AnswerSettings, make_answerer
        from albert_tf.inference.loaded_model import load
        from albert_tf.modeling.model_runner import ModelRunner
        from albert_tf.tasks.task import Example

        loaded = load(self._job["model"])
        runner = ModelRunner(loaded.model, batch_size=self._job["batch_size"], sort_by_length=False)
        self._answerer: Any = make_answerer(loaded, runner, AnswerSettings())
        self._examples = [
            Example(id=str(number), source=f"text {number}", texts=(text,))
            for number, text in enumerate(self._job["texts"])
        ]

    def predict(self) -> np.ndarray:
        return np.stack([one.probabilities for one in self._answerer.predict(self._examples)])

    def _make_trainer(self) -> None:
        import tensorflow as tf

        import albert_tf
        from albert_tf import features
        from albert_tf.training.building import build_trainer, choose_form
        from albert_tf.training.finetuning_objectives import LABELS, make_objective
        from albert_tf.training.finetuning_settings import FinetuningSettings

        start = albert_tf.load_model(self._job["model"])
        settings = FinetuningSettings(
            output_dir="",
            model=self._job["model"],
            max_seq_length=start.config.max_position_embeddings,
            train_batch_size=self._job["batch_size"],
            num_train_steps=1 << 30,  # the rate stays what it is
            dropout=0.0,
            classifier_dropout=0.0,
            **OPTIMIZER,
        )
        strategy = tf.distribute.get_strategy()
        self._trainer = build_trainer(
            settings, strategy, lambda policy: start, make_objective("classifier"), form=choose_form(settings, strategy)
        )
        self._batches = padded_batches(self._job)

        def chosen() -> Iterator[dict[str, np.ndarray]]:
            while True:
                batch = self._batches[self._number]
                numbers = np.arange(len(batch["ids"]), dtype=np.int64)
                yield {
                    features.INPUT_IDS: batch["ids"],
                    features.INPUT_MASK: batch["mask"],
                    features.SEGMENT_IDS: np.zeros_like(batch["ids"]),
                    LABELS: batch["labels"],
                    "example": numbers,
                    "epoch": np.zeros_like(numbers),
                }

        self._number = 0
        size = self._job["batch_size"]
        grid, row = tf.TensorSpec([size, None], tf.int32), tf.TensorSpec([size], tf.int64)
        names = (features.INPUT_IDS, features.INPUT_MASK, features.SEGMENT_IDS)
        signature = {
            **dict.fromkeys(names, grid),
            LABELS: tf.TensorSpec([size], tf.int32),
            "example": row,
            "epoch": row,
        }
        self._iterator = iter(tf.data.Dataset.from_generator(chosen, output_signature=signature))

    def train_step(self, number: int) -> float:
        self._number = number
        reported, _, _ = self._trainer.run(self._iterator, 1)
        return float(reported[0][list(self._trainer.metrics).index("loss")])
