"""LAMB and AdamW as the original ALBERT computes them, as Keras optimizers that work under `tf.distribute`.

Both differ from the classes of the same names in Keras: neither corrects the bias of the moments, epsilon stands
outside the square root, and weight decay is added to the update before the learning rate (and, in LAMB, before the
trust ratio). Sources: You et al. 2020, "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes"
(arXiv 1904.00962), Algorithm 2 without its bias correction; Loshchilov and Hutter 2019, "Decoupled Weight Decay
Regularization" (arXiv 1711.05101).

They are subclasses of `keras.optimizers.Optimizer` because users compile models with them, and because Keras'
bookkeeping (slots beside their variables, iterations, schedules, get_config) is right under every strategy. What does
not suit a loop that clips by the global norm is that `apply` sums gradients over replicas itself. `apply_reduced` takes
gradients that are summed already.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeAlias

import keras
import tensorflow as tf

# Matched anywhere in a variable's path, as the original matches them in a variable's name.
EXCLUDED = ("LayerNorm", "layer_norm", "bias")

_Values: TypeAlias = list[tuple[tf.Variable, tf.Tensor]]


class _MomentOptimizer(keras.optimizers.Optimizer):
    """What both optimizers share: the moments and which variables are decayed."""

    def __init__(
        self,
        learning_rate: Any,
        weight_decay_rate: float,
        beta_1: float,
        beta_2: float,
        epsilon: float,
        exclude_from_weight_decay: Sequence[str],
        **kwargs: Any,
    ) -> None:
        # Keras' own `weight_decay` would decay the weights a second time, before the update.
        if kwargs.pop("weight_decay", None) is not None:
            raise ValueError("weight_decay must not be given: the original's decay is weight_decay_rate")
        super().__init__(learning_rate=learning_rate, **kwargs)
        for name, beta in (("beta_1", beta_1), ("beta_2", beta_2)):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"{name} must be in [0, 1), got {beta}")
        if weight_decay_rate < 0.0:
            raise ValueError(f"weight_decay_rate must be at least 0, got {weight_decay_rate}")
        self.weight_decay_rate = float(weight_decay_rate)
        self.beta_1 = float(beta_1)
        self.beta_2 = float(beta_2)
        self.epsilon = float(epsilon)
        self.exclude_from_weight_decay = tuple(exclude_from_weight_decay)

    @staticmethod
    def _matches(variable: Any, patterns: Sequence[str]) -> bool:
        path = getattr(variable, "path", None) or variable.name
        return any(re.search(pattern, path) for pattern in patterns)

    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Creates the slots of `variables`. Under a strategy, call it in its scope, before the first step."""
        if self.built:
            return
        variables = list(variables)
        super().build(variables)
        self.m = [self.add_variable_from_reference(variable, name="m") for variable in variables]
        self.v = [self.add_variable_from_reference(variable, name="v") for variable in variables]
        # Decided here, while paths are at hand: an update sees bare tf.Variables.
        self._decays = [not self._matches(variable, self.exclude_from_weight_decay) for variable in variables]

    def _moments(self, gradient: tf.Tensor, variable: tf.Variable) -> tuple[int, tf.Tensor, _Values]:
        """Index of the variable, Adam's update with the decay added, and the next moments."""
        index = self._get_variable_index(variable)
        gradient = tf.cast(gradient, variable.dtype)
        m, v = self.m[index].value, self.v[index].value
        next_m = self.beta_1 * m + (1.0 - self.beta_1) * gradient
        next_v = self.beta_2 * v + (1.0 - self.beta_2) * tf.square(gradient)
        update = next_m / (tf.sqrt(next_v) + self.epsilon)
        if self.weight_decay_rate and self._decays[index]:
            update += self.weight_decay_rate * variable
        return index, update, [(m, next_m), (v, next_v)]

    def next_values(self, gradient: tf.Tensor, variable: tf.Variable, learning_rate: tf.Tensor) -> _Values:
        """Pairs of a variable and its value after a step: the moments of `variable`, and `variable` itself."""
        raise NotImplementedError

    def update_step(self, gradient: tf.Tensor, variable: tf.Variable, learning_rate: tf.Tensor) -> None:
        """Moves one variable and its moments by one step."""
        for moved, value in self.next_values(gradient, variable, learning_rate):
            self.assign(moved, value)

    def apply_reduced(
        self,
        gradients: Sequence[tf.Tensor],
        variables: Sequence[keras.Variable],
        *,
        is_sound: tf.Tensor | None = None,
        counts: tf.Tensor | None = None,
    ) -> None:
        """One step with gradients that are the same on every replica; call it in replica context.

        Keras' `apply` would sum them over the replicas once more, and its `global_clipnorm` would clip before that sum.

        Args:
          gradients: dense tensors, one per variable, summed over replicas and clipped.
          variables: the variables the optimizer was built with.
          is_sound: bool scalar; where False all variables and moments stay as they are. None means True.
          counts: bool scalar: whether this counts as a step, as it does by default.
        """
        learning_rate = self.learning_rate

        def move(component: tf.Variable, gradient: tf.Tensor, is_sound: tf.Tensor | None) -> None:
            for moved, value in self.next_values(gradient, component, learning_rate):
                moved.assign(value if is_sound is None else tf.where(is_sound, value, tf.convert_to_tensor(moved)))

        def update(
            strategy: tf.distribute.Strategy, gradients: Sequence[tf.Tensor], is_sound: tf.Tensor | None
        ) -> None:
            for gradient, variable in zip(gradients, variables, strict=True):
                strategy.extended.update(variable.value, move, args=(gradient, is_sound), group=False)

        # Mirrored replicas must meet before they update; other strategies update in place.
        merge = tf.__internal__.distribute.interim.maybe_merge_call
        merge(update, tf.distribute.get_strategy(), list(gradients), is_sound)
        self._iterations.assign_add(1 if counts is None else tf.cast(counts, self._iterations.dtype))

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["weight_decay"]
        config.update(
            weight_decay_rate=self.weight_decay_rate,
            beta_1=self.beta_1,
            beta_2=self.beta_2,
            epsilon=self.epsilon,
            exclude_from_weight_decay=list(self.exclude_from_weight_decay),
        )
        return config


