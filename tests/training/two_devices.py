"""Trains toy models on two logical CPUs and on one device and prints, as JSON, how far they are apart.

A program of its own, run by test_two_devices.py: logical devices must be made before TensorFlow runs anything.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import threading
from typing import Any
from unittest import mock

import keras
import numpy as np
import tensorflow as tf

from albert_tf.data.manifest import DataDirectory
from albert_tf.training import evaluation, strategies
from tests.training import equality
from tests.training.equality import BATCH, COMBINATIONS, STEPS, Run

STOP = 9  # where a run on one device ends, to go on on two


def compare(one: Run, two: Run, weights_path: str) -> dict[str, Any]:
    """How far two devices are from one, whose weights are written to `weights_path`, and its checkpoint half-way."""
    before, first = one.train(0, STOP)
    one.checkpoints.save()
    after, second = one.train(STOP, STEPS)
    alone, examples = np.concatenate([before, after]), np.concatenate([first, second])
    together, same_examples = two.train(0, STEPS)
    expected = one.weights()
    stored: dict[str, Any] = {name.replace("/", "|"): value for name, value in expected.items()}
    np.savez(weights_path, **stored)
    return {
        "weights": equality.distance(expected, two.weights()),
        "metrics": float(np.abs(alone - together).max()),
        "norms": alone[:, -1].tolist(),
        "same_examples": np.array_equal(examples, same_examples),
        "examples": examples.tolist(),
        "precision": [equality.precision(run.graph()) for run in (one, two)],
    }


def resume(one: Run, two: Run) -> dict[str, Any]:
    """Two devices that go on from the checkpoint that one device, which is at its end, has left half-way."""
    step = two.checkpoints.restore()
    _, examples = two.train(step, STEPS)
    return {
        "step": step,
        "weights": equality.distance(one.weights(), two.weights()),
        "examples": examples.tolist(),
    }


def dropout(strategy: tf.distribute.Strategy, data: DataDirectory) -> dict[str, Any]:
    """The model's outputs on two replicas that see the same batch, in the same step twice and in the next one."""
    without, equality.CONFIG = equality.CONFIG, dataclasses.replace(equality.CONFIG, hidden_dropout_prob=0.5)
    run = Run(strategy, data, COMBINATIONS[0][1], "")
    equality.CONFIG = without
    trainer, seen = run.trainer, threading.local()
    forward = run.model.forward

    def noting(*args: Any, **kwargs: Any) -> dict[str, tf.Tensor]:
        seen.outputs = forward(*args, **kwargs)
        return seen.outputs

    batch = next(iter(equality.dataset(data, step=0)))

    @tf.function(autograph=False)
    def step() -> Any:
        def replica_step() -> tf.Tensor:
            one = tf.constant(1.0)
            trainer._forward_and_back(batch, tf.constant(0), [one, one], one)
            return seen.outputs["masked_lm_logits"]

        return strategy.experimental_local_results(strategy.run(replica_step))

    def outputs(number: int) -> list[np.ndarray]:
        trainer.optimizer.iterations.assign(number)
        return [value.numpy() for value in step()]

    with mock.patch.object(run.model, "forward", noting):
        first, following, again = outputs(3), outputs(4), outputs(3)
    return {
        "replicas_differ": not np.array_equal(first[0], first[1]),
        "steps_differ": not np.array_equal(first[0], following[0]),
        "repeats": all(np.array_equal(*pair) for pair in zip(first, again, strict=True)),
    }


def main(directory: str) -> None:
    mirrored = strategies.make_strategy("mirrored", num_devices=2)  # splits the CPU
    one = strategies.make_strategy("cpu")
    data = equality.write_data(directory)
    result: dict[str, Any] = {"replicas": mirrored.num_replicas_in_sync}
    for floatx, optimizer in COMBINATIONS:
        keras.config.set_floatx(floatx)
        name = equality.name(floatx, optimizer)
        alone, both = (Run(strategy, data, optimizer, os.path.join(directory, name)) for strategy in (one, mirrored))
        result[name] = compare(alone, both, os.path.join(directory, f"{name}.npz"))
        if "resumed" not in result:
            result["resumed"] = resume(alone, both)
    result["dropout"] = dropout(mirrored, data)
    counts = evaluation.count_labels(data)
    figures = [
        evaluation.Evaluator(run.model, strategy, data, counts, batch_size=BATCH).run()
        for run, strategy in ((alone, one), (both, mirrored))
    ]
    names = [name for name in figures[0] if "permuted" not in name]  # whose partners depend on the batch
    result["evaluation"] = max(abs(figures[0][name] - figures[1][name]) for name in names)
    result["examples"] = [f["examples"] for f in figures]
    print(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1])
