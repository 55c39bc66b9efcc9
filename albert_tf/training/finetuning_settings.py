"""Settings of fine-tuning: all that a run depends on besides examples and the model that it starts from."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from albert_tf.config import AlbertConfig
from albert_tf.head_config import HeadConfig
from albert_tf.training.settings import DECISIVE, RunSettings


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuningSettings(RunSettings):
    """One fine-tuning run. Field names are the door's flags.

    Attributes:
      model: model directory, or another project's checkpoint, to start from.
      max_seq_length: most tokens of a row.
      optimizer: "adamw", as in the original, or "lamb".
      bucket_by_length: whether rows of like length share a batch.
      dropout: dropout probability in the encoder, hidden states and attention alike; None keeps the model's own.
      classifier_dropout: dropout probability before the head.
    """

    model: str
    max_seq_length: int
    optimizer: str = "adamw"
    bucket_by_length: bool = True
    dropout: float | None = None
    classifier_dropout: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_counts(["max_seq_length"])
        for name in ("dropout", "classifier_dropout"):
            value = getattr(self, name)
            if value is not None and not 0.0 <= value < 1.0:
                raise ValueError(f"{name} must be in [0, 1), got {value}")

    def config(self, start: AlbertConfig) -> AlbertConfig:
        """Shape of the model: that of the one to start from, with this run's dropout.

        Raises:
          ValueError: if that model has not as many positions as `max_seq_length`.
        """
        if self.max_seq_length > start.max_position_embeddings:
            raise ValueError(
                f"max_seq_length must be at most the model's max_position_embeddings, {start.max_position_embeddings}, "
                f"got {self.max_seq_length}"
            )
        if self.dropout is None:
            return start
        return dataclasses.replace(start, hidden_dropout_prob=self.dropout, attention_probs_dropout_prob=self.dropout)

    def fingerprint(
        self, *, data: str, start: str, config: AlbertConfig, head: HeadConfig, task: Mapping[str, Any]
    ) -> dict[str, Any]:
        """What decides the weights, ready for JSON.

        Args:
          data: digest of the training rows.
          start: digest of the weights to start from.
          config: shape of the model.
          head: its head.
          task: what is known of the task.
        """
        decisive = (*DECISIVE, "max_seq_length", "bucket_by_length")
        return {
            "data": data,
            "start": start,
            "task": task["name"],
            **{name: getattr(self, name) for name in decisive},
            **{f"config.{name}": value for name, value in config.to_dict().items()},
            "head": head.head,
            "labels": None if head.labels is None else list(head.labels),
            "classifier_dropout": head.dropout_prob,
        }
