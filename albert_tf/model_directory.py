"""The model directory: what pretraining writes, and every other stage reads.

    albert_config.json     shape of the model
    head_config.json       its head; absent where that is the default, the pretraining heads
    tokenizer_config.json  how text is prepared
    spiece.model           SentencePiece vocabulary, or
    vocab.txt              WordPiece vocabulary
    model.safetensors      every weight once, by its canonical name; float32, or narrower where they came so
    training.json          where the weights come from (step, data, settings), if known

Weights are stored in safetensors, which any language reads without running code, under the names of `weight_shapes`. A
directory is written whole or not at all. Weights are read and written one at a time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from albert_tf import folder_kinds
from albert_tf.config import AlbertConfig
from albert_tf.features import SENTENCE_OBJECTIVES, SentenceObjective
from albert_tf.files import exists, read_whole, whole_directory, write_whole
from albert_tf.head_config import Head, HeadConfig
from albert_tf.json_object import parse_object
from albert_tf.stored_weights import StoredValues, VariableValues, assign_weights, check_kind, check_names
from albert_tf.tokenizer_base import Tokenizer
from albert_tf.tokenizer_files import CONFIG_FILE as TOKENIZER_CONFIG_FILE
from albert_tf.tokenizer_files import VOCABULARY_FILES, choose_vocabulary_file, make_tokenizer
from albert_tf.weight_shapes import weight_shapes

if TYPE_CHECKING:
    import keras
    import numpy as np

    from albert_tf.modeling.head_model import AlbertHeadModel
    from albert_tf.modeling.models import AlbertPretrainingModel
    from albert_tf.weight_files.weight_file import WeightFile

CONFIG_FILE = "albert_config.json"
HEAD_CONFIG_FILE = "head_config.json"
WEIGHTS_FILE = "model.safetensors"
TRAINING_FILE = "training.json"
_WEIGHTS_FORMAT = "albert_tf"


def save_model_directory(
    path: str | os.PathLike[str],
    model: AlbertHeadModel,
    tokenizer: Tokenizer | None,
    *,
    training: Mapping[str, Any] | None = None,
    files: Mapping[str, str] | None = None,
    replace: bool = False,
) -> None:
    """Writes `model` and its tokenizer to the folder `path`.

    Args:
      path: folder to make; it appears when it is complete.
      model: the model; its vocabulary size must be the tokenizer's.
      tokenizer: the tokenizer that the model was trained with; None leaves its files out.
      training: where the weights come from, for `training.json`.
      files: further texts by file name.
      replace: whether a folder with content there is replaced.

    Raises:
      ValueError: if tokenizer and model have different vocabulary sizes, or `path` has content and `replace` is false.
      OSError: if the folder cannot be written.
    """
    _check_tokenizer(model.config, tokenizer)
    weights = VariableValues(model.named_weights())
    with whole_directory(path, replace=replace) as folder:
        for name, content in (files or {}).items():
            write_whole(os.path.join(folder, name), content)
        write_model_directory(folder, model.config, model.head_config, weights, tokenizer, training=training)


def write_model_directory(
    folder: str | os.PathLike[str],
    config: AlbertConfig,
    head: HeadConfig,
    weights: Mapping[str, np.ndarray],
    tokenizer: Tokenizer | None,
    *,
    training: Mapping[str, Any] | None = None,
) -> None:
    """Writes the files of a model directory into an existing folder; no model is built.

    Args:
      folder: where they go.
      config: shape of the model.
      head: its head.
      weights: every weight by its canonical name; each is asked for once and let go before the next.
      tokenizer: its tokenizer; None leaves its files out.
      training: where the weights come from, for `training.json`.

    Raises:
      ValueError: if tokenizer and model have different vocabulary sizes.
      OSError: if a file cannot be written.
    """
    from albert_tf.weight_files.safetensors_file import write_safetensors

    _check_tokenizer(config, tokenizer)
    files: dict[str, bytes | str] = {CONFIG_FILE: config.to_json()}
    if head != HeadConfig():
        files[HEAD_CONFIG_FILE] = head.to_json()
    if tokenizer is not None:
        files[TOKENIZER_CONFIG_FILE] = tokenizer.config.to_json()
        files[tokenizer.vocabulary_file] = tokenizer.vocabulary
    if training is not None:
        files[TRAINING_FILE] = json.dumps(training, indent=2, sort_keys=True) + "\n"
    for name, content in files.items():
        write_whole(os.path.join(folder, name), content)
    write_safetensors(os.path.join(folder, WEIGHTS_FILE), weights, {"format": _WEIGHTS_FORMAT})


def load_model(path: str | os.PathLike[str], *, dtype: keras.DTypePolicy | str | None = None) -> AlbertHeadModel:
    """Model of the model directory `path`, a `keras.Model` that can be part of a larger one, of its head's class.

    Args:
      path: the model directory.
      dtype: Keras dtype policy or its name; None takes Keras' global one.

    Raises:
      FileNotFoundError: if `path` or a file in it is missing.
      ValueError: if a file is damaged, or the weights are not those of the configuration.
    """
    from albert_tf.modeling.models import make_model

    config, head = read_config(path), read_head_config(path)
    with open_weights_file(path) as file:
        shapes = weight_shapes(config, head)
        check_names(file.tensors.keys(), shapes.keys(), file.path)
        for name, shape in shapes.items():  # before hours of building what a damaged configuration asks for
            check_kind(name, file.tensors[name].shape, file.tensors[name].dtype, shape, file.path)
        model = make_model(config, head, dtype=dtype)
        assign_weights(model.named_weights(), StoredValues(file), source=file.path)
    return model


def load_pretraining_model(
    path: str | os.PathLike[str],
    *,
    dtype: keras.DTypePolicy | str | None = None,
    reader: str = "load_pretraining_model",
) -> AlbertPretrainingModel:
    """Model of a model directory with the pretraining heads; `reader`, who wants it, is named in errors.

    Raises:
      FileNotFoundError, ValueError: as `load_model`, and for another head.
    """
    check_head(path, ("pretraining",), reader=reader)
    from albert_tf.modeling.models import AlbertPretrainingModel

    model = load_model(path, dtype=dtype)
    if not isinstance(model, AlbertPretrainingModel):
        raise TypeError(f"{os.fspath(path)}: gave a {type(model).__name__}")
    return model


def load_tokenizer(path: str | os.PathLike[str]) -> Tokenizer:
    """Tokenizer of a model directory, or of any folder with a vocabulary and `tokenizer_config.json`.

    The vocabulary is `spiece.model` (SentencePiece) or `vocab.txt` (WordPiece).

    Raises:
      FileNotFoundError: if a file is missing.
      ValueError: if a file is damaged, has not as many pieces as an `albert_config.json` beside it says, or there are
        vocabularies of both kinds.
    """
    folder_kinds.check(path, TOKENIZER_CONFIG_FILE, folder_kinds.TOKENIZER)
    config_path = os.path.join(path, TOKENIZER_CONFIG_FILE)
    config = read_whole(config_path)
    names = [name for name in VOCABULARY_FILES if exists(os.path.join(path, name))]
    vocabulary_path = os.path.join(path, choose_vocabulary_file(names, os.fspath(path)))
    tokenizer = make_tokenizer(vocabulary_path, read_whole(vocabulary_path), config_path, config)
    if exists(os.path.join(path, CONFIG_FILE)):
        vocab_size = read_config(path).vocab_size
        if tokenizer.vocab_size != vocab_size:
            raise ValueError(
                f"{vocabulary_path}: has {tokenizer.vocab_size} pieces, but {CONFIG_FILE} beside it says vocab_size "
                f"{vocab_size}: it is another model's"
            )
    return tokenizer


def read_config(path: str | os.PathLike[str]) -> AlbertConfig:
    """Configuration of a model directory.

    Raises:
      FileNotFoundError: if the folder or its `albert_config.json` is missing.
      ValueError: if the file is no valid configuration.
    """
    folder_kinds.check(path, CONFIG_FILE, folder_kinds.MODEL)
    config_path = os.path.join(path, CONFIG_FILE)
    return AlbertConfig.from_json(read_whole(config_path), source=config_path)


def read_head_config(path: str | os.PathLike[str]) -> HeadConfig:
    """Head of the model of a model directory; the pretraining heads where it has no `head_config.json`.

    Raises:
      FileNotFoundError: if `path` is no model directory.
      ValueError: if the file is no valid configuration of a head.
    """
    folder_kinds.check(path, CONFIG_FILE, folder_kinds.MODEL)
    head_path = os.path.join(path, HEAD_CONFIG_FILE)
    return HeadConfig.from_json(read_whole(head_path), source=head_path) if exists(head_path) else HeadConfig()


def check_head(path: str | os.PathLike[str], heads: Sequence[Head], *, reader: str) -> HeadConfig:
    """Head of a model directory, which must be one of `heads`; `reader`, who wants it, is named in errors.

    Raises:
      FileNotFoundError, ValueError: as `read_head_config`, and for another head.
    """
    head = read_head_config(path)
    if head.head not in heads:
        wanted = " or ".join(map(repr, heads))
        raise ValueError(
            f"{os.fspath(path)}: has the head {head.head!r}; {reader} takes a model with the head {wanted}, as "
            "albert_tf.pretrain writes"
        )
    return head


def open_weights_file(path: str | os.PathLike[str]) -> WeightFile:
    """File with the weights of a model directory, opened.

    Raises:
      FileNotFoundError: if it is missing.
      ValueError: if it is damaged.
    """
    from albert_tf.weight_files.safetensors_file import SafetensorsFile

    return SafetensorsFile(os.path.join(path, WEIGHTS_FILE))


def has_own_weights(path: str | os.PathLike[str]) -> bool:
    """Whether the weights in a folder are named as ours are.

    Raises:
      FileNotFoundError: if there are none.
      ValueError: if the file is damaged.
    """
    with open_weights_file(path) as file:
        return "encoder/embeddings/word_embeddings" in file.tensors


def has_tokenizer(path: str | os.PathLike[str]) -> bool:
    """Whether a model directory holds a tokenizer."""
    return exists(os.path.join(path, TOKENIZER_CONFIG_FILE))


def read_training(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Content of `training.json`; empty where the directory has none."""
    training_path = os.path.join(path, TRAINING_FILE)
    try:
        content = read_whole(training_path)
    except FileNotFoundError:
        return {}
    return parse_object(content, source=training_path)


