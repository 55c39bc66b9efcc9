"""A model's logits for examples that are in memory or arrive one batch after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from albert_tf import features
from albert_tf.modeling.encoder import ENCODER_INPUTS, Form
from albert_tf.modeling.head_model import AlbertHeadModel
from albert_tf.training import interrupts

if TYPE_CHECKING:
    from albert_tf.tasks.features import EncodedExamples


class Predictor:
    """Gives a model's logits; made once, called as often as wanted. Dropout is off.

    With several devices each predicts its share of a batch. Of several workers each predicts everything, on its own
    devices: they need not meet.

    Args:
      model: with a head that gives `logits`.
      strategy: the devices; None takes that of the present scope.
      batch_size: most rows of a batch, over the devices of this process.
      form: of the model's forward pass.
      seq_length: length that all batches are padded to, for devices that need static shapes; None pads to the longest
        row of each batch.
    """

    def __init__(
        self,
        model: AlbertHeadModel,
        strategy: tf.distribute.Strategy | None = None,
        *,
        batch_size: int = 32,
        form: Form = "packed",
        seq_length: int | None = None,
    ) -> None:
        self._model = model
        self._strategy = strategy or tf.distribute.get_strategy()
        self._form = form
        self._seq_length = seq_length
        local = self._strategy.experimental_local_results(self._strategy.run(lambda: tf.constant(0)))
        self._devices = len(local)
        self.batch_size = -(-batch_size // self._devices) * self._devices
        self._run = tf.function(self._on_devices, autograph=False, reduce_retracing=True)

    def logits(self, examples: EncodedExamples, *, sort_by_length: bool = True) -> np.ndarray | list[np.ndarray]:
        """Logits of all rows, in their order.

        Args:
          examples: the rows, labels or not.
          sort_by_length: whether rows of like length share a batch, which is faster; False takes them as they come.

        Returns:
          float [n] (regression) or [n, C]; for a token classifier a list of float [T_i, C].
        """
        lengths = examples.lengths
        order = np.argsort(lengths, kind="stable") if sort_by_length else np.arange(len(examples))
        found: list[Any] = [None] * len(examples)
        for start in range(0, len(order), self.batch_size):
            rows = order[start : start + self.batch_size]
            ids, segments = ([part[row] for row in rows] for part in (examples.input_ids, examples.segment_ids))
            for row, value in zip(rows, self.batch(ids, segments), strict=True):
                found[row] = value
        return found if self._is_by_token else np.stack(found)

    def batch(self, input_ids: Sequence[np.ndarray], segment_ids: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Logits of at most `batch_size` rows, each int32 [T_i]: a float scalar, [C] or [T_i, C] for each."""
        count = len(input_ids)
        if not 0 < count <= self.batch_size:
            raise ValueError(f"a batch must have 1 to {self.batch_size} rows, got {count}")
        # Rows without tokens fill the batch up, where its shape must not change or devices share it.
        rows = self.batch_size if self._seq_length else -(-count // self._devices) * self._devices
        padded = pad(input_ids, segment_ids, num_rows=rows, seq_length=self._seq_length)
        with interrupts.held_back():  # TensorFlow does not bear an exception while it builds a graph
            parts = self._run({name: self._split(value) for name, value in padded.items()})
        values = np.concatenate([part.numpy() for part in parts])[:count]
        if not self._is_by_token:
            return list(values)
        return [value[: len(ids)] for value, ids in zip(values, input_ids, strict=True)]

    @property
    def _is_by_token(self) -> bool:
        return self._model.HEAD == "token_classifier"

    def _split(self, value: np.ndarray) -> Any:
        if self._devices == 1:
            return tf.constant(value)
        parts = np.split(value, self._devices)

        def part(context: Any) -> tf.Tensor:  # replicas are numbered over all workers
            return tf.constant(parts[context.replica_id_in_sync_group % self._devices])

        return self._strategy.experimental_distribute_values_from_function(part)

    def _on_devices(self, inputs: Mapping[str, Any]) -> tuple[tf.Tensor, ...]:
        def predict(inputs: Mapping[str, tf.Tensor]) -> tf.Tensor:
            return self._model.forward(inputs, form=self._form, training=False)["logits"]

        results: tuple[tf.Tensor, ...] = self._strategy.experimental_local_results(
            self._strategy.run(predict, args=(inputs,))
        )
        return results


def pad(
    input_ids: Sequence[np.ndarray],
    segment_ids: Sequence[np.ndarray],
    *,
    num_rows: int | None = None,
    seq_length: int | None = None,
) -> dict[str, np.ndarray]:
    """The model's inputs, int32 [B, S] each, of rows int32 [T_i].

    Args:
      input_ids: ids of each row.
      segment_ids: segments of each row.
      num_rows: B, filled up with empty rows; None takes as many as there are.
      seq_length: S; None takes the longest row.
    """
    shape = (num_rows or len(input_ids), seq_length or max(map(len, input_ids)))
    padded = {name: np.zeros(shape, np.int32) for name in ENCODER_INPUTS}
    for row, (ids, segments) in enumerate(zip(input_ids, segment_ids, strict=True)):
        padded[features.INPUT_IDS][row, : len(ids)] = ids
        padded[features.INPUT_MASK][row, : len(ids)] = 1
        padded[features.SEGMENT_IDS][row, : len(ids)] = segments
    return padded
