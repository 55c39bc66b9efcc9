"""Copies that transformers' files hold of tied weights: left out where they are copies, refused where they are not.

Source: huggingface/transformers, AlbertMLMHead and TFAlbertMLMHead. The output product uses the table of word
embeddings, `predictions.decoder.weight`. Its bias has two names, `predictions.bias` and `predictions.decoder.bias`.
In the first releases (2.2 and on) these were two variables of PyTorch's model, which added both; later ones tie them.
Keras' model always had two variables, and adds `decoder/bias` alone.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from albert_tf.dialects.transformers.names import WORD_EMBEDDINGS
from albert_tf.weight_files.weight_file import WeightFile

_TABLE, _BIAS, _OTHER_BIAS = "predictions.decoder.weight", "predictions.bias", "predictions.decoder.bias"
_RESAVE = "load the model with the release that wrote it and save it with the current one"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tied:
    """What was found about copies.

    Attributes:
      instead: current name -> stored name, where another tensor than the one of that name is the weight.
      ignored: as in `ForeignModel`.
      notes: as in `ForeignModel`.
    """

    instead: Mapping[str, str]
    ignored: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]


def settle_copies(
    weights: WeightFile,
    names: Mapping[str, str],
    copies: Mapping[str, str],
    prefix: str,
    values: Mapping[str, Any],
    *,
    has_masked_lm: bool,
    keras: bool,
) -> Tied:
    """Which tensors are copies of others.

    Args:
      weights: the file.
      names: current name -> stored one.
      copies: the same of tensors that Keras stored a second time.
      prefix: of the encoder's names.
      values: content of `config.json`.
      has_masked_lm: whether the model has a masked-LM head.
      keras: whether the file is Keras'.

    Raises:
      ValueError: if a copy differs from its original, so that the model is not ours.
    """
    instead: dict[str, str] = {}
    ignored: list[tuple[str, str]] = []
    notes: list[str] = []
    table = f"{prefix}{WORD_EMBEDDINGS}"
    if table not in names and _TABLE in names:
        instead[table] = names[_TABLE]
    elif _TABLE in names:
        if has_masked_lm and not _equal(weights, names[table], names[_TABLE]):
            raise ValueError(
                f"{weights.path}: {names[_TABLE]} differs from {names[table]}; only a model whose output product uses "
                "the word embeddings themselves can be converted"
            )
        ignored.append((re.escape(names[_TABLE]), f"a copy of {names[table]}, to which it is tied"))
    elif has_masked_lm and values.get("tie_word_embeddings") is False:
        raise ValueError(
            f"{weights.path}: tie_word_embeddings is false in config.json, and {_TABLE}, the table of the output "
            "product, is not in the file; only a model whose output product uses the word embeddings themselves can be "
            "converted"
        )
    for name, stored in copies.items():
        if name in names and has_masked_lm and not _equal(weights, names[name], stored):
            raise ValueError(
                f"{weights.path}: {stored} differs from {names[name]}, of which it should be a copy; {_RESAVE}"
            )
        ignored.append((re.escape(stored), "a copy that Keras stores under the head that uses it"))
    if _OTHER_BIAS in names:
        first, second = names.get(_BIAS), names[_OTHER_BIAS]
        if first is None:
            instead[_BIAS] = second
        elif keras:
            instead[_BIAS] = second
            ignored.append((re.escape(first), f"without effect in Keras' model, which adds {second}"))
        elif has_masked_lm:
            bias, note = _choose_bias(weights, first, second)
            instead[_BIAS] = bias
            notes += note
            ignored.append((re.escape(second if bias == first else first), f"tied to {bias}, or zero"))
    return Tied(instead=instead, ignored=tuple(ignored), notes=tuple(notes))


def _choose_bias(weights: WeightFile, first: str, second: str) -> tuple[str, list[str]]:
    """Which of two stored biases is the one that is added, and what a user should know."""
    if _equal(weights, first, second):
        return first, []
    for bias, other in ((first, second), (second, first)):
        if not np.any(weights.read(other)):
            return bias, [f"{other} is zero and {bias} is not: {bias} was taken, as releases that added both mean it."]
    raise ValueError(
        f"{weights.path}: {first} and {second} differ, and neither is zero; the first releases added both, later ones "
        f"one: {_RESAVE}"
    )


def _equal(weights: WeightFile, first: str, second: str) -> bool:
    """Whether two tensors have the same dtype, shape and bits."""
    if weights.tensors[first] != weights.tensors[second]:
        return False
    # Bytes, so that -0.0 differs from 0.0 and NaN from nothing.
    one, two = (np.ascontiguousarray(weights.read(name)).reshape(-1).view(np.uint8) for name in (first, second))
    return bool(np.array_equal(one, two))
