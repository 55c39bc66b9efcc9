"""The flags that give the shape of a model, shared by the doors that make one.

A door calls `define()` where it defines its own flags, and `make_config(flags.FLAGS, vocab_size=...)` in its main.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any

from absl import flags

from albert_tf import config, door
from albert_tf.config import AlbertConfig
from albert_tf.files import read_whole

_FIELDS = [field for field in dataclasses.fields(AlbertConfig) if field.name != "vocab_size"]
_CHOICES = {
    "hidden_act": config.HIDDEN_ACTIVATIONS,
    "parameter_sharing": config.PARAMETER_SHARING,
    "embedding_factorization": config.EMBEDDING_FACTORIZATIONS,
}


def define() -> None:
    """Defines --config, --model_size and one flag for each field of `AlbertConfig` but the vocabulary's size."""
    meaning = door.attribute_help(AlbertConfig)
    with door.group("Shape of the model"):
        flags.DEFINE_string("config", None, "An albert_config.json.")
        flags.DEFINE_string("model_size", None, "base, large, xlarge or xxlarge; with _v1 dropout as in version 1.")
        for field in _FIELDS:
            text = meaning.get(field.name, "")
            text = text[:1].upper() + text[1:]
            if field.default is not None:
                text += f" By default that of --model_size, else {field.default}."
            if field.type == "int":
                flags.DEFINE_integer(field.name, None, text)
            elif field.type == "float":
                flags.DEFINE_float(field.name, None, text)
            elif field.name in _CHOICES:
                flags.DEFINE_enum(field.name, None, _CHOICES[field.name], text)
            else:
                flags.DEFINE_boolean(field.name, None, text)


def change_config(values: Any, given: AlbertConfig, *, free: Collection[str], given_by: str) -> AlbertConfig:
    """The shape `given`, with the fields changed that flags name and that are `free`.

    Raises:
      ValueError: for a flag that would change another field, naming what gives the shape, or one out of range.
    """
    named = {name: getattr(values, name) for name in ("config", "model_size") if getattr(values, name) is not None}
    shape = {field.name: value for field in _FIELDS if (value := getattr(values, field.name)) is not None}
    for name in (*named, *(name for name in shape if name not in free)):
        raise ValueError(
            f"{name} cannot be given: the shape is that of {given_by}, whose weights fit no other. Leave one of the "
            "two away"
        )
    return given.replace(**shape)


def make_config(values: Any, *, vocab_size: int) -> AlbertConfig:
    """Shape of the model from the flags' values.

    Args:
      values: absl's FLAGS, or an object with the same attributes.
      vocab_size: pieces in the vocabulary, where --config does not say.

    Raises:
      ValueError: for an unknown key or a value out of range in the file of --config.
      door.UsageError: for flags that are out of range or exclude each other, or none at all.
    """
    shape = {field.name: value for field in _FIELDS if (value := getattr(values, field.name)) is not None}
    if values.config is not None:
        if values.model_size is not None or shape:
            other = "model_size" if values.model_size is not None else next(iter(shape))
            raise door.UsageError(f"give either --config or --{other}, not both")
        return AlbertConfig.from_json(read_whole(values.config), source=values.config)
    if values.model_size is None and not shape:
        raise door.UsageError("no model named: give --config, --model_size or shape flags such as --hidden_size")
    with door.checking_flags():
        if values.model_size is not None:
            return AlbertConfig.named(values.model_size, vocab_size=vocab_size, **shape)
        return AlbertConfig.from_dict({"vocab_size": vocab_size, **shape})
