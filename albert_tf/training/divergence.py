"""What was the first thing in a step that was not finite, and which records were in its batch."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf import features
from albert_tf.data.batches import EPOCH, EXAMPLE
from albert_tf.modeling.dropout import dropout_seed
from albert_tf.training.loop import Trainer, as_written

FILE = "diverged.json"


def first_not_finite(trainer: Trainer, batch: Mapping[str, Any]) -> str:
    """Name of the first tensor that is not finite when the step is computed once more, in the order of computation.

    Args:
      trainer: in the state before the step.
      batch: the step's, of all replicas of this process.
    """
    names: list[str] = []

    def check(batch: Mapping[str, tf.Tensor], piece: tf.Tensor) -> tf.Tensor:
        named = _tensors(trainer, batch, piece)
        names[:] = named
        return tf.stack([tf.reduce_all(tf.math.is_finite(tensor)) for tensor in named.values()])

    @tf.function(autograph=False, reduce_retracing=True)
    def checked(piece: tf.Tensor) -> Any:
        return trainer.strategy.experimental_local_results(trainer.strategy.run(check, args=(batch, piece)))

    with as_written():
        finite = [found.numpy() for piece in range(trainer.micro_batches) for found in checked(tf.constant(piece))]
    sound = np.logical_and.reduce(finite)
    return "sum of the gradients over all replicas" if sound.all() else names[int(np.argmin(sound))]


def _tensors(trainer: Trainer, batch: Mapping[str, tf.Tensor], piece: tf.Tensor) -> dict[str, tf.Tensor]:
    """Tensors of a replica's step by name, in the order of computation; gradients from the loss back."""
    size = batch[features.INPUT_IDS].shape[0] // trainer.micro_batches
    batch = {n: value[piece * size : (piece + 1) * size] for n, value in batch.items() if n not in (EPOCH, EXAMPLE)}
    weights = trainer.model.named_weights()
    named = {f"weight {name}": tf.convert_to_tensor(weight.value) for name, weight in weights.items()}
    with tf.GradientTape() as tape:
        with dropout_seed(trainer.dropout_seed(piece)):
            outputs = trainer.model.forward_with_layers(batch, form=trainer.form, training=True)
        loss, shares = trainer.objective.loss_and_shares(outputs, batch, trainer.objective.denominators(batch))
        loss *= tf.cast(trainer.loss_scale, loss.dtype)
    named |= {f"output {name}": value for name, value in outputs.items()}
    named |= dict(zip(trainer.objective.metrics, shares, strict=True))
    found = tape.gradient(loss, [weight.value for weight in weights.values()])
    backward = reversed(list(zip(weights, found, strict=True)))
    return named | {f"gradient of {name}": tf.convert_to_tensor(value) for name, value in backward if value is not None}


def describe(
    message: str, step: int, tensor: str, locate: Callable[[int], str], epochs: np.ndarray, examples: np.ndarray
) -> dict[str, Any]:
    """What is known of a step, ready for JSON: number, tensor, examples (int64 [B]), and where `locate` finds them."""
    found = [
        {"epoch": int(epoch), "example": int(example), "place": locate(int(example))}
        for epoch, example in zip(epochs, examples, strict=True)
    ]
    return {"step": step, "first_not_finite": tensor, "message": message, "examples": found}


def to_json(description: Mapping[str, Any]) -> str:
    """Text of diverged.json."""
    return json.dumps(description, indent=2) + "\n"


def in_words(description: Mapping[str, Any], path: str) -> str:
    """The description in one line; `path` is that of diverged.json."""
    places: Iterable[str] = [example["place"] for example in description["examples"]]
    shown = "; ".join(sorted(places)[:3])
    count = len(description["examples"])
    more = f" and {count - 3} more" if count > 3 else ""
    return (
        f"{description['message']}. The first tensor that is not finite is {description['first_not_finite']}. Its "
        f"batch was {shown}{more} (all of them in {path})"
    )
