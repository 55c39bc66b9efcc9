"""A task's files as fine-tuning takes them."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pytest

from albert_tf import model_directory
from albert_tf.head_config import HeadConfig
from albert_tf.modeling.models import make_model
from albert_tf.task_inputs import read_task_inputs
from albert_tf.tasks.making import make_task
from albert_tf.training.warm_start import read_warm_start
from tests.training import task_rows


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return task_rows.write_start(tmp_path_factory.mktemp("start") / "model")


def test_all_of_a_task(start: pathlib.Path, tmp_path: pathlib.Path) -> None:
    long = " ".join(["bace difo"] * 20)
    (tmp_path / "train.tsv").write_text(f"text\tlabel\nguha\tno\n{long}\tyes\njeki lomu\tno\n")
    for name in ("dev_one", "dev_two"):
        (tmp_path / f"{name}.tsv").write_text("text\tlabel\nlomu\tyes\nbace\tno\n")
    task = make_task("classification", str(tmp_path))
    found = read_task_inputs(task, read_warm_start(start), max_seq_length=20, stride=9, classifier_dropout=0.2)
    assert found.head == HeadConfig(head="classifier", labels=("no", "yes"), dropout_prob=0.2)
    count = len(found.train)
    assert count > 3  # the long text is cut into windows
    assert found.locate(0) == f"{tmp_path}/train.tsv:2"
    assert found.locate(1) == found.locate(count - 2) == f"{tmp_path}/train.tsv:3"
    assert found.locate(count - 1) == f"{tmp_path}/train.tsv:4"
    assert list(found.held_out) == ["dev_one", "dev_two"]
    assert found.deciding_figure == ("dev_one_accuracy", True)
    assert found.task == {"name": "classification", "is_multi_label": False, "num_texts": 1}
    config = json.loads(found.files["task_config.json"])
    assert (config["task"], config["max_seq_length"], config["stride"]) == ("classification", 20, 9)
    assert config["options"]["labels"] == ["no", "yes"]
    figures = found.held_out["dev_one"].score(np.array([[0.0, 1.0], [0.5, 0.0]], np.float32))
    assert figures["accuracy"] == 1.0


def test_less_of_an_error_is_better_and_a_task_may_have_no_dev_set(start: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "train.tsv").write_text("text\tlabel\nguha\t1.5\nlomu\t-2\n")
    task = make_task("regression", str(tmp_path))
    found = read_task_inputs(task, read_warm_start(start), max_seq_length=20)
    assert found.head == HeadConfig(head="regression")
    assert found.held_out == {}
    assert found.deciding_figure == ("train_loss", False)


def test_a_model_without_a_tokenizer(tmp_path: pathlib.Path) -> None:
    model_directory.save_model_directory(tmp_path / "start", make_model(task_rows.CONFIG, HeadConfig(), seed=1), None)
    (tmp_path / "train.tsv").write_text("text\tlabel\nguha\tno\nlomu\tyes\n")
    task = make_task("classification", str(tmp_path))
    with pytest.raises(ValueError, match=r"start: has no tokenizer; put its spiece\.model or vocab\.txt"):
        read_task_inputs(task, read_warm_start(tmp_path / "start"), max_seq_length=20)
