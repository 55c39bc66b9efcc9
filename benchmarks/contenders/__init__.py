"""Libraries that do the same work with the same weights, each in a process of its own (`worker.py`)."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

# Name -> module with a class `Contender`.
NAMES = ("albert_tf", "transformers", "kerashub")
THREADS = 2
OPTIMIZER: dict[str, Any] = {"learning_rate": 1e-5, "weight_decay": 0.01, "clip_norm": 1.0}


class Contender(Protocol):
    """What each module's class `Contender` can do; made with a job, the job's fields being

    * model: folder of a classifier, in the library's own format;
    * batch_size: rows of a batch, the rows in their order;
    * input_ids: token ids of each row, without padding;
    * labels: of each row, where it is to train;
    * texts: of each row, for who begins with text.
    """

    versions: dict[str, str]

    def __init__(self, job: dict[str, Any]) -> None: ...

    def predict(self) -> np.ndarray:
        """Class probabilities float [n, C] of all rows, computed batch by batch."""

    def train_step(self, number: int) -> float:
        """Makes a step with batch `number`; the loss before it, in nats."""


def padded_batches(job: dict[str, Any]) -> list[dict[str, np.ndarray]]:
    """Batches in the rows' order, each padded to its longest row: `ids` and `mask` int32 [B, S], `labels` int32 [B].

    Not `albert_tf.modeling.model_runner.pad_rows`, which would bring TensorFlow into PyTorch's process.
    """
    size, rows, labels = job["batch_size"], job["input_ids"], job.get("labels")
    batches = []
    for start in range(0, len(rows), size):
        chosen = rows[start : start + size]
        longest = max(map(len, chosen))
        batch = {
            "ids": np.array([row + [0] * (longest - len(row)) for row in chosen], np.int32),
            "mask": np.array([[1] * len(row) + [0] * (longest - len(row)) for row in chosen], np.int32),
        }
        if labels:
            batch["labels"] = np.array(labels[start : start + size], np.int32)
        batches.append(batch)
    return batches
