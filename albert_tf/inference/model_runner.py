"""ModelRunner: any model's outputs for rows of any length, batch after batch, padding skipped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from albert_tf import features
from albert_tf.modeling.encoder import Form
from albert_tf.modeling.head_model import AlbertHeadModel

Inputs = Mapping[str, np.ndarray]
Outputs = Mapping[str, np.ndarray]

# What stands behind a row's end: padding is no place for an answer.
_FILL = {features.P_MASK: 1}


class ModelRunner:
    """Runs a model on rows without padding; made once, called as often as wanted. Dropout is off.

    Args:
      model: with any head.
      batch_size: rows of a batch.
      sort_by_length: whether rows of like length share a batch, which is faster; else batches are in the order given.
      form: of the model's forward pass; None takes `quickest_form`.

    Raises:
      ValueError: for a batch_size below 1.
    """

    def __init__(
        self,
        model: AlbertHeadModel,
        *,
        batch_size: int = 32,
        sort_by_length: bool = True,
        form: Form | None = None,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        self.model = model
        self.batch_size = batch_size
        self.sort_by_length = sort_by_length
        self._form = form or quickest_form(model)
        head = model.head_config
        self._least_length = max(head.start_n_top, head.end_n_top) if model.HEAD == "conditional_span" else 1
        signature = {
            name: tf.TensorSpec([None] * (shape.count(",") + 1), tf.int32, name=name)
            for name, shape in model.INPUTS.items()
        }
        # One graph for batches of all shapes.
        self._forward = tf.function(self._outputs, input_signature=[signature], autograph=False)

    def run(self, rows: Sequence[Inputs]) -> Iterator[tuple[int, Outputs]]:
        """Outputs of each row with the row's number, as they come: batches of like length first.

        Args:
          rows: the model's inputs, int32 [T] each ([C, T] for multiple choice; [P] positions); `input_mask` may be left
            out where all positions are tokens.

        Yields:
          The number of a row, and its outputs by name: [S, ...] or [...], with S of its batch, at least T.
        """
        for numbers in plan_batches(rows, self.batch_size, sort_by_length=self.sort_by_length):
            inputs = self._padded([rows[number] for number in numbers])
            outputs = {name: value.numpy() for name, value in self._forward(inputs).items()}
            for index, number in enumerate(numbers):
                yield number, {name: value[index] for name, value in outputs.items()}

    def _outputs(self, inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return self.model.forward(inputs, form=self._form, training=False)

    def _padded(self, rows: Sequence[Inputs]) -> dict[str, tf.Tensor]:
        padded = pad_rows(rows, least_length=self._least_length)
        return {name: tf.constant(padded[name]) for name in self.model.INPUTS}


def quickest_form(model: AlbertHeadModel) -> Form:
    """Padding skipped; one loop over the layers where they are alike, whose graph is there seconds earlier."""
    return "packed_loop" if model.config.parameter_sharing == "all" else "packed"


def plan_batches(rows: Sequence[Inputs], batch_size: int, *, sort_by_length: bool) -> Iterator[list[int]]:
    """Numbers of the rows of each batch; rows with another number of choices are in another batch."""
    shapes = [row[features.INPUT_IDS].shape for row in rows]
    order = sorted(range(len(rows)), key=shapes.__getitem__) if sort_by_length else range(len(rows))
    batch: list[int] = []
    for number in order:
        if batch and (len(batch) == batch_size or shapes[number][:-1] != shapes[batch[0]][:-1]):
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch


def pad_rows(rows: Sequence[Inputs], *, least_length: int = 1) -> dict[str, np.ndarray]:
    """A batch int32 [B, ..., S] of rows int32 [..., T], each input padded to its longest.

    Args:
      rows: inputs by name; at least one, all with the same names and numbers of choices. Where there is no
        `input_mask`, all positions are tokens.
      least_length: least S.
    """
    rows = [{features.INPUT_MASK: np.ones_like(row[features.INPUT_IDS]), **row} for row in rows]
    padded = {}
    for name, first in rows[0].items():
        longest = max(row[name].shape[-1] for row in rows)
        longest = longest if name == features.MASKED_LM_POSITIONS else max(longest, least_length)
        batch = np.full((len(rows), *first.shape[:-1], longest), _FILL.get(name, 0), np.int32)
        for index, row in enumerate(rows):
            batch[index, ..., : row[name].shape[-1]] = row[name]
        padded[name] = batch
    return padded
