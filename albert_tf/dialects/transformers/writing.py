"""Writes a directory that the current release's `from_pretrained` reads."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.dialects.tables import Entry
from albert_tf.dialects.transformers.configuration import write_configuration
from albert_tf.dialects.transformers.names import PREFIX, PROJECTION, check_expressible, table
from albert_tf.dialects.transformers.tokenizers import check_tokenizer, tokenizer_files
from albert_tf.files import write_whole
from albert_tf.head_config import HeadConfig
from albert_tf.tokenizer_base import Tokenizer
from albert_tf.weight_files.safetensors_file import write_safetensors


def save_model(
    folder: str, config: AlbertConfig, head: HeadConfig, weights: Mapping[str, np.ndarray], tokenizer: Tokenizer | None
) -> tuple[str, ...]:
    """Writes `config.json`, `model.safetensors` and the tokenizer's files into the empty folder `folder`; its notes.

    Each weight is taken once and keeps its bits and dtype. The library's model always has a projection behind the
    embeddings: for a model without one an identity matrix and a bias of zeros are written, which change no number.

    Raises:
      ValueError: if the library has no such model or tokenizer; nothing is written then.
    """
    check_expressible(config, head)
    if tokenizer is not None:
        check_tokenizer(tokenizer, config.vocab_size)
    theirs = _TheirWeights(config, table(config, head), weights, "" if head.head == "encoder" else PREFIX)
    write_safetensors(os.path.join(folder, "model.safetensors"), theirs, metadata={"format": "pt"})
    files: dict[str, bytes | str] = {
        "config.json": write_configuration(config, head, dtype=theirs.dtype, tokenizer=tokenizer)
    }
    if tokenizer is not None:
        files |= tokenizer_files(tokenizer, longest=config.max_position_embeddings)
    for name, content in files.items():
        write_whole(os.path.join(folder, name), content)
    if config.embedding_projection:
        return ()
    return (
        "the library's models always have a projection: an identity matrix and zeros stand for the one that is not",
    )


class _TheirWeights(Mapping[str, np.ndarray]):
    """The weights by their names, taken when asked for.

    Attributes:
      dtype: the widest dtype of those that were taken.
    """

    def __init__(
        self, config: AlbertConfig, entries: tuple[Entry, ...], weights: Mapping[str, np.ndarray], prefix: str
    ) -> None:
        self._entries = {entry.theirs: entry for entry in entries}
        self._weights = weights
        self._width = config.hidden_size
        # After all others, so that the dtype is known.
        projection = [f"{prefix}{PROJECTION}.{leaf}" for leaf in ("weight", "bias")]
        self._identity = [] if config.embedding_projection else projection
        self._dtypes: dict[str, np.dtype] = {}

    @property
    def dtype(self) -> str:
        if {"float16", "bfloat16"} <= self._dtypes.keys():  # neither holds the other's numbers
            return "float32"
        return max(self._dtypes.values(), key=lambda dtype: dtype.itemsize).name

    def __getitem__(self, name: str) -> np.ndarray:
        if name in self._identity:
            shape = (self._width, self._width) if name.endswith("weight") else (self._width,)
            value = np.eye(self._width) if len(shape) == 2 else np.zeros(shape)
            return value.astype(self._dtypes.get(self.dtype, np.dtype(np.float32)))
        entry = self._entries[name]
        value = self._weights[entry.ours]
        self._dtypes[value.dtype.name] = value.dtype
        return entry.transform.to_theirs(value)

    def __iter__(self) -> Iterator[str]:
        yield from self._entries
        yield from self._identity

    def __len__(self) -> int:
        return len(self._entries) + len(self._identity)
