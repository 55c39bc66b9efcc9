"""The original's TensorFlow 1 checkpoints, google-research/albert: in and out, with all its heads.

Names are those of the original's modeling.py, whose layers of one group share variables; versions 1 and 2 of the
published models have the same. `albert_config.json` and the vocabulary lie beside the checkpoint. A checkpoint does
not say whether its head of one output chooses among answers (RACE) or gives a number (STS-B): both are stored alike.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.dialects import files_beside, tf1_checkpoints
from albert_tf.dialects.foreign_model import ForeignModel
from albert_tf.dialects.tables import SAME, Entry, Transform
from albert_tf.dialects.tf1_checkpoints import MODULE
from albert_tf.files import write_whole
from albert_tf.head_config import HeadConfig
from albert_tf.tokenizer_base import Tokenizer
from albert_tf.tokenizer_files import CONFIG_FILE as TOKENIZER_CONFIG_FILE
from albert_tf.weight_files.checkpoint import Checkpoint, is_damaged, write_checkpoint
from albert_tf.weight_shapes import weight_shapes

NAME = "original"
TITLE = "the original's TensorFlow 1 checkpoint (google-research/albert)"

_CHECKPOINT = "model.ckpt-0"

_ENCODER_LAYERS = {
    "encoder/embeddings/layer_norm": "bert/embeddings/LayerNorm",
    "encoder/embedding_projection": "bert/encoder/embedding_hidden_mapping_in",
    "encoder/pooler": "bert/pooler/dense",
}
_BLOCK_LAYERS = {
    "attention/query": "attention_1/self/query",
    "attention/key": "attention_1/self/key",
    "attention/value": "attention_1/self/value",
    "attention/output": "attention_1/output/dense",
    "attention/layer_norm": "LayerNorm",
    "feed_forward/intermediate": "ffn_1/intermediate/dense",
    "feed_forward/output": "ffn_1/intermediate/output/dense",
    "feed_forward/layer_norm": "LayerNorm_1",
}
# Fields that the original's configuration has.
_FIELDS = (
    "vocab_size",
    "embedding_size",
    "hidden_size",
    "num_hidden_layers",
    "num_hidden_groups",
    "num_attention_heads",
    "intermediate_size",
    "inner_group_num",
    "hidden_act",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "max_position_embeddings",
    "type_vocab_size",
    "initializer_range",
)


def recognises(path: str) -> bool:
    """Whether there is a checkpoint with the original's names at `path`, or one so damaged that it has no names."""
    known = (tf1_checkpoints.ORIGINAL, tf1_checkpoints.KERAS_PORT)
    try:
        return tf1_checkpoints.layout_at(path) in known or is_damaged(path)
    except Exception:  # as in `layout_at`
        return False


def table(config: AlbertConfig, head: HeadConfig) -> tuple[Entry, ...]:
    """The original's name of each weight.

    Raises:
      ValueError: if the original has no such model.
    """
    _check_config(config)
    return tuple(Entry(name, *_theirs(name)) for name in weight_shapes(config, head))


def open_model(path: str, *, head: str | None = None) -> ForeignModel:
    """The model of a checkpoint.

    Args:
      path: prefix of the checkpoint, one of its files, or its folder.
      head: which head it is loaded with; None for what its tensors show.

    Raises:
      FileNotFoundError: if checkpoint or configuration are missing.
      ValueError: if a file is damaged or not the original's.
    """
    weights = Checkpoint(path)
    check_names(weights)
    folder = os.path.dirname(weights.path)
    values, config_path = files_beside.read_values(folder, weights.path)
    # A key of albert_zh's that is in some files of this layout, too.
    if values.pop("ln_type", "postln") != "postln":
        raise ValueError(f"{config_path}: ln_type is supported at 'postln' only")
    config = files_beside.make_config(values, config_path)
    return assemble(weights, config, folder, head=head, sidecar=files_beside.read_head_config(folder))


def check_names(weights: Checkpoint) -> None:
    """Refuses a checkpoint without the original's names.

    Raises:
      ValueError: says whose names they are.
    """
    found = tf1_checkpoints.layout(weights.tensors)
    if found == tf1_checkpoints.ORIGINAL:
        return
    if found == tf1_checkpoints.KERAS_PORT:
        raise ValueError(
            f"{weights.path}: its LayerNorms are Keras layers (layer_normalization), one set for each layer, as a port "
            "of the original's code to TensorFlow 2 writes them: such a model does not share them and is no ALBERT"
        )
    if found == tf1_checkpoints.ALBERT_ZH:
        raise ValueError(f"{weights.path}: has the names of albert_zh (bert/encoder/layer_shared), not the original's")
    raise ValueError(
        f"{weights.path}: has no tensor bert/encoder/transformer/group_0/..., as the original's checkpoints have; "
        f"its first is {next(iter(weights.tensors), 'missing, too')}"
    )


