"""The pretraining door: what it refuses, in one line, and what a run writes."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from albert_tf import files, model_directory, progress
from albert_tf.training import settings as settings_module
from albert_tf.training.pretraining import Pretraining
from albert_tf.training.settings import PretrainingSettings
from tests.data import toy

CONFIG = toy.CONFIG


@pytest.fixture
def data_dir(tmp_path: pathlib.Path) -> pathlib.Path:
    shards = [toy.random_rows(7 + i, max_seq_length=20, vocab_size=61, seed=i) for i in range(3)]
    return toy.write_directory(tmp_path / "data", shards, max_seq_length=20, max_predictions_per_seq=3)


@pytest.fixture
def settings(tmp_path: pathlib.Path, data_dir: pathlib.Path) -> PretrainingSettings:
    return PretrainingSettings(
        data_dir=str(data_dir),
        output_dir=str(tmp_path / "run"),
        config=CONFIG,
        strategy="cpu",
        num_train_steps=7,
        learning_rate=0.01,
        train_batch_size=5,
    )


def _door(tmp_path: pathlib.Path, *arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
    """Runs the door on tmp_path/data with a small shape."""
    flags = {"data_dir": tmp_path / "data", "output_dir": tmp_path / "run", "num_train_steps": 7, "learning_rate": 0.01}
    shape = {"hidden_size": 10, "num_attention_heads": 2, "num_hidden_layers": 2, "max_position_embeddings": 23}
    given = {**flags, **({} if {"config", "model_size"} & changes.keys() else shape), **changes}
    command = [sys.executable, "-m", "albert_tf.pretrain", *(f"--{k}={v}" for k, v in given.items()), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=200)


def _assert_refused(done: subprocess.CompletedProcess[str], code: int, *parts: str) -> None:
    assert done.returncode == code, done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("albert_tf.pretrain: error: ")
    assert "Traceback" not in done.stderr
    for part in parts:
        assert part in last


def test_missing_data(tmp_path: pathlib.Path) -> None:
    _assert_refused(_door(tmp_path), 1, f"{tmp_path}/data", "no such folder; a data directory is wanted")
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("data_dir")
def test_config_with_an_unknown_key(tmp_path: pathlib.Path) -> None:
    (tmp_path / "config.json").write_text('{"hidden_sizes": 10}')
    done = _door(tmp_path, config=str(tmp_path / "config.json"))
    _assert_refused(done, 1, f"{tmp_path}/config.json", "unknown key 'hidden_sizes'")
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("data_dir")
def test_config_of_another_vocabulary(tmp_path: pathlib.Path) -> None:
    (tmp_path / "config.json").write_text(CONFIG.replace(vocab_size=59).to_json())
    done = _door(tmp_path, config=str(tmp_path / "config.json"))
    _assert_refused(done, 1, "dataset.json", "vocab_size must be that of the model, 59, got 61")


def test_tokenizer_of_another_run(tmp_path: pathlib.Path, data_dir: pathlib.Path) -> None:
    (data_dir / "spiece.model").write_bytes(toy.tokenizer(57).model_proto)
    digests = [toy.tokenizer(size).digest[:12] for size in (61, 57)]
    message = f"made with the tokenizer {digests[0]}, but the files beside it in {data_dir} are {digests[1]};"
    _assert_refused(_door(tmp_path), 1, f"dataset.json: {message} build the shards again")
    assert not (tmp_path / "run").exists()


def test_cut_description_of_the_data(tmp_path: pathlib.Path, data_dir: pathlib.Path) -> None:
    content = (data_dir / "dataset.json").read_text()
    (data_dir / "dataset.json").write_text(content[: len(content) // 2])
    _assert_refused(_door(tmp_path), 1, f"{data_dir}/dataset.json:", ": not valid JSON: ")
    assert not (tmp_path / "run").exists()


def test_cut_shard(tmp_path: pathlib.Path, data_dir: pathlib.Path) -> None:
    shard = data_dir / "pretrain-00001-of-00003.tfrecord"
    shard.write_bytes(shard.read_bytes()[:200])
    _assert_refused(_door(tmp_path), 1, f"{shard}: has 200 bytes", "cut off in record ", "starts at byte ")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_damaged_shard_leaves_nothing(tmp_path: pathlib.Path, data_dir: pathlib.Path) -> None:
    shard = data_dir / "pretrain-00002-of-00003.tfrecord"
    content = bytearray(shard.read_bytes())
    content[-9] ^= 4
    shard.write_bytes(content)
    done = _door(tmp_path, "--intermediate_size=14", train_batch_size="5", strategy="cpu")
    _assert_refused(done, 1, f"{shard}: record 8 at byte ", "checksum does not match")
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("data_dir")
def test_sequences_longer_than_the_model_takes(tmp_path: pathlib.Path) -> None:
    done = _door(tmp_path, max_position_embeddings="19")
    _assert_refused(done, 1, "max_seq_length must be at most the model's max_position_embeddings, 19, got 20")


@pytest.mark.usefixtures("data_dir")
def test_batch_larger_than_the_data(tmp_path: pathlib.Path) -> None:
    done = _door(tmp_path, train_batch_size="25")
    _assert_refused(done, 1, "dataset.json: train_batch_size must be at most the number of examples, 24, got 25")
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("data_dir")
def test_wrong_usage(tmp_path: pathlib.Path) -> None:
    _assert_refused(_door(tmp_path, "--layers=2"), 2, "unknown flag --layers")
    _assert_refused(_door(tmp_path, config="c.json", num_train_steps="none"), 2, "num_train_steps")
    _assert_refused(_door(tmp_path, "--hidden_size=10", config="c.json"), 2, "give either --config or --hidden_size")
    _assert_refused(_door(tmp_path, model_size="huge"), 2, "unknown configuration 'huge'")
    _assert_refused(_door(tmp_path, learning_rate="nan"), 2, "learning_rate must be a finite number", "got nan")
    _assert_refused(
        _door(tmp_path, num_attention_heads="3"), 2, "hidden_size must be a multiple of num_attention_heads"
    )
    _assert_refused(_door(tmp_path, "--eval_data_dir="), 2, "--eval_data_dir= has no value")
    _assert_refused(_door(tmp_path, "--hidden_act=gelo"), 2, "gelu|gelu_exact|relu")
    done = subprocess.run([sys.executable, "-m", "albert_tf.pretrain"], capture_output=True, text=True)
    _assert_refused(done, 2, "missing --output_dir, --learning_rate")


@pytest.mark.usefixtures("data_dir")
def test_another_runs_folder(tmp_path: pathlib.Path, settings: PretrainingSettings) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "notes.txt").write_text("mine")
    _assert_refused(_door(tmp_path), 1, f"{run}: has content, but none of a pretraining run")
    fingerprint = settings.fingerprint("0" * 64)
    (run / "settings.json").write_text(settings_module.to_json(fingerprint))
    done = _door(tmp_path, "--intermediate_size=14", "--embedding_size=6", learning_rate="0.02", train_batch_size="5")
    _assert_refused(
        done,
        1,
        "settings.json",
        "learning_rate = 0.01 there, 0.02 asked for",
        "other training data",
        "or remove this one",
    )


@pytest.mark.usefixtures("data_dir")
def test_another_batch_size_is_refused_at_a_resume(tmp_path: pathlib.Path, settings: PretrainingSettings) -> None:
    (tmp_path / "run").mkdir()
    fingerprint = settings.fingerprint("0" * 64)
    (tmp_path / "run" / "settings.json").write_text(settings_module.to_json(fingerprint))
    done = _door(tmp_path, "--intermediate_size=14", "--embedding_size=6", train_batch_size="6")
    _assert_refused(done, 1, "settings.json: made by a run with other settings", "train_batch_size = 5 there, 6 asked")


@pytest.mark.usefixtures("data_dir")
def test_wrong_workers(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    _assert_refused(_door(tmp_path, "--worker_index=0"), 2, "worker_index belongs to strategy=multi_worker")
    _assert_refused(_door(tmp_path, strategy="multi_worker"), 2, "needs worker_hosts=host:port,host:port and")
    hosts = "--worker_hosts=a:1,b:2"
    done = _door(tmp_path, hosts, "--worker_index=2", strategy="multi_worker")
    _assert_refused(done, 2, "worker_index must be in [0, 2), the number of worker_hosts, got 2")
    monkeypatch.setenv("TF_CONFIG", "{")
    _assert_refused(_door(tmp_path, strategy="multi_worker"), 2, "TF_CONFIG")
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("data_dir")
def test_a_run_that_is_at_work_keeps_others_out(tmp_path: pathlib.Path) -> None:
    with files.lock_directory(tmp_path / "run"):
        _assert_refused(_door(tmp_path), 1, f"{tmp_path}/run: another run works there; wait for it, or name another")


def test_where_a_run_stopped(
    tmp_path: pathlib.Path, settings: PretrainingSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = dataclasses.replace(settings, save_checkpoints_steps=3, log_steps=2, eval_data_dir=settings.data_dir)
    run = Pretraining(changed, progress.progress)
    assert run.stop() == "stopped at step 0 of 7; there is no checkpoint yet: the same command begins anew"

    def interrupt(self: Pretraining, *arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Pretraining, "_evaluate", interrupt)  # at the end, before the last checkpoint
    with pytest.raises(KeyboardInterrupt):
        run.run()
    assert run.stop() == "stopped at step 7 of 7; the same command goes on from the checkpoint of step 7"
    assert sorted(path.name for path in tmp_path.glob("run/checkpoints/*.index")) == [
        "step-3.index",
        "step-6.index",
        "step-7.index",
    ]


@pytest.mark.slow
@pytest.mark.usefixtures("data_dir")
def test_ctrl_c_ends_a_run_with_a_word_on_its_step(tmp_path: pathlib.Path) -> None:
    """SIGTERM: tests/end_to_end/test_resume.py."""
    shape = ["--hidden_size=10", "--num_attention_heads=2", "--num_hidden_layers=2", "--max_position_embeddings=23"]
    folders = [f"--data_dir={tmp_path}/data", f"--output_dir={tmp_path}/run", "--strategy=cpu"]
    steps = ["--num_train_steps=9999999", "--save_checkpoints_steps=20", "--learning_rate=1e-4", "--train_batch_size=3"]
    command = [sys.executable, "-m", "albert_tf.pretrain", *shape, *folders, *steps, "--log_example_ids"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 120
        while not (tmp_path / "run" / "checkpoints" / "step-20.index").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        messages = process.communicate(timeout=60)[1].splitlines()
    assert process.returncode == 130, messages
    last = [line for line in messages if "stopped" in line][-1]
    found = re.search(
        r"stopped at step (\d+) of 9999999; the same command goes on from the checkpoint of step (\d+)", last
    )
    assert found is not None
    assert 20 <= int(found[2]) == int(found[1])  # what was done is saved, and what is saved is told of
    assert (tmp_path / "run" / "example_ids.tsv").read_text().splitlines()[-1].startswith(f"{found[1]}\t")
    assert (tmp_path / "run" / "checkpoints" / f"step-{found[2]}.index").exists()


def test_tpu_that_is_not_there(settings: PretrainingSettings) -> None:
    with pytest.raises(ValueError, match=r"strategy=tpu found no TPU .local.* use --strategy=auto"):
        Pretraining(dataclasses.replace(settings, strategy="tpu", tpu="local"), progress.progress)


def test_batch_that_no_device_number_divides(settings: PretrainingSettings) -> None:
    with pytest.raises(ValueError, match="strategy=mirrored found no GPU; name num_devices"):
        Pretraining(dataclasses.replace(settings, strategy="mirrored"), progress.progress)


def test_a_run_on_static_records_writes_a_model_directory(tmp_path: pathlib.Path) -> None:
    generator = np.random.default_rng(4)
    rows = [
        {
            "input_ids": [2, *generator.integers(5, 61, 16).tolist(), 3, 0, 0],
            "input_mask": [1] * 18 + [0] * 2,
            "segment_ids": [0] * 9 + [1] * 9 + [0] * 2,
            "token_boundary": [1] * 20,
            "masked_lm_positions": [2, 5, 0],
            "masked_lm_ids": [7 + n % 9, 8, 0],
            "masked_lm_weights": [1.0, 1.0, 0.0],
            "next_sentence_labels": [n % 2],
        }
        for n in range(17)
    ]
    written = [
        toy.write_directory(
            tmp_path / name, [rows[:5], rows[5:]], max_seq_length=20, max_predictions_per_seq=3, masking="static"
        )
        for name in ("train", "held_out")
    ]
    settings = PretrainingSettings(
        data_dir=str(written[0]), eval_data_dir=str(written[1]), output_dir=str(tmp_path / "run"), config=CONFIG,
        strategy="cpu", num_train_steps=6, learning_rate=0.01, train_batch_size=5, eval_steps=4, log_steps=3,
        keep_checkpoints=2, save_checkpoints_steps=2, dtype="bfloat16", skip_padding="no",
    )  # fmt: skip
    run = Pretraining(settings, progress.progress)
    figures = run.run()
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert [(line["step"], line["kind"]) for line in lines] == [(3, "train"), (4, "eval"), (6, "train"), (6, "eval")]
    assert lines[0]["learning_rate"] == pytest.approx(0.01 * (1 - 3 / 6))
    assert lines[-1]["masked_lm_loss"] == pytest.approx(figures["masked_lm_loss"], rel=1e-6)
    names = {path.name for path in (tmp_path / "run/checkpoints").glob("*.index")}
    assert names == {"step-4.index", "step-6.index"}
    model = model_directory.load_model(tmp_path / "run/model")
    assert model.config == CONFIG
    for name, variable in model.named_weights().items():
        np.testing.assert_array_equal(variable.numpy(), run._model.named_weights()[name].numpy(), err_msg=name)
    assert model_directory.load_tokenizer(tmp_path / "run/model").digest == toy.tokenizer().digest
    provenance = model_directory.read_training(tmp_path / "run/model")
    assert provenance["step"] == 6
    assert provenance["settings"]["learning_rate"] == 0.01


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train_batch_size": 0}, "train_batch_size must be a whole number of at least 1, got 0"),
        ({"num_warmup_steps": 8}, r"num_warmup_steps must be in \[0, num_train_steps = 7\], got 8"),
        ({"learning_rate": float("nan")}, "learning_rate must be a finite number of at least 0, got nan"),
        ({"seed": -1}, r"seed must be in \[0, 2\*\*31\), got -1"),
        ({"optimizer": "sgd"}, "optimizer must be one of lamb, adamw, got 'sgd'"),
        ({"eval_steps": 0}, "eval_steps must be a whole number of at least 1, got 0"),
        ({"moving_average_decay": 1.0}, r"moving_average_decay must be in \[0, 1\), got 1.0"),
        ({"save_checkpoints_minutes": 0.0}, "save_checkpoints_minutes must be a finite number above 0, got 0.0"),
        ({"num_train_steps": 2**31}, r"num_train_steps must be below 2\*\*31"),
        ({"num_devices": 2}, "num_devices belongs to strategy=mirrored, got strategy=cpu"),
        ({"tpu_zone": "z"}, "tpu_zone belongs to strategy=tpu, got strategy=cpu"),
        ({"output_dir": "runs/[a]"}, r"output_dir must have none of .* takes for a pattern, got \[ in 'runs/\[a\]'"),
    ],
)
def test_settings_are_checked(settings: PretrainingSettings, change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(settings, **change)
