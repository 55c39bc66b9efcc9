"""Checkpoints of a run: weights, optimizer slots, step, and what else moves, by the canonical names of the weights.

A checkpoint appears when it is complete: TensorFlow writes its files under temporary names, and the file `checkpoint`,
which says which is the newest, is replaced last. The step is all the state there is besides: order of examples, masks
and dropout follow from it and the seed.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

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
      more: further state of the run, by name: variables, or variables by name.
    """

    def __init__(
        self,
        directory: str,
        *,
        weights: Mapping[str, keras.Variable],
        optimizer: Lamb | AdamWeightDecay,
        keep: int,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        names = list(weights)
        self._directory = directory
        self._step = optimizer.iterations
        self._checkpoint = tf.train.Checkpoint(
            weights={name: variable.value for name, variable in weights.items()},
            m={name: slot.value for name, slot in zip(names, optimizer.m, strict=True)},
            v={name: slot.value for name, slot in zip(names, optimizer.v, strict=True)},
            step=self._step.value,
            **(more or {}),
        )
        _remove_empty_list(directory)
        self._manager = tf.train.CheckpointManager(
            self._checkpoint, directory, max_to_keep=keep, checkpoint_name="step"
        )

    @property
    def newest(self) -> str | None:
        """Path of the newest checkpoint."""
        return next(iter(self._found()), None)

    @property
    def newest_step(self) -> int | None:
        """Step of the newest checkpoint."""
        return _number(self.newest) if self.newest else None

    def save(self) -> str:
        """Writes a checkpoint of the present state and returns its path.

        Raises:
          OSError: if it cannot be written; the one before is still there.
        """
        number = int(self._step.numpy())
        with _quiet():  # TensorFlow logs how long its parts took
            try:
                path: str = self._manager.save(checkpoint_number=number)
            except (tf.errors.OpError, OSError) as error:
                last = "none yet" if self.newest_step is None else f"step {self.newest_step}"
                for leftover in tf.io.gfile.glob(os.path.join(self._directory, f"step-{number}_temp")):
                    tf.io.gfile.rmtree(leftover)
                reason = _reason(error).rpartition("; ")[2] or "unknown reason"
                raise OSError(
                    f"{self._directory}: the checkpoint of step {number} cannot be written: {reason}. Make room and "
                    f"give the same command again: it goes on from the last whole checkpoint ({last})"
                ) from error
        return path

    def restore(self) -> int:
        """Step of the newest whole checkpoint after putting its values in place; 0 where there is none at all.

        One that is damaged is passed over, with a warning. What an unfinished save has left is removed.

        Raises:
          ValueError: if there are checkpoints, but none that can be read and fits the model.
        """
        for leftover in tf.io.gfile.glob(os.path.join(self._directory, "step-*_temp")):
            tf.io.gfile.rmtree(leftover)  # of a process that was killed while it saved
        paths = self._found()
        for path in paths:
            try:
                with _quiet():
                    self._checkpoint.restore(path).assert_consumed()
            # A damaged file shows in whatever part of TensorFlow trips over it first.
            except (tf.errors.OpError, AssertionError, ValueError, IndexError, RuntimeError) as error:
                logging.warning(
                    "%s is damaged or not of this model, looking for an older one: %s", path, _reason(error)
                )
                continue
            step = int(self._step.numpy())
            logging.info("goes on from step %d (%s)", step, os.path.basename(path))
            return step
        if paths:
            raise ValueError(
                f"{self._directory}: none of its {len(paths)} checkpoints can be read; name another output_dir, or "
                "remove the folder to begin anew"
            )
        return 0

    def _found(self) -> list[str]:
        """Paths of all checkpoints, the newest first: those in TensorFlow's list, and what else is there.

        A process that was killed between writing a checkpoint and listing it has left one that is whole, too.
        """
        with _quiet():
            listed = tf.train.latest_checkpoint(self._directory)
        indexes = tf.io.gfile.glob(os.path.join(glob.escape(self._directory), "step-*.index"))
        paths = {path.removesuffix(".index") for path in indexes} | ({listed} if listed else set())
        return sorted(paths, key=_number, reverse=True)


def _remove_empty_list(directory: str) -> None:
    """Removes TensorFlow's list of checkpoints where it lists nothing: TensorFlow would end with an error."""
    try:
        with _quiet():
            tf.train.get_checkpoint_state(directory)
    except ValueError:
        tf.io.gfile.remove(os.path.join(directory, "checkpoint"))


def _number(path: str | None) -> int:
    digits = (path or "").rpartition("-")[2]
    return int(digits) if digits.isdecimal() else 0


def _reason(error: BaseException) -> str:
    """The first line of a message, without the graph's name of the operation."""
    lines = str(getattr(error, "message", "") or error).strip().splitlines()
    return re.sub(r"\{\{.*?\}\} | \[Op:\w+\].*", "", lines[0]) if lines else type(error).__name__


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keeps TensorFlow's warnings and news to itself."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity(min(verbosity, logging.ERROR))
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
