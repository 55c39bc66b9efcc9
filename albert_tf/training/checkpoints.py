"""Checkpoints of a run: weights, optimizer slots and step, by the canonical names of the weights.

A checkpoint appears when it is complete: TensorFlow writes its files under temporary names, and the file `checkpoint`,
which says which is the newest, is replaced last. The step is all the state there is besides: order of examples, masks
and dropout follow from it and the seed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import keras
import tensorflow as tf
from absl import logging

from albert_tf.training.optimizers import AdamWeightDecay, Lamb


class Checkpoints:
    """The checkpoints in a folder.

    Args:
      directory: the folder, local or remote.
      weights: variables by canonical name.
      optimizer: built on exactly these variables, in this order.
      keep: how many of the newest are kept.
    """

    def __init__(
        self, directory: str, *, weights: Mapping[str, keras.Variable], optimizer: Lamb | AdamWeightDecay, keep: int
    ) -> None:
        names = list(weights)
        self._step = optimizer.iterations
        self._checkpoint = tf.train.Checkpoint(
            weights={name: variable.value for name, variable in weights.items()},
            m={name: slot.value for name, slot in zip(names, optimizer.m, strict=True)},
            v={name: slot.value for name, slot in zip(names, optimizer.v, strict=True)},
            step=self._step.value,
        )
        self._manager = tf.train.CheckpointManager(
            self._checkpoint, directory, max_to_keep=keep, checkpoint_name="step"
        )

    @property
    def newest(self) -> str | None:
        """Path of the newest checkpoint."""
        path: str | None = self._manager.latest_checkpoint
        return path

    def save(self) -> str:
        """Writes a checkpoint of the present state and returns its path."""
        verbosity = logging.get_verbosity()
        logging.set_verbosity(min(verbosity, logging.WARNING))  # TensorFlow logs how long its parts took
        try:
            path: str = self._manager.save(checkpoint_number=int(self._step.numpy()))
        finally:
            logging.set_verbosity(verbosity)
        return path

    def restore(self) -> int:
        """Step of the newest checkpoint after putting its values in place; 0 where there is none.

        Raises:
          ValueError: if the newest checkpoint does not fit the model or cannot be read.
        """
        path = self.newest
        if path is None:
            return 0
        try:
            status = self._checkpoint.restore(path)
            status.assert_consumed()
        except (tf.errors.OpError, AssertionError, ValueError) as error:
            reason = str(getattr(error, "message", "") or error).strip().splitlines()[0]
            raise ValueError(f"{path}: not a whole checkpoint of this model: {reason}") from error
        step = int(self._step.numpy())
        logging.info("goes on from step %d (%s)", step, os.path.basename(path))
        return step
