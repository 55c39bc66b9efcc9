"""Runs with each sentence objective: what is trained, what is reported, what does not go together."""

from __future__ import annotations

import dataclasses
import json
import pathlib

import numpy as np
import pytest

from albert_tf import features, model_directory, progress
from albert_tf.data import batches
from albert_tf.data.manifest import read_data_directory
from albert_tf.modeling.models import AlbertPretrainingModel
from albert_tf.training import settings as settings_module
from albert_tf.training.inputs import read_inputs
from albert_tf.training.pretraining import Pretraining
from albert_tf.training.settings import PretrainingSettings
from tests import doors
from tests.data import toy

CONFIG = toy.CONFIG


def make_data(path: pathlib.Path, objective: features.SentenceObjective) -> pathlib.Path:
    rows = [
        toy.random_rows(9 + i, max_seq_length=20, vocab_size=61, seed=i, sentence_objective=objective) for i in range(2)
    ]
    return toy.write_directory(path, rows, max_seq_length=20, max_predictions_per_seq=3, sentence_objective=objective)


def settings_of(tmp_path: pathlib.Path, data: pathlib.Path) -> PretrainingSettings:
    """Three steps on `data`, which is the held-out data too."""
    return PretrainingSettings(
        data_dir=str(data),
        eval_data_dir=str(data),
        output_dir=str(tmp_path / "run"),
        config=CONFIG,
        strategy="cpu",
        num_train_steps=3,
        learning_rate=0.01,
        train_batch_size=5,
        log_steps=1,
        seed=4,
    )


def train(tmp_path: pathlib.Path, objective: features.SentenceObjective) -> tuple[dict[str, np.ndarray], list[dict]]:
    """Weights after three steps, and what was logged."""
    Pretraining(settings_of(tmp_path, make_data(tmp_path / "data", objective)), progress.progress).run()
    model = model_directory.load_model(tmp_path / "run" / "model")
    training = model_directory.read_training(tmp_path / "run" / "model")
    assert training["sentence_objective"] == objective
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    return {name: weight.numpy() for name, weight in model.named_weights().items()}, lines


@pytest.mark.parametrize("objective", ["nsp", "none"])
def test_weights_that_move_and_figures_that_are_told(
    objective: features.SentenceObjective, tmp_path: pathlib.Path
) -> None:
    after, lines = train(tmp_path, objective)
    before = {name: w.numpy() for name, w in AlbertPretrainingModel(CONFIG, seed=4).named_weights().items()}
    still = {name for name, value in after.items() if np.array_equal(value, before[name])}
    # The attention's key bias has no gradient but rounding.
    pairs = {"encoder/pooler/kernel", "encoder/pooler/bias", "sentence_order/kernel", "sentence_order/bias"}
    assert still - {name for name in after if name.endswith("key/bias")} == (pairs if objective == "none" else set())
    figures = set().union(*lines)
    assert "masked_lm_loss" in figures
    prefixes = {"sop": "sentence_order_", "nsp": "next_sentence_"}
    for other, prefix in prefixes.items():
        assert any(name.startswith(prefix) for name in figures) == (other == objective)
    # Asked for again without held-out data, it keeps the evaluation it has.
    recorded = (tmp_path / "run" / "model" / "training.json").read_bytes()
    data = read_data_directory(tmp_path / "data")
    again = dataclasses.replace(settings_of(tmp_path, tmp_path / "data"), eval_data_dir=None)
    (tmp_path / "run" / "settings.json").write_text(settings_module.to_json(again.fingerprint(data.digest)))
    doors.load("albert_tf.pretrain")._run(again, [data], None)
    assert (tmp_path / "run" / "model" / "training.json").read_bytes() == recorded
    assert json.loads(recorded)["evaluation"]
    if objective != "none":
        told = {name.removeprefix(prefixes[objective]) for name in figures if name.startswith(prefixes[objective])}
        assert told == {"loss", "accuracy", "majority"}


def test_labels_of_next_sentence_records_reach_the_batches(tmp_path: pathlib.Path) -> None:
    path = make_data(tmp_path / "data", "nsp")
    data = read_data_directory(path)
    expected = [
        row["next_sentence_labels"][0]
        for i in range(2)
        for row in toy.random_rows(9 + i, max_seq_length=20, vocab_size=61, seed=i, sentence_objective="nsp")
    ]
    (batch,) = batches.evaluation_batches(data, batch_size=19).as_numpy_iterator()
    assert batch[features.SENTENCE_ORDER_LABEL].tolist() == expected
    assert 0 < sum(expected) < 19


def test_held_out_data_of_another_objective_is_refused(tmp_path: pathlib.Path) -> None:
    settings = PretrainingSettings(
        data_dir=str(make_data(tmp_path / "data", "sop")),
        eval_data_dir=str(make_data(tmp_path / "held_out", "nsp")),
        output_dir=str(tmp_path / "run"),
        config=CONFIG,
        num_train_steps=3,
        learning_rate=0.01,
        train_batch_size=5,
    )
    message = "held_out/dataset.json: sentence_objective must be that of .*data, sop, got nsp"
    with pytest.raises(ValueError, match=message):
        read_inputs(settings)
