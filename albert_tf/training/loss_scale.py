"""Dynamic loss scale for float16.

float16 ends at 6e-8 below and 65,504 above. The loss is multiplied by a scale, so that small gradients do not vanish,
and the gradients are divided by it again in float32. Where one is not finite the step moves no weight and the scale is
halved; after `GROWTH_STEPS` steps without that it is doubled. A step at the floor that is not finite is a fault of the
training, not of the scale. Source: Micikevicius et al. 2018, "Mixed Precision Training" (arXiv 1710.03740), section
3.2.
"""

from __future__ import annotations

import tensorflow as tf

FLOOR = 1.0
INITIAL = 2.0**15
LARGEST = 2.0**24
GROWTH_STEPS = 2000


class LossScale:
    """The scale and its state. Make it in the strategy's scope.

    Args:
      initial: where it begins.
      growth_steps: finite steps in a row after which it is doubled.
    """

    def __init__(self, initial: float = INITIAL, growth_steps: int = GROWTH_STEPS) -> None:
        self.growth_steps = growth_steps
        # All replicas compute the same value, so the first one's is taken.
        first = tf.VariableAggregation.ONLY_FIRST_REPLICA
        self.scale = tf.Variable(initial, trainable=False, dtype=tf.float32, aggregation=first, name="loss_scale")
        self.good_steps = tf.Variable(0, trainable=False, dtype=tf.int64, aggregation=first, name="good_steps")

    def value(self) -> tf.Tensor:
        """The scale, float32 scalar."""
        return tf.convert_to_tensor(self.scale)

    def update(self, is_sound: tf.Tensor) -> None:
        """Moves the scale on after a step; call it in replica context. `is_sound`: all was finite, bool scalar."""
        scale, good = self.value(), tf.convert_to_tensor(self.good_steps) + 1
        grows = good >= self.growth_steps
        grown = tf.where(grows, tf.minimum(scale * 2.0, LARGEST), scale)
        self.scale.assign(tf.where(is_sound, grown, tf.maximum(scale / 2.0, FLOOR)))
        self.good_steps.assign(tf.where(is_sound & ~grows, good, 0))
