"""The heads: what stands on the encoder and gives logits, in at least float32.

Sources: Lan et al. 2020 (arXiv 1909.11942), section 3.1, for the two pretraining heads; google-research/albert for the
others (`classifier_utils.py`, `race_utils.py`, `squad_utils.py`), but for the token classifier, which is that of
transformers. The head for SQuAD 2.0 is in `conditional_span`.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from albert_tf.modeling.activations import activation
from albert_tf.modeling.dropout import Dropout
from albert_tf.modeling.embeddings import AlbertEmbeddings
from albert_tf.modeling.layers import (
    at_least_float32,
    layer_norm,
    name_weights,
    weight_initializer,
)


def logits_spec(head: keras.layers.Layer, shape: tuple) -> keras.KerasTensor:
    """Symbolic logits of `shape`, in the dtype that `at_least_float32` gives them."""
    return keras.KerasTensor(shape, dtype="float64" if head.compute_dtype == "float64" else "float32")


class MaskedLMHead(keras.layers.Layer):
    """Logits over the vocabulary at masked positions only; the output product uses the embedding table itself.

    Where only words are factorized the transform is H -> H, and its result is taken to E by the words' matrix,
    transposed (brightmart/albert_zh, `run_pretraining.py`).

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
            embeddings.width,
            kernel_initializer=weight_initializer(initializer_range),
            dtype=self.dtype_policy,
            name="dense",
        )
        self.layer_norm = layer_norm(self.dtype_policy)

    def build(self, sequence_output_shape: tuple, *_: Any) -> None:
        self.dense.build((None, sequence_output_shape[-1]))
        self.layer_norm.build((None, self.embeddings.width))
        self.output_bias = self.add_weight(name="output_bias", shape=(self.embeddings.vocab_size,), initializer="zeros")
        self.built = True

    def call(self, sequence_output: tf.Tensor, masked_lm_positions: tf.Tensor) -> tf.Tensor:
        at_masks = tf.gather(sequence_output, masked_lm_positions, batch_dims=1)  # [B, P, H]
        transformed = self.layer_norm(self._activation(self.dense(at_masks)))  # [B, P, E]
        shape = tf.shape(transformed)
        rows = tf.reshape(transformed, [-1, self.embeddings.width])  # [B*P, E]: one product, not B small ones
        logits = self.embeddings.word_logits(rows) + tf.convert_to_tensor(self.output_bias)
        return at_least_float32(tf.reshape(logits, [shape[0], shape[1], self.embeddings.vocab_size]))

    def compute_output_spec(self, sequence_output: Any, masked_lm_positions: Any) -> keras.KerasTensor:
        return logits_spec(self, (*masked_lm_positions.shape, self.embeddings.vocab_size))

    def named_weights(self, prefix: str) -> dict[str, keras.Variable]:
        """Weights of the head alone by name under `prefix`; the tied table belongs to the encoder."""
        parts = name_weights(prefix, {"dense": self.dense, "layer_norm": self.layer_norm})
        return {**parts, f"{prefix}/{self.output_bias.name}": self.output_bias}


class DenseHead(keras.layers.Layer):
    """Dropout and one dense layer: base of the heads below, which say what of.

    Args:
      units: outputs of the dense layer (C).
      dropout_prob: dropout probability before it, in [0, 1).
      initializer_range: standard deviation that its weights start from.
    """

    def __init__(
        self, units: int, *, dropout_prob: float = 0.0, initializer_range: float = 0.02, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.units = units
        self.dropout = Dropout(dropout_prob, dtype=self.dtype_policy)
        self.dense = keras.layers.Dense(
            units, kernel_initializer=weight_initializer(initializer_range), dtype=self.dtype_policy, name="dense"
        )

    def build(self, input_shape: tuple, *_: Any) -> None:
        self.dense.build((None, input_shape[-1]))
        self.built = True

    def logits(self, inputs: tf.Tensor, training: bool | None) -> tf.Tensor:
        """float [..., C] of `inputs` float [..., H]."""
        return at_least_float32(self.dense(self.dropout(inputs, training=training)))

    def named_weights(self, prefix: str) -> dict[str, keras.Variable]:
        """Weights by name under `prefix`."""
        return {f"{prefix}/{v.name}": v for v in self.dense.weights}


class ClassifierHead(DenseHead):
    """Logits of a text's labels: `pooled_output` float [B, H] to float [B, C]."""

    def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        return self.logits(inputs, training)

    def compute_output_spec(self, inputs: Any, training: bool | None = None) -> Any:
        return logits_spec(self, (*inputs.shape[:-1], self.units))


class TokenClassifierHead(ClassifierHead):
    """Logits of each token's labels: `sequence_output` float [B, S, H] to float [B, S, C]."""


class SentenceOrderHead(ClassifierHead):
    """Logits of the two orders of a pair of segments: 0 as in the document, 1 exchanged.

    Call arguments:
      pooled_output: float [B, H].

    Returns:
      float [B, 2], logits.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(2, **kwargs)


class RegressionHead(DenseHead):
    """One number for a text, unbounded: `pooled_output` float [B, H] to float [B]."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(1, **kwargs)

    def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        return tf.squeeze(self.logits(inputs, training), -1)

    def compute_output_spec(self, inputs: Any, training: bool | None = None) -> Any:
        return logits_spec(self, inputs.shape[:-1])


class MultipleChoiceHead(DenseHead):
    """Logits of the choices, each a text of its own.

    Call arguments:
      pooled_output: float [B*C, H], the choices of one example behind each other.
      input_ids: int32 [B, C, S], for the shape alone.

    Returns:
      float [B, C], logits.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(1, **kwargs)

    def call(self, pooled_output: tf.Tensor, input_ids: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        return tf.reshape(self.logits(pooled_output, training), tf.shape(input_ids)[:2])

    def compute_output_spec(self, pooled_output: Any, input_ids: Any, training: bool | None = None) -> Any:
        return logits_spec(self, input_ids.shape[:2])


class ChoicesAsRows(keras.layers.Layer):
    """int32 [B, C, S] as int32 [B*C, S]: each choice as a row of its own."""

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        return tf.reshape(inputs, [-1, tf.shape(inputs)[-1]])

    def compute_output_spec(self, inputs: Any) -> keras.KerasTensor:
        return keras.KerasTensor((None, inputs.shape[-1]), dtype=inputs.dtype)


class SpanHead(DenseHead):
    """Logits of an answer's first and last token, each for itself (SQuAD 1.1).

    Call arguments:
      sequence_output: float [B, S, H].

    Returns:
      `start_logits` and `end_logits`, each float [B, S].
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(2, **kwargs)

    def call(self, inputs: tf.Tensor, training: bool | None = None) -> tuple[tf.Tensor, tf.Tensor]:
        start, end = tf.unstack(self.logits(inputs, training), axis=-1)
        return start, end

    def compute_output_spec(self, inputs: Any, training: bool | None = None) -> Any:
        return tuple(logits_spec(self, inputs.shape[:-1]) for _ in range(2))


class WidenedOutput(keras.layers.Layer):
    """The encoder's output as a model without a head gives it: in at least float32."""

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        return at_least_float32(inputs)

    def compute_output_spec(self, inputs: Any) -> keras.KerasTensor:
        return logits_spec(self, inputs.shape)
