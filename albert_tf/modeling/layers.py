"""The layers of ALBERT: the two sublayers, the block that joins them, the pooler.

Source: Lan et al. 2020 (arXiv 1909.11942), section 3.1; Vaswani et al. 2017 (arXiv 1706.03762) for the block. As in the
original: LayerNorm after the residual sum, epsilon 1e-12, GELU in its tanh form.

Every layer works on any leading shape, so that one block serves padded batches [B, S, H] and packed ones [T, H] alike;
`SelfAttention` is told by a `PackedLayout` which form it got. Softmax, mask and LayerNorm run in at least float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from albert_tf.modeling.activations import activation, trained_gelu_tanh
from albert_tf.modeling.dropout import Dropout
from albert_tf.modeling.packing import PackedLayout

LAYER_NORM_EPSILON = 1e-12
# Added to the attention scores of padding, as in the original. Finite, so that a row of padding alone gives no NaN.
_MASKED_SCORE = -10000.0


def weight_initializer(stddev: float) -> keras.initializers.Initializer:
    """Initial weights as in the original: a normal distribution cut off at two standard deviations."""
    return keras.initializers.TruncatedNormal(stddev=stddev)


def layer_norm(dtype: Any, name: str = "layer_norm") -> keras.layers.LayerNormalization:
    """LayerNorm over the last axis; Keras computes it in float32 where the input is narrower."""
    return keras.layers.LayerNormalization(epsilon=LAYER_NORM_EPSILON, dtype=dtype, name=name)


def at_least_float32(x: tf.Tensor) -> tf.Tensor:
    """`x` in float32, or as it is where it is float64."""
    return x if x.dtype == tf.float64 else tf.cast(x, tf.float32)


def name_weights(prefix: str, parts: Mapping[str, keras.layers.Layer]) -> dict[str, keras.Variable]:
    """Weights of `parts`, named prefix/part/weight."""
    return {f"{prefix}/{part}/{v.name}": v for part, layer in parts.items() for v in layer.weights}


class _Sublayer(keras.layers.Layer):
    """What both sublayers share: dense layers from the block's initializer, and the residual sum with its LayerNorm."""

    def __init__(self, *, dropout_prob: float, initializer_range: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dropout_prob = dropout_prob
        self.initializer_range = initializer_range
        self.dropout = Dropout(dropout_prob, dtype=self.dtype_policy)
        self.layer_norm = layer_norm(self.dtype_policy)

    def _dense(self, units: int, input_size: int, name: str) -> keras.layers.Dense:
        initializer = weight_initializer(self.initializer_range)
        dense = keras.layers.Dense(units, kernel_initializer=initializer, dtype=self.dtype_policy, name=name)
        dense.build((None, input_size))
        return dense

    def _add_and_normalize(self, residual: tf.Tensor, update: tf.Tensor, training: bool | None) -> tf.Tensor:
        return self.layer_norm(residual + self.dropout(update, training=training))

    def compute_output_shape(self, input_shape: tuple, *_: Any, **__: Any) -> tuple:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        own = {"dropout_prob": self.dropout_prob, "initializer_range": self.initializer_range}
        return {**super().get_config(), **own}


@keras.saving.register_keras_serializable("albert_tf")
class SelfAttention(_Sublayer):
    """Multi-head self-attention over real tokens, its residual sum and LayerNorm.

    Call arguments:
      hidden_states: float [B, S, H], or [T, H] in packed form.
      input_mask: int [B, S]; positions with 0 are not attended to.
      layout: `PackedLayout` of the batch, in packed form only.
      first_only: whether to compute the output of each sequence's first position alone.

    Returns:
      float, of the shape of `hidden_states`; [B, 1, H] with `first_only`.

    Raises:
      ValueError: if H is no multiple of `num_attention_heads`.
    """

    def __init__(self, *, num_attention_heads: int, attention_probs_dropout_prob: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.num_attention_heads = num_attention_heads
        self.attention_probs_dropout_prob = attention_probs_dropout_prob
        self.probs_dropout = Dropout(attention_probs_dropout_prob, dtype=self.dtype_policy)

    def build(self, input_shape: tuple) -> None:
        hidden_size = input_shape[-1]
        if hidden_size % self.num_attention_heads:
            raise ValueError(f"hidden size {hidden_size} is no multiple of {self.num_attention_heads} attention heads")
        self.head_size = hidden_size // self.num_attention_heads
        self.query = self._dense(hidden_size, hidden_size, "query")
        self.key = self._dense(hidden_size, hidden_size, "key")
        self.value = self._dense(hidden_size, hidden_size, "value")
        self.output_dense = self._dense(hidden_size, hidden_size, "output")
        self.layer_norm.build((None, hidden_size))
        self.built = True

    def call(
        self,
        hidden_states: tf.Tensor,
        input_mask: tf.Tensor,
        layout: PackedLayout | None = None,
        training: bool | None = None,
        first_only: bool = False,
    ) -> tf.Tensor:
        def heads(grid: tf.Tensor) -> tf.Tensor:
            shape = tf.shape(grid)
            return tf.transpose(
                tf.reshape(grid, [shape[0], shape[1], self.num_attention_heads, self.head_size]), [0, 2, 1, 3]
            )

        def unpack(projected: tf.Tensor) -> tf.Tensor:
            return projected if layout is None else layout.unpack(projected)  # [B, S, H]

        residual = hidden_states
        if first_only:
            residual = hidden_states[:, :1] if layout is None else layout.first(hidden_states)  # [B, 1, H]
        projected = self.query(residual)
        query = heads(projected if first_only else unpack(projected))  # [B, N, S or 1, H/N]
        key = heads(unpack(self.key(hidden_states)))
        value = heads(unpack(self.value(hidden_states)))
        scores = tf.matmul(query, key, transpose_b=True) * self.head_size**-0.5  # [B, N, S or 1, S]
        scores = at_least_float32(scores)
        padding = tf.cast(1 - tf.cast(input_mask, tf.int32), scores.dtype) * _MASKED_SCORE  # [B, S]
        scores += tf.expand_dims(tf.expand_dims(padding, 1), 1)
        probs = tf.cast(tf.nn.softmax(scores), value.dtype)
        probs = self.probs_dropout(probs, training=training)
        context = tf.transpose(tf.matmul(probs, value), [0, 2, 1, 3])  # [B, S or 1, N, H/N]
        shape = tf.shape(context)
        context = tf.reshape(context, [shape[0], shape[1], self.num_attention_heads * self.head_size])
        if layout is not None and not first_only:
            context = layout.pack(context)  # [T, H]
        return self._add_and_normalize(residual, self.output_dense(context), training)

    def named_weights(self, prefix: str) -> dict[str, keras.Variable]:
        """Weights by name under `prefix`."""
        dense = {"query": self.query, "key": self.key, "value": self.value, "output": self.output_dense}
        return name_weights(prefix, {**dense, "layer_norm": self.layer_norm})

    def get_config(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in ("num_attention_heads", "attention_probs_dropout_prob")}
        return {**super().get_config(), **own}


@keras.saving.register_keras_serializable("albert_tf")
class FeedForward(_Sublayer):
    """Two dense layers with an activation between them, their residual sum and LayerNorm.

    Call arguments:
      hidden_states: float [B, S, H] or [T, H].

    Returns:
      float, of the shape of `hidden_states`.
    """

    def __init__(self, *, intermediate_size: int, hidden_act: str = "gelu", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.intermediate_size = intermediate_size
        self.hidden_act = hidden_act
        self._activation = activation(hidden_act)
        self._trained_activation = trained_gelu_tanh if hidden_act == "gelu" else self._activation

    def build(self, input_shape: tuple) -> None:
        hidden_size = input_shape[-1]
        self.intermediate = self._dense(self.intermediate_size, hidden_size, "intermediate")
        self.output_dense = self._dense(hidden_size, self.intermediate_size, "output")
        self.layer_norm.build((None, hidden_size))
        self.built = True

    def call(self, hidden_states: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        act = self._trained_activation if training else self._activation
        update = self.output_dense(act(self.intermediate(hidden_states)))
        return self._add_and_normalize(hidden_states, update, training)

    def named_weights(self, prefix: str) -> dict[str, keras.Variable]:
        """Weights by name under `prefix`."""
        parts = {"intermediate": self.intermediate, "output": self.output_dense, "layer_norm": self.layer_norm}
        return name_weights(prefix, parts)

    def get_config(self) -> dict[str, Any]:
        own = {"intermediate_size": self.intermediate_size, "hidden_act": self.hidden_act}
        return {**super().get_config(), **own}


@keras.saving.register_keras_serializable("albert_tf")
class TransformerEncoderBlock(keras.layers.Layer):
    """One transformer block: self-attention, then feed-forward, each with residual sum and LayerNorm after it.

    ALBERT calls one block L times. Where layers share one sublayer only, two blocks are made round the same one:
    `TransformerEncoderBlock(..., attention=first.attention)`. Such sharing is a relation between blocks, so the
    configuration of a single block does not hold it; `AlbertEncoder` restores it from its own.

    Call arguments:
      hidden_states: float [B, S, H], or [T, H] in packed form.
      input_mask: int [B, S], 1 at tokens and 0 at padding.
      layout: `PackedLayout` of the batch, in packed form only.
      first_only: whether to compute the output of each sequence's first position alone.

    Returns:
      float, of the shape of `hidden_states`; [B, 1, H] with `first_only`.
    """

    def __init__(
        self,
        *,
        num_attention_heads: int,
        intermediate_size: int,
        hidden_act: str = "gelu",
        hidden_dropout_prob: float = 0.0,
        attention_probs_dropout_prob: float = 0.0,
        initializer_range: float = 0.02,
        attention: SelfAttention | None = None,
        feed_forward: FeedForward | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._own_config = {
            "num_attention_heads": num_attention_heads,
            "intermediate_size": intermediate_size,
            "hidden_act": hidden_act,
            "hidden_dropout_prob": hidden_dropout_prob,
            "attention_probs_dropout_prob": attention_probs_dropout_prob,
            "initializer_range": initializer_range,
        }
        shared = {
            "dropout_prob": hidden_dropout_prob,
            "initializer_range": initializer_range,
            "dtype": self.dtype_policy,
        }
        self.attention = attention or SelfAttention(
            num_attention_heads=num_attention_heads,
            attention_probs_dropout_prob=attention_probs_dropout_prob,
            name="attention",
            **shared,
        )
        self.feed_forward = feed_forward or FeedForward(
            intermediate_size=intermediate_size, hidden_act=hidden_act, name="feed_forward", **shared
        )

    @property
    def num_dropouts(self) -> int:
        """How many dropout masks a call in training draws."""
        dropouts = (self.attention.probs_dropout, self.attention.dropout, self.feed_forward.dropout)
        return sum(dropout.rate > 0.0 for dropout in dropouts)

    def build(self, input_shape: tuple) -> None:
        for sublayer in (self.attention, self.feed_forward):
            if not sublayer.built:
                sublayer.build(input_shape)
        self.built = True

    def call(
        self,
        hidden_states: tf.Tensor,
        input_mask: tf.Tensor,
        layout: PackedLayout | None = None,
        training: bool | None = None,
        first_only: bool = False,
    ) -> tf.Tensor:
        attended = self.attention(hidden_states, input_mask, layout=layout, training=training, first_only=first_only)
        return self.feed_forward(attended, training=training)

    def compute_output_shape(self, input_shape: tuple, *_: Any, **__: Any) -> tuple:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self._own_config}


@keras.saving.register_keras_serializable("albert_tf")
class Pooler(keras.layers.Layer):
    """Sentence vector: a dense layer with tanh over the first position.

    Call arguments:
      sequence_output: float [B, S, H].

    Returns:
      float [B, H].
    """

    def __init__(self, *, initializer_range: float = 0.02, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.initializer_range = initializer_range

    def build(self, input_shape: tuple) -> None:
        hidden_size = input_shape[-1]
        self.dense = keras.layers.Dense(
            hidden_size,
            activation="tanh",
            kernel_initializer=weight_initializer(self.initializer_range),
            dtype=self.dtype_policy,
            name="dense",
        )
        self.dense.build((None, hidden_size))
        self.built = True

    def call(self, sequence_output: tf.Tensor) -> tf.Tensor:
        return self.dense(sequence_output[:, 0])

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return (input_shape[0], input_shape[-1])

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "initializer_range": self.initializer_range}
