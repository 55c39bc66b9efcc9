"""ModelRunner: any model's outputs for rows of any length, batch after batch, padding skipped."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

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

    With several devices each computes its share of a batch. Of several workers each computes everything, on its own
    devices: they need not meet.

    Args:
      model: with any head.
      strategy: the devices; None takes that of the present scope.
      batch_size: rows of a batch; it is rounded up to a multiple of the devices of this process.
      sort_by_length: whether rows of like length share a batch, which is faster; else batches are in the order given.
      form: of the model's forward pass; None takes `quickest_form`.
      seq_length: length that all rows are padded to, and full batches with them, for devices that need static shapes;
        None pads to the longest row of each batch.
      around_batch: makes a context that each batch is computed in.

    Raises:
      ValueError: for a batch_size below 1.
    """

    def __init__(
        self,
        model: AlbertHeadModel,
        strategy: tf.distribute.Strategy | None = None,
        *,
        batch_size: int = 32,
        sort_by_length: bool = True,
        form: Form | None = None,
        seq_length: int | None = None,
        around_batch: Callable[[], AbstractContextManager[Any]] = contextlib.nullcontext,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        self.model = model
        self.sort_by_length = sort_by_length
        self._strategy = strategy or tf.distribute.get_strategy()
        self._devices = len(self._strategy.experimental_local_results(self._strategy.run(lambda: tf.constant(0))))
        self.batch_size = self._for_all_devices(batch_size)
        self._form = form or quickest_form(model)
        self._seq_length = seq_length
        self._around_batch = around_batch
        head = model.head_config
        self._least_length = max(head.start_n_top, head.end_n_top) if model.HEAD == "conditional_span" else 1
        signature = {
            name: tf.TensorSpec([None] * (shape.count(",") + 1), tf.int32, name=name)
            for name, shape in model.INPUTS.items()
        }
        # One graph for batches of all shapes. What several devices share has no such signature.
        limits: dict[str, Any] = {"reduce_retracing": True} if self._devices > 1 else {"input_signature": [signature]}
        self._forward = tf.function(self._on_devices, autograph=False, **limits)

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
            with self._around_batch():
                parts = self._forward(inputs)
            outputs = {name: np.concatenate([part[name].numpy() for part in parts]) for name in parts[0]}
            for index, number in enumerate(numbers):
                yield number, {name: value[index] for name, value in outputs.items()}

    def _on_devices(self, inputs: Mapping[str, Any]) -> tuple[dict[str, tf.Tensor], ...]:
        """Outputs of each device of this process."""

        def forward(inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
            return self.model.forward(inputs, form=self._form, training=False)

        by_name = self._strategy.run(forward, args=(inputs,))
        parts = {name: self._strategy.experimental_local_results(value) for name, value in by_name.items()}
        return tuple({name: part[device] for name, part in parts.items()} for device in range(self._devices))

    def _padded(self, rows: Sequence[Inputs]) -> dict[str, Any]:
        # Rows without tokens fill the batch up, where its shape must not change or devices share it.
        count = self.batch_size if self._seq_length else self._for_all_devices(len(rows))
        length = self._seq_length or self._least_length
        padded = pad_rows(rows, least_length=length, num_rows=count)
        return {name: self._shared(padded[name]) for name in self.model.INPUTS}

    def _for_all_devices(self, count: int) -> int:
        return -(-count // self._devices) * self._devices

    def _shared(self, value: np.ndarray) -> Any:
        """An input, [B, ...], a share of it on each device."""
        if self._devices == 1:
            return tf.constant(value)
        parts = np.split(value, self._devices)

        def part(context: Any) -> tf.Tensor:  # replicas are numbered over all workers
            return tf.constant(parts[context.replica_id_in_sync_group % self._devices])

        return self._strategy.experimental_distribute_values_from_function(part)


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


def pad_rows(rows: Sequence[Inputs], *, least_length: int = 1, num_rows: int | None = None) -> dict[str, np.ndarray]:
    """A batch int32 [B, ..., S] of rows int32 [..., T], each input padded to its longest.

    Args:
      rows: inputs by name; at least one, all with the same names and numbers of choices. Where there is no
        `input_mask`, all positions are tokens.
      least_length: least S.
      num_rows: B, filled up with rows of padding; None takes as many as there are.
    """
    rows = [{features.INPUT_MASK: np.ones_like(row[features.INPUT_IDS]), **row} for row in rows]
    padded = {}
    for name, first in rows[0].items():
        longest = max(row[name].shape[-1] for row in rows)
        longest = longest if name == features.MASKED_LM_POSITIONS else max(longest, least_length)
        batch = np.full((num_rows or len(rows), *first.shape[:-1], longest), _FILL.get(name, 0), np.int32)
        for index, row in enumerate(rows):
            batch[index, ..., : row[name].shape[-1]] = row[name]
        padded[name] = batch
    return padded
