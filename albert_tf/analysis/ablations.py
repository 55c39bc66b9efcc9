"""Ablations, small models that differ in one setting, trained alike: what a recipe says, and what came out.

A recipe is a TOML file:

    title = "Cross-layer parameter sharing"
    source = "Lan et al. 2020, Table 4, E = 128"
    paper_columns = ["parameters", "average of 5 tasks"]

    [flags]                                   # of albert_tf.pretrain, for all of them
    hidden_size = 128

    [[variants]]
    name = "all"
    flags = { parameter_sharing = "all" }     # what this one changes
    paper = ["12M", "80.1"]                   # the paper's figures, maybe none
    data = "sop"                              # folder in the data directories, maybe none
"""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.analysis.figures import parameters_by_part
from albert_tf.config import AlbertConfig
from albert_tf.head_config import HeadConfig

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=-]*")
_KEYS = {"title": str, "source": str, "paper_columns": list, "flags": dict, "variants": list}
_VARIANT_KEYS = {"name": str, "flags": dict, "paper": list, "data": str}
# What every variant shares or has a place of its own for.
_RESERVED = ("data_dir", "eval_data_dir", "output_dir", "stages", "model", "seed")
# Column -> figure of an evaluation.
_FIGURES = {
    "masked-LM loss at [MASK]": "masked_lm_loss_at_mask",
    "accuracy at [MASK], %": "masked_lm_accuracy_at_mask",
    "sentence accuracy, %": None,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Variant:
    """One of the models.

    Attributes:
      name: of its folder, too.
      flags: of `albert_tf.pretrain`, with those that all variants have.
      paper: the paper's figures for it, one for each column; empty where it has none.
      data: folder in the data directories; None where those themselves are its data.
    """

    name: str
    flags: Mapping[str, str]
    paper: tuple[str, ...] = ()
    data: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """What is compared: a title, where the paper's figures come from, their columns, and the variants."""

    title: str
    source: str
    paper_columns: tuple[str, ...]
    variants: tuple[Variant, ...]


def parse_recipe(text: str, *, path: str) -> Recipe:
    """The recipe in the TOML file `path` of content `text`.

    Raises:
      ValueError: for what is not as the module says, with file and key.
    """
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path}: not valid TOML: {error}") from error
    _check(values, _KEYS, path, optional=("source", "paper_columns", "flags"))
    columns = tuple(map(str, values.get("paper_columns", [])))
    common = values.get("flags", {})
    variants = []
    for number, entry in enumerate(values["variants"], start=1):
        where = f"{path}: variant {number}"
        if not isinstance(entry, dict):
            raise ValueError(f"{where}: must be a table, [[variants]], got {entry!r}")
        _check(entry, _VARIANT_KEYS, where, optional=("flags", "paper", "data"))
        if not _NAME.fullmatch(entry["name"]):
            raise ValueError(f"{where}: name must be letters, digits and ._=-, got {entry['name']!r}")
        given = {**common, **entry.get("flags", {})}
        if taken := [name for name in _RESERVED if name in given]:
            raise ValueError(f"{where}: {taken[0]} cannot be a flag of a variant: the command sets it")
        paper = tuple(map(str, entry.get("paper", [])))
        if paper and len(paper) != len(columns):
            raise ValueError(f"{where}: paper must have {len(columns)} figures, as paper_columns, got {len(paper)}")
        flags = {name: _flag_value(value) for name, value in given.items()}
        variants.append(Variant(name=entry["name"], flags=flags, paper=paper, data=entry.get("data")))
    names = [variant.name for variant in variants]
    if len(variants) < 2 or len(set(names)) < len(names):
        raise ValueError(f"{path}: variants must be two or more with different names, got {', '.join(names) or 'none'}")
    return Recipe(
        title=values["title"], source=values.get("source", ""), paper_columns=columns, variants=tuple(variants)
    )


def _check(values: Mapping[str, Any], kinds: Mapping[str, type], where: str, *, optional: Sequence[str]) -> None:
    for name in values:
        if name not in kinds:
            raise ValueError(f"{where}: unknown key {name!r}; known: {', '.join(kinds)}")
    for name, kind in kinds.items():
        if name not in values:
            if name in optional:
                continue
            raise ValueError(f"{where}: {name} is missing")
        if not isinstance(values[name], kind):
            raise ValueError(f"{where}: {name} must be a {kind.__name__}, got {values[name]!r}")


def _flag_value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def columns(recipe: Recipe) -> tuple[str, ...]:
    """Columns of the table: this run's figures, then the paper's."""
    return ("variant", "parameters", *_FIGURES, *(f"paper: {column}" for column in recipe.paper_columns))


def row(recipe: Recipe, variant: Variant, config: AlbertConfig, evaluation: Mapping[str, float]) -> tuple[Any, ...]:
    """Row of the table for one variant.

    Args:
      recipe: the recipe.
      variant: one of its variants.
      config: shape of its model.
      evaluation: held-out figures of its run, from training.json.

    Raises:
      ValueError: if there are none.
    """
    if not evaluation:
        raise ValueError(f"{variant.name}: has no held-out figures; the ablation needs --eval_data_dir")
    figures: list[Any] = []
    for column, name in _FIGURES.items():
        value = _sentence_accuracy(evaluation) if name is None else evaluation.get(name)
        percent = column.endswith("%")
        figures.append("" if value is None else f"{100 * value:.1f}" if percent else f"{value:.3f}")
    return (variant.name, parameters(config), *figures, *(variant.paper or [""] * len(recipe.paper_columns)))


def _sentence_accuracy(evaluation: Mapping[str, float]) -> float | None:
    found = [evaluation[name] for name in ("sentence_order_accuracy", "next_sentence_accuracy") if name in evaluation]
    return found[0] if found else None


def parameters(config: AlbertConfig) -> int:
    """Weights of the encoder, without any head: what the paper counts."""
    parts = parameters_by_part(config, HeadConfig())
    return sum(parts.values()) - parts["heads"]
