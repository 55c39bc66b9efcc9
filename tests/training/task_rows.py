"""Made-up rows of tasks, with random labels that can only be learned by heart, and runs on them."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import numpy as np

from albert_tf import model_directory, progress
from albert_tf.head_config import Head, HeadConfig
from albert_tf.modeling.models import make_model
from albert_tf.tasks.features import EncodedExamples
from albert_tf.training.finetuning import Finetuning
from albert_tf.training.finetuning_inputs import FinetuningInputs, HeldOut
from albert_tf.training.finetuning_settings import FinetuningSettings
from albert_tf.training.warm_start import read_warm_start
from tests.data import toy

CONFIG = dataclasses.replace(toy.CONFIG, hidden_size=48, intermediate_size=96, embedding_size=16, num_attention_heads=4)
LONGEST = 19  # tokens of a row
LABELS = ("a", "b", "c")
KINDS: tuple[tuple[Head, bool], ...] = (
    ("classifier", False),
    ("classifier", True),
    ("regression", False),
    ("token_classifier", False),
)


def make_rows(head: Head, count: int, *, seed: int = 1, is_multi_label: bool = False) -> EncodedExamples:
    """Rows of 4 to `LONGEST` random tokens in two segments, each with a random label."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(4, LONGEST + 1, count)
    ids = [generator.integers(5, CONFIG.vocab_size, length).astype(np.int32) for length in lengths]
    labels: Any
    if head == "regression":
        labels = (5.0 * generator.random(count)).astype(np.float32)
    elif is_multi_label:
        labels = generator.integers(0, 2, (count, len(LABELS))).astype(np.float32)
    elif head == "token_classifier":
        labels = [generator.integers(-1, len(LABELS), length).astype(np.int32) for length in lengths]
    else:
        labels = generator.integers(0, len(LABELS), count).astype(np.int32)
    return EncodedExamples(
        input_ids=ids,
        segment_ids=[(np.arange(length) >= length // 2).astype(np.int32) for length in lengths],
        labels=labels,
        example_of=np.arange(count, dtype=np.int32),
    )


def make_head(head: Head) -> HeadConfig:
    return HeadConfig(head=head, labels=None if head == "regression" else LABELS, dropout_prob=0.0)


def write_start(path: pathlib.Path, **changes: Any) -> pathlib.Path:
    """Model directory of a new model with the pretraining heads."""
    model = make_model(dataclasses.replace(CONFIG, **changes), HeadConfig(), seed=3)
    model_directory.save_model_directory(path, model, toy.tokenizer())
    return path


def make_inputs(
    start: pathlib.Path,
    head: Head,
    rows: EncodedExamples,
    *,
    is_multi_label: bool = False,
    head_config: HeadConfig | None = None,
    held_out: dict[str, HeldOut] | None = None,
    best_by: str = "loss",
) -> FinetuningInputs:
    return FinetuningInputs(
        start=read_warm_start(start),
        head=head_config or make_head(head),
        train=rows,
        locate=lambda row: f"train.tsv:{row + 1}",
        held_out=held_out or {},
        best_by=best_by,
        task={"name": "toy", "is_multi_label": is_multi_label},
    )


def make_settings(folder: pathlib.Path, start: pathlib.Path, **changes: Any) -> FinetuningSettings:
    given: dict[str, Any] = {
        "output_dir": str(folder),
        "model": str(start),
        "max_seq_length": 20,
        "num_train_steps": 6,
        "learning_rate": 0.002,
        "train_batch_size": 6,
        "strategy": "cpu",
        "seed": 2,
    }
    return FinetuningSettings(**{**given, **changes})


def make_run(settings: FinetuningSettings, inputs: FinetuningInputs) -> Finetuning:
    return Finetuning(settings, inputs, progress.progress)
