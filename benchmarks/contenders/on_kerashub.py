"""KerasHub on TensorFlow: its text classifier in compiled functions that take batches of any length."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.contenders import OPTIMIZER, THREADS, padded_batches


class Contender:
    """See `benchmarks.contenders.Contender`."""

    def __init__(self, job: dict[str, Any]) -> None:
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(THREADS)
        tf.config.threading.set_inter_op_parallelism_threads(THREADS)

        import keras
        import keras_hub

        self.versions = {name: module.__version__ for name, module in (("keras", keras), ("keras_hub", keras_hub))}
        model = keras_hub.models.AlbertTextClassifier.from_preset(job["model"], preprocessor=None)
        self._batches = [
            {
                "token_ids": tf.constant(batch["ids"]),
                "segment_ids": tf.zeros_like(batch["ids"]),
                "padding_mask": tf.constant(batch["mask"]),
                **({"labels": tf.constant(batch["labels"])} if "labels" in batch else {}),
            }
            for batch in padded_batches(job)
        ]
        grid = tf.TensorSpec([None, None], tf.int32)
        inputs = dict.fromkeys(("token_ids", "segment_ids", "padding_mask"), grid)
        optimizer = keras.optimizers.AdamW(
            OPTIMIZER["learning_rate"], weight_decay=OPTIMIZER["weight_decay"], global_clipnorm=OPTIMIZER["clip_norm"]
        )
        optimizer.build(model.trainable_variables)
        measure = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

        @tf.function(input_signature=[inputs])
        def predict(batch: dict[str, tf.Tensor]) -> tf.Tensor:
            return tf.nn.softmax(model(batch, training=False))

        @tf.function(input_signature=[{**inputs, "labels": tf.TensorSpec([None], tf.int32)}])
        def train(batch: dict[str, tf.Tensor]) -> tf.Tensor:
            with tf.GradientTape() as tape:
                logits = model({name: batch[name] for name in inputs}, training=True)
                loss = measure(batch["labels"], logits)
            optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
            return loss

        self._predict, self._train = predict, train

    def predict(self) -> np.ndarray:
        return np.concatenate([self._predict(batch).numpy() for batch in self._batches])

    def train_step(self, number: int) -> float:
        return float(self._train(self._batches[number]))
