"""The comparison with other libraries: its arithmetic, its batches, its processes. No other library runs here."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

import albert_tf
from albert_tf.door import UserError
from albert_tf.tasks.task_config import TASK_CONFIG_NAME, TaskConfig
from benchmarks import contenders
from tests import doors
from tests.data import toy

classification = doors.load("benchmarks.classification")
OURS = contenders.NAMES[0]
TEXTS = ["ba ce di", "fo", "gu ha je ki lo mu", "di di"]


def test_medians_spread_and_ratios() -> None:
    rounds = {OURS: [[1.0, 9.0, 2.0], [4.0], [3.0]], "kerashub": [[6.0], [4.5], [9.0, 9.0]]}
    assert classification.summarize(rounds) == [
        (OURS, 3.0, pytest.approx(2 / 3), 1.0),  # medians of the rounds: 2, 4, 3
        ("kerashub", 6.0, 0.75, 2.0),
    ]


def test_batches_are_in_order_and_padded_to_their_longest_row() -> None:
    rows = {"batch_size": 2, "input_ids": [[5], [6, 7, 8], [9, 4]], "labels": [1, 0, 1]}
    first, second = contenders.padded_batches(rows)
    np.testing.assert_array_equal(first["ids"], [[5, 0, 0], [6, 7, 8]])
    np.testing.assert_array_equal(first["mask"], [[1, 0, 0], [1, 1, 1]])
    np.testing.assert_array_equal(second["ids"], [[9, 4]])
    assert (first["labels"].tolist(), second["labels"].tolist()) == ([1, 0], [1])


@pytest.mark.slow
def test_our_processes_compute_what_the_model_does(tmp_path: pathlib.Path) -> None:
    head = albert_tf.HeadConfig(head="classifier", labels=("0", "1"), dropout_prob=0.0)
    model, tokenizer = albert_tf.make_model(toy.CONFIG, head, seed=3), toy.tokenizer()
    task = TaskConfig(task="sst-2", max_seq_length=20)
    path = str(tmp_path / "model")
    albert_tf.save_model_directory(path, model, tokenizer, files={TASK_CONFIG_NAME: task.to_json()})
    ids = [tokenizer.encode_pair(tokenizer.encode(text), None, 20) for text in TEXTS]
    rows = [np.array(one[0])[np.array(one[1]) > 0].tolist() for one in ids]
    job = {"model": path, "batch_size": 2, "input_ids": rows, "texts": TEXTS}
    logits = np.concatenate(
        [
            model({"input_ids": b["ids"], "input_mask": b["mask"], "segment_ids": np.zeros_like(b["ids"])})["logits"]
            for b in contenders.padded_batches(job)
        ]
    )
    expected = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    with classification.processes({OURS: job}) as (ours,):
        answer = ours.ask({"predict": True})
    np.testing.assert_allclose(answer["probabilities"], expected, rtol=0, atol=1e-6)
    assert len(answer["times"]) == 1
    labels = [0, 1, 1, 0]
    with classification.processes({OURS: {**job, "labels": labels}}) as (ours,):
        found = classification.train([ours], count=1, steps=2)
        loss = ours.ask({"train": [0]})["losses"][0]
        (one_step,) = classification.train([ours], count=1, steps=1)["rounds"]
    assert [len(times) for times in one_step.values()] == [1]
    first = -np.log(expected[[0, 1], labels[:2]]).mean()
    # Four steps at a rate of 1e-5 came between.
    assert loss == pytest.approx(first, abs=1e-3)
    assert [len(times) for times in found["rounds"][0].values()] == [2]


def test_a_library_that_is_not_there_is_an_error() -> None:
    with pytest.raises(UserError, match=r"nowhere ended: .*No module named 'benchmarks\.contenders\.on_nowhere'"):
        classification.Process("nowhere", {})


def test_other_numbers_are_refused() -> None:
    with pytest.raises(UserError, match=r"kerashub computes other probabilities than albert_tf: 0\.5 apart"):
        classification._refuse_above({OURS: 0.0, "kerashub": 0.5}, 1e-5, "probabilities")
    with pytest.raises(UserError, match="nan apart"):
        classification._refuse_above({OURS: 0.0, "kerashub": float("nan")}, 1e-5, "probabilities")
