"""Activation functions: GELU in its tanh form, as the original has it, and its gradient for training."""

from __future__ import annotations

import math
from collections.abc import Callable

import tensorflow as tf

_GELU_SCALE = math.sqrt(2.0 / math.pi)


def gelu_tanh(x: tf.Tensor) -> tf.Tensor:
    """GELU by its tanh approximation, as the original's: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))."""
    if x.dtype == tf.float64:  # tf.nn.gelu rounds the constant 0.044715 to float32
        return 0.5 * x * (1.0 + tf.tanh(_GELU_SCALE * (x + 0.044715 * x**3)))
    return tf.nn.gelu(x, approximate=True)  # a form that compilers for CPU and TFLite know and fuse


@tf.custom_gradient
def trained_gelu_tanh(x: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
    """`gelu_tanh` with its gradient written out: a tenth of a training step goes into the derived one.

    Not for graphs that are exported, which hold no gradients of ours.
    """
    tanh = tf.tanh(_GELU_SCALE * (x + 0.044715 * (x * x * x)))

    def gradient(upstream: tf.Tensor) -> tf.Tensor:
        inner = _GELU_SCALE * (1.0 + 3.0 * 0.044715 * (x * x))
        return upstream * (0.5 * (1.0 + tanh) + 0.5 * x * (1.0 - tanh * tanh) * inner)

    return 0.5 * x * (1.0 + tanh), gradient


def activation(name: str) -> Callable[[tf.Tensor], tf.Tensor]:
    """Activation function by its name in `AlbertConfig.hidden_act`."""
    return {
        "gelu": gelu_tanh,
        "gelu_exact": lambda x: tf.nn.gelu(x, approximate=False),
        "relu": tf.nn.relu,
        "tanh": tf.nn.tanh,
        "linear": tf.identity,
    }[name]
