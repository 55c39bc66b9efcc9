"""The fine-tuning door: what it refuses, in one line, what it chooses, and what a run writes."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
import signal
import subprocess
import sys
import time
import types
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from albert_tf import door, files, model_directory, training_door
from albert_tf.training import seeds
from albert_tf.training.finetuning_settings import FinetuningSettings
from tests import doors
from tests.data import toy
from tests.training import task_rows

finetune = doors.load("albert_tf.finetune")
pytestmark = pytest.mark.xdist_group("finetune")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Holds `start`, a new model, and `data`, a task of three labels."""
    path = tmp_path_factory.mktemp("finetune")
    task_rows.write_start(path / "start")
    generator = np.random.default_rng(1)
    (path / "data").mkdir()
    for split, count in (("train", 61), ("dev", 20)):
        lines = ["text\tlabel"]
        for _ in range(count):
            words = ["".join(generator.choice(toy.SYLLABLES, size=2)) for _ in range(generator.integers(2, 7))]
            lines.append(f"{' '.join(words)}\t{generator.choice(task_rows.LABELS)}")
        (path / "data" / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    return path


def _command(folder: pathlib.Path, *arguments: str, **changes: Any) -> list[str]:
    given: dict[str, Any] = {
        "task": "classification",
        "data_dir": folder / "data",
        "model": folder / "start",
        "strategy": "cpu",
        **changes,
    }
    flags = (f"--{name}={value}" for name, value in given.items())
    return [sys.executable, "-m", "albert_tf.finetune", *flags, *arguments]


def _door(folder: pathlib.Path, *arguments: str, **changes: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(_command(folder, *arguments, **changes), capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ({"task": "sst-9"}, 2, "task must be one of cola, sst-2,"),
        ({"task": "ax"}, 2, "ax has no training set"),
        ({"task": "cola", "text_column": "x"}, 2, "text_column is no option of cola, which takes none"),
        ({"text_column": "words"}, 1, "train.tsv:2: no column 'words'; columns: 'text', 'label'"),
        ({"seeds": "1,1"}, 2, "seeds must be one or more that differ, got '1,1'"),
        ({"num_train_steps": 2, "num_train_epochs": 3}, 2, "give either --num_train_steps or --num_train_epochs"),
        ({"train_batch_size": 70}, 1, "train_batch_size must be at most the number of examples, 61, got 70"),
        ({"max_seq_length": 0}, 2, "max_seq_length"),
        ({"max_seq_length": 9, "stride": 8}, 2, "stride must be in [1, 7] for max_seq_length 9, got 8"),
        ({"stride": 0}, 2, "stride"),
        ({"text_column": "label"}, 2, "text, label and id must be columns that differ, got 'label', 'label'"),
        ({"labels": "a,a"}, 2, "labels must be at least 2 that differ, got a, a"),
        ({"columns": "a,b"}, 2, "columns must hold 'text', got a, b"),
        ({"classifier_dropout": 1}, 2, "classifier_dropout must be in [0, 1), got 1.0"),
        ({"max_seq_length": 24}, 1, "max_seq_length must be at most the model's max_position_embeddings, 23, got 24"),
        ({"model": "/nowhere"}, 1, "/nowhere"),
    ],
)
def test_what_is_refused(
    folder: pathlib.Path, tmp_path: pathlib.Path, changes: dict[str, Any], code: int, message: str
) -> None:
    done = _door(folder, output_dir=tmp_path / "run", **changes)
    assert done.returncode == code, done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("albert_tf.finetune: error: ")
    assert message in last
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


def values(**given: Any) -> Any:
    """Flags as if these were given."""
    names = ("train_batch_size", "num_train_steps", "num_train_epochs", "num_warmup_steps", "learning_rate", "dropout")
    defaults: dict[str, Any] = {**dict.fromkeys(names), "preset": "paper", "seeds": ["4"]}
    rest: dict[str, Any] = {
        "output_dir": "o", "model": "m", "strategy": "cpu", "num_devices": None, "tpu": "", "tpu_zone": "",
        "gcp_project": "", "worker_hosts": [], "worker_index": None, "optimizer": "adamw", "weight_decay": 0.01,
        "clip_norm": 1.0, "moving_average_decay": 0.0, "gradient_accumulation_steps": 1, "remat": False,
        "save_checkpoints_steps": 1000, "save_checkpoints_minutes": None, "keep_checkpoints": 3, "eval_steps": None,
        "eval_batch_size": None, "log_steps": 50, "dtype": "float32", "skip_padding": "auto",
        "log_example_ids": False, "max_seq_length": None, "bucket_by_length": True, "classifier_dropout": 0.1,
    }  # fmt: skip
    return types.SimpleNamespace(**{**defaults, **rest, **given})


def test_flags_go_before_the_preset() -> None:
    chosen = finetune.make_settings(values(), "rte", 2490, 128)
    assert (chosen.num_train_steps, chosen.num_warmup_steps, chosen.learning_rate) == (800, 200, 3e-5)
    assert (chosen.dropout, chosen.max_seq_length, chosen.seed, chosen.train_batch_size) == (0.1, 128, 4, 32)
    given = values(num_train_epochs=2.0, learning_rate=1e-4, dropout=0.0, train_batch_size=83, preset="base_v1")
    chosen = finetune.make_settings(given, "rte", 2490, 64)
    assert (chosen.num_train_steps, chosen.learning_rate, chosen.dropout) == (60, 1e-4, 0.0)
    assert chosen.num_warmup_steps == 15  # as large a share of the steps
    chosen = finetune.make_settings(values(num_train_steps=7, num_warmup_steps=3), "tagging", 90, 64)
    assert (chosen.num_train_steps, chosen.num_warmup_steps, chosen.dropout) == (7, 3, None)
    with pytest.raises(door.UsageError, match="num_train_epochs must be a finite number above 0, got 0"):
        finetune.make_settings(values(num_train_epochs=0.0), "rte", 2490, 64)
    with pytest.raises(door.UsageError, match="learning_rate must be a finite number"):
        finetune.make_settings(values(learning_rate=-1.0), "rte", 2490, 64)


def test_folders_of_other_runs(folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    for given in ("1", "1,2"):
        done = _door(folder, output_dir=tmp_path, seeds=given)
        assert done.returncode == 1
        assert f"{tmp_path}: has content, but none of a fine-tuning run" in done.stderr
    (tmp_path / "settings.json").write_text("{}")
    done = _door(folder, output_dir=tmp_path, seeds="1,2")
    assert done.returncode == 1
    assert f"{tmp_path}: holds a run of one seed; name another output_dir" in done.stderr
    assert not (tmp_path / "seed-1").exists()


def test_the_folder_of_a_seed_is_locked_too(folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "seed-1").mkdir()
    with files.lock_directory(tmp_path / "seed-1"):
        done = _door(folder, output_dir=tmp_path, seeds="1,2")
    assert done.returncode == 1
    assert f"{tmp_path}/seed-1: another run works there" in done.stderr
    assert list((tmp_path / "seed-1").iterdir()) == []


def test_a_run_killed_at_its_first_file_goes_on(tmp_path: pathlib.Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    (tmp_path / f"settings.json.partial-{ended.pid}-0123abcd").write_text("{")
    with training_door.keeping_folder(str(tmp_path), None):
        training_door.claim_output(str(tmp_path), {"seed": 1}, kind="fine-tuning")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_seeds_from_files_to_the_best_model(folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    run = tmp_path / "run"
    flags = {"output_dir": run, "num_train_steps": 5, "learning_rate": 0.002, "seeds": "3,1", "train_batch_size": 6}
    done = _door(folder, **flags)
    assert done.returncode == 0, done.stderr
    assert "num_train_steps 5, num_warmup_steps 1, learning_rate 0.002, train_batch_size 6" in done.stderr
    written = json.loads((run / "seeds.json").read_text())
    assert [one["seed"] for one in written["runs"]] == [3, 1]
    assert f"the best is seed {written['best']}" in done.stdout
    best = run / f"seed-{written['best']}" / "model"
    for path in best.iterdir():
        assert (run / "model" / path.name).read_bytes() == path.read_bytes()
    model = model_directory.load_model(run / "model")
    assert model.head_config.labels == task_rows.LABELS
    training = model_directory.read_training(run / "model")
    assert training["task"]["name"] == "classification"
    assert json.loads((run / "model" / "task_config.json").read_text())["max_seq_length"] == 23
    first, second = (
        safetensors.numpy.load_file(run / f"seed-{seed}" / "model" / "model.safetensors") for seed in (1, 3)
    )
    assert not np.array_equal(first["classifier/kernel"], second["classifier/kernel"])
    # Given again, it tells what is there, at once; with other settings it refuses.
    again = _door(folder, **flags)
    assert again.returncode == 0, again.stderr
    assert "seed-3: this run of 5 steps is finished already" in again.stderr
    assert again.stdout.splitlines()[-5:] == done.stdout.splitlines()[-5:]
    other = _door(folder, **{**flags, "learning_rate": 0.003})
    assert other.returncode == 1
    assert "settings.json: made by a run with other settings (learning_rate = 0.002 there, 0.003" in other.stderr


def test_a_seed_that_diverges_does_not_end_the_others(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = FinetuningSettings(
        model="start", output_dir=str(tmp_path), max_seq_length=9, num_train_steps=5, learning_rate=0.1
    )
    inputs: Any = types.SimpleNamespace(deciding_figure=("accuracy", True))

    def run(of_seed: FinetuningSettings, _: object) -> seeds.Result:
        if of_seed.seed != 2:
            raise training_door.Diverged("step 3 gave nan. Try a lower rate", account="step 3 gave nan")
        path = pathlib.Path(of_seed.output_dir, "model")
        path.mkdir(parents=True)
        (path / "model.safetensors").write_text("weights")
        return seeds.Result(2, str(path), {"accuracy": 0.5}, "accuracy", True)

    monkeypatch.setattr(finetune, "_run", run)
    finetune._run_seeds(settings, inputs, [1, 2, 3])
    assert (tmp_path / "model" / "model.safetensors").read_text() == "weights"
    assert [one["diverged"] for one in json.loads((tmp_path / "seeds.json").read_text())["runs"]] == [
        "step 3 gave nan", None, "step 3 gave nan",
    ]  # fmt: skip
    assert "without 2 that diverged" in capsys.readouterr().out
    with pytest.raises(training_door.Diverged, match="Try a lower rate"):
        finetune._run_seeds(dataclasses.replace(settings, output_dir=str(tmp_path / "none")), inputs, [1, 3])


@pytest.mark.thorough
@pytest.mark.slow
def test_a_killed_run_goes_on_bit_for_bit(folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    flags: dict[str, Any] = {
        "num_train_steps": 60, "learning_rate": 0.002, "train_batch_size": 6, "dropout": 0.1, "eval_steps": 25,
        "save_checkpoints_steps": 10, "moving_average_decay": 0.9,
    }  # fmt: skip
    done = _door(folder, "--log_example_ids", output_dir=tmp_path / "whole", **flags)
    assert done.returncode == 0, done.stderr
    for number, after in ((signal.SIGKILL, 12), (signal.SIGTERM, 31)):
        command = _command(folder, "--log_example_ids", output_dir=tmp_path / "killed", **flags)
        examples = tmp_path / "killed" / "example_ids.tsv"
        with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
            deadline = time.monotonic() + 200
            while process.poll() is None and time.monotonic() < deadline:
                if examples.exists() and examples.read_text().count("\n") >= after:
                    process.send_signal(number)
                    break
                time.sleep(0.005)
            _, messages = process.communicate()
        assert process.returncode == (143 if number == signal.SIGTERM else -signal.SIGKILL), messages
    done = _door(folder, "--log_example_ids", output_dir=tmp_path / "killed", **flags)
    assert done.returncode == 0, done.stderr
    assert re.search(r"goes on from step (\d+)", done.stderr)
    for name in ("model/model.safetensors", "best/model.safetensors", "example_ids.tsv"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
