"""Checkpoints of the TensorFlow Model Garden's ALBERT: in.

Encoders as its converter writes them (`tf_model_garden/nlp/albert/albert_base.tar.gz`), and models with heads as its
trainer saves them: pretrainers (`BertPretrainer`, `BertPretrainerV2`), `BertClassifier`, `BertTokenClassifier`,
`BertSpanLabeler`. The keys stand in `garden_keys.py`.

The configuration is an `albert_config.json` beside the checkpoint, or the `params.yaml` that the trainer writes. Its
activation "gelu" is the tanh form (official/modeling/activations/gelu.py), as ours.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from albert_tf.config import AlbertConfig
from albert_tf.dialects import files_beside, garden_keys
from albert_tf.dialects.foreign_model import ForeignModel
from albert_tf.dialects.garden_keys import VALUE, Layout
from albert_tf.dialects.tables import Entry
from albert_tf.files import read_whole
from albert_tf.head_config import LABELLED, HeadConfig
from albert_tf.weight_files.checkpoint import Checkpoint, find_prefix, read_index
from albert_tf.weight_shapes import Shape

NAME = "model_garden"
TITLE = "TensorFlow Model Garden checkpoint (official.nlp AlbertEncoder)"

_PARAMS = "params.yaml"
_SAVED_MODEL = "saved_model.pb"
# Fields of AlbertEncoderConfig in official/nlp/configs/encoders.py.
_NAMES: Mapping[str, str] = {
    "vocab_size": "vocab_size",
    "embedding_width": "embedding_size",
    "hidden_size": "hidden_size",
    "num_layers": "num_hidden_layers",
    "num_attention_heads": "num_attention_heads",
    "hidden_activation": "hidden_act",
    "intermediate_size": "intermediate_size",
    "dropout_rate": "hidden_dropout_prob",
    "attention_dropout_rate": "attention_probs_dropout_prob",
    "max_position_embeddings": "max_position_embeddings",
    "type_vocab_size": "type_vocab_size",
    "initializer_range": "initializer_range",
}
_LINE = re.compile(r"( *)([A-Za-z_]\w*): *('?)([^'#]*?)\3 *(#.*)?")


def recognises(path: str) -> bool:
    """Whether `path` is a checkpoint, or a folder of one, with a transformer of the Model Garden's."""
    try:
        if _SAVED_MODEL in files_beside.list_folder(path):
            return False
        return garden_keys.has_garden_layers(read_index(find_prefix(path)).entries)
    except (OSError, ValueError):
        return False


def table(config: AlbertConfig, head: HeadConfig) -> tuple[Entry, ...]:
    """The key of each weight, where the encoder is saved as `encoder` and the whole model as `model`.

    Raises:
      ValueError: if the Model Garden has no such model.
    """
    _check(config, has_projection=bool(config.embedding_projection))
    return tuple(garden_keys.entries(config, head, garden_keys.canonical_layout(config, head)))


def open_model(path: str, *, head: str | None = None) -> ForeignModel:
    """The model of a checkpoint.

    Args:
      path: prefix, one of its files, or its folder.
      head: the head where keys cannot tell it ("classifier" or "span"), or the part to take: "encoder", "masked_lm".

    Raises:
      FileNotFoundError: if there is no checkpoint, or no configuration beside it.
      ValueError: if it is damaged, or another model's.
    """
    prefix = find_prefix(path)
    folder = os.path.dirname(prefix)
    checkpoint = Checkpoint(prefix)
    shapes = garden_keys.variables({key: info.shape for key, info in checkpoint.tensors.items()})
    own_head = files_beside.read_head_config(folder)
    try:
        layout = garden_keys.find_layout(shapes)
        found = _choose_head(layout, shapes, head, own_head)
    except ValueError as error:
        raise ValueError(f"{prefix}: {error}") from error
    config = _read_config(folder, has_projection=layout.transformer == 5)
    tokenizer, notes = files_beside.read_tokenizer(folder, config.vocab_size)
    if found.head == "pretraining":
        notes += ("what the sentence head was trained on, order or next sentence, the checkpoint does not say",)
    return ForeignModel(
        config=config,
        head=found,
        table=tuple(garden_keys.entries(config, found, layout)),
        weights=checkpoint,
        ignored=(*garden_keys.IGNORED, *_left_away(layout, found)),
        tokenizer=tokenizer,
        notes=notes,
    )


