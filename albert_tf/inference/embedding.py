"""Sentence vectors: a text as one vector of the encoder's width, whatever head the model has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

import numpy as np
import tensorflow as tf

from albert_tf import features
from albert_tf.modeling.encoder import ENCODER_INPUTS, Form
from albert_tf.modeling.head_model import AlbertHeadModel
from albert_tf.modeling.model_runner import pad_rows, plan_batches, quickest_form
from albert_tf.tokenizer_base import Tokenizer

Pooling = Literal["cls", "mean"]
POOLINGS: tuple[Pooling, ...] = get_args(Pooling)


class Embedder:
    """Makes vectors of texts; made once, called as often as wanted. Dropout is off.

    Args:
      model: with any head; only its encoder is used.
      tokenizer: of the model.
      pooling: "mean", of the last layer's vectors of all tokens, or "cls", its vector of [CLS].
      max_seq_length: tokens that texts are cut to; None takes all positions that the model has.
      batch_size: texts of a batch.
      sort_by_length: whether texts of like length share a batch, which is faster and changes no vector.
      form: of the encoder's forward pass; None takes `quickest_form`.

    Raises:
      ValueError: for a pooling that there is not, or a length or size out of range.
    """

    def __init__(
        self,
        model: AlbertHeadModel,
        tokenizer: Tokenizer,
        *,
        pooling: Pooling = "mean",
        max_seq_length: int | None = None,
        batch_size: int = 32,
        sort_by_length: bool = True,
        form: Form | None = None,
    ) -> None:
        if pooling not in POOLINGS:
            raise ValueError(f"pooling must be one of {', '.join(POOLINGS)}, got {pooling!r}")
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        positions = model.config.max_position_embeddings
        self._max_seq_length = positions if max_seq_length is None else max_seq_length
        if not 3 <= self._max_seq_length <= positions:
            raise ValueError(f"max_seq_length must be in [3, {positions}], got {max_seq_length}")
        self._encoder = model.encoder
        self._tokenizer = tokenizer
        self._pooling = pooling
        self._batch_size = batch_size
        self._sort_by_length = sort_by_length
        self._form = form or quickest_form(model)
        self.width = model.config.hidden_size
        signature = {name: tf.TensorSpec([None, None], tf.int32, name=name) for name in ENCODER_INPUTS}
        self._pooled = tf.function(self._pool, input_signature=[signature], autograph=False)

    def vectors(self, texts: Sequence[str]) -> np.ndarray:
        """float32 [N, H]: the vectors of N texts, in their order.

        Raises:
          ValueError: for text that is not valid Unicode.
        """
        rows = []
        for ids in self._tokenizer.encode_batch(texts):
            row = [self._tokenizer.cls_id, *ids[: self._max_seq_length - 2], self._tokenizer.sep_id]
            rows.append(
                {features.INPUT_IDS: np.array(row, np.int32), features.SEGMENT_IDS: np.zeros(len(row), np.int32)}
            )
        found = np.zeros((len(rows), self.width), np.float32)
        for numbers in plan_batches(rows, self._batch_size, sort_by_length=self._sort_by_length):
            batch = pad_rows([rows[number] for number in numbers])
            found[numbers] = self._pooled({name: tf.constant(batch[name]) for name in ENCODER_INPUTS}).numpy()
        return found

    def _pool(self, inputs: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """float32 [B, H]."""
        output = self._encoder.encode(inputs, form=self._form, training=False)["sequence_output"]  # [B, S, H]
        if self._pooling == "cls":
            return tf.cast(output[:, 0], tf.float32)
        weights = tf.cast(inputs[features.INPUT_MASK], tf.float32)
        sums = tf.einsum("bs,bsh->bh", weights, tf.cast(output, tf.float32))
        return sums / tf.reduce_sum(weights, -1, keepdims=True)
