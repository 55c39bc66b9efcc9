"""Leaving the padding out: a batch of B x S positions as the T rows that hold tokens.

Dense layers and LayerNorm treat every position alone, so they may run on [T, H] instead of [B, S, H]; only attention
needs to know which row belongs to which sequence, and unpacks its operands for as long as it needs them.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf


class PackedLayout:
    """Where the T tokens of a batch stand in its B x S grid. Masks may have holes, rows may be empty.

    Args:
      input_mask: int [B, S], 1 at tokens and 0 at padding.
      custom_gradients: whether the gradients of `pack` and `unpack` are ours. An exported graph cannot hold them, and
        who loads one that had them is warned.
    """

    def __init__(self, input_mask: tf.Tensor, *, custom_gradients: bool = True) -> None:
        self.input_mask = input_mask
        self._custom_gradients = custom_gradients
        shape = tf.shape(input_mask)
        self.batch_size, self.seq_length = shape[0], shape[1]
        is_token = tf.reshape(input_mask, [-1]) > 0  # [B*S]
        self.token_indices = tf.cast(tf.where(is_token)[:, 0], tf.int32)  # [T], into B*S
        # Row of each grid position; padding reads the row of zeros that stands behind the last token.
        rows = tf.cumsum(tf.cast(is_token, tf.int32)) - 1
        self.row_of_position = tf.where(is_token, rows, tf.size(self.token_indices))  # [B*S]

    def pack(self, grid: tf.Tensor) -> tf.Tensor:
        """Rows [T, W] of `grid` [B, S, W] that hold tokens."""

        # The gradient of each direction is the other one, a gather. The derived one would be a scatter, which is slow.
        @tf.custom_gradient
        def pack(grid: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
            return self._to_rows(grid), self._to_grid

        return pack(grid) if self._custom_gradients else self._to_rows(grid)

    def unpack(self, rows: tf.Tensor) -> tf.Tensor:
        """Grid [B, S, W] of `rows` [T, W]; padded positions are 0."""

        @tf.custom_gradient
        def unpack(rows: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
            return self._to_grid(rows), self._to_rows

        return unpack(rows) if self._custom_gradients else self._to_grid(rows)

    def first(self, rows: tf.Tensor) -> tf.Tensor:
        """First position [B, 1, W] of each sequence of `rows` [T, W]; 0 where that is padding."""
        indices = tf.reshape(self.row_of_position, [self.batch_size, self.seq_length])[:, 0]  # [B]

        # The derived gradient would be a list of rows, which TensorFlow does not add up without copying it.
        @tf.custom_gradient
        def first(rows: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
            count = tf.shape(rows)[0]
            return chosen(rows), lambda upstream: tf.math.unsorted_segment_sum(upstream[:, 0], indices, count + 1)[:-1]

        def chosen(rows: tf.Tensor) -> tf.Tensor:
            return tf.expand_dims(tf.gather(self._with_padding(rows), indices), 1)  # [B, 1, W]

        return first(rows) if self._custom_gradients else chosen(rows)

    def pack_ids(self, ids: tf.Tensor) -> tf.Tensor:
        """Ids int32 [T] of `ids` int32 [B, S]."""
        return tf.gather(tf.reshape(ids, [-1]), self.token_indices)

    def positions(self) -> tf.Tensor:
        """Position int32 [T] of each token in its own sequence."""
        return tf.math.floormod(self.token_indices, self.seq_length)

    def _to_rows(self, grid: tf.Tensor) -> tf.Tensor:
        flat = tf.reshape(grid, [self.batch_size * self.seq_length, grid.shape[-1]])  # [B*S, W]
        return tf.gather(flat, self.token_indices)  # [T, W]

    def _to_grid(self, rows: tf.Tensor) -> tf.Tensor:
        grid = tf.gather(self._with_padding(rows), self.row_of_position)  # [B*S, W]
        return tf.reshape(grid, [self.batch_size, self.seq_length, rows.shape[-1]])

    @staticmethod
    def _with_padding(rows: tf.Tensor) -> tf.Tensor:
        return tf.concat([rows, tf.zeros([1, rows.shape[-1]], rows.dtype)], axis=0)  # [T+1, W]
