"""The paper's table, scaled to the set at hand."""

from __future__ import annotations

import pathlib
import re

import pytest

from albert_tf.training import presets
from albert_tf.training.presets import find_preset

FULL = {
    "cola": 8551, "sts-b": 5749, "sst-2": 67349, "mnli": 392702, "qnli": 104743, "qqp": 363846, "rte": 2490,
    "mrpc": 3668, "wnli": 635,
}  # fmt: skip


def test_the_full_sets_get_the_papers_table(reference_data: pathlib.Path) -> None:
    text = (reference_data / "design" / "PAPER.md").read_text(encoding="utf-8")
    _, _, table = text.partition("**Fine-tuning**")
    names = {"CoLA": "cola", "STS-B": "sts-b", "SST-2": "sst-2", "MNLI": "mnli", "QNLI": "qnli", "QQP": "qqp",
             "RTE": "rte", "MRPC": "mrpc", "WNLI": "wnli"}  # fmt: skip
    number = r"(\S+)"
    for title, task in names.items():
        found = re.search(rf"\b{title} {' '.join([number] * 6)}[;\s]", table.replace("\n", " "))
        assert found is not None, title
        preset = find_preset(task, FULL[task])
        values = (preset.learning_rate, preset.train_batch_size, preset.dropout, preset.num_train_steps,
                  preset.num_warmup_steps, preset.max_seq_length)  # fmt: skip
        assert values == tuple(float(value.rstrip(";")) for value in found.groups()), title
        assert preset.classifier_dropout == 0.1
    assert set(names.values()) == set(presets.TASKS)


def test_steps_shrink_with_the_set_and_grow_with_smaller_batches() -> None:
    assert (find_preset("sst-2", 67349 // 2).num_train_steps, find_preset("sst-2", 67349 * 2).num_train_steps) == (
        10468, 20935,
    )  # fmt: skip
    small = find_preset("mnli", 3927, batch_size=64)
    assert (small.train_batch_size, small.num_train_steps, small.num_warmup_steps) == (64, 200, 20)
    tiny = find_preset("rte", 7)
    assert (tiny.train_batch_size, tiny.num_train_steps) == (7, 11)
    assert tiny.num_warmup_steps <= tiny.num_train_steps


@pytest.mark.parametrize(
    ("name", "rte", "cola"),
    [("paper", 0.1, 0.0), ("base_v1", 0.1, 0.1), ("xxlarge_v1", 0.1, 0.0), ("xxlarge_v2", 0.0, 0.0)],
)
def test_dropout_of_published_models(name: str, rte: float, cola: float) -> None:
    assert (find_preset("rte", 2490, name).dropout, find_preset("cola", 8551, name).dropout) == (rte, cola)


def test_other_tasks_have_defaults_and_other_presets_are_refused() -> None:
    preset = find_preset("classification", 100)
    assert (preset.num_train_steps, preset.num_warmup_steps, preset.dropout) == (10, 1, None)
    with pytest.raises(ValueError, match=r"preset must be one of paper, base_v1, .*, got 'huge'"):
        find_preset("rte", 2490, "huge")
