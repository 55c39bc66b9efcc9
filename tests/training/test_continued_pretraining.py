"""Pretraining that goes on from a model: what is taken of it, and which data and flags do not fit it."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import safetensors.numpy

from albert_tf import model_directory, progress
from albert_tf.head_config import Head, HeadConfig
from albert_tf.modeling.models import make_model
from albert_tf.training.inputs import read_inputs
from albert_tf.training.pretraining import Pretraining
from albert_tf.training.settings import PretrainingSettings
from albert_tf.training.warm_start import read_warm_start
from tests import doors
from tests.data import toy
from tests.modeling.small_models import randomize

pretrain = doors.load("albert_tf.pretrain")


@pytest.fixture
def settings(tmp_path: pathlib.Path) -> PretrainingSettings:
    shards = [toy.random_rows(7 + i, max_seq_length=20, vocab_size=61, seed=i) for i in range(3)]
    toy.write_directory(tmp_path / "data", shards, max_seq_length=20, max_predictions_per_seq=3)
    return PretrainingSettings(
        data_dir=str(tmp_path / "data"),
        output_dir=str(tmp_path / "run"),
        config=toy.CONFIG,
        model=str(tmp_path / "start"),
        strategy="cpu",
        num_train_steps=3,
        learning_rate=0.01,
        train_batch_size=5,
    )


def write_start(folder: pathlib.Path, head: Head = "pretraining", vocab_size: int = 61) -> None:
    config = dataclasses.replace(toy.CONFIG, vocab_size=vocab_size)
    model = make_model(config, HeadConfig(head=head))
    randomize(model.named_weights())
    model_directory.save_model_directory(folder / "start", model, toy.tokenizer(vocab_size))


def weights(folder: pathlib.Path) -> dict[str, np.ndarray]:
    return dict(safetensors.numpy.load_file(folder / "model.safetensors"))


@pytest.mark.parametrize("head", ["pretraining", "masked_lm", "encoder"])
def test_a_run_begins_with_the_weights_that_are_there(
    tmp_path: pathlib.Path, settings: PretrainingSettings, head: Head
) -> None:
    """With a rate of 0 it also ends with them; what is not there is that of a new model of the same seed."""
    write_start(tmp_path, head)
    settings = dataclasses.replace(settings, learning_rate=0.0, num_train_steps=1)
    start = read_warm_start(tmp_path / "start")
    Pretraining(settings, progress.progress, inputs=read_inputs(settings, start)).run()
    there, found = weights(tmp_path / "start"), weights(tmp_path / "run" / "model")
    new = make_model(toy.CONFIG, HeadConfig(), seed=settings.seed).named_weights()
    assert found.keys() == new.keys()
    assert len(there.keys() & found.keys()) == len(there)
    for name, value in found.items():
        np.testing.assert_array_equal(value, there[name] if name in there else new[name].numpy(), err_msg=name)
    noted = json.loads((tmp_path / "run" / "model" / "training.json").read_text())
    assert noted["start"] == str(tmp_path / "start")
    assert noted["settings"]["start"] == start.digest


def test_what_decides_a_run_holds_the_weights_it_starts_from(settings: PretrainingSettings) -> None:
    assert settings.fingerprint("d").get("start") is None
    assert settings.fingerprint("d", start_digest="s")["start"] == "s"


def door(folder: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "albert_tf.pretrain", f"--data_dir={folder / 'data'}", "--strategy=cpu"]
    command += [f"--output_dir={folder / 'run'}", "--num_train_steps=3", "--learning_rate=0.01", *arguments]
    return subprocess.run([*command, "--train_batch_size=5"], capture_output=True, text=True, timeout=200)


@pytest.mark.usefixtures("settings")
def test_through_the_door(tmp_path: pathlib.Path) -> None:
    write_start(tmp_path)
    done = door(tmp_path, f"--model={tmp_path / 'start'}", "--hidden_dropout_prob=0.125")
    assert done.returncode == 0, done.stderr
    config = model_directory.read_config(tmp_path / "run" / "model")
    assert config == dataclasses.replace(toy.CONFIG, hidden_dropout_prob=0.125)


@pytest.mark.usefixtures("settings")
@pytest.mark.parametrize(
    ("arguments", "vocab_size", "code", "message"),
    [
        (("--hidden_size=12",), 61, 2, "hidden_size cannot be given: the shape is that of --model"),
        (("--model_size=base",), 61, 2, "model_size cannot be given: the shape is that of --model"),
        ((), 59, 1, "made for 61 pieces, "),
    ],
)
def test_what_does_not_fit_is_refused(
    tmp_path: pathlib.Path, arguments: tuple[str, ...], vocab_size: int, code: int, message: str
) -> None:
    write_start(tmp_path, vocab_size=vocab_size)
    done = door(tmp_path, f"--model={tmp_path / 'start'}", *arguments)
    assert done.returncode == code, done.stderr
    assert message in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


def test_pieces_of_another_tokenizer_are_refused(tmp_path: pathlib.Path, settings: PretrainingSettings) -> None:
    write_start(tmp_path)
    config = tmp_path / "start" / "tokenizer_config.json"
    values = json.loads(config.read_text())
    config.write_text(json.dumps({**values, "lower_case": not values["lower_case"]}))
    with pytest.raises(ValueError, match=r"dataset\.json: made with another tokenizer than that of .*start"):
        read_inputs(settings, read_warm_start(tmp_path / "start"))


def test_a_format_without_a_model_is_refused(tmp_path: pathlib.Path, settings: PretrainingSettings) -> None:
    del settings  # it made the data
    done = door(tmp_path, "--model_head=masked_lm", "--hidden_size=12", "--num_attention_heads=2")
    assert done.returncode == 2
    assert "--model_format and --model_head are about --model, which is not given" in done.stderr


@pytest.mark.parametrize(
    ("hidden_size", "optimizer", "rate", "is_said"),
    [(768, "lamb", 0.01, True), (768, "lamb", 0.0002, False), (768, "adamw", 0.01, False), (96, "lamb", 0.01, False)],
)
def test_a_rate_far_from_the_papers_is_said(
    caplog: pytest.LogCaptureFixture,
    settings: PretrainingSettings,
    hidden_size: int,
    optimizer: str,
    rate: float,
    is_said: bool,
) -> None:
    """0.00176 for batches of 4,096 is 0.00022 for 64."""
    config = dataclasses.replace(toy.CONFIG, hidden_size=hidden_size, num_attention_heads=2)
    changed = dataclasses.replace(settings, config=config, optimizer=optimizer, learning_rate=rate, train_batch_size=64)
    pretrain._warn_of_rate(changed)
    assert ("is 0.00022 for batches of 64" in caplog.text) == is_said


def test_another_longest_ngram(settings: PretrainingSettings) -> None:
    """The toy data has 3; the held-out data stays as it is."""
    settings = dataclasses.replace(settings, eval_data_dir=settings.data_dir)
    assert read_inputs(settings).stages[0].max_ngram == 3
    changed = dataclasses.replace(settings, max_ngram=1)
    found = read_inputs(changed)
    assert found.stages[0].max_ngram == 1
    assert found.held_out is not None
    assert found.held_out.max_ngram == 3
    assert changed.fingerprint("d") != settings.fingerprint("d")
    with pytest.raises(ValueError, match=r"max_ngram must be in \[1, "):
        dataclasses.replace(settings, max_ngram=0)


def test_of_drawn_masks_no_ngram_can_be_chosen(tmp_path: pathlib.Path, settings: PretrainingSettings) -> None:
    config = tmp_path / "data" / "dataset.json"
    config.write_text(config.read_text().replace('"masking": "dynamic"', '"masking": "static"'))
    with pytest.raises(ValueError, match=r"its masks are drawn already \(masking static\): leave max_ngram away"):
        read_inputs(dataclasses.replace(settings, max_ngram=2))
