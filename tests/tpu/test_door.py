"""The --strategy=tpu door, whole but for the TPU: flags, data, main, loop, checkpoints, resume, model directory."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

import albert_tf
from tests.conftest import ROOT
from tests.data import toy

LENGTH, BATCH, HELD_OUT_BATCH = 20, 6, 4
STEPS, SAVED = 40, 3


def run_twice(folder: pathlib.Path) -> tuple[dict, str]:
    """What the door used in both runs, and what it said."""
    shape = {
        **toy.CONFIG.to_dict(),
        "num_hidden_layers": 1,
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1,
    }
    (folder / "config.json").write_text(json.dumps(shape), encoding="utf-8")
    flags = {
        "data_dir": folder / "data",
        "eval_data_dir": folder / "held_out",
        "output_dir": folder / "run",
        "config": folder / "config.json",
        "strategy": "tpu",
        "tpu": "some-tpu",
        "tpu_zone": "some-zone-b",
        "gcp_project": "some-project",
        "num_train_steps": STEPS,
        "num_warmup_steps": 1,
        "learning_rate": 0.01,
        "train_batch_size": BATCH,
        "eval_batch_size": HELD_OUT_BATCH,
        "save_checkpoints_steps": SAVED,
        "log_steps": 1,
    }
    command = [sys.executable, "-m", "tests.tpu.tpu_door", *(f"--{name}={value}" for name, value in flags.items())]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=550)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


@pytest.mark.slow
def test_the_door_trains_is_stopped_goes_on_and_writes_a_model(tmp_path: pathlib.Path) -> None:
    rows = toy.random_rows(17, max_seq_length=LENGTH, vocab_size=toy.CONFIG.vocab_size, seed=4)
    for name, shards in (("data", [rows[:5], rows[5:12]]), ("held_out", [rows[12:]])):
        toy.write_directory(tmp_path / name, shards, max_seq_length=LENGTH, max_predictions_per_seq=3)
    seen, said = run_twice(tmp_path)

    assert seen["codes"] == [143, 0]
    assert seen["calls"] == ["connect", "initialize", "strategy"] * 2
    assert seen["resolvers"] == [["some-tpu", "some-zone-b", "some-project"]] * 2
    # Every step was traced in the form of static shapes, for a replica's half of the batch.
    assert {tuple(map(str, entry)) for entry in seen["encoded"]} == {
        ("unrolled", "True", f"[{BATCH // 2}, {LENGTH}]"),
        ("unrolled", "False", f"[{HELD_OUT_BATCH // 2}, {LENGTH}]"),
    }
    stopped = re.search(
        rf"stopped at step (\d+) of {STEPS}; .* goes on from the checkpoint of step \1$", said, re.MULTILINE
    )
    assert stopped is not None, said
    assert SAVED <= int(stopped[1]) < STEPS
    assert f"{STEPS - int(stopped[1])} of {STEPS} steps to do" in said

    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    steps = {kind: [line["step"] for line in lines if line["kind"] == kind] for kind in ("train", "eval")}
    assert steps["eval"] == [STEPS]
    # The step at which the signal came has no line where the stop left no time to write it.
    stop = {int(stopped[1])}
    assert sorted(set(steps["train"]) | stop) == sorted(steps["train"] + list(stop - set(steps["train"])))
    assert set(steps["train"]) | stop == set(range(1, STEPS + 1))
    model = albert_tf.load_model(str(tmp_path / "run" / "model"))
    trained = model.named_weights()["encoder/embeddings/word_embeddings"].numpy()
    assert np.isfinite(trained).all()
    assert np.ptp(trained) > 0.0
