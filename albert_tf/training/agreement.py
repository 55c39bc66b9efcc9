"""What the workers of a run agree on between two calls into the graph, and what they say when one of them is gone.

Each worker measures its own steps and gets its own signals, but all must make the same calls. So before each call they
exchange a few numbers, by the same collective operations that sum the gradients. A run of one process exchanges
nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from albert_tf.training import interrupts
from albert_tf.training.cluster import Cluster

_TERMINATED = 143  # exit code after SIGTERM, as a shell counts it: 128 and the signal's number
# What TensorFlow's errors hold when a worker is gone: operations of the cluster, or the service that watches it.
_LOSS = re.compile(r"[Cc]ollective|[Cc]oordination|/job:")
_TASK = re.compile(r"/job:(\w+)/(?:replica:\d+/)?task:(\d+)")


class Agreement:
    """What this process settles with the other workers of its run.

    Args:
      strategy: of the run.
      cluster: the workers; None where there is this process alone.
    """

    def __init__(self, strategy: tf.distribute.Strategy, cluster: Cluster | None) -> None:
        self._strategy = strategy
        self._cluster = cluster
        self._workers = 1 if cluster is None else len(cluster.tasks)
        self._received: list[int] = []
        self._told = np.zeros(self._workers, np.int64)  # signal that each worker got
        self._sums: dict[tuple[int, ...], Callable[[tf.Tensor], tf.Tensor]] = {}  # by shape

    @property
    def is_chief(self) -> bool:
        """Whether this process is the one that writes."""
        return self._cluster is None or self._cluster.is_chief

    @property
    def is_needed(self) -> bool:
        """Whether there are other workers."""
        return self._workers > 1

    def gather(self, values: np.ndarray) -> np.ndarray:
        """`values` of all workers, int64 [workers, ...], the chief's first; all give the same shape."""
        values = np.asarray(values, np.int64)
        if self._cluster is None or not self.is_needed:
            return values[np.newaxis]
        own = np.zeros((self._workers, *values.shape), np.int64)
        own[self._cluster.number] = values
        if own.shape not in self._sums:
            graph = tf.function(self._sum_over_workers, autograph=False)
            self._sums[own.shape] = graph.get_concrete_function(tf.TensorSpec(own.shape, tf.int64))
        summed: np.ndarray = self._sums[own.shape](tf.constant(own)).numpy()
        return summed

    def _sum_over_workers(self, values: tf.Tensor) -> tf.Tensor:
        """Sum over workers, of int64 of any shape; the first replica of each gives it."""
        each = self._strategy.num_replicas_in_sync // self._workers

        def replica_sum() -> tf.Tensor:
            context = tf.distribute.get_replica_context()
            is_first = tf.equal(tf.convert_to_tensor(context.replica_id_in_sync_group) % each, 0)
            summed: tf.Tensor = context.all_reduce(tf.distribute.ReduceOp.SUM, values * tf.cast(is_first, tf.int64))
            return summed

        return self._strategy.experimental_local_results(self._strategy.run(replica_sum))[0]

    def wait(self) -> None:
        """Returns when all workers have come here."""
        self.gather(np.zeros([1]))

    def check_start(self, step: int, settings: Mapping[str, Any]) -> None:
        """Refuses to begin where workers differ.

        Args:
          step: that this worker goes on from.
          settings: what must be the same on all, ready for JSON.

        Raises:
          ValueError: on all workers, naming the first that differs from the chief and in what.
        """
        if self._cluster is None or not self.is_needed:
            return
        found = self.gather(np.array([step, *map(_digest, settings.values())], np.int64))
        differs = found != found[0]  # [workers, 1 + settings]
        if not differs.any():
            return
        number = int(np.argmax(differs.any(axis=1)))
        other = [name for name, is_other in zip(settings, differs[number, 1:], strict=True) if is_other]
        if other:
            raise ValueError(
                f"{self._cluster.place(number)} was started with other settings than {self._cluster.name(0)}: "
                f"{', '.join(other)}; start all workers again with the same ones"
            )
        raise ValueError(
            f"{self._cluster.place(number)} goes on from step {found[number, 0]}, {self._cluster.name(0)} from "
            f"{found[0, 0]}: output_dir must be a folder that all workers see"
        )

    @contextlib.contextmanager
    def noting_interrupts(self) -> Iterator[None]:
        """With several workers, keeps the first Ctrl-C or SIGTERM of the block for `next_steps`."""
        if not self.is_needed:
            yield
            return
        with interrupts.held_back() as self._received:
            yield

    def held_back(self) -> contextlib.AbstractContextManager[Any]:
        """Round a call into the graph: holds interrupts back where `next_steps` does not look for them."""
        return contextlib.nullcontext() if self.is_needed else interrupts.held_back()

    def next_steps(self, affordable: int) -> int:
        """How many steps all workers make next, at most `affordable`; 0 if one of them was told to stop."""
        if not self.is_needed:
            return affordable
        told = self._received[0] if self._received else 0
        self._told, steps = self.gather(np.array([told, affordable])).T
        return 0 if self._told.any() else int(steps.min())

    def leave(self) -> None:
        """Ends this worker after `next_steps` gave 0, as its own signal would, else as SIGTERM does.

        Raises:
          KeyboardInterrupt, SystemExit: always.
        """
        if self._received:
            received = self._received.pop()  # so that it is not raised a second time
            raise KeyboardInterrupt if received == interrupts.CTRL_C else SystemExit(128 + received)
        names = [self._cluster.place(int(number)) for number in np.flatnonzero(self._told)] if self._cluster else []
        logging.warning("%s was told to stop, and so do all workers", " and ".join(names))
        raise SystemExit(_TERMINATED)

    @contextlib.contextmanager
    def naming_losses(self, newest_step: Callable[[], int | None]) -> Iterator[None]:
        """Says in one line that a worker is gone when operations of the block fail by that.

        Args:
          newest_step: that of the newest checkpoint, None where none is known.

        Raises:
          ConnectionError: naming the worker and what to do.
        """
        try:
            yield
        except tf.errors.OpError as error:
            if self._cluster is None or not self.is_needed or not _LOSS.search(error.message or ""):
                raise
            step = newest_step()
            checkpoint = "the newest checkpoint, if there is one" if step is None else f"the checkpoint of step {step}"
            raise ConnectionError(
                f"{self._cluster.place(_lost(error.message, self._cluster))} is gone or does not answer; see what it "
                f"said, and start all workers again with the same command: they go on from {checkpoint}"
            ) from error


def _lost(message: str, cluster: Cluster) -> int:
    """Number of the worker that an error is about; the chief, whom all ask who is there, where it names none."""
    numbers = {(job, index): number for number, (job, index, _) in enumerate(cluster.tasks)}
    named = [numbers.get((job, int(index))) for job, index in _TASK.findall(message)]
    return next((number for number in named if number not in (None, cluster.number)), 0)


def _digest(value: Any) -> int:
    """int64 that stands for a value."""
    content = hashlib.sha256(json.dumps(value, sort_keys=True).encode()).digest()
    return int.from_bytes(content[:8], "little", signed=True)
