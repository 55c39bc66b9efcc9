"""The model that a run starts from: its encoder is kept, and its head where it is the one that is wanted."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
from absl import logging

from albert_tf import conversion
from albert_tf.config import AlbertConfig
from albert_tf.head_config import HeadConfig
from albert_tf.tokenizer_base import Tokenizer

if TYPE_CHECKING:
    from albert_tf.modeling.head_model import AlbertHeadModel

_ENCODER = "encoder/"


@dataclasses.dataclass(frozen=True, kw_only=True)
class WarmStart:
    """A model to start from, opened once and closed again.

    Attributes:
      path: a model directory, or what another project has written.
      format: the other project's format; None finds it out.
      own_head: what `albert_tf.load_model` takes as `head`, where the files cannot tell it.
      config: its shape.
      head: its head.
      tokenizer: its tokenizer; None where it has none.
      digest: of all its weights.
    """

    path: str
    format: str | None
    own_head: str | None
    config: AlbertConfig
    head: HeadConfig
    tokenizer: Tokenizer | None
    digest: str

    def keeps_head(self, head: HeadConfig) -> bool:
        """Whether the head that is wanted is the one that is there: of that kind, with those labels.

        Of the two pretraining heads one may be there alone.
        """
        if {head.head, self.head.head} <= {"pretraining", "masked_lm"}:
            return True
        same = (head.head, head.num_labels) == (self.head.head, self.head.num_labels)
        return same and self.head.labels in (None, head.labels)

    def assign(self, model: AlbertHeadModel) -> None:
        """Puts the weights into `model`, of the same shape; those that are not there stay as they are.

        Raises:
          ValueError: if the files are damaged, or hold values that are not finite.
        """
        from albert_tf.stored_weights import assign_weights

        is_kept = self.keeps_head(model.head_config)
        variables = model.named_weights()
        opened = conversion.open_weights(self.path, format=self.format, head=self.own_head)
        with opened as (_, found, weights):
            taken = {
                name: variable
                for name, variable in variables.items()
                if name in weights and (is_kept or name.startswith(_ENCODER))
            }
            kept = _Selected(weights, taken)
            assign_weights(taken, kept, source=found.weights.path)
        new = sorted({name.rpartition("/")[0] for name in variables if name not in taken})
        logging.info("%s: %d weights taken; new: %s", self.path, len(taken), ", ".join(new) or "none")


class _Selected(Mapping[str, np.ndarray]):
    """Some of the weights, each read when it is asked for."""

    def __init__(self, weights: Mapping[str, np.ndarray], names: Collection[str]) -> None:
        self._weights, self._names = weights, names

    def __getitem__(self, name: str) -> np.ndarray:
        return self._weights[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def read_warm_start(path: str | os.PathLike[str], *, format: str | None = None, head: str | None = None) -> WarmStart:
    """What is at `path`, without building a model.

    Args:
      path: a model directory, or what another project has written: a checkpoint prefix, a file or a folder.
      format: the other project's format; None finds it out.
      head: the head, where the files cannot tell it.

    Raises:
      FileNotFoundError: if `path` or a file is missing.
      ValueError: if a file is damaged, or of no known format.
    """
    digest = hashlib.sha256()
    with conversion.open_weights(path, format=format, head=head) as (_, found, weights):
        for name in sorted(weights):
            value = weights[name]
            digest.update(f"{name} {value.dtype.name} {value.shape}\n".encode())
            digest.update(np.ascontiguousarray(value).view(np.uint8).data)
        return WarmStart(
            path=os.fspath(path),
            format=format,
            own_head=head,
            config=found.config,
            head=found.head,
            tokenizer=found.tokenizer,
            digest=digest.hexdigest(),
        )
