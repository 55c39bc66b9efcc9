"""A model with its tokenizer, and the task that it was made for."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

from albert_tf import conversion, loading, model_directory
from albert_tf.features import SentenceObjective
from albert_tf.files import exists, read_whole
from albert_tf.modeling.head_model import AlbertHeadModel
from albert_tf.tasks.task_config import TASK_CONFIG_NAME, TaskConfig
from albert_tf.tokenizer_base import Tokenizer


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoadedModel:
    """A model that texts can be given to.

    Attributes:
      path: where it comes from.
      model: with its head.
      tokenizer: its tokenizer.
      max_seq_length: longest sequence, in tokens, that it was trained on; else all positions it has.
      task_config: the task that it was fine-tuned on; None where nothing says it.
      sentence_objective: what pretraining heads say of two texts; "sop" where nothing says it.
    """

    path: str
    model: AlbertHeadModel
    tokenizer: Tokenizer
    max_seq_length: int
    task_config: TaskConfig | None = None
    sentence_objective: SentenceObjective = "sop"


def load(path: str | os.PathLike[str]) -> LoadedModel:
    """The model at `path`: a model directory, or what another project has written, with its tokenizer.

    Raises:
      FileNotFoundError: if `path` or a file in it is missing.
      ValueError: as `albert_tf.load_model`, and if there is no tokenizer.
    """
    tokenizer = loading.load_tokenizer(path)  # before the weights, which take longer
    if tokenizer is None:
        raise ValueError(
            f"{os.fspath(path)}: has no tokenizer, so no text can be read; put tokenizer_config.json and the "
            "vocabulary (spiece.model or vocab.txt) into the folder"
        )
    known: dict[str, Any] = {}
    if conversion.is_model_directory(path):
        known["max_seq_length"] = model_directory.read_max_seq_length(path)
        known["sentence_objective"] = model_directory.read_sentence_objective(path)
        known["task_config"] = read_task_config(path)
    model = loading.load_model(path)
    longest = model.config.max_position_embeddings
    return LoadedModel(path=os.fspath(path), model=model, tokenizer=tokenizer, **{"max_seq_length": longest, **known})


def read_task_config(path: str | os.PathLike[str]) -> TaskConfig | None:
    """Task that the model of a model directory was fine-tuned on; None where nothing says it.

    Raises:
      ValueError: if the file is no valid configuration.
    """
    config_path = os.path.join(path, TASK_CONFIG_NAME)
    return TaskConfig.from_json(read_whole(config_path), source=config_path) if exists(config_path) else None
