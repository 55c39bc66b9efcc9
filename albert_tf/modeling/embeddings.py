"""AlbertEmbeddings: word, position and segment embeddings, E wide."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from albert_tf.modeling.dropout import Dropout
from albert_tf.modeling.layers import layer_norm, name_weights, weight_initializer


@keras.saving.register_keras_serializable("albert_tf")
class AlbertEmbeddings(keras.layers.Layer):
    """Sum of word, position and segment embeddings, normalised; E wide (section 3.1, factorized embedding).

    Call arguments:
      input_ids: int32 [B, S], or [T] in packed form.
      segment_ids: int32, of the same shape.
      positions: int32 [T] in packed form, or [S]; None counts from 0 along S.

    Returns:
      float [B, S, E] or [T, E].
    """

    def __init__(
        self,
        *,
        vocab_size: int,
        embedding_size: int,
        max_position_embeddings: int,
        type_vocab_size: int,
        dropout_prob: float = 0.0,
        initializer_range: float = 0.02,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.embedding_size = embedding_size
        self.max_position_embeddings = max_position_embeddings
        self.type_vocab_size = type_vocab_size
        self.dropout_prob = dropout_prob
        self.initializer_range = initializer_range
        self.layer_norm = layer_norm(self.dtype_policy)
        self.dropout = Dropout(dropout_prob, dtype=self.dtype_policy)

    def build(self, *_: Any) -> None:
        def table(name: str, rows: int) -> keras.Variable:
            initializer = weight_initializer(self.initializer_range)
            return self.add_weight(name=name, shape=(rows, self.embedding_size), initializer=initializer)

        self.word_embeddings = table("word_embeddings", self.vocab_size)
        self.position_embeddings = table("position_embeddings", self.max_position_embeddings)
        self.token_type_embeddings = table("token_type_embeddings", self.type_vocab_size)
        self.layer_norm.build((None, self.embedding_size))
        self.built = True

    def call(
        self,
        input_ids: tf.Tensor,
        segment_ids: tf.Tensor,
        positions: tf.Tensor | None = None,
        training: bool | None = None,
    ) -> tf.Tensor:
        words, table, segments = (
            tf.convert_to_tensor(v)
            for v in (self.word_embeddings, self.position_embeddings, self.token_type_embeddings)
        )
        embedded = tf.gather(words, input_ids) + tf.gather(segments, segment_ids)
        if positions is None:
            embedded += table[: tf.shape(input_ids)[1]]  # [S, E], broadcast over B
        else:
            embedded += tf.gather(table, positions)
        return self.dropout(self.layer_norm(embedded), training=training)

    def compute_output_shape(self, input_ids_shape: tuple, *_: Any, **__: Any) -> tuple:
        return (*input_ids_shape, self.embedding_size)

    def named_weights(self, prefix: str) -> dict[str, keras.Variable]:
        """Weights by name under `prefix`."""
        own = {f"{prefix}/{v.name}": v for v in self._trainable_variables}
        return {**own, **name_weights(prefix, {"layer_norm": self.layer_norm})}

    def get_config(self) -> dict[str, Any]:
        names = ("vocab_size", "embedding_size", "max_position_embeddings", "type_vocab_size", "dropout_prob")
        own = {name: getattr(self, name) for name in (*names, "initializer_range")}
        return {**super().get_config(), **own}
