"""Learning rate: linear warm-up, then polynomial decay, as in the original's pretraining."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable(package="albert_tf")
class WarmupPolynomialDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Learning rate of each training step.

    With n the number of the step being made, counted from 1::

        n < num_warmup_steps:   peak * n / num_warmup_steps
        otherwise:              (peak - end) * (1 - min(n, num_train_steps) / num_train_steps) ** power + end

    The decay starts at step 0, not at the end of the warm-up: after the warm-up the rate steps onto a line that began
    at `peak`. Steps count from 1 because the original counts a step before the schedule reads the counter: its first
    warm-up step has rate `peak / num_warmup_steps`, its last step of all has rate `end`.

    Args:
      peak: learning rate that the warm-up aims at and the decay starts from.
      num_train_steps: steps of the whole run, at least 1.
      num_warmup_steps: steps of the warm-up; 0 for none.
      end: learning rate at the end.
      power: exponent of the decay; 1 is linear.

    Raises:
      ValueError: for a number of steps out of range.
    """

    def __init__(
        self,
        peak: float,
        num_train_steps: int,
        num_warmup_steps: int = 0,
        *,
        end: float = 0.0,
        power: float = 1.0,
    ) -> None:
        super().__init__()
        if not peak >= 0.0:
            raise ValueError(f"learning_rate must be at least 0, got {peak}")
        if num_train_steps < 1:
            raise ValueError(f"num_train_steps must be at least 1, got {num_train_steps}")
        if not 0 <= num_warmup_steps <= num_train_steps:
            raise ValueError(
                f"num_warmup_steps must be in [0, num_train_steps = {num_train_steps}], got {num_warmup_steps}"
            )
        self.peak = float(peak)
        self.num_train_steps = int(num_train_steps)
        self.num_warmup_steps = int(num_warmup_steps)
        self.end = float(end)
        self.power = float(power)

    def __call__(self, step: Any) -> tf.Tensor:
        """Rate of the step that follows `step` finished ones (int scalar): Keras' count of iterations."""
        dtype = keras.config.floatx()
        number = tf.cast(step, dtype) + 1.0
        left = 1.0 - tf.minimum(number, self.num_train_steps) / self.num_train_steps
        rate = (self.peak - self.end) * tf.pow(left, self.power) + self.end
        if self.num_warmup_steps:
            warmup = self.peak * (number / self.num_warmup_steps)
            rate = tf.where(number < self.num_warmup_steps, warmup, rate)
        return tf.cast(rate, dtype)

    def get_config(self) -> dict[str, Any]:
        return {
            "peak": self.peak,
            "num_train_steps": self.num_train_steps,
            "num_warmup_steps": self.num_warmup_steps,
            "end": self.end,
            "power": self.power,
        }
