"""Sentence objectives in training: what they leave untrained, and how their figures are called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from albert_tf.features import SentenceObjective

_Value = TypeVar("_Value")

# Figures are computed under the first name, whatever the labels mean.
_COMPUTED = "sentence_order_"
_SHOWN: dict[SentenceObjective, str] = {"sop": "sentence_order_", "nsp": "next_sentence_"}

# Names of weights, by their beginnings, that only a sentence objective reaches.
_PAIR_WEIGHTS = ("encoder/pooler/", "sentence_order/")


def name_figures(figures: Mapping[str, _Value], objective: SentenceObjective) -> dict[str, _Value]:
    """Figures by the names of `objective`: "next_sentence_" for "nsp"; without those of pairs for "none"."""
    if objective == "none":
        return {name: value for name, value in figures.items() if not name.startswith(_COMPUTED)}
    shown = _SHOWN[objective]
    return {
        shown + name.removeprefix(_COMPUTED) if name.startswith(_COMPUTED) else name: value
        for name, value in figures.items()
    }


def is_trained(name: str, objective: SentenceObjective) -> bool:
    """Whether the weight `name` takes part in the loss. With "none" the pooler and the pairs' head keep their values.

    Without a gradient, decay alone would take them to 0: LAMB scales a step to the size of the weights.
    """
    return objective != "none" or not name.startswith(_PAIR_WEIGHTS)
