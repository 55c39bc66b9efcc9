"""A fine-tuning step as a TPU's compiler would get it: static shapes, and nothing that leaves the device."""

from __future__ import annotations

import pathlib

import pytest
import tensorflow as tf

from albert_tf.head_config import Head
from albert_tf.modeling.models import make_model
from albert_tf.tpu import lowering
from albert_tf.training.building import build_trainer
from albert_tf.training.example_batches import ExampleOrder, training_batches
from albert_tf.training.finetuning_objectives import make_objective
from tests.training import task_rows

BATCH, LENGTH = 6, 23


@pytest.mark.slow
@pytest.mark.parametrize(("head", "is_multi_label"), task_rows.KINDS)
def test_the_step_is_static_and_stays_on_the_device(head: Head, is_multi_label: bool, tmp_path: pathlib.Path) -> None:
    rows = task_rows.make_rows(head, 20, is_multi_label=is_multi_label)
    order = ExampleOrder(lengths=rows.lengths, batch_size=BATCH, seed=1)
    batch = next(iter(training_batches(rows, order, step=0, seq_length=LENGTH)))
    trainer = build_trainer(
        task_rows.make_settings(tmp_path, tmp_path, dtype="bfloat16"),
        tf.distribute.get_strategy(),
        lambda policy: make_model(task_rows.CONFIG, task_rows.make_head(head), seed=1, dtype=policy),
        make_objective(head, is_multi_label=is_multi_label),
        form="unrolled",
    )
    text = lowering.lower(trainer, batch)
    assert lowering.obstacles(text) == []
    assert f"tensor<{BATCH}x{LENGTH}xi32>" in text
