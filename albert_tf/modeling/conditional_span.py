"""ConditionalSpanHead: where an answer starts, where it ends given its start, and whether there is one (SQuAD 2.0).

Source: google-research/albert, `squad_utils.py`, `create_v2_model`. The dense layer over a token and a start is
computed in two parts, one for the tokens and one for the starts: the same numbers, with a K-th of the work.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from albert_tf.modeling.dropout import Dropout
from albert_tf.modeling.heads import logits_spec
from albert_tf.modeling.layers import at_least_float32, layer_norm, name_weights, weight_initializer

# Logit of a position where no answer may start or end, as in the original: its probability is 0.
_FORBIDDEN = -1e30


class ConditionalSpanHead(keras.layers.Layer):
    """Start, end given the start, and answerability of a question.

    Without `start_positions` the ends are those of the likeliest starts:

    * `start_top_log_probs` float [B, K], `start_top_index` int32 [B, K]: the K likeliest starts, best first;
    * `end_top_log_probs` float [B, K*J], `end_top_index` int32 [B, K*J]: the J likeliest ends of each start, best
      first, those of the best start first;
    * `cls_logits` float [B]: positive where there is rather no answer.

    With `start_positions`, for the loss, the ends are those of the true starts:

    * `start_log_probs`, `end_log_probs` float [B, S], and `cls_logits`.

    Args:
      hidden_size: width of the layers (H).
      start_n_top: starts to go on with (K).
      end_n_top: ends for each of them (J).
      dropout_prob: dropout probability before the last layer of the answerability, in [0, 1).
      initializer_range: standard deviation that weights start from.

    Call arguments:
      sequence_output: float [B, S, H].
      p_mask: int or float [B, S], 1 where no answer may start or end: question, special tokens but [CLS], padding.
      start_positions: int32 [B] or [B, 1], the true starts.

    Raises:
      ValueError: if S is known and less than K or J.
    """

    def __init__(
        self,
        hidden_size: int,
        *,
        start_n_top: int = 5,
        end_n_top: int = 5,
        dropout_prob: float = 0.0,
        initializer_range: float = 0.02,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.start_n_top = start_n_top
        self.end_n_top = end_n_top

        def dense(name: str, units: int, **settings: Any) -> keras.layers.Dense:
            initializer = weight_initializer(initializer_range)
            return keras.layers.Dense(
                units, kernel_initializer=initializer, dtype=self.dtype_policy, name=name, **settings
            )

        self.start = dense("start", 1)
        self.end_hidden = dense("end_hidden", hidden_size)
        self.end_layer_norm = layer_norm(self.dtype_policy, "end_layer_norm")
        self.end = dense("end", 1)
        self.answerable_hidden = dense("answerable_hidden", hidden_size, activation="tanh")
        self.answerable = dense("answerable", 1, use_bias=False)
        self.dropout = Dropout(dropout_prob, dtype=self.dtype_policy)

    def build(self, sequence_output_shape: tuple, *_: Any) -> None:
        hidden_size = sequence_output_shape[-1]
        for layer, width in (
            (self.start, hidden_size),
            (self.end_hidden, 2 * hidden_size),
            (self.end_layer_norm, hidden_size),
            (self.end, hidden_size),
            (self.answerable_hidden, 2 * hidden_size),
            (self.answerable, hidden_size),
        ):
            layer.build((None, width))
        self.built = True

    def call(
        self,
        sequence_output: tf.Tensor,
        p_mask: tf.Tensor,
        start_positions: tf.Tensor | None = None,
        training: bool | None = None,
    ) -> dict[str, tf.Tensor]:
        start_logits = _forbid(at_least_float32(tf.squeeze(self.start(sequence_output), -1)), p_mask)  # [B, S]
        start_log_probs = tf.nn.log_softmax(start_logits)
        no_answer = self._no_answer(sequence_output, tf.nn.softmax(start_logits), training)
        if start_positions is not None:
            starts = tf.reshape(tf.cast(start_positions, tf.int32), [-1, 1])  # [B, 1]
            end_log_probs = tf.squeeze(self._end_log_probs(sequence_output, starts, p_mask), 1)
            return {"start_log_probs": start_log_probs, "end_log_probs": end_log_probs, "cls_logits": no_answer}
        self._check_length(sequence_output.shape[1])
        start_top, starts = tf.math.top_k(start_log_probs, self.start_n_top)  # [B, K]
        end_log_probs = self._end_log_probs(sequence_output, starts, p_mask)  # [B, K, S]
        end_top, ends = tf.math.top_k(end_log_probs, self.end_n_top)  # [B, K, J]
        flat = [-1, self.start_n_top * self.end_n_top]
        return {
            "start_top_log_probs": start_top,
            "start_top_index": starts,
            "end_top_log_probs": tf.reshape(end_top, flat),
            "end_top_index": tf.reshape(ends, flat),
            "cls_logits": no_answer,
        }

    def _end_log_probs(self, sequence_output: tf.Tensor, starts: tf.Tensor, p_mask: tf.Tensor) -> tf.Tensor:
        """float [B, K, S] of `starts` int32 [B, K]."""
        hidden_size = sequence_output.shape[-1]
        kernel = tf.convert_to_tensor(self.end_hidden.kernel)  # [2H, H]
        of_starts = tf.gather(sequence_output, starts, batch_dims=1)  # [B, K, H]
        from_tokens = _product(sequence_output, kernel[:hidden_size])  # [B, S, H]
        from_starts = _product(of_starts, kernel[hidden_size:]) + tf.convert_to_tensor(self.end_hidden.bias)
        hidden = tf.tanh(from_tokens[:, tf.newaxis] + from_starts[:, :, tf.newaxis])  # [B, K, S, H]
        logits = tf.squeeze(self.end(self.end_layer_norm(hidden)), -1)  # [B, K, S]
        return tf.nn.log_softmax(_forbid(at_least_float32(logits), p_mask[:, tf.newaxis]))

    def _no_answer(self, sequence_output: tf.Tensor, start_probs: tf.Tensor, training: bool | None) -> tf.Tensor:
        """float [B] of the start's probabilities, float [B, S]."""
        weights = tf.cast(start_probs, sequence_output.dtype)[:, tf.newaxis]  # [B, 1, S]
        expected_start = tf.squeeze(tf.matmul(weights, sequence_output), 1)  # [B, H]
        hidden = self.answerable_hidden(tf.concat([expected_start, sequence_output[:, 0]], -1))
        return at_least_float32(tf.squeeze(self.answerable(self.dropout(hidden, training=training)), -1))

    def _check_length(self, length: int | None) -> None:
        for name in ("start_n_top", "end_n_top"):
            if length is not None and getattr(self, name) > length:
                raise ValueError(
                    f"{name} must be at most the sequence length, got {getattr(self, name)} and {length} tokens: pad "
                    f"the sequence or make the model with a smaller {name}"
                )

    def compute_output_spec(self, sequence_output: Any, p_mask: Any, *_: Any, **__: Any) -> dict[str, Any]:
        batch, many = sequence_output.shape[0], self.start_n_top * self.end_n_top
        return {
            "start_top_log_probs": logits_spec(self, (batch, self.start_n_top)),
            "start_top_index": keras.KerasTensor((batch, self.start_n_top), dtype="int32"),
            "end_top_log_probs": logits_spec(self, (batch, many)),
            "end_top_index": keras.KerasTensor((batch, many), dtype="int32"),
            "cls_logits": logits_spec(self, (batch,)),
        }

    def named_weights(self, prefix: str) -> dict[str, keras.Variable]:
        """Weights by name under `prefix`."""
        names = ("start", "end_hidden", "end_layer_norm", "end", "answerable_hidden", "answerable")
        return name_weights(prefix, {name: getattr(self, name) for name in names})


def _forbid(logits: tf.Tensor, p_mask: tf.Tensor) -> tf.Tensor:
    """`logits`, without a chance where `p_mask` is 1."""
    forbidden = tf.cast(p_mask, logits.dtype)
    return logits * (1 - forbidden) + _FORBIDDEN * forbidden


def _product(rows: tf.Tensor, matrix: tf.Tensor) -> tf.Tensor:
    """float [B, N, H] times [H, W] as one product, not B small ones."""
    shape = tf.shape(rows)
    product = tf.matmul(tf.reshape(rows, [-1, rows.shape[-1]]), matrix)
    return tf.reshape(product, [shape[0], shape[1], matrix.shape[-1]])
