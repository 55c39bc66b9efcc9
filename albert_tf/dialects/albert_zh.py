"""brightmart's albert_zh, Chinese TensorFlow 1 checkpoints of its own layout: in.

Only the words' embeddings are narrow: a matrix without bias takes them to the layers' width before positions and
segments are added (brightmart/albert_zh: modeling.py, run_pretraining.py). All layers share `layer_shared`.

Its modeling_preln.py, which albert_xlarge_zh was made with, puts LayerNorm before each sublayer under the very same
names; the configuration's `ln_type` tells. The checkpoints called `albert_*_google` have the original's layout.
"""

from __future__ import annotations

import os
from typing import Any

from albert_tf.config import AlbertConfig
from albert_tf.dialects import files_beside, tf1_checkpoints
from albert_tf.dialects.foreign_model import ForeignModel
from albert_tf.dialects.tables import SAME, Entry, Transform
from albert_tf.head_config import HeadConfig
from albert_tf.weight_files.checkpoint import Checkpoint
from albert_tf.weight_shapes import weight_shapes

NAME = "albert_zh"
TITLE = "albert_zh's TensorFlow 1 checkpoint (brightmart/albert_zh)"

_WORDS, _PROJECTION = "bert/embeddings/word_embeddings", "bert/embeddings/word_embeddings_2"
_ENCODER_LAYERS = {"encoder/embeddings/layer_norm": "bert/embeddings/LayerNorm", "encoder/pooler": "bert/pooler/dense"}
_BLOCK = "encoder/group_0/inner_0/"
_BLOCK_LAYERS = {
    "attention/query": "attention/self/query",
    "attention/key": "attention/self/key",
    "attention/value": "attention/self/value",
    "attention/output": "attention/output/dense",
    "attention/layer_norm": "attention/output/LayerNorm",
    "feed_forward/intermediate": "intermediate/dense",
    "feed_forward/output": "output/dense",
    "feed_forward/layer_norm": "output/LayerNorm",
}
# What its BertConfig takes where a file does not say it.
_DEFAULTS = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "max_position_embeddings": 512}
_PRE_LN_SIZE = {"hidden_size": 2048, "num_hidden_layers": 24}


def recognises(path: str) -> bool:
    """Whether there is a checkpoint with albert_zh's names at `path`."""
    return tf1_checkpoints.layout_at(path) == tf1_checkpoints.ALBERT_ZH


def table(config: AlbertConfig, head: HeadConfig) -> tuple[Entry, ...]:
    """albert_zh's name of each weight.

    Raises:
      ValueError: if albert_zh has no such model.
    """
    if config.embedding_factorization != "words" or config.parameter_sharing != "all":
        raise ValueError(
            'albert_zh\'s models have embedding_factorization "words" and parameter_sharing "all", this one has '
            f"{config.embedding_factorization!r} and {config.parameter_sharing!r}"
        )
    if config.num_hidden_groups > 1 or config.inner_group_num > 1:
        raise ValueError(
            "albert_zh's layers are all the same, this model has num_hidden_groups "
            f"{config.num_hidden_groups} and inner_group_num {config.inner_group_num}"
        )
    return tuple(Entry(name, *_theirs(name)) for name in weight_shapes(config, head))


def open_model(path: str, *, head: str | None = None) -> ForeignModel:
    """The model of a checkpoint.

    Args:
      path: prefix of the checkpoint, one of its files, or its folder.
      head: which head it is loaded with; None for what its tensors show.

    Raises:
      FileNotFoundError: if checkpoint or configuration are missing.
      ValueError: if a file is damaged or not albert_zh's, or the model normalises before its sublayers.
    """
    weights = Checkpoint(path)
    if tf1_checkpoints.layout(weights.tensors) != tf1_checkpoints.ALBERT_ZH or _PROJECTION not in weights.tensors:
        raise ValueError(
            f"{weights.path}: has not the tensors bert/encoder/layer_shared/... and {_PROJECTION} of albert_zh's "
            "checkpoints; those called albert_*_google have the original's layout"
        )
    folder = os.path.dirname(weights.path)
    config = _read_config(weights, folder)
    sidecar = files_beside.read_head_config(folder)
    head_config, head_notes = tf1_checkpoints.find_head(weights.tensors, weights.path, head, sidecar)
    entries = table(config, head_config)
    tokenizer, tokenizer_notes = files_beside.read_tokenizer(folder, config.vocab_size)
    return ForeignModel(
        config=config,
        head=head_config,
        table=entries,
        weights=weights,
        ignored=tuple(tf1_checkpoints.ignored_tensors(weights.tensors, [entry.theirs for entry in entries])),
        tokenizer=tokenizer,
        notes=(*head_notes, *tokenizer_notes),
    )


def _read_config(weights: Checkpoint, folder: str) -> AlbertConfig:
    values, path = files_beside.read_values(folder, weights.path)
    _check_normalisation(values, path)
    # Its first files do not say what its code of then had as constants: the tables do.
    for key, name, axis in (
        ("embedding_size", _WORDS, 1),
        ("type_vocab_size", "bert/embeddings/token_type_embeddings", 0),
    ):
        shape = weights.tensors[name].shape if name in weights.tensors else ()
        if key not in values and len(shape) == 2:
            values[key] = shape[axis]
    return files_beside.make_config({**_DEFAULTS, **values, "embedding_factorization": "words"}, path)


def _check_normalisation(values: dict[str, Any], path: str) -> None:
    """Takes `ln_type` out of a configuration's values, and refuses what is not "postln".

    Raises:
      ValueError: for a model that normalises before its sublayers, or one whose size only such a model has been
        published in, with nothing that says otherwise.
    """
    kind = values.pop("ln_type", None)
    if kind is None and all(values[key] == value for key, value in _PRE_LN_SIZE.items()):
        raise ValueError(
            f"{path}: has the size of albert_xlarge_zh, which normalises before its sublayers (modeling_preln.py of "
            'albert_zh) and is another architecture; if this model does not, add "ln_type": "postln" there'
        )
    if kind not in (None, "postln"):
        raise ValueError(
            f"{path}: ln_type is {kind!r}: the model normalises before its sublayers (modeling_preln.py of albert_zh), "
            "another architecture than ALBERT, which normalises behind them"
        )


def _theirs(name: str) -> tuple[str, Transform]:
    """albert_zh's name and transform of our weight."""
    found = tf1_checkpoints.head_tensor(name)
    if found is not None:
        return found
    if name == "encoder/embeddings/word_projection":
        return _PROJECTION, SAME
    layer, _, leaf = name.rpartition("/")
    if layer == "encoder/embeddings":
        return f"bert/embeddings/{leaf}", SAME
    if layer in _ENCODER_LAYERS:
        return f"{_ENCODER_LAYERS[layer]}/{leaf}", SAME
    return f"bert/encoder/layer_shared/{_BLOCK_LAYERS[layer.removeprefix(_BLOCK)]}/{leaf}", SAME