@keras.saving.register_keras_serializable(package="albert_tf")
class AdamWeightDecay(_MomentOptimizer):
    """Adam with decoupled weight decay, without bias correction.

    For a variable w with gradient g::

        m = beta_1 m + (1 - beta_1) g
        v = beta_2 v + (1 - beta_2) g^2
        w = w - learning_rate (m / (sqrt(v) + epsilon) + weight_decay_rate w)

    Args:
      learning_rate: float, or a schedule such as `WarmupPolynomialDecay`.
      weight_decay_rate: per unit of learning rate and step.
      beta_1: memory of the first moment, in [0, 1).
      beta_2: memory of the second moment, in [0, 1).
      epsilon: added outside the square root.
      exclude_from_weight_decay: regular expressions; variables whose path one of them matches are not decayed.
      **kwargs: of `keras.optimizers.Optimizer`.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        weight_decay_rate: float = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        exclude_from_weight_decay: Sequence[str] = EXCLUDED,
        name: str = "adam_weight_decay",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            learning_rate, weight_decay_rate, beta_1, beta_2, epsilon, exclude_from_weight_decay, name=name, **kwargs
        )

    def next_values(self, gradient: tf.Tensor, variable: tf.Variable, learning_rate: tf.Tensor) -> _Values:
        """Pairs of a variable and its value after a step."""
        _, update, moments = self._moments(gradient, variable)
        return [*moments, (variable, variable - tf.cast(learning_rate, update.dtype) * update)]


@keras.saving.register_keras_serializable(package="albert_tf")
class Lamb(_MomentOptimizer):
    """LAMB without bias correction: Adam's update, scaled per variable to the size of the weights.

    For a variable w with gradient g::

        m = beta_1 m + (1 - beta_1) g
        v = beta_2 v + (1 - beta_2) g^2
        u = m / (sqrt(v) + epsilon) + weight_decay_rate w
        w = w - learning_rate (|w| / |u|) u

    The trust ratio |w| / |u| is 1 where either norm is 0 and for variables left out of layer adaptation. Shared weights
    are one variable and have one ratio, however often the model uses them.

    Args:
      learning_rate: float, or a schedule such as `WarmupPolynomialDecay`.
      weight_decay_rate: per unit of learning rate, ratio and step.
      beta_1: memory of the first moment, in [0, 1).
      beta_2: memory of the second moment, in [0, 1).
      epsilon: added outside the square root.
      exclude_from_weight_decay: regular expressions; variables whose path one of them matches are not decayed.
      exclude_from_layer_adaptation: likewise for the trust ratio; None means as `exclude_from_weight_decay`.
      **kwargs: of `keras.optimizers.Optimizer`.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        weight_decay_rate: float = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        exclude_from_weight_decay: Sequence[str] = EXCLUDED,
        exclude_from_layer_adaptation: Sequence[str] | None = None,
        name: str = "lamb",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            learning_rate, weight_decay_rate, beta_1, beta_2, epsilon, exclude_from_weight_decay, name=name, **kwargs
        )
        if exclude_from_layer_adaptation is None:
            exclude_from_layer_adaptation = exclude_from_weight_decay
        self.exclude_from_layer_adaptation = tuple(exclude_from_layer_adaptation)

    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Creates the slots of `variables`; see `AdamWeightDecay`."""
        if not self.built:
            self._adapts = [not self._matches(variable, self.exclude_from_layer_adaptation) for variable in variables]
        super().build(variables)

    def next_values(self, gradient: tf.Tensor, variable: tf.Variable, learning_rate: tf.Tensor) -> _Values:
        """Pairs of a variable and its value after a step."""
        index, update, moments = self._moments(gradient, variable)
        rate = tf.cast(learning_rate, update.dtype)
        if self._adapts[index]:
            weight_norm, update_norm = _norm(tf.convert_to_tensor(variable)), _norm(update)
            both = tf.logical_and(weight_norm > 0.0, update_norm > 0.0)
            ratio = tf.where(both, tf.math.divide_no_nan(weight_norm, update_norm), tf.ones_like(weight_norm))
            rate = ratio * rate
        return [*moments, (variable, variable - rate * update)]

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        config["exclude_from_layer_adaptation"] = list(self.exclude_from_layer_adaptation)
        return config


def _norm(tensor: tf.Tensor) -> tf.Tensor:
    """Euclidean norm, as `tf.norm` computes it with a third of the operations."""
    return tf.sqrt(tf.reduce_sum(tf.square(tensor)))
