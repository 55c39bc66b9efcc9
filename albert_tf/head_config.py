"""HeadConfig: which head stands on the encoder, and `head_config.json` in and out."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, Self, get_args

from albert_tf.json_object import JsonConfig

Head = Literal[
    "pretraining",
    "masked_lm",
    "encoder",
    "classifier",
    "regression",
    "multiple_choice",
    "token_classifier",
    "span",
    "conditional_span",
]
HEADS: tuple[Head, ...] = get_args(Head)
LABELLED: tuple[Head, ...] = ("classifier", "token_classifier")
# Heads that read the sentence vector; the others can do without a pooler.
POOLED: tuple[Head, ...] = ("pretraining", "classifier", "regression", "multiple_choice")
# Far beyond any set of labels: a damaged file must not ask for all the memory there is.
_MOST_LABELS = 1 << 20


@dataclasses.dataclass(frozen=True, kw_only=True)
class HeadConfig(JsonConfig):
    """The head of a model. Checks itself when made and never changes.

    Attributes:
      head: "pretraining" (masked LM and sentence order), "masked_lm" (that alone), "encoder" (no head), "classifier"
        (one label for one or two texts), "regression" (one number), "multiple_choice" (RACE), "token_classifier" (one
        label for each token), "span" (SQuAD 1.1), "conditional_span" (SQuAD 2.0: the end given the start, and
        answerability).
      num_labels: labels (C) of a classifier or token classifier; None for other heads.
      labels: their names, one for each; None if they are not known.
      dropout_prob: dropout probability before the head's last layer, in [0, 1); none for the pretraining heads. If it
        is not named, that of the original: 0.1, and 0 for "span".
      start_n_top: starts that "conditional_span" goes on with.
      end_n_top: ends that it gives for each of them.
      pooler: whether the model has a pooler; heads that read the sentence vector need one.
    """

    head: Head = "pretraining"
    num_labels: int | None = None
    labels: tuple[str, ...] | None = None
    dropout_prob: float | None = None
    start_n_top: int = 5
    end_n_top: int = 5
    pooler: bool = True

    def __post_init__(self) -> None:
        if self.head not in HEADS:
            raise ValueError(f"head must be one of {', '.join(HEADS)}, got {self.head!r}")
        for name in ("start_n_top", "end_n_top"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")
        if self.dropout_prob is None:
            object.__setattr__(self, "dropout_prob", 0.0 if self.head == "span" else 0.1)
        if isinstance(self.dropout_prob, bool) or not isinstance(self.dropout_prob, (int, float)):
            raise ValueError(f"dropout_prob must be a number, got {self.dropout_prob!r}")
        if not 0.0 <= self.dropout_prob < 1.0:
            raise ValueError(f"dropout_prob must be in [0, 1), got {self.dropout_prob}")
        if not isinstance(self.pooler, bool):
            raise ValueError(f"pooler must be true or false, got {self.pooler!r}")
        if self.head in POOLED and not self.pooler:
            raise ValueError(f"pooler must be true for the head {self.head!r}, which reads the sentence vector")
        self._check_labels()

    def _check_labels(self) -> None:
        if self.labels is not None:
            if not isinstance(self.labels, tuple) or not all(isinstance(label, str) for label in self.labels):
                raise ValueError(f"labels must be strings, got {self.labels!r}")
            if len(set(self.labels)) < len(self.labels):
                raise ValueError("labels must differ from each other")
            if self.num_labels is None:
                object.__setattr__(self, "num_labels", len(self.labels))
        if self.head not in LABELLED:
            if self.num_labels is not None:
                raise ValueError(f"num_labels and labels are for {' and '.join(LABELLED)}, the head is {self.head!r}")
            return
        if isinstance(self.num_labels, bool) or not isinstance(self.num_labels, int):
            raise ValueError(f"num_labels must be a whole number for the head {self.head!r}, got {self.num_labels!r}")
        if not 1 <= self.num_labels <= _MOST_LABELS:
            raise ValueError(f"num_labels must be in [1, {_MOST_LABELS}], got {self.num_labels}")
        if self.labels is not None and len(self.labels) != self.num_labels:
            raise ValueError(f"labels must be {self.num_labels}, as many as num_labels, got {len(self.labels)}")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Config from a mapping; an unknown key is refused by name.

        Raises:
          ValueError: for an unknown key or a value out of range.
        """
        labels = values.get("labels")
        return super().from_dict({**values, "labels": tuple(labels)} if isinstance(labels, list) else values)
