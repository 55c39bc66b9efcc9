"""TensorFlow Hub's module directories: in.

Two forms, told apart by the names in `variables/`. Modules of TensorFlow 1, `https://tfhub.dev/google/albert_base/3`,
hold the original's variables under its names, and in `assets/` its configuration and vocabulary
(google-research/albert: export_to_tfhub.py; tensorflow/hub: native_module.py). SavedModels of TensorFlow 2,
`https://tfhub.dev/tensorflow/albert_en_base/3`, are Keras models of the Model Garden (tensorflow/models:
official/nlp/tools/export_tfhub_lib.py) and have only the vocabulary there.

A module without a configuration gets one from the shapes of its weights. What shapes cannot tell comes from the graph
or the layers' settings in it, or else from the published model of these widths. An `albert_config.json` in the
module's folder goes before all that.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping
from typing import Any

from albert_tf.config import AlbertConfig
from albert_tf.dialects import files_beside, garden_names, module_graph, original, tf1_checkpoints
from albert_tf.dialects.files_beside import CONFIG_FILE
from albert_tf.dialects.foreign_model import ForeignModel
from albert_tf.dialects.module_graph import SAVED_MODEL
from albert_tf.dialects.tables import Entry
from albert_tf.files import read_whole
from albert_tf.head_config import HeadConfig
from albert_tf.weight_files.checkpoint import Checkpoint
from albert_tf.weight_files.weight_file import TensorInfo

NAME = "tf_hub"
TITLE = "TensorFlow Hub's module directory (TensorFlow 1 modules and TensorFlow 2 SavedModels)"

_VARIABLES = os.path.join("variables", "variables")
_ASSETS = "assets"
_PUBLISHED = ("base", "large", "xlarge", "xxlarge")
# What the message in saved_model.pb holds where the variables cannot be read.
_MARKS = (b"bert/encoder/transformer/group_0/", garden_names.POOLER.encode())


def recognises(path: str) -> bool:
    """Whether `path` is the folder of such a module, or the `saved_model.pb` in it."""
    try:
        folder = _folder(path)
        if SAVED_MODEL not in files_beside.list_folder(folder):
            return False
        if tf1_checkpoints.layout_at(os.path.join(folder, _VARIABLES)) == tf1_checkpoints.ORIGINAL:
            return True
        content = read_whole(os.path.join(folder, SAVED_MODEL))
        return any(mark in content for mark in _MARKS)
    except Exception:  # whatever is wrong there, another dialect may know it, or opening will tell
        return False


def table(config: AlbertConfig, head: HeadConfig) -> tuple[Entry, ...]:
    """The name of each weight in a module of TensorFlow 1; `garden_names.table` is for TensorFlow 2.

    Raises:
      ValueError: if there is no such module.
    """
    return original.table(config, head)


def open_model(path: str, *, head: str | None = None) -> ForeignModel:
    """The model of a module.

    Args:
      path: the module's folder, or the `saved_model.pb` in it.
      head: which head it is loaded with; None for what its tensors show.

    Raises:
      FileNotFoundError: if a file is missing.
      ValueError: if a file is damaged, it is no ALBERT, or its depth or heads are nowhere to be found.
    """
    folder = _folder(path)
    message = module_graph.read_saved_model(folder)
    checkpoint = Checkpoint(os.path.join(folder, _VARIABLES))
    if tf1_checkpoints.layout(checkpoint.tensors) == tf1_checkpoints.ORIGINAL:
        return _open_module(folder, message, checkpoint, head)
    if garden_names.OBJECT_GRAPH in checkpoint.tensors:
        return _open_keras_model(folder, message, garden_names.NamedVariables(checkpoint), head)
    raise ValueError(
        f"{folder}: is a SavedModel, but no ALBERT: its first variable is {next(iter(checkpoint.tensors), 'missing')}"
    )


def _open_module(folder: str, message: Any, checkpoint: Checkpoint, head: str | None) -> ForeignModel:
    """The model of a module of TensorFlow 1."""
    assets = os.path.join(folder, _ASSETS)
    config, notes = _find_config(folder, assets), tuple[str, ...]()
    if config is None:
        widths = _original_widths(checkpoint.tensors, folder)
        config, notes = _infer(widths, module_graph.module_values(message), folder)
    model = original.assemble(
        checkpoint,
        config,
        assets,
        head=head,
        sidecar=files_beside.read_head_config(folder),
        lower_case=module_graph.module_lower_case(message),
        notes=notes,
    )
    return _ignoring(model, (r"Variable(_\d+)?", "made by the exporting program, no part of the model"))


def _open_keras_model(
    folder: str, message: Any, weights: garden_names.NamedVariables, head: str | None
) -> ForeignModel:
    """The model of a SavedModel of TensorFlow 2."""
    if garden_names.QUERY not in weights.tensors:
        raise ValueError(
            f"{folder}: is a SavedModel, but no ALBERT of the Model Garden: has no variable {garden_names.QUERY}"
        )
    assets = os.path.join(folder, _ASSETS)
    config, notes = _find_config(folder, assets), tuple[str, ...]()
    if config is None:
        widths = _garden_widths(weights.tensors, folder)
        config, notes = _infer(widths, module_graph.keras_values(message, folder), folder)
    possible = ["masked_lm", "encoder"] if garden_names.MASKED_LM in weights.tensors else ["encoder"]
    if head is not None and head not in possible:
        raise ValueError(f"{folder}: has no tensors of the head {head!r}; its heads can be: {', '.join(possible)}")
    head_config = HeadConfig.from_dict({"head": head or possible[0], "pooler": garden_names.POOLER in weights.tensors})
    tokenizer, tokenizer_notes = files_beside.read_tokenizer(assets, config.vocab_size, lower_case=weights.lower_case)
    model = ForeignModel(
        config=config,
        head=head_config,
        table=garden_names.table(config, head_config),
        weights=weights,
        ignored=((garden_names.OBJECT_GRAPH, "the tree of objects, by which the variables were found"),),
        tokenizer=tokenizer,
        notes=(*notes, *tokenizer_notes),
    )
    if head_config.head == "encoder":
        model = _ignoring(model, (r"cls/predictions/.*", "of a head that is left out"))
    if weights.lower_case_name is not None:
        model = _ignoring(model, (re.escape(weights.lower_case_name), "says whether letters are lowered"))
    return model


def _ignoring(model: ForeignModel, *ignored: tuple[str, str]) -> ForeignModel:
    return dataclasses.replace(model, ignored=(*model.ignored, *ignored))


def _folder(path: str) -> str:
    return os.path.dirname(path) if os.path.basename(path) == SAVED_MODEL else path


def _find_config(folder: str, assets: str) -> AlbertConfig | None:
    """The configuration in a module's folder or in its assets."""
    for place in (folder, assets):
        if CONFIG_FILE in files_beside.list_folder(place):
            values, path = files_beside.read_values(place, folder)
            return files_beside.make_config(values, path)
    return None


