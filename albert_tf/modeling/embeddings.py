"""AlbertEmbeddings: word, position and segment embeddings, all of them E wide or the words alone."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from albert_tf.modeling.dropout import Dropout
from albert_tf.modeling.layers import layer_norm, name_weights, weight_initializer


@keras.saving.register_keras_serializable("albert_tf")
class AlbertEmbeddings(keras.layers.Layer):
    """Sum of word, position and segment embeddings, normalised; E wide (section 3.1, factorized embedding).

    With `projected_size` (W) only words are E wide: a matrix [E, W] without bias takes them to W, and positions,
    segments and LayerNorm are W wide, as in albert_zh (brightmart/albert_zh, `modeling.py`).

    Call arguments:
      input_ids: int32 [B, S], or [T] in packed form.
      segment_ids: int32, of the same shape.
      positions: int32 [T] in packed form, or [S]; None counts from 0 along S.

    Returns:
      float [B, S, E] or [T, E]; with `projected_size` W in the place of E.
    """

    def __init__(
        self,
        *,
        vocab_size: int,
        embedding_size: int,
        max_position_embeddings: int,
        type_vocab_size: int,
        projected_size: int | None = None,
        dropout_prob: float = 0.0,
        initializer_range: float = 0.02,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.embedding_size = embedding_size
        self.max_position_embeddings = max_position_embeddings
        self.type_vocab_size = type_vocab_size
        self.projected_size = projected_size
        self.dropout_prob = dropout_prob
        self.initializer_range = initializer_range
        self.layer_norm = layer_norm(self.dtype_policy)
        self.dropout = Dropout(dropout_prob, dtype=self.dtype_policy)

    @property
    def width(self) -> int:
        """Width of the sum: E, or `projected_size`."""
        return self.projected_size or self.embedding_size

    def build(self, *_: Any) -> None:
        def table(name: str, rows: int, width: int) -> keras.Variable:
            initializer = weight_initializer(self.initializer_range)
            return self.add_weight(name=name, shape=(rows, width), initializer=initializer)

        self.word_embeddings = table("word_embeddings", self.vocab_size, self.embedding_size)
        self.word_projection = None
        if self.projected_size is not None:
            self.word_projection = table("word_projection", self.embedding_size, self.projected_size)
        self.position_embeddings = table("position_embeddings", self.max_position_embeddings, self.width)
        self.token_type_embeddings = table("token_type_embeddings", self.type_vocab_size, self.width)
        self.layer_norm.build((None, self.width))
        self.built = True

    def call(
        self,
        input_ids: tf.Tensor,
        segment_ids: tf.Tensor,
        positions: tf.Tensor | None = None,
        training: bool | None = None,
    ) -> tf.Tensor:
        table, segments = (tf.convert_to_tensor(v) for v in (self.position_embeddings, self.token_type_embeddings))
        embedded = self._words(input_ids) + tf.gather(segments, segment_ids)
        if positions is None:
            self.check_length(input_ids)
            embedded += table[: tf.shape(input_ids)[1]]  # [S, E], broadcast over B
        else:
            embedded += tf.gather(table, positions)
        return self.dropout(self.layer_norm(embedded), training=training)

    def check_length(self, input_ids: tf.Tensor) -> None:
        """Refuses `input_ids` [B, S] that are longer than the model has positions, where S is known.

        Raises:
          ValueError: naming both lengths.
        """
        length = input_ids.shape[1]
        if length is not None and length > self.max_position_embeddings:
            raise ValueError(
                f"input_ids are {length} tokens long, the model has max_position_embeddings "
                f"{self.max_position_embeddings}"
            )

    def _words(self, input_ids: tf.Tensor) -> tf.Tensor:
        """float [..., W] of `input_ids` int32 [...]."""
        words = tf.gather(tf.convert_to_tensor(self.word_embeddings), input_ids)
        if self.word_projection is None:
            return words
        rows = tf.reshape(words, [-1, self.embedding_size])  # one product, not B small ones
        projected = tf.matmul(rows, tf.convert_to_tensor(self.word_projection))
        return tf.reshape(projected, tf.concat([tf.shape(input_ids), [self.width]], 0))

    def word_logits(self, rows: tf.Tensor) -> tf.Tensor:
        """float [R, V]: product of `rows` float [R, W] and each word's embedding."""
        if self.word_projection is not None:
            rows = tf.matmul(rows, tf.convert_to_tensor(self.word_projection), transpose_b=True)  # [R, E]
        return tf.matmul(rows, tf.convert_to_tensor(self.word_embeddings), transpose_b=True)

    def compute_output_shape(self, input_ids_shape: tuple, *_: Any, **__: Any) -> tuple:
        return (*input_ids_shape, self.width)

    def named_weights(self, prefix: str) -> dict[str, keras.Variable]:
        """Weights by name under `prefix`."""
        own = {f"{prefix}/{v.name}": v for v in self._trainable_variables}
        return {**own, **name_weights(prefix, {"layer_norm": self.layer_norm})}

    def get_config(self) -> dict[str, Any]:
        names = ("vocab_size", "embedding_size", "max_position_embeddings", "type_vocab_size", "projected_size")
        own = {name: getattr(self, name) for name in (*names, "dropout_prob", "initializer_range")}
        return {**super().get_config(), **own}