def assemble(
    weights: Checkpoint,
    config: AlbertConfig,
    vocabulary_folder: str,
    *,
    head: str | None = None,
    sidecar: HeadConfig | None = None,
    lower_case: bool | None = None,
    notes: tuple[str, ...] = (),
) -> ForeignModel:
    """A model with the original's names out of its parts.

    Args:
      weights: its checkpoint.
      config: its shape.
      vocabulary_folder: where its vocabulary is, if there is one.
      head: the head that the user names.
      sidecar: what `head_config.json` says.
      lower_case: as in `files_beside.read_tokenizer`.
      notes: what there is to say already.

    Raises:
      ValueError: as `open_model`.
    """
    plain = {name.removeprefix(MODULE): info for name, info in weights.tensors.items()}
    head_config, head_notes = tf1_checkpoints.find_head(plain, weights.path, head, sidecar)
    entries = tuple(
        Entry(
            entry.ours,
            MODULE + entry.theirs if MODULE + entry.theirs in weights.tensors else entry.theirs,
            entry.transform,
        )
        for entry in table(config, head_config)
    )
    tokenizer, tokenizer_notes = files_beside.read_tokenizer(
        vocabulary_folder, config.vocab_size, lower_case=lower_case
    )
    return ForeignModel(
        config=config,
        head=head_config,
        table=entries,
        weights=weights,
        ignored=tuple(tf1_checkpoints.ignored_tensors(weights.tensors, [entry.theirs for entry in entries])),
        tokenizer=tokenizer,
        notes=(*notes, *head_notes, *tokenizer_notes),
    )


def save_model(
    folder: str,
    config: AlbertConfig,
    head: HeadConfig,
    weights: Mapping[str, np.ndarray],
    tokenizer: Tokenizer | None,
) -> tuple[str, ...]:
    """Writes a checkpoint `model.ckpt-0` with its configuration and vocabulary into an empty folder; no notes.

    `head_config.json` and `tokenizer_config.json`, which the original does not look at, keep what it has no file for.

    Raises:
      ValueError: if the original has no such model; nothing is written then.
      OSError: if a file cannot be written.
    """
    entries = table(config, head)
    if not head.pooler:
        raise ValueError(
            "the original's models have a pooler, this one has none: bert/pooler/dense/kernel and "
            "bert/pooler/dense/bias would be missing"
        )
    if config.hidden_act == "gelu_exact":
        raise ValueError('hidden_act "gelu_exact" is unknown to the original, whose "gelu" is the tanh approximation')
    if tokenizer is not None and tokenizer.vocab_size != config.vocab_size:
        raise ValueError(f"the tokenizer has {tokenizer.vocab_size} pieces, the model is for {config.vocab_size}")
    values = {name: value for name, value in config.to_dict().items() if name in _FIELDS}
    write_checkpoint(os.path.join(folder, _CHECKPOINT), _Theirs(entries, weights))
    state = f'model_checkpoint_path: "{_CHECKPOINT}"\nall_model_checkpoint_paths: "{_CHECKPOINT}"\n'
    write_whole(os.path.join(folder, "checkpoint"), state)
    write_whole(os.path.join(folder, files_beside.CONFIG_FILE), json.dumps(values, indent=2, sort_keys=True) + "\n")
    write_whole(os.path.join(folder, files_beside.HEAD_CONFIG_FILE), head.to_json())
    if tokenizer is not None:
        write_whole(os.path.join(folder, tokenizer.vocabulary_file), tokenizer.vocabulary)
        write_whole(os.path.join(folder, TOKENIZER_CONFIG_FILE), tokenizer.config.to_json())
    return ()


class _Theirs(Mapping[str, np.ndarray]):
    """Weights under the original's names, each read when it is asked for."""

    def __init__(self, entries: tuple[Entry, ...], weights: Mapping[str, np.ndarray]) -> None:
        self._entries = {entry.theirs: entry for entry in entries}
        self._weights = weights

    def __getitem__(self, name: str) -> np.ndarray:
        entry = self._entries[name]
        return entry.transform.to_theirs(self._weights[entry.ours])

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def _theirs(name: str) -> tuple[str, Transform]:
    """The original's name and transform of our weight."""
    found = tf1_checkpoints.head_tensor(name)
    if found is not None:
        return found
    layer, _, leaf = name.rpartition("/")
    if layer == "encoder/embeddings":
        return f"bert/embeddings/{leaf}", SAME
    if layer in _ENCODER_LAYERS:
        return f"{_ENCODER_LAYERS[layer]}/{leaf}", SAME
    _, group, inner, *sublayer = layer.split("/")
    place = f"bert/encoder/transformer/{group}/{inner.replace('inner_', 'inner_group_')}"
    return f"{place}/{_BLOCK_LAYERS['/'.join(sublayer)]}/{leaf}", SAME


def _check_config(config: AlbertConfig) -> None:
    if config.parameter_sharing != "all":
        raise ValueError(
            f"the original shares all weights of a group, this model has parameter_sharing {config.parameter_sharing!r}"
        )
    if config.embedding_factorization != "all":
        raise ValueError(
            "the original's embeddings are all of width embedding_size, this model has embedding_factorization "
            f"{config.embedding_factorization!r}"
        )
    if config.embedding_projection and config.embedding_size == config.hidden_size:
        raise ValueError(
            "the original has no embedding_projection where embedding_size equals hidden_size, as here "
            f"({config.hidden_size})"
        )
