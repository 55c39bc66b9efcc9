"""A small vocabulary, and models of tiny size with random weights for every head."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from albert_tf.head_config import HeadConfig
from albert_tf.inference.answers import Answer, Answerer, AnswerSettings, make_answerer
from albert_tf.inference.loaded_model import LoadedModel
from albert_tf.model_directory import save_model_directory
from albert_tf.modeling.model_runner import ModelRunner
from albert_tf.modeling.models import make_model
from albert_tf.tasks.tables import Row
from albert_tf.tasks.task_config import TASK_CONFIG_NAME, TaskConfig
from albert_tf.tokenizer import AlbertTokenizer
from tests.export.conftest import tiny_config
from tests.export.texts import train_tokenizer

MAX_SEQ_LENGTH = 60


@functools.cache
def small_tokenizer() -> AlbertTokenizer:
    return train_tokenizer()


@pytest.fixture(scope="session")
def tokenizer() -> AlbertTokenizer:
    return small_tokenizer()


@functools.cache
def loaded_model(head: HeadConfig) -> LoadedModel:
    """A model whose weights are all random; made once for each head."""
    model = make_model(tiny_config(small_tokenizer()), head)
    generator = np.random.default_rng(11)
    for name, variable in model.named_weights().items():
        centre = 1.0 if name.endswith("/gamma") else 0.0
        variable.assign(centre + 0.3 * generator.standard_normal(tuple(variable.shape)))
    return LoadedModel(path="a_model", model=model, tokenizer=small_tokenizer(), max_seq_length=MAX_SEQ_LENGTH)


@functools.cache
def runner_of(head: HeadConfig, batch_size: int, sort_by_length: bool) -> ModelRunner:
    return ModelRunner(loaded_model(head).model, batch_size=batch_size, sort_by_length=sort_by_length)


def make(
    head: HeadConfig,
    *,
    task_config: TaskConfig | None = None,
    batch_size: int = 3,
    sort_by_length: bool = True,
    **settings: Any,
) -> Answerer:
    """An answerer for a head."""
    loaded = dataclasses.replace(loaded_model(head), task_config=task_config)
    return make_answerer(loaded, runner_of(head, batch_size, sort_by_length), AnswerSettings(**settings))


def ask(answerer: Answerer, rows: Sequence[dict[str, Any]]) -> list[Answer]:
    """Answers to questions of which each has the number of its row for id."""
    return answerer.answer([answerer.question(Row(f"a:{i}", row), str(i)) for i, row in enumerate(rows)])


def save(folder: pathlib.Path, head: HeadConfig, task_config: TaskConfig | None = None) -> pathlib.Path:
    """Writes a model directory."""
    loaded = loaded_model(head)
    training = {"max_seq_length": MAX_SEQ_LENGTH}
    save_model_directory(folder, loaded.model, loaded.tokenizer, training=training)
    if task_config is not None:
        (folder / TASK_CONFIG_NAME).write_text(task_config.to_json(), encoding="utf-8")
    return folder