def _infer(widths: dict[str, int], said: Mapping[str, Any], folder: str) -> tuple[AlbertConfig, tuple[str, ...]]:
    """Configuration out of the weights' widths and of what the graph says; and a note of what was decided.

    Raises:
      ValueError: if the two contradict each other, or depth or heads are nowhere to be found.
    """
    advice = f"put the model's {CONFIG_FILE} into that folder"
    for key, value in widths.items():
        if said.get(key) not in (None, value):
            raise ValueError(f"{folder}: {key} is {value} in the weights and {said[key]} in {SAVED_MODEL}: {advice}")
    values = {"hidden_act": "gelu", **{key: value for key, value in said.items() if value is not None}, **widths}
    notes = [f"it has no {CONFIG_FILE}: sizes were read from the shapes of its weights"]
    found = [key for key in ("num_hidden_layers", "num_attention_heads", "hidden_act") if key in said]
    if found:
        notes.append(f"{', '.join(found)} were read from its graph")
    missing = [key for key in ("num_hidden_layers", "num_attention_heads") if key not in values]
    if missing or "hidden_act" not in said:
        name, published = _published(widths)
        if missing and published is None:
            raise ValueError(
                f"{folder}: has no {CONFIG_FILE}, its graph does not tell {' and '.join(missing)}, and no published "
                f"model has hidden_size {widths['hidden_size']} with intermediate_size {widths['intermediate_size']}: "
                f"{advice}"
            )
        for key in missing:
            values[key] = getattr(published, key)
        notes.append(
            f"{', '.join([*missing, *({'hidden_act'} - said.keys())])} are those of the published models"
            + (f" of size {name}" if missing else "")
        )
    if "hidden_dropout_prob" not in said:
        notes.append("dropout, which version 1 of the models was trained with, is set to 0, as in version 2")
    try:
        return AlbertConfig.from_dict(values), (*notes,)
    except ValueError as error:
        raise ValueError(f"{folder}: its weights and graph give no configuration ({error}): {advice}") from error


