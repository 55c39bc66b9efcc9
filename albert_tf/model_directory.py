"""The model directory: what pretraining writes, and every other stage reads.

    albert_config.json     shape of the model
    tokenizer_config.json  how text is prepared
    spiece.model           SentencePiece vocabulary, or
    vocab.txt              WordPiece vocabulary
    model.safetensors      every weight once, by its canonical name
    training.json          where the weights come from (step, data, settings), if known

Weights are stored in safetensors, which any language reads without running code, under the names of
`AlbertPretrainingModel.named_weights`. A directory is written whole or not at all.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from albert_tf import folder_kinds
from albert_tf.config import AlbertConfig
from albert_tf.features import SENTENCE_OBJECTIVES, SentenceObjective
from albert_tf.files import check_regular, is_remote, whole_directory
from albert_tf.json_object import parse_object
from albert_tf.tokenizer_base import Tokenizer
from albert_tf.tokenizer_files import CONFIG_FILE as TOKENIZER_CONFIG_FILE
from albert_tf.tokenizer_files import VOCABULARY_FILES, choose_vocabulary_file, make_tokenizer

if TYPE_CHECKING:
    import keras
    import numpy as np

    from albert_tf.modeling.models import AlbertPretrainingModel

CONFIG_FILE = "albert_config.json"
WEIGHTS_FILE = "model.safetensors"
TRAINING_FILE = "training.json"
_WEIGHTS_FORMAT = "albert_tf"


def save_model_directory(
    path: str | os.PathLike[str],
    model: AlbertPretrainingModel,
    tokenizer: Tokenizer,
    *,
    training: Mapping[str, Any] | None = None,
    replace: bool = False,
) -> None:
    """Writes `model` and its tokenizer to the folder `path`.

    Args:
      path: folder to make; it appears when it is complete.
      model: the model; its vocabulary size must be the tokenizer's.
      tokenizer: the tokenizer that the model was trained with.
      training: where the weights come from, for `training.json`.
      replace: whether a folder with content there is replaced.

    Raises:
      ValueError: if tokenizer and model have different vocabulary sizes, or `path` has content and `replace` is false.
      OSError: if the folder cannot be written.
    """
    from safetensors.numpy import save

    if tokenizer.vocab_size != model.config.vocab_size:
        raise ValueError(
            f"the tokenizer has {tokenizer.vocab_size} pieces, the model was made for {model.config.vocab_size}"
        )
    weights = {name: variable.numpy() for name, variable in model.named_weights().items()}
    files: dict[str, bytes] = {
        CONFIG_FILE: model.config.to_json().encode(),
        TOKENIZER_CONFIG_FILE: tokenizer.config.to_json().encode(),
        tokenizer.vocabulary_file: tokenizer.vocabulary,
        WEIGHTS_FILE: save(weights, metadata={"format": _WEIGHTS_FORMAT}),
    }
    if training is not None:
        files[TRAINING_FILE] = (json.dumps(training, indent=2, sort_keys=True) + "\n").encode()
    with whole_directory(path, replace=replace) as folder:
        for name, content in files.items():
            with _open(os.path.join(folder, name), "wb") as stream:
                stream.write(content)


def load_model(path: str | os.PathLike[str], *, dtype: keras.DTypePolicy | str | None = None) -> AlbertPretrainingModel:
    """Model of the model directory `path`, a `keras.Model` that can be part of a larger one.

    Args:
      path: the model directory.
      dtype: Keras dtype policy or its name; None takes Keras' global one.

    Raises:
      FileNotFoundError: if `path` or a file in it is missing.
      ValueError: if a file is damaged, or the weights are not those of the configuration.
    """
    from albert_tf.modeling.models import AlbertPretrainingModel

    config = read_config(path)
    weights = _read_weights(os.path.join(path, WEIGHTS_FILE))
    model = AlbertPretrainingModel(config, dtype=dtype)
    assign_weights(model.named_weights(), weights, source=os.path.join(path, WEIGHTS_FILE))
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
    config = _read(config_path)
    names = [name for name in VOCABULARY_FILES if _exists(os.path.join(path, name))]
    vocabulary_path = os.path.join(path, choose_vocabulary_file(names, os.fspath(path)))
    tokenizer = make_tokenizer(vocabulary_path, _read(vocabulary_path), config_path, config)
    if _exists(os.path.join(path, CONFIG_FILE)):
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
    return AlbertConfig.from_json(_read(config_path), source=config_path)


def read_training(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Content of `training.json`; empty where the directory has none."""
    training_path = os.path.join(path, TRAINING_FILE)
    try:
        content = _read(training_path)
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


def assign_weights(variables: Mapping[str, keras.Variable], weights: Mapping[str, np.ndarray], *, source: str) -> None:
    """Puts `weights` into `variables` of the same names; nothing is assigned unless all of them fit.

    Raises:
      ValueError: for a name that is missing or left over, another shape, or values that are no finite numbers; `source`
        is named.
    """
    missing = sorted(variables.keys() - weights.keys())
    unknown = sorted(weights.keys() - variables.keys())
    if missing or unknown:
        raise ValueError(
            f"{source}: weights do not fit the configuration: "
            f"{len(missing)} missing{_first(missing)}, {len(unknown)} unknown{_first(unknown)}"
        )
    import numpy as np

    for name, variable in variables.items():
        if tuple(variable.shape) != weights[name].shape:
            raise ValueError(
                f"{source}: {name} has shape {list(weights[name].shape)}, the configuration needs "
                f"{list(variable.shape)}"
            )
        if not np.issubdtype(weights[name].dtype, np.floating):
            raise ValueError(f"{source}: {name} must hold floating-point numbers, got {weights[name].dtype}")
        if not np.isfinite(weights[name]).all():
            raise ValueError(f"{source}: {name} holds values that are not finite; take an earlier checkpoint")
    for name, variable in variables.items():
        variable.assign(weights[name])


def _first(names: list[str]) -> str:
    return f" (first: {names[0]})" if names else ""


def _read_weights(path: str) -> dict[str, np.ndarray]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return dict(load(_read(path)))
    except SafetensorError as error:
        raise ValueError(f"{path}: not a safetensors file, or a damaged one: {error}") from error


def _read(path: str) -> bytes:
    with _open(path, "rb") as stream:
        content: bytes = stream.read()
    return content


def _exists(path: str) -> bool:
    if not is_remote(path):
        return os.path.exists(path)
    import tensorflow as tf

    return bool(tf.io.gfile.exists(path))


def _open(path: str, mode: str) -> Any:
    if not is_remote(path):
        if mode == "rb":
            check_regular(path)
        return open(path, mode)
    import tensorflow as tf

    return tf.io.gfile.GFile(path, mode)