def _choose_head(
    layout: Layout, shapes: Mapping[str, Shape], head: str | None, own_head: HeadConfig | None
) -> HeadConfig:
    """The head that a checkpoint has, or the part of it that is asked for."""
    kinds = layout.kinds or (("masked_lm",) if layout.masked_lm else ("encoder",))
    parts = ("encoder", *(("masked_lm",) if layout.masked_lm else ()))
    wanted = head or (own_head.head if own_head else None)
    if wanted is None and len(kinds) > 1:
        raise ValueError(f"its head may be {' or '.join(kinds)}: say which with --head")
    if wanted is not None and wanted not in (*kinds, *parts):
        raise ValueError(f"its head is {' or '.join(kinds)}, of which {wanted!r} cannot be taken")
    name = wanted or kinds[0]
    if own_head is not None and own_head.head == name:
        return own_head
    labels = {"num_labels": shapes[f"{layout.sentence}/kernel"][-1]} if name in LABELLED else {}
    return HeadConfig.from_dict({"head": name, **labels})


def _left_away(layout: Layout, head: HeadConfig) -> list[tuple[str, str]]:
    """(regular expression, reason) of what the layout has beside the weights of `head`."""
    keys = []
    if layout.pooler != layout.own_pooler:
        keys += [
            (f"{layout.own_pooler}/{leaf}", "the encoder's pooler, which its head does not read") for leaf in _LEAVES
        ]
    left = f"no part of the head {head.head!r}"
    if head.head in ("encoder", "masked_lm") and layout.sentence:
        keys += [(f"{layout.sentence}/{leaf}", left) for leaf in _LEAVES]
    if head.head == "encoder":
        keys += [(key, left) for key in layout.masked_lm.values() if key != layout.word_embeddings]
    return [(re.escape(key + VALUE), reason) for key, reason in keys]


_LEAVES = ("kernel", "bias")


def _read_config(folder: str, *, has_projection: bool) -> AlbertConfig:
    params = os.path.join(folder, _PARAMS)
    if files_beside.find_config(folder) is None and _PARAMS in files_beside.list_folder(folder):
        values, path = _read_params(params), params
    else:
        values, path = files_beside.read_values(folder, "a checkpoint of the Model Garden")
    config = files_beside.make_config(values, path)
    try:
        _check(config, has_projection=has_projection)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return config


def _check(config: AlbertConfig, *, has_projection: bool) -> None:
    """Refuses configurations that no encoder of the Model Garden's has."""
    for name, value in (
        ("num_hidden_groups", 1),
        ("inner_group_num", 1),
        ("parameter_sharing", "all"),
        ("embedding_factorization", "all"),
        ("embedding_projection", has_projection),
    ):
        if getattr(config, name) != value:
            where = "this checkpoint" if name == "embedding_projection" else "the Model Garden's ALBERT"
            raise ValueError(f"{where} has {name} {value!r}, the configuration {getattr(config, name)!r}")


def _read_params(path: str) -> dict[str, Any]:
    """Values of the encoder in a trainer's `params.yaml`, in our names.

    Of YAML only what the trainer writes is read: one key and value a line, blocks by indentation.
    """
    values: dict[str, Any] = {}
    depth = None
    for line in read_whole(path).decode("utf-8", "replace").splitlines():
        match = _LINE.fullmatch(line)
        indent = len(line) - len(line.lstrip())
        if depth is not None and line.strip() and indent <= depth:
            break
        if depth is not None and match:
            if match[2] not in _NAMES:
                raise ValueError(f"{path}: the block 'albert' has an unknown key {match[2]!r}")
            values[_NAMES[match[2]]] = _scalar(match[4])
        elif match and match[2] == "albert" and not match[4]:
            depth = indent
    missing = [key for key, ours in _NAMES.items() if ours not in values]
    if missing:
        raise ValueError(f"{path}: has no block 'albert' with {missing[0]}; is it an ALBERT model's?")
    return values


def _scalar(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