def read_max_seq_length(path: str | os.PathLike[str]) -> int:
    """Longest sequence, in tokens, that the model of a model directory was trained on.

    Where `training.json` does not say it, that is all the positions the model has.

    Raises:
      FileNotFoundError, ValueError: as `read_config`.
    """
    longest = read_config(path).max_position_embeddings
    trained = read_training(path).get("max_seq_length", longest)
    if isinstance(trained, bool) or not isinstance(trained, int) or trained < 5:
        source = os.path.join(path, TRAINING_FILE)
        raise ValueError(f"{source}: max_seq_length must be a whole number of at least 5, got {trained!r}")
    return min(trained, longest)


def read_sentence_objective(path: str | os.PathLike[str]) -> SentenceObjective:
    """What the model of a model directory was trained on beside masked words; "sop" where nothing says it.

    Raises:
      ValueError: if `training.json` holds no such objective.
    """
    found = read_training(path).get("sentence_objective", "sop")
    for objective in SENTENCE_OBJECTIVES:
        if found == objective:
            return objective
    source = os.path.join(path, TRAINING_FILE)
    raise ValueError(f"{source}: sentence_objective must be {', '.join(SENTENCE_OBJECTIVES)}, got {found!r}")


def _check_tokenizer(config: AlbertConfig, tokenizer: Tokenizer | None) -> None:
    if tokenizer is not None and tokenizer.vocab_size != config.vocab_size:
        raise ValueError(f"the tokenizer has {tokenizer.vocab_size} pieces, the model was made for {config.vocab_size}")
