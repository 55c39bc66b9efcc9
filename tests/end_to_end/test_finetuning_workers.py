"""Fine-tuning by two workers, real processes on this machine, ends as that of one process does."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import numpy as np
import pytest
import safetensors.numpy

from tests.end_to_end.rows_of_a_task import write_rows
from tests.end_to_end.worker_processes import two_workers
from tests.training import task_rows

pytestmark = pytest.mark.xdist_group("workers")


@pytest.mark.slow
def test_two_workers_learn_what_one_process_does(tmp_path: pathlib.Path) -> None:
    task_rows.write_start(tmp_path / "start")
    (tmp_path / "data").mkdir()
    write_rows(tmp_path / "data" / "train.tsv", 61, 1)
    write_rows(tmp_path / "data" / "dev.tsv", 21, 2)
    flags = {
        "task": "classification",
        "data_dir": tmp_path / "data",
        "model": tmp_path / "start",
        "train_batch_size": 8,
        "num_train_steps": 17,
        "learning_rate": 0.002,
        "dropout": 0.0,  # each replica drops units of its own
        "classifier_dropout": 0.0,
        "log_example_ids": True,
        "log_steps": 1,
    }
    with two_workers("albert_tf.finetune", {**flags, "output_dir": tmp_path / "two"}) as processes:
        said = [process.communicate(timeout=240) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
    one = [sys.executable, "-m", "albert_tf.finetune", "--strategy=cpu", f"--output_dir={tmp_path / 'one'}"]
    done = subprocess.run(
        [*one, *(f"--{name}={value}" for name, value in flags.items())], capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr

    def figure(output: str) -> str:
        return next(line for line in output.splitlines() if line.startswith("accuracy: "))

    assert [figure(output) for output, _ in said] == [figure(done.stdout)] * 2
    expected, found = (
        safetensors.numpy.load_file(tmp_path / name / "model" / "model.safetensors") for name in ("one", "two")
    )
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        # Sums in another order: some units in the last place, grown over the steps.
        np.testing.assert_allclose(found[name], value, rtol=0, atol=1e-5, err_msg=name)
    ids = [(tmp_path / name / "example_ids.tsv").read_text() for name in ("one", "two")]
    assert ids[0] == ids[1]
    assert not list((tmp_path / "two").glob("*partial*"))
