"""Opens what `save_pretrained` of any release has written: configuration, head, names, tokenizer."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Mapping

from albert_tf.dialects.foreign_model import ForeignModel
from albert_tf.dialects.tables import SAME, Entry
from albert_tf.dialects.transformers.configuration import Configuration, read_configuration
from albert_tf.dialects.transformers.heads import choose_head
from albert_tf.dialects.transformers.names import (
    BUFFERS,
    OF_A_HEAD,
    PREFIX,
    keras_names,
    table,
    their_name,
    torch_names,
)
from albert_tf.dialects.transformers.tied import Tied, settle_copies
from albert_tf.dialects.transformers.tokenizers import read_tokenizer
from albert_tf.files import is_remote, read_whole
from albert_tf.head_config import POOLED
from albert_tf.json_object import parse_object
from albert_tf.weight_files.weight_file import WeightFile

CONFIG_FILE = "config.json"
# In the order in which they are taken.
_WEIGHTS = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
    "tf_model.h5",
)
_OTHERS = ("tf_model.h5.index.json", "flax_model.msgpack")
_OWN_CONFIG_FILE = "albert_config.json"


def recognises(path: str) -> bool:
    """Whether `path` is such a directory, or a file of weights in one."""
    try:
        folder, name = _split(path)
        if is_remote(path) or not os.path.isdir(folder) or (name and not os.path.isfile(path)):
            return False
        if name and _kind(name) is None:
            return False
        there = set(os.listdir(folder))
        if CONFIG_FILE in there:
            return _is_theirs(os.path.join(folder, CONFIG_FILE), there)
        # Its files without its configuration; the same name with our configuration beside it is ours.
        return _OWN_CONFIG_FILE not in there and bool(there.intersection(_WEIGHTS)) and (not name or name in _WEIGHTS)
    except (OSError, ValueError):
        return False


def _is_theirs(config_path: str, there: Collection[str]) -> bool:
    """Whether a `config.json` is theirs; one that cannot be read is where their weights lie beside it."""
    try:
        values = json.loads(read_whole(config_path))
    except (ValueError, RecursionError):
        return not set(_WEIGHTS).isdisjoint(there)
    return isinstance(values, dict) and not {"model_type", "architectures", "inner_group_num"}.isdisjoint(values)


def open_model(path: str, *, head: str | None = None) -> ForeignModel:
    """The model in a directory, or in one of its files of weights with `config.json` beside it.

    Args:
      path: the directory or file.
      head: the head, where it is not to be the one of the files.

    Raises:
      FileNotFoundError: if a file is missing.
      ValueError: if a file is damaged, or the model is none that we have.
    """
    if not os.path.exists(path):
        raise FileNotFoundError(2, "no such file or folder", path)
    folder, name = _split(path)
    config_path = os.path.join(folder, CONFIG_FILE)
    if os.path.isdir(folder) and not os.path.exists(config_path):
        raise FileNotFoundError(
            2, f"is missing; it says the model's shape and belongs beside {name or 'the weights'}", config_path
        )
    configuration = read_configuration(parse_object(read_whole(config_path), source=config_path), source=config_path)
    notes = list(configuration.notes)
    if not name:
        name, more = _choose_file(folder)
        notes += more
    weights = _open(os.path.join(folder, name), name)
    try:
        return _describe(configuration, weights, notes, folder, head, keras=_kind(name) == "keras")
    except BaseException:
        weights.close()
        raise


def _describe(
    configuration: Configuration, weights: WeightFile, notes: list[str], folder: str, asked: str | None, *, keras: bool
) -> ForeignModel:
    """The model of opened weights."""
    names, copies = keras_names(weights.tensors) if keras else (torch_names(weights.tensors), {})
    prefix = PREFIX if any(name.startswith(PREFIX) for name in names) else ""
    kind, more = choose_head(configuration, names, prefix, weights, asked)
    notes += more
    pooler = kind in POOLED or f"{prefix}pooler.weight" in names
    head, more_notes = configuration.head_config(kind, pooler=pooler)
    notes += more_notes
    tied: Tied = settle_copies(
        weights,
        names,
        copies,
        prefix,
        configuration.values,
        has_masked_lm=kind in ("pretraining", "masked_lm"),
        keras=keras,
    )
    entries = _entries(table(configuration.config, head), {**names, **tied.instead}, prefix, keras=keras)
    ignored = [BUFFERS, *tied.ignored]
    if asked is not None:
        named = {entry.theirs for entry in entries}
        ignored += [
            (re.escape(stored), f"of another head than {asked!r}")
            for name, stored in names.items()
            if OF_A_HEAD.fullmatch(name) and stored not in named
        ]
    tokenizer, more_notes = read_tokenizer(folder, configuration)
    return ForeignModel(
        config=configuration.config,
        head=head,
        table=entries,
        weights=weights,
        ignored=tuple(ignored),
        tokenizer=tokenizer,
        notes=(*notes, *tied.notes, *more_notes),
    )


def _entries(entries: tuple[Entry, ...], stored: Mapping[str, str], prefix: str, *, keras: bool) -> tuple[Entry, ...]:
    """The table with the names, and for Keras the layout, that the file has."""
    found = []
    for entry in entries:
        name = their_name(entry.ours, prefix)
        found.append(Entry(entry.ours, stored.get(name, name), SAME if keras else entry.transform))
    return tuple(found)


def _split(path: str) -> tuple[str, str]:
    """Folder and name of the file, "" for a folder."""
    path = os.fspath(path)
    return (
        (path, "")
        if os.path.isdir(path) or path.endswith("/")
        else (os.path.dirname(path) or ".", os.path.basename(path))
    )


def _kind(name: str) -> str | None:
    """What reads a file, by its name."""
    name = name.removesuffix(".index.json")
    endings = {".safetensors": "safetensors", ".bin": "torch", ".pt": "torch", ".pth": "torch", ".h5": "keras"}
    return endings.get(os.path.splitext(name)[1])


def _choose_file(folder: str) -> tuple[str, list[str]]:
    """Name of the file of weights to read, and what a user should know."""
    there = [name for name in (*_WEIGHTS, *_OTHERS) if os.path.exists(os.path.join(folder, name))]
    if not there or there[0] in _OTHERS:
        found = f"; {there[0]} cannot be read" if there else ""
        raise FileNotFoundError(
            2, f"has no weights, {', '.join(_WEIGHTS[:-1])} or {_WEIGHTS[-1]} is expected{found}", folder
        )
    others = there[1:]
    return there[0], [f"{there[0]} was read; {', '.join(others)} beside it not."] if others else []


def _open(path: str, name: str) -> WeightFile:
    kind = _kind(name)
    if kind == "safetensors":
        from albert_tf.weight_files.safetensors_file import SafetensorsFile

        return SafetensorsFile(path)
    if kind == "torch":
        from albert_tf.weight_files.torch_file import TorchFile

        return TorchFile(path)
    if kind == "keras":
        from albert_tf.weight_files.hdf5_file import Hdf5File

        return Hdf5File(path)
    raise ValueError(f"{path}: is no file of weights that transformers writes; {', '.join(_WEIGHTS)} are")
