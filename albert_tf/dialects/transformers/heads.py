"""Which head a transformers model has: as asked for, by its class in `config.json`, or by its tensors."""

from __future__ import annotations

from collections.abc import Mapping

from albert_tf.dialects.transformers.configuration import HEADS_HERE, Configuration
from albert_tf.head_config import Head
from albert_tf.weight_files.weight_file import WeightFile

_ADVICE = "say which head it is, with --head or head="


def choose_head(
    configuration: Configuration, names: Mapping[str, str], prefix: str, weights: WeightFile, asked: str | None
) -> tuple[Head, list[str]]:
    """The head, and what a user should know.

    Args:
      configuration: content of `config.json`.
      names: current name -> stored one of all tensors.
      prefix: of the encoder's names.
      weights: the file.
      asked: what the caller says.

    Raises:
      ValueError: if that is no head of theirs, or neither class nor tensors tell it.
    """
    if asked is not None:
        for head in HEADS_HERE:
            if head == asked:
                return head, []
        raise ValueError(
            f"{weights.path}: head must be one of {', '.join(HEADS_HERE)} in a transformers model, got {asked!r}"
        )
    named, found = configuration.named_head, _by_tensors(names, prefix, weights)
    if named is None:
        if found is None:
            raise ValueError(
                f"{weights.path}: has a classifier, and no known class under architectures in {configuration.path} "
                f"says of what; {_ADVICE}"
            )
        return found, [f"config.json names no class that is known; by its tensors the head is {found!r}."]
    # The class of the model that was loaded last, which need not be the one of the file.
    if (named == "encoder" and found in ("masked_lm", "pretraining", "span")) or (
        named == "masked_lm" and found == "pretraining"
    ):
        return found, [f"config.json names the class of the head {named!r}, the file has the weights of {found!r}."]
    return named, []


def _by_tensors(names: Mapping[str, str], prefix: str, weights: WeightFile) -> Head | None:
    """The head whose weights are there; None if several have these."""
    if "predictions.dense.weight" in names or "predictions.bias" in names:
        return "pretraining" if "sop_classifier.classifier.weight" in names else "masked_lm"
    if "qa_outputs.weight" in names:
        return "span"
    stored = names.get("classifier.bias")
    if stored is None:
        return "encoder"
    if f"{prefix}pooler.weight" not in names:
        return "token_classifier"
    # One output is a regression or multiple choice; labels of a text or, in old files, of tokens share all names.
    return None
