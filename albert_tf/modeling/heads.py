"""The two pretraining heads: masked language model and sentence order.

Source: Lan et al. 2020 (arXiv 1909.11942), section 3.1. Logits leave the heads in at least float32.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from albert_tf.modeling.embeddings import AlbertEmbeddings
from albert_tf.modeling.layers import (
    activation,
    at_least_float32,
    layer_norm,
    name_weights,
    weight_initializer,
)


class MaskedLMHead(keras.layers.Layer):
    """Logits over the vocabulary at masked positions only; the output product uses the embedding table itself.

    Args:
      embeddings: the encoder's `AlbertEmbeddings`, whose word table [V, E] is tied to the output.
      hidden_act: activation of the H -> E transform, as in `AlbertConfig`.

    Call arguments:
      sequence_output: float [B, S, H].
      masked_lm_positions: int32 [B, P], positions along S.

    Returns:
      float [B, P, V], logits.
    """

    def __init__(
        self,
        embeddings: AlbertEmbeddings,
        *,
        hidden_act: str = "gelu",
        initializer_range: float = 0.02,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.embeddings = embeddings
        self._activation = activation(hidden_act)
        self.dense = keras.layers.Dense(
            embeddings.embedding_size,
            kernel_initializer=weight_initializer(initializer_range),
            dtype=self.dtype_policy,
            name="dense",
        )
        self.layer_norm = layer_norm(self.dtype_policy)

    def build(self, sequence_output_shape: tuple, *_: Any) -> None:
        self.dense.build((None, sequence_output_shape[-1]))
        self.layer_norm.build((None, self.embeddings.embedding_size))
        self.output_bias = self.add_weight(name="output_bias", shape=(self.embeddings.vocab_size,), initializer="zeros")
        self.built = True

    def call(self, sequence_output: tf.Tensor, masked_lm_positions: tf.Tensor) -> tf.Tensor:
        at_masks = tf.gather(sequence_output, masked_lm_positions, batch_dims=1)  # [B, P, H]
        transformed = self.layer_norm(self._activation(self.dense(at_masks)))  # [B, P, E]
        shape = tf.shape(transformed)
        rows = tf.reshape(transformed, [-1, self.embeddings.embedding_size])  # [B*P, E]: one product, not B small ones
        table = tf.convert_to_tensor(self.embeddings.word_embeddings)  # [V, E]
        logits = tf.matmul(rows, table, transpose_b=True) + tf.convert_to_tensor(self.output_bias)
        return at_least_float32(tf.reshape(logits, [shape[0], shape[1], self.embeddings.vocab_size]))

    def compute_output_spec(self, sequence_output: Any, masked_lm_positions: Any) -> keras.KerasTensor:
        dtype = "float64" if self.compute_dtype == "float64" else "float32"
        return keras.KerasTensor((*masked_lm_positions.shape, self.embeddings.vocab_size), dtype=dtype)

    def named_weights(self, prefix: str) -> dict[str, keras.Variable]:
        """Weights of the head alone by name under `prefix`; the tied table belongs to the encoder."""
        parts = name_weights(prefix, {"dense": self.dense, "layer_norm": self.layer_norm})
        return {**parts, f"{prefix}/{self.output_bias.name}": self.output_bias}


class SentenceOrderHead(keras.layers.Layer):
    """Logits of the two orders of a pair of segments: 0 as in the document, 1 exchanged.

    Call arguments:
      pooled_output: float [B, H].

    Returns:
      float [B, 2], logits.
    """

    def __init__(self, *, initializer_range: float = 0.02, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dense = keras.layers.Dense(
            2, kernel_initializer=weight_initializer(initializer_range), dtype=self.dtype_policy, name="dense"
        )

    def build(self, input_shape: tuple) -> None:
        self.dense.build(input_shape)
        self.built = True

    def call(self, pooled_output: tf.Tensor) -> tf.Tensor:
        return at_least_float32(self.dense(pooled_output))

    def compute_output_spec(self, pooled_output: Any) -> keras.KerasTensor:
        dtype = "float64" if self.compute_dtype == "float64" else "float32"
        return keras.KerasTensor((pooled_output.shape[0], 2), dtype=dtype)

    def named_weights(self, prefix: str) -> dict[str, keras.Variable]:
        """Weights by name under `prefix`."""
        return {f"{prefix}/{v.name}": v for v in self.dense.weights}
