"""Two workers, real processes on this machine: told to stop, killed and started again, they end as one process does."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import progress
from albert_tf.config import AlbertConfig
from albert_tf.training.pretraining import Pretraining
from albert_tf.training.settings import PretrainingSettings
from tests.data import toy
from tests.end_to_end.worker_processes import two_workers

pytestmark = pytest.mark.xdist_group("workers")

SAVE, STEPS, BATCH = 13, 127, 8
CONFIG = AlbertConfig(
    vocab_size=61,
    embedding_size=12,
    hidden_size=24,
    num_hidden_layers=1,
    num_attention_heads=3,
    intermediate_size=40,
    max_position_embeddings=25,
)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> PretrainingSettings:
    """110 examples: an epoch ends within every fourteen steps."""
    path = tmp_path_factory.mktemp("workers")
    shards = [toy.random_rows(20 + i, max_seq_length=24, vocab_size=61, seed=i) for i in range(5)]
    toy.write_directory(path / "data", shards, max_seq_length=24, max_predictions_per_seq=4)
    (path / "config.json").write_text(CONFIG.to_json())
    return PretrainingSettings(
        data_dir=str(path / "data"),
        output_dir=str(path / "undisturbed"),
        config=CONFIG,
        strategy="cpu",
        num_train_steps=STEPS,
        num_warmup_steps=5,
        learning_rate=0.01,
        train_batch_size=BATCH,
        save_checkpoints_steps=SAVE,
        shards_in_flight=2,
        seed=3,
        log_example_ids=True,
    )


@contextlib.contextmanager
def workers(settings: PretrainingSettings) -> Iterator[list[subprocess.Popen[str]]]:
    names = ["data_dir", "output_dir", "num_train_steps", "num_warmup_steps", "learning_rate", "train_batch_size"]
    names += ["save_checkpoints_steps", "shards_in_flight", "seed", "log_example_ids"]
    config = pathlib.Path(settings.data_dir).parent / "config.json"
    flags = {"config": config, **{name: getattr(settings, name) for name in names}}
    with two_workers("albert_tf.pretrain", flags) as started:
        yield started


def wait_for_step(settings: PretrainingSettings, target: int, processes: Sequence[subprocess.Popen[str]]) -> None:
    """Waits until the run has noted `target` steps."""
    path = pathlib.Path(settings.output_dir, "example_ids.tsv")
    while all(process.poll() is None for process in processes):
        lines = path.read_text().splitlines() if path.exists() else []
        if lines and int(lines[-1].split("\t")[0]) >= target:
            return
        time.sleep(0.01)
    raise AssertionError([process.communicate()[1] for process in processes])


def state(output_dir: str) -> dict[str, np.ndarray]:
    reader = tf.train.load_checkpoint(f"{output_dir}/checkpoints/step-{STEPS}")
    kinds = ("weights/", "m/", "v/", "step/")  # the number of checkpoints is there, too
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map() if name.startswith(kinds)}


@pytest.mark.thorough
@pytest.mark.slow
def test_a_run_of_two_workers_survives(settings: PretrainingSettings) -> None:
    """SIGTERM to worker 1, then kill -9, then to the end; and one process that nothing happens to."""
    together = dataclasses.replace(settings, output_dir=settings.output_dir.replace("undisturbed", "together"))
    with workers(together) as processes:
        wait_for_step(together, 20, processes)
        processes[1].send_signal(signal.SIGTERM)
        said = [process.communicate(timeout=120)[1] for process in processes]
    assert [process.returncode for process in processes] == [143, 143], said
    stopped = [
        re.findall(r"stopped at step (\d+) of 127; the same command goes on from .* step \1\n", text) for text in said
    ]
    assert stopped[0] == stopped[1]
    step = int(stopped[0][0])
    assert 20 <= step < STEPS
    assert re.search(r"worker 1 \(127\.0\.0\.1:\d+\) was told to stop, and so do all workers", said[0])
    assert "was told to stop" not in said[1]

    with workers(together) as processes:
        wait_for_step(together, 60, processes)
        processes[1].kill()
        _, said_0 = processes[0].communicate(timeout=60)  # what the message promises: nobody waits longer
        _, said_1 = processes[1].communicate()
    assert processes[0].returncode == 1
    assert f"goes on from step {step} (step-{step})" in said_0
    assert f"goes on from step {step} (step-{step})" in said_1
    *_, last = said_0.splitlines()
    newest = re.search(
        r"^albert_tf.pretrain: error: worker 1 \(127\.0\.0\.1:\d+\) is gone or does not answer; see what it said, and "
        r"start all workers again with the same command: they go on from the checkpoint of step (\d+)$",
        last,
    )
    assert newest is not None, said_0
    assert "Traceback" not in said_0

    with workers(together) as processes:
        said = [process.communicate(timeout=240)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
    for text in said:
        assert f"goes on from step {newest[1]} (step-{newest[1]})" in text
    assert "done; worker 0 has written" in said[1]

    Pretraining(dataclasses.replace(settings, strategy="cpu"), progress.progress).run()
    expected, found = state(settings.output_dir), state(together.output_dir)
    assert found.keys() == expected.keys()
    assert len(found) == 3 * 32 + 1
    for name, value in expected.items():
        # One process sums in another order than two: some units in the last place, grown over the steps. (Two workers
        # that nobody disturbs end with the same bits as these.)
        np.testing.assert_allclose(found[name], value, rtol=0, atol=1e-5, err_msg=name)
    whole, pieced = (pathlib.Path(run.output_dir, "example_ids.tsv").read_bytes() for run in (settings, together))
    assert whole == pieced
    assert pathlib.Path(together.output_dir, "model", "model.safetensors").exists()
    assert len(list(pathlib.Path(together.output_dir, "tensorboard", "train").iterdir())) == 3  # one writer a start
