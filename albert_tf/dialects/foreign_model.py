"""ForeignModel: what a dialect finds at a path."""

from __future__ import annotations

import dataclasses

from albert_tf.config import AlbertConfig
from albert_tf.dialects.tables import Entry
from albert_tf.head_config import HeadConfig
from albert_tf.tokenizer_base import Tokenizer
from albert_tf.weight_files.weight_file import WeightFile


@dataclasses.dataclass(frozen=True, kw_only=True)
class ForeignModel:
    """A model in another project's files, opened but not read.

    Attributes:
      config: its shape in our terms.
      head: its head in our terms.
      table: an entry for each weight of `weight_shapes(config, head)`.
      weights: the file of its tensors; whoever got this object closes it.
      ignored: regular expressions (full match) of tensors that are no weights: optimizer slots, counters, tied copies.
        Each with the reason, for the report.
      tokenizer: its tokenizer; None if no tokenizer files lie beside the weights.
      notes: what was decided and a user should know, for the report, one sentence each.
    """

    config: AlbertConfig
    head: HeadConfig
    table: tuple[Entry, ...]
    weights: WeightFile
    ignored: tuple[tuple[str, str], ...] = ()
    tokenizer: Tokenizer | None = None
    notes: tuple[str, ...] = ()
