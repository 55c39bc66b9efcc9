"""The training step and the loop round it: one for every strategy, number of devices and form of the model.

Keras' `fit` is not used: under `tf.distribute` it clips each replica's gradient by itself, fails on several workers,
and knows no denominators that span replicas.

What happens in a step, in replica context:

1. the losses' denominators, such as the number of predictions, are summed over replicas;
2. forward and backward pass of this replica's share, in one piece or in micro-batches whose gradients add up, dropout
   seeded by (seed, step, replica, micro-batch);
3. gradients, dense, are summed over replicas, then clipped by their global norm, then applied.

A step in which anything is not finite moves nothing: with a loss scale (float16) the next one goes on with a smaller
one, otherwise the loop ends there, in the state from before.

What is minimised is an `Objective`: the step knows neither pretraining nor any task.

Nothing in a step calls the host, and its shapes are static where those of the batch are.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import keras
import numpy as np
import tensorflow as tf

from albert_tf import randomness
from albert_tf.data.batches import EPOCH, EXAMPLE
from albert_tf.modeling.dropout import dropout_seed
from albert_tf.modeling.encoder import Form
from albert_tf.modeling.head_model import AlbertHeadModel
from albert_tf.training import gradients, loss_scale
from albert_tf.training.averages import WeightAverage
from albert_tf.training.loss_scale import LossScale
from albert_tf.training.optimizers import AdamWeightDecay, Lamb

# What a step reports after the figures of its objective, and where the scale then stands.
_REPORTED = ("loss_scale", "gradient_norm")
SCALE = -2


class Objective(Protocol):
    """What a step minimises and reports: a model's outputs and a batch to a loss.

    Attributes:
      metrics: names of the figures of a step, the losses first.
    """

    metrics: tuple[str, ...]

    def is_trained(self, name: str) -> bool:
        """Whether the weight of that canonical name takes part in the loss."""

    def counted_by_rows(self, model: AlbertHeadModel) -> Sequence[keras.Variable]:
        """Trained tables that the loss reaches by look-ups alone, in the order of `model.named_weights()`."""

    def denominators(self, batch: Mapping[str, tf.Tensor]) -> list[tf.Tensor]:
        """Float scalars that `loss_and_shares` divides by, once they are summed over all replicas."""

    def loss_and_shares(
        self, outputs: Mapping[str, tf.Tensor], batch: Mapping[str, tf.Tensor], totals: Sequence[tf.Tensor]
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """These rows' parts of the loss, float scalar, and of each of `metrics`: their sums over all rows are told.

        Args:
          outputs: of the model.
          batch: rows of one micro-batch: the model's inputs and labels.
          totals: the denominators of all rows.
        """


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
      objective: what is minimised.
      seed: of dropout.
      clip_norm: largest global norm of the gradient; 0 clips nothing.
      form: of the model's forward pass, "packed" or "unrolled".
      micro_batches: in how many pieces a replica's share of a batch is computed, one after the other.
      rematerialize: whether the layers are computed a second time on the way back instead of being kept.
      average: of the weights, moved on with each step.
      scale: of the loss, for float16.
    """

    def __init__(
        self,
        model: AlbertHeadModel,
        optimizer: Lamb | AdamWeightDecay,
        strategy: tf.distribute.Strategy,
        objective: Objective,
        *,
        seed: int = 0,
        clip_norm: float = 1.0,
        form: Form = "packed",
        micro_batches: int = 1,
        rematerialize: bool = False,
        average: WeightAverage | None = None,
        scale: LossScale | None = None,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.strategy = strategy
        self.objective = objective
        self.metrics = (*objective.metrics, *_REPORTED)  # what a step reports, in this order
        self.seed = seed
        self.clip_norm = clip_norm
        self.form = form
        self.micro_batches = micro_batches
        self.rematerialize = rematerialize
        self.average = average
        self.scale = scale
        weights = model.named_weights().items()
        self._variables = [weight for name, weight in weights if objective.is_trained(name)]
        self._counted_by_rows = objective.counted_by_rows(model)
        self._run: dict[str, Any] = {}  # a graph for each kind of batch: stages of a run have their own

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
          batch: this replica's share: the model's inputs and labels, with static B, and one other size at most that
            is not.

        Returns:
          float [len(metrics)], over the batch of all replicas.
        """
        totals = self._sum_over_replicas(self.objective.denominators(batch))
        scale = self.loss_scale
        found, shares = self._accumulated(batch, totals, scale)
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
        self, batch: Mapping[str, tf.Tensor], totals: Sequence[tf.Tensor], scale: tf.Tensor
    ) -> tuple[gradients.Gradients, tf.Tensor]:
        """This replica's part of the gradients, multiplied by `scale`, and of the objective's metrics."""
        count = self.micro_batches
        if count == 1:
            return self._forward_and_back(batch, tf.constant(0), totals, scale)
        pieces = {  # [count, B / count, ...]
            name: tf.reshape(value, [count, value.shape[0] // count, *(size or -1 for size in value.shape[1:])])
            for name, value in batch.items()
            if name not in (EPOCH, EXAMPLE)
        }
        structure: list[gradients.Gradients] = []

        def body(index: tf.Tensor, shares: tf.Tensor, *sums: tf.Tensor) -> tuple:
            piece = {name: value[index] for name, value in pieces.items()}
            found, share = self._forward_and_back(piece, index, totals, scale)
            structure.append(found)
            added = [total + value for total, value in zip(sums, found.tensors(), strict=True)]
            return index + 1, shares + share, *added

        dense = [tf.zeros(variable.shape, variable.dtype) for variable in self._variables]
        squares = [tf.zeros([], variable.dtype) for variable in self._counted_by_rows]
        zeros = tf.zeros([len(self.objective.metrics)], totals[0].dtype)
        start = [tf.constant(0), zeros, *dense, *squares]
        _, shares, *sums = tf.while_loop(lambda index, *_: index < count, body, start, parallel_iterations=1)
        return structure[0].replaced(sums), shares

    def _forward_and_back(
        self, batch: Mapping[str, tf.Tensor], piece: tf.Tensor, totals: Sequence[tf.Tensor], scale: tf.Tensor
    ) -> tuple[gradients.Gradients, tf.Tensor]:
        """What `_accumulated` sums, for one micro-batch, the `piece`-th."""
        with tf.GradientTape() as tape:
            with dropout_seed(self.dropout_seed(piece)):
                outputs = self.model.forward(batch, form=self.form, training=True, rematerialize=self.rematerialize)
            loss, shares = self.objective.loss_and_shares(outputs, batch, totals)
            loss *= tf.cast(scale, loss.dtype)
        found = gradients.compute(tape, loss, self._variables, counted_by_rows=self._counted_by_rows)
        return found, tf.stack([tf.cast(share, totals[0].dtype) for share in shares])

    def _sum_over_replicas(self, values: list[tf.Tensor]) -> list[tf.Tensor]:
        context = tf.distribute.get_replica_context()
        if context.num_replicas_in_sync == 1:
            return values
        summed: list[tf.Tensor] = context.all_reduce(tf.distribute.ReduceOp.SUM, values)
        return summed

    def _run_steps(self, iterator: Any, count: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """At most `count` steps, n of them; metrics float [n, len(metrics)], epochs and examples int64 [n, B]."""

        def body(index: tf.Tensor, _: tf.Tensor, *history: tf.TensorArray) -> tuple:
            batch = dict(iterator.get_next())
            seen = [tf.concat(self.strategy.experimental_local_results(batch.pop(n)), 0) for n in (EPOCH, EXAMPLE)]
            reported = self.strategy.run(self.replica_step, args=(batch,))
            reported = self.strategy.experimental_local_results(reported)[0]
            goes_on = tf.reduce_all(tf.math.is_finite(reported)) | (reported[SCALE] > loss_scale.FLOOR)
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

    def run(self, iterator: Any, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Makes `count` steps with batches of the distributed `iterator`.

        Returns:
          Metrics, float [count, len(metrics)]; epochs and examples seen, int64 [count, B]. In a step that a loss scale
          has spoilt, some metrics are not finite.

        Raises:
          DivergedError: if a loss or gradient was not finite, and no loss scale was to blame.
        """
        before = self.step
        kind = repr(iterator.element_spec)
        if kind not in self._run:
            self._run[kind] = tf.function(self._run_steps, autograph=False, reduce_retracing=True)
        with as_written():
            reported, epochs, examples = (value.numpy() for value in self._run[kind](iterator, tf.constant(count)))
        last = reported[-1]
        if not np.isfinite(last).all() and last[SCALE] <= loss_scale.FLOOR:
            step = before + len(reported)
            values = ", ".join(f"{name} {value:.4g}" for name, value in zip(self.metrics, last, strict=True))
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
