"""Kill -9 and resume: the same weights, slots and examples, bit for bit, as without a kill."""

from __future__ import annotations

import dataclasses
import pathlib
import random
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import progress
from albert_tf.config import AlbertConfig
from albert_tf.training.pretraining import Pretraining
from albert_tf.training.settings import PretrainingSettings
from tests.data import toy

pytestmark = pytest.mark.xdist_group("resume")

SAVE, STEPS, BATCH = 13, 97, 8
CONFIG = AlbertConfig(
    vocab_size=61,
    embedding_size=12,
    hidden_size=24,
    num_hidden_layers=2,
    num_attention_heads=3,
    intermediate_size=40,
    max_position_embeddings=27,
    hidden_dropout_prob=0.1,
    attention_probs_dropout_prob=0.1,
)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> PretrainingSettings:
    """110 examples: an epoch ends within every fourteen steps."""
    path = tmp_path_factory.mktemp("resume")
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
        learning_rate=0.02,
        train_batch_size=BATCH,
        save_checkpoints_steps=SAVE,
        shards_in_flight=2,
        seed=3,
        log_example_ids=True,
    )


def _command(settings: PretrainingSettings) -> list[str]:
    names = ("data_dir", "output_dir", "strategy", "num_train_steps", "num_warmup_steps", "learning_rate")
    more = ("train_batch_size", "save_checkpoints_steps", "shards_in_flight", "seed", "log_example_ids")
    config = pathlib.Path(settings.data_dir).parent / "config.json"
    given = [f"--{name}={str(getattr(settings, name)).removeprefix('None')}" for name in (*names, *more)]
    return [sys.executable, "-m", "albert_tf.pretrain", f"--config={config}", *given]


def _last_step(path: pathlib.Path) -> int:
    lines = path.read_text().splitlines() if path.exists() else []
    return int(lines[-1].split("\t")[0]) if lines else 0


def _state(output_dir: str) -> dict[str, np.ndarray]:
    reader = tf.train.load_checkpoint(f"{output_dir}/checkpoints/step-{STEPS}")
    names = [name for name in reader.get_variable_to_shape_map() if "OBJECT_GRAPH" not in name]
    return {name: reader.get_tensor(name) for name in names}


def _run_and_kill(settings: PretrainingSettings, target: int) -> tuple[int, str]:
    """Kills the run at some moment after step `target` was reached; the last step it noted, and its messages."""
    examples = pathlib.Path(settings.output_dir) / "example_ids.tsv"
    with subprocess.Popen(_command(settings), stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 240
        while process.poll() is None and time.monotonic() < deadline:
            step = _last_step(examples)
            if step >= target and step % SAVE:
                time.sleep(random.random() * 0.02)
                process.send_signal(signal.SIGKILL)
                break
            time.sleep(0.001)
        _, messages = process.communicate()
    assert process.returncode == -signal.SIGKILL, messages
    return _last_step(examples), messages


@pytest.mark.slow
def test_three_kills_change_nothing(settings: PretrainingSettings) -> None:
    killed = dataclasses.replace(settings, output_dir=settings.output_dir.replace("undisturbed", "killed"))
    checkpoints = pathlib.Path(killed.output_dir) / "checkpoints"
    targets = (random.randint(15, 24), random.randint(41, 50), random.randint(67, 76))
    resumed_at = 0
    for target in targets:
        reached, messages = _run_and_kill(killed, target)
        assert (f"goes on from step {resumed_at} " in messages) == (resumed_at > 0)
        assert f"{STEPS - resumed_at} of {STEPS} steps to do" in messages
        newest = re.search(r'model_checkpoint_path: ".*step-(\d+)"', (checkpoints / "checkpoint").read_text())
        assert newest is not None
        print(f"killed after step {reached}, newest checkpoint {newest[1]}")
        resumed_at = int(newest[1])
        assert SAVE <= resumed_at <= reached + 10  # ten steps are made in one call, and noted after it
    last = subprocess.run(_command(killed), capture_output=True, text=True, timeout=240)
    assert last.returncode == 0, last.stderr
    assert f"goes on from step {resumed_at} (step-{resumed_at})" in last.stderr
    assert f"{STEPS - resumed_at} of {STEPS} steps to do" in last.stderr

    Pretraining(settings, progress.progress).run()
    expected, found = _state(settings.output_dir), _state(killed.output_dir)
    assert found.keys() == expected.keys()
    assert {kind: sum(name.startswith(f"{kind}/") for name in found) for kind in ("weights", "m", "v")} == {
        "weights": 32,
        "m": 32,
        "v": 32,
    }
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
    for file in ("example_ids.tsv", "model/model.safetensors", "metrics.jsonl"):
        whole, pieced = (pathlib.Path(run.output_dir, file).read_bytes() for run in (settings, killed))
        if file == "metrics.jsonl":  # means are over the steps since the last line, or since the restart
            whole, pieced = (re.sub(rb'"masked_lm_loss.*?"learning_rate', b"", text) for text in (whole, pieced))
        assert whole == pieced, file

    again = subprocess.run(_command(killed), capture_output=True, text=True, timeout=60)
    assert again.returncode == 0
    assert "this run of 97 steps is finished already" in again.stderr


@pytest.mark.slow
def test_another_seed_gives_other_weights(settings: PretrainingSettings) -> None:
    """Needs the undisturbed run of the test above, or makes it."""
    other = dataclasses.replace(settings, seed=4, output_dir=settings.output_dir.replace("undisturbed", "other"))
    for run in (settings, other):
        if not pathlib.Path(run.output_dir, "model").exists():
            Pretraining(run, progress.progress).run()
    expected, found = _state(settings.output_dir), _state(other.output_dir)
    same = [name for name, value in expected.items() if np.array_equal(value, found[name])]
    assert [name for name in same if name.startswith("weights/")] == []
