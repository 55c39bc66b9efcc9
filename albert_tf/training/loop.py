"""The training step and the loop round it: one for every strategy, number of devices and form of the model.

Keras' `fit` is not used: under `tf.distribute` it clips each replica's gradient by itself, fails on several workers,
and knows no denominators that span replicas.

What happens in a step, in replica context:

1. the losses' denominators (number of predictions, number of rows) are summed over replicas;
2. forward and backward pass of this replica's share, dropout seeded by (seed, step, replica, micro-batch);
3. gradients, dense, are summed over replicas, then clipped by their global norm, then applied.

Nothing in it calls the host, and its shapes are static where those of the batch are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf import features, randomness
from albert_tf.data.batches import EPOCH, EXAMPLE
from albert_tf.modeling.dropout import dropout_seed
from albert_tf.modeling.encoder import Form
from albert_tf.modeling.models import AlbertPretrainingModel
from albert_tf.training import gradients, losses, metrics, objectives
from albert_tf.training.optimizers import AdamWeightDecay, Lamb

# What a step reports, in this order.
METRICS = (
    "masked_lm_loss",
    "sentence_order_loss",
    "masked_lm_accuracy",
    "sentence_order_accuracy",
    "gradient_norm",
)


class DivergedError(ArithmeticError):
    """A loss or gradient was not finite; says at which step."""


class Trainer:
    """Model and optimizer under a strategy, and the step that trains them.

    Make model and optimizer in `strategy.scope()`, and build the optimizer there.

    Args:
      model: what is trained.
      optimizer: built on `model.named_weights()`, in that order.
      strategy: the devices.
      seed: of dropout.
      clip_norm: largest global norm of the gradient; 0 clips nothing.
      form: of the model's forward pass, "packed" or "unrolled".
      sentence_objective: with "none" the loss is the masked LM's alone.
    """

    def __init__(
        self,
        model: AlbertPretrainingModel,
        optimizer: Lamb | AdamWeightDecay,
        strategy: tf.distribute.Strategy,
        *,
        seed: int = 0,
        clip_norm: float = 1.0,
        form: Form = "packed",
        sentence_objective: features.SentenceObjective = "sop",
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.strategy = strategy
        self.seed = seed
        self.clip_norm = clip_norm
        self.form = form
        self._has_pairs = sentence_objective != "none"
        weights = model.named_weights().items()
        self._variables = [weight for name, weight in weights if objectives.is_trained(name, sentence_objective)]
        self._counted_by_rows = [model.encoder.embeddings.token_type_embeddings]
        self._run = tf.function(self._run_steps, autograph=False, reduce_retracing=True)

    @property
    def step(self) -> int:
        """Steps done."""
        return int(self.optimizer.iterations.numpy())

    def replica_step(self, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """One step in replica context: what is handed to `strategy.run`.

        Args:
          batch: this replica's share: the model's inputs and labels, of static shape [B, S], [B, P] and [B].

        Returns:
          float [len(METRICS)], over the batch of all replicas.
        """
        context = tf.distribute.get_replica_context()
        weights, labels = batch[features.MASKED_LM_WEIGHTS], batch[features.SENTENCE_ORDER_LABEL]
        predictions, rows = tf.reduce_sum(weights), tf.cast(tf.size(labels), weights.dtype)
        predictions, rows = self._sum_over_replicas([predictions, rows])
        seed = randomness.stateless_seed(
            self.seed, tf.convert_to_tensor(self.optimizer.iterations.value), context.replica_id_in_sync_group, 0
        )
        with tf.GradientTape() as tape:
            with dropout_seed(seed):
                outputs = self.model.forward(batch, form=self.form, training=True)
            masked_lm, _ = losses.masked_lm_sums(
                outputs["masked_lm_logits"], batch[features.MASKED_LM_IDS], batch[features.MASKED_LM_WEIGHTS]
            )
            order, _ = losses.sentence_order_sums(outputs["sentence_order_logits"], labels)
            masked_lm /= tf.cast(predictions, masked_lm.dtype) + losses.MASKED_LM_DENOMINATOR_OFFSET
            order /= tf.cast(rows, order.dtype)
            # This replica's part of the sum over all of them.
            loss = masked_lm + order if self._has_pairs else masked_lm
        found = gradients.compute(tape, loss, self._variables, counted_by_rows=self._counted_by_rows)
        clipped, norm = found.summed().clipped(self.clip_norm)
        self.optimizer.apply_reduced(clipped, self._variables)

        right, _ = metrics.accuracy_sums(outputs["masked_lm_logits"], batch[features.MASKED_LM_IDS], weights)
        right_order, _ = metrics.accuracy_sums(outputs["sentence_order_logits"], labels)
        dtype = norm.dtype
        shares = [masked_lm, order, tf.math.divide_no_nan(right, predictions), right_order / rows]
        summed = self._sum_over_replicas([tf.cast(share, dtype) for share in shares])
        return tf.stack([*summed, norm])

    def _sum_over_replicas(self, values: list[tf.Tensor]) -> list[tf.Tensor]:
        context = tf.distribute.get_replica_context()
        if context.num_replicas_in_sync == 1:
            return values
        summed: list[tf.Tensor] = context.all_reduce(tf.distribute.ReduceOp.SUM, values)
        return summed

    def _run_steps(self, iterator: Any, count: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """`count` steps; metrics float [count, len(METRICS)], epochs and examples int64 [count, B]."""

        def body(index: tf.Tensor, *history: tf.TensorArray) -> tuple:
            batch = iterator.get_next()
            reported = self.strategy.run(self.replica_step, args=(batch,))
            seen = [tf.concat(self.strategy.experimental_local_results(batch[name]), 0) for name in (EPOCH, EXAMPLE)]
            values = (self.strategy.experimental_local_results(reported)[0], *seen)
            return index + 1, *(array.write(index, value) for array, value in zip(history, values, strict=True))

        dtypes = (self._variables[0].dtype, tf.int64, tf.int64)
        arrays = [tf.TensorArray(dtype, size=count) for dtype in dtypes]
        _, *history = tf.while_loop(
            lambda index, *_: index < count, body, [tf.constant(0), *arrays], parallel_iterations=1
        )
        return tuple(array.stack() for array in history)

    def run(self, iterator: Iterator[Any], count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Makes `count` steps with batches of the distributed `iterator`.

        Returns:
          Metrics, float [count, len(METRICS)]; epochs and examples seen, int64 [count, B].

        Raises:
          DivergedError: if a loss or gradient was not finite.
        """
        before = self.step
        reported, epochs, examples = (value.numpy() for value in self._run(iterator, tf.constant(count)))
        finite = np.isfinite(reported).all(axis=1)
        if not finite.all():
            index = int(np.argmin(finite))
            values = ", ".join(f"{name} {value:.4g}" for name, value in zip(METRICS, reported[index], strict=True))
            raise DivergedError(f"step {before + index + 1} gave values that are not finite: {values}")
        return reported, epochs, examples
