"""The training step and the loop round it: one for every strategy, number of devices and form of the model.

Keras' `fit` is not used: under `tf.distribute` it clips each replica's gradient by itself, fails on several workers,
and knows no denominators that span replicas.

What happens in a step, in replica context:

1. the losses' denominators (number of predictions, number of rows) are summed over replicas;
2. forward and backward pass of this replica's share, in one piece or in micro-batches whose gradients add up, dropout
   seeded by (seed, step, replica, micro-batch);
3. gradients, dense, are summed over replicas, then clipped by their global norm, then applied.

A step in which anything is not finite moves nothing: with a loss scale (float16) the next one goes on with a smaller
one, otherwise the loop ends there, in the state from before.

Nothing in a step calls the host, and its shapes are static where those of the batch are.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf import features, randomness
from albert_tf.data.batches import EPOCH, EXAMPLE
from albert_tf.modeling.dropout import dropout_seed
from albert_tf.modeling.encoder import Form
from albert_tf.modeling.models import AlbertPretrainingModel
from albert_tf.training import gradients, loss_scale, losses, metrics, objectives
from albert_tf.training.averages import WeightAverage
from albert_tf.training.loss_scale import LossScale
from albert_tf.training.optimizers import AdamWeightDecay, Lamb

# What a step reports, in this order.
METRICS = (
    "masked_lm_loss",
    "sentence_order_loss",
    "masked_lm_accuracy",
    "sentence_order_accuracy",
    "loss_scale",
    "gradient_norm",
)
_SHARES = 4  # how many of them, the first, are sums of the replicas' shares
_SCALE = METRICS.index("loss_scale")


class DivergedError(ArithmeticError):
    """A loss or gradient was not finite.

    Attributes:
      step: of the run, counted from 1. Weights and optimizer are in the state before it.
      epochs: int64 [B], of this process's part of the batch.
      examples: int64 [B], numbers of its examples in the data directory.
    """

    def __init__(self, message: str, *, step: int, epochs: np.ndarray, examples: np.ndarray) -> None:
        super().__init__(message)
        self.step, self.epochs, self.examples = step, epochs, examples


class Trainer:
    """Model and optimizer under a strategy, and the step that trains them.

    Make model, optimizer, average and scale in `strategy.scope()`, and build the optimizer there.

    Args:
      model: what is trained.
      optimizer: built on `model.named_weights()`, in that order.
      strategy: the devices.
      seed: of dropout.
      clip_norm: largest global norm of the gradient; 0 clips nothing.
      form: of the model's forward pass, "packed" or "unrolled".
      sentence_objective: with "none" the loss is the masked LM's alone.
      micro_batches: in how many pieces a replica's share of a batch is computed, one after the other.
      rematerialize: whether the layers are computed a second time on the way back instead of being kept.
      average: of the weights, moved on with each step.
      scale: of the loss, for float16.
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
        micro_batches: int = 1,
        rematerialize: bool = False,
        average: WeightAverage | None = None,
        scale: LossScale | None = None,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.strategy = strategy
        self.seed = seed
        self.clip_norm = clip_norm
        self.form = form
        self.micro_batches = micro_batches
        self.rematerialize = rematerialize
        self.average = average
        self.scale = scale
        self._has_pairs = sentence_objective != "none"
        weights = model.named_weights().items()
        self._variables = [weight for name, weight in weights if objectives.is_trained(name, sentence_objective)]
        self._counted_by_rows = [model.encoder.embeddings.token_type_embeddings]
        self._run = tf.function(self._run_steps, autograph=False, reduce_retracing=True)

    @property
    def step(self) -> int:
        """Steps done."""
        return int(self.optimizer.iterations.numpy())

    def learning_rate(self, step: int) -> float:
        """Of the step `step`, counted from 1."""
        return float(self.optimizer._learning_rate(step - 1))

    def dropout_seed(self, piece: tf.Tensor) -> tf.Tensor:
        """Seed of this replica's dropout in the present step and its `piece`-th micro-batch; in replica context."""
        step = tf.convert_to_tensor(self.optimizer.iterations.value)
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        return randomness.stateless_seed(self.seed, step, replica, piece)

    @property
    def loss_scale(self) -> tf.Tensor:
        """What the loss is multiplied by before gradients are taken, a float scalar; 1 where there is no scale."""
        return tf.constant(1.0, self._variables[0].dtype) if self.scale is None else self.scale.value()

    def replica_step(self, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """One step in replica context: what is handed to `strategy.run`.

        Args:
          batch: this replica's share: the model's inputs and labels, of static shape [B, S], [B, P] and [B].

        Returns:
          float [len(METRICS)], over the batch of all replicas.
        """
        weights, labels = batch[features.MASKED_LM_WEIGHTS], batch[features.SENTENCE_ORDER_LABEL]
        sums = [tf.reduce_sum(weights), tf.cast(tf.size(labels), weights.dtype)]
        predictions, rows = self._sum_over_replicas(sums)
        scale = self.loss_scale
        found, shares = self._accumulated(batch, predictions, rows, scale)
        clipped, norm = found.summed().divided(scale).clipped(self.clip_norm)
        shares = tf.stack(self._sum_over_replicas(tf.unstack(tf.cast(shares, norm.dtype))))

        is_sound = tf.math.is_finite(norm) & tf.reduce_all(tf.math.is_finite(shares))
        # The data moves on after a step that only the scale has spoilt.
        counts = is_sound | (scale > loss_scale.FLOOR)
        self.optimizer.apply_reduced(clipped, self._variables, is_sound=is_sound, counts=counts)
        if self.average is not None:
            self.average.update(tf.convert_to_tensor(self.optimizer.iterations.value), is_sound)
        if self.scale is not None:
            self.scale.update(is_sound)
        return tf.concat([shares, tf.stack([tf.cast(scale, norm.dtype), norm])], 0)

    def _accumulated(
        self, batch: Mapping[str, tf.Tensor], predictions: tf.Tensor, rows: tf.Tensor, scale: tf.Tensor
    ) -> tuple[gradients.Gradients, tf.Tensor]:
        """This replica's part of the gradients, multiplied by `scale`, and of the first metrics, float [_SHARES]."""
        count = self.micro_batches
        if count == 1:
            return self._forward_and_back(batch, tf.constant(0), predictions, rows, scale)
        pieces = {  # [count, B / count, ...]
            name: tf.reshape(value, [count, value.shape[0] // count, *value.shape[1:]])
            for name, value in batch.items()
            if name not in (EPOCH, EXAMPLE)
        }
        structure: list[gradients.Gradients] = []

        def body(index: tf.Tensor, shares: tf.Tensor, *sums: tf.Tensor) -> tuple:
            piece = {name: value[index] for name, value in pieces.items()}
            found, share = self._forward_and_back(piece, index, predictions, rows, scale)
            structure.append(found)
            added = [total + value for total, value in zip(sums, found.tensors(), strict=True)]
            return index + 1, shares + share, *added

        dense = [tf.zeros(variable.shape, variable.dtype) for variable in self._variables]
        squares = [tf.zeros([], variable.dtype) for variable in self._counted_by_rows]
        start = [tf.constant(0), tf.zeros([_SHARES], predictions.dtype), *dense, *squares]
        _, shares, *sums = tf.while_loop(lambda index, *_: index < count, body, start, parallel_iterations=1)
        return structure[0].replaced(sums), shares

    def _forward_and_back(
        self,
        batch: Mapping[str, tf.Tensor],
        piece: tf.Tensor,
        predictions: tf.Tensor,
        rows: tf.Tensor,
        scale: tf.Tensor,
    ) -> tuple[gradients.Gradients, tf.Tensor]:
        """What `_accumulated` sums, for one micro-batch, the `piece`-th."""
        weights, labels = batch[features.MASKED_LM_WEIGHTS], batch[features.SENTENCE_ORDER_LABEL]
        with tf.GradientTape() as tape:
            with dropout_seed(self.dropout_seed(piece)):
                outputs = self.model.forward(batch, form=self.form, training=True, rematerialize=self.rematerialize)
            masked_lm, _ = losses.masked_lm_sums(outputs["masked_lm_logits"], batch[features.MASKED_LM_IDS], weights)
            order, _ = losses.sentence_order_sums(outputs["sentence_order_logits"], labels)
            masked_lm /= tf.cast(predictions, masked_lm.dtype) + losses.MASKED_LM_DENOMINATOR_OFFSET
            order /= tf.cast(rows, order.dtype)
            # This piece's part of the sum over all of them.
            loss = (masked_lm + order if self._has_pairs else masked_lm) * tf.cast(scale, masked_lm.dtype)
        found = gradients.compute(tape, loss, self._variables, counted_by_rows=self._counted_by_rows)
        right, _ = metrics.accuracy_sums(outputs["masked_lm_logits"], batch[features.MASKED_LM_IDS], weights)
        right_order, _ = metrics.accuracy_sums(outputs["sentence_order_logits"], labels)
        shares = [masked_lm, order, tf.math.divide_no_nan(right, predictions), right_order / rows]
        return found, tf.stack([tf.cast(share, predictions.dtype) for share in shares])

    def _sum_over_replicas(self, values: list[tf.Tensor]) -> list[tf.Tensor]:
        context = tf.distribute.get_replica_context()
        if context.num_replicas_in_sync == 1:
            return values
        summed: list[tf.Tensor] = context.all_reduce(tf.distribute.ReduceOp.SUM, values)
        return summed

    def _run_steps(self, iterator: Any, count: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """At most `count` steps, n of them; metrics float [n, len(METRICS)], epochs and examples int64 [n, B]."""

        def body(index: tf.Tensor, _: tf.Tensor, *history: tf.TensorArray) -> tuple:
            batch = dict(iterator.get_next())
            seen = [tf.concat(self.strategy.experimental_local_results(batch.pop(n)), 0) for n in (EPOCH, EXAMPLE)]
            reported = self.strategy.run(self.replica_step, args=(batch,))
            reported = self.strategy.experimental_local_results(reported)[0]
            goes_on = tf.reduce_all(tf.math.is_finite(reported)) | (reported[_SCALE] > loss_scale.FLOOR)
            written = [array.write(index, value) for array, value in zip(history, (reported, *seen), strict=True)]
            return index + 1, goes_on, *written

        dtypes = (self._variables[0].dtype, tf.int64, tf.int64)
        arrays = [tf.TensorArray(dtype, size=count) for dtype in dtypes]
        done, _, *history = tf.while_loop(
            lambda index, goes_on, *_: (index < count) & goes_on,
            body,
            [tf.constant(0), tf.constant(True), *arrays],
            parallel_iterations=1,
        )
        return tuple(array.gather(tf.range(done)) for array in history)

    def run(self, iterator: Iterator[Any], count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Makes `count` steps with batches of the distributed `iterator`.

        Returns:
          Metrics, float [count, len(METRICS)]; epochs and examples seen, int64 [count, B]. In a step that a loss scale
          has spoilt, some metrics are not finite.

        Raises:
          DivergedError: if a loss or gradient was not finite, and no loss scale was to blame.
        """
        before = self.step
        with as_written():
            reported, epochs, examples = (value.numpy() for value in self._run(iterator, tf.constant(count)))
        last = reported[-1]
        if not np.isfinite(last).all() and last[_SCALE] <= loss_scale.FLOOR:
            step = before + len(reported)
            values = ", ".join(f"{name} {value:.4g}" for name, value in zip(METRICS, last, strict=True))
            message = f"step {step} gave values that are not finite: {values}"
            raise DivergedError(message, step=step, epochs=epochs[-1], examples=examples[-1])
        return reported, epochs, examples


@contextlib.contextmanager
def as_written() -> Iterator[None]:
    """Runs graphs as they are written, without TensorFlow's graph optimizer.

    It would move factors and join sums as it sees fit: a rematerialised layer would round in another way than a plain
    one, and all gradients of a shared weight would be kept until the last is there. The training step gains nothing
    from it (measured on a CPU: equal time within 2 %), and starts a fifth sooner without.
    """
    name = "disable_meta_optimizer"
    before = tf.config.optimizer.get_experimental_options().get(name, False)
    tf.config.optimizer.set_experimental_options({name: True})
    try:
        yield
    finally:
        tf.config.optimizer.set_experimental_options({name: before})
