"""Trains toy models on two logical CPUs and on one device and prints, as JSON, how far they are apart.

A program of its own, run by test_two_devices.py: logical devices must be made before TensorFlow runs anything.
"""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.data import batches
from albert_tf.data.manifest import DataDirectory, read_data_directory
from albert_tf.data.reading import Order
from albert_tf.modeling.models import AlbertPretrainingModel
from albert_tf.training import evaluation, optimizers, schedules, strategies
from albert_tf.training.loop import Trainer
from tests.data import toy

CONFIG = AlbertConfig(
    vocab_size=61,
    embedding_size=6,
    hidden_size=10,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=14,
    max_position_embeddings=21,
)
STEPS, BATCH, CLIP = 5, 6, 0.3


def train(strategy: tf.distribute.Strategy, data: DataDirectory, optimizer_class: type) -> tuple[Any, np.ndarray]:
    """Model after some steps with clipping, and what the steps reported."""
    with strategy.scope():
        model = AlbertPretrainingModel(CONFIG, seed=5, dtype=keras.config.floatx())
        optimizer = optimizer_class(schedules.WarmupPolynomialDecay(0.02, 11, 2))
        optimizer.build(list(model.named_weights().values()))
    trainer = Trainer(model, optimizer, strategy, seed=1, clip_norm=CLIP, form="packed")
    order = Order(data=data, seed=2)
    iterator = strategy.distribute_datasets_from_function(
        lambda context: batches.training_batches(
            order, step=0, batch_size=BATCH, num_replicas=context.num_replicas_in_sync
        )
    )
    reported, _, _ = trainer.run(iter(iterator), STEPS)
    return model, reported


def main(directory: str) -> None:
    mirrored = strategies.make_strategy("mirrored", num_devices=2)  # splits the CPU
    one = strategies.make_strategy("cpu")
    rows = toy.random_rows(19, max_seq_length=20, vocab_size=61, seed=8)
    data = read_data_directory(
        toy.write_directory(pathlib.Path(directory), [rows[:7], rows[7:]], max_seq_length=20, max_predictions_per_seq=3)
    )
    result: dict[str, Any] = {"replicas": mirrored.num_replicas_in_sync}
    pairs = (("float64", optimizers.Lamb), ("float32", optimizers.AdamWeightDecay))
    for floatx, optimizer_class in pairs:
        keras.config.set_floatx(floatx)
        (expected, alone), (found, together) = (train(s, data, optimizer_class) for s in (one, mirrored))
        moved = [np.abs(v.numpy() - w.numpy()).max() for v, w in zip(*_weights(expected, found), strict=True)]
        result[f"{floatx} {optimizer_class.__name__}"] = {
            "weights": float(max(moved)),
            "metrics": float(np.abs(alone - together).max()),
            "norms": alone[:, -1].tolist(),
        }
    counts = evaluation.count_labels(data)
    figures = [
        evaluation.Evaluator(model, strategy, data, counts, batch_size=BATCH).run()
        for model, strategy in ((expected, one), (found, mirrored))
    ]
    names = [name for name in figures[0] if "permuted" not in name]  # whose partners depend on the batch
    result["evaluation"] = max(abs(figures[0][name] - figures[1][name]) for name in names)
    result["examples"] = [f["examples"] for f in figures]
    print(json.dumps(result))


def _weights(*models: Any) -> list[list[keras.Variable]]:
    return [list(model.named_weights().values()) for model in models]


if __name__ == "__main__":
    main(sys.argv[1])