def _published(widths: Mapping[str, int]) -> tuple[str, AlbertConfig | None]:
    """Name and configuration of the published size with the widths of these weights."""
    for name in _PUBLISHED:
        config = AlbertConfig.named(name)
        same = all(widths[key] == getattr(config, key) for key in ("hidden_size", "intermediate_size"))
        if same and widths.get("num_attention_heads", config.num_attention_heads) == config.num_attention_heads:
            return name, config
    return "", None


def _original_widths(tensors: Mapping[str, TensorInfo], folder: str) -> dict[str, int]:
    """Sizes of a model by the shapes of its weights under the original's names."""
    plain = {name.removeprefix(tf1_checkpoints.MODULE): info for name, info in tensors.items()}
    block = "bert/encoder/transformer/group_0/inner_group_0"
    widths = _widths(
        plain,
        folder,
        words="bert/embeddings/word_embeddings",
        positions="bert/embeddings/position_embeddings",
        segments="bert/embeddings/token_type_embeddings",
        intermediate=f"{block}/ffn_1/intermediate/dense/kernel",
    )
    places = [found for name in plain if (found := re.search(r"/group_(\d+)/inner_group_(\d+)/", name))]
    widths["num_hidden_groups"] = 1 + max(int(place[1]) for place in places)
    widths["inner_group_num"] = 1 + max(int(place[2]) for place in places)
    return widths


def _garden_widths(tensors: Mapping[str, TensorInfo], folder: str) -> dict[str, int]:
    """Sizes of a model by the shapes of its weights under the Model Garden's names."""
    widths = _widths(
        tensors,
        folder,
        words="word_embeddings/embeddings",
        positions="position_embedding/embeddings",
        segments="type_embeddings/embeddings",
        intermediate="transformer/intermediate/kernel",
    )
    query = tensors[garden_names.QUERY].shape
    if len(query) != 3:
        raise ValueError(f"{folder}: {garden_names.QUERY} has the shape {list(query)}, three axes are expected")
    widths["num_attention_heads"] = query[1]
    return widths


def _widths(
    tensors: Mapping[str, TensorInfo], folder: str, *, words: str, positions: str, segments: str, intermediate: str
) -> dict[str, int]:
    for name in (words, positions, segments, intermediate):
        if name not in tensors or len(tensors[name].shape) != 2:
            raise ValueError(f"{folder}: has no {name} of two axes, from which its sizes could be read")
    return {
        "vocab_size": tensors[words].shape[0],
        "embedding_size": tensors[words].shape[1],
        "max_position_embeddings": tensors[positions].shape[0],
        "type_vocab_size": tensors[segments].shape[0],
        "hidden_size": tensors[intermediate].shape[0],
        "intermediate_size": tensors[intermediate].shape[1],
    }
