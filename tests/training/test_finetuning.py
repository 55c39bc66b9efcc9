"""Fine-tuning runs: each head learns, an interrupted run ends as an undisturbed one, the result says what it is."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

from albert_tf import model_directory
from albert_tf.head_config import Head
from albert_tf.modeling.model_runner import ModelRunner
from albert_tf.training import settings as settings_module
from albert_tf.training.finetuning import Finetuning
from albert_tf.training.finetuning_inputs import HeldOut, examples_digest
from albert_tf.training.finetuning_settings import FinetuningSettings
from albert_tf.training.loop import DivergedError
from albert_tf.training.prediction import predict_logits
from tests.training import task_rows
from tests.training.task_rows import make_inputs, make_rows, make_run, make_settings, write_start

pytestmark = pytest.mark.xdist_group("finetuning")


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return write_start(tmp_path_factory.mktemp("start") / "model")


def scored(rows: Any) -> HeldOut:
    """Accuracy of the largest logit."""

    def score(logits: Any) -> dict[str, float]:
        return {"accuracy": float((np.argmax(logits, -1) == rows.labels).mean())}

    return HeldOut(examples=rows, score=score)


@pytest.mark.representatives("classifier-False")
@pytest.mark.slow
@pytest.mark.parametrize(("head", "is_multi_label"), task_rows.KINDS)
def test_each_head_learns_32_examples_by_heart(
    head: Head, is_multi_label: bool, start: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    rows = make_rows(head, 32, is_multi_label=is_multi_label)
    settings = make_settings(
        tmp_path / "run",
        start,
        train_batch_size=32,
        num_train_steps=400,
        num_warmup_steps=40,
        log_steps=400,
        learning_rate=0.001,  # every head and three seeds learn all at it; at 0.002 a seed may keep one row wrong
    )
    run = make_run(settings, make_inputs(start, head, rows, is_multi_label=is_multi_label))
    figures = run.run()
    assert figures["train_loss"] < (0.001 if head == "regression" else 0.01)
    assert run.collapse is None
    # All right at inference, too: from the model directory, each row by itself.
    model = model_directory.load_model(tmp_path / "run" / "model")
    logits = predict_logits(ModelRunner(model, batch_size=1), rows)
    assert rows.labels is not None
    for value, label in zip(logits, rows.labels, strict=True):
        if head == "regression":
            assert abs(value - label) < 0.1
        elif is_multi_label:
            np.testing.assert_array_equal(value > 0, label > 0.5)
        else:
            counts = np.asarray(label) >= 0
            np.testing.assert_array_equal(np.argmax(value, -1)[counts], np.asarray(label)[counts])


def state(settings: FinetuningSettings) -> dict[str, np.ndarray]:
    """All tensors of the last checkpoint; TensorFlow's count of saves is none."""
    reader = tf.train.load_checkpoint(f"{settings.output_dir}/checkpoints/step-{settings.num_train_steps}")
    names = [n for n in reader.get_variable_to_shape_map() if not re.match("_CHECKPOINTABLE|save_counter", n)]
    return {name: reader.get_tensor(name) for name in names}


def test_an_interrupted_run_ends_bit_for_bit_as_an_undisturbed_one(start: pathlib.Path, tmp_path: pathlib.Path) -> None:
    rows = make_rows("classifier", 40)
    changes: dict[str, Any] = {
        "num_train_steps": 17,
        "dropout": 0.1,
        "eval_steps": 6,
        "moving_average_decay": 0.9,
        "save_checkpoints_steps": 5,
        "log_example_ids": True,
        "log_steps": 2,
    }
    inputs = make_inputs(start, "classifier", rows, held_out={"dev": scored(make_rows("classifier", 11, seed=2))})
    inputs = dataclasses.replace(inputs, best_by="accuracy")
    whole, parted = (make_settings(tmp_path / name, start, **changes) for name in ("whole", "parted"))
    make_run(whole, inputs).run()
    for stop_at in (3, 11):
        run = make_run(parted, inputs)
        steps = run._trainer.run

        def interrupted(iterator: Any, count: int, steps: Any = steps, run: Finetuning = run, at: int = stop_at) -> Any:
            if run._trainer.step >= at:
                raise KeyboardInterrupt
            return steps(iterator, min(count, at - run._trainer.step))

        run._trainer.run = interrupted  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            run.run()
        assert "goes on from the checkpoint of step" in run.stop()
    make_run(parted, inputs).run()
    expected, found = state(whole), state(parted)
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
    for name in ("model/model.safetensors", "best/model.safetensors", "example_ids.tsv", "model/training.json"):
        assert (tmp_path / "parted" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name

    def evaluations(name: str) -> list[dict]:
        lines = map(json.loads, (tmp_path / name / "metrics.jsonl").read_text().splitlines())
        return [line for line in lines if line["kind"] == "eval"]

    assert evaluations("parted") == evaluations("whole")
    assert [line["step"] for line in evaluations("whole")] == [6, 12, 17]


def test_the_model_directory_says_what_it_is(start: pathlib.Path, tmp_path: pathlib.Path) -> None:
    rows = make_rows("classifier", 13)
    held_out = {name: scored(make_rows("classifier", 9, seed=seed)) for seed, name in ((2, "one"), (3, "two"))}
    inputs = make_inputs(start, "classifier", rows, held_out=held_out, best_by="accuracy")
    settings = make_settings(tmp_path / "run", start, num_train_steps=3, dropout=0.2)
    run = make_run(settings, inputs)
    figures = run.run()
    assert set(figures) == {f"{name}_{figure}" for name in ("one", "two") for figure in ("loss", "accuracy")}
    assert inputs.deciding_figure == ("one_accuracy", True)
    path = tmp_path / "run" / "model"
    assert model_directory.read_head_config(path) == task_rows.make_head("classifier")
    config = model_directory.read_config(path)
    assert (config.hidden_dropout_prob, config.attention_probs_dropout_prob) == (0.2, 0.2)
    training = model_directory.read_training(path)
    assert training["task"] == {"name": "toy", "is_multi_label": False}
    assert (training["step"], training["max_seq_length"], training["start"]) == (3, 20, str(start))
    assert training["evaluation"] == figures
    assert model_directory.read_max_seq_length(path) == 20
    assert model_directory.has_tokenizer(path)
    weights = safetensors.numpy.load_file(path / "model.safetensors")
    for name, variable in run._model.named_weights().items():
        np.testing.assert_array_equal(weights[name], variable.numpy(), err_msg=name)


def test_a_collapse_is_noticed_and_written_down(
    start: pathlib.Path, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    inputs = make_inputs(start, "classifier", make_rows("classifier", 40))
    run = make_run(make_settings(tmp_path / "run", start, num_train_steps=2, learning_rate=0.0), inputs)
    run.run()
    assert run.collapse is not None
    assert "is no better than that of the labels' frequencies" in run.collapse
    assert f"the model has collapsed: {run.collapse}" in caplog.text
    assert model_directory.read_training(tmp_path / "run" / "model")["collapse"] == run.collapse


def test_values_that_are_not_finite_are_traced_to_their_rows(start: pathlib.Path, tmp_path: pathlib.Path) -> None:
    inputs = make_inputs(start, "regression", make_rows("regression", 12))
    run = make_run(make_settings(tmp_path / "run", start, learning_rate=1e30), inputs)
    with pytest.raises(DivergedError, match=r"The first tensor that is not finite is .* Its batch was train\.tsv:"):
        run.run()
    found = json.loads((tmp_path / "run" / "diverged.json").read_text())
    assert len(found["examples"]) == 6
    for example in found["examples"]:
        assert example["place"] == f"train.tsv:{example['example'] + 1}"


def test_other_settings_data_or_weights_are_another_run(start: pathlib.Path, tmp_path: pathlib.Path) -> None:
    settings = make_settings(tmp_path / "run", start)
    rows = make_rows("classifier", 12)
    inputs = make_inputs(start, "classifier", rows)
    text = settings_module.to_json(inputs.fingerprint(settings))
    settings_module.check_same_run(text, inputs.fingerprint(settings), "settings.json")
    other_start = write_start(tmp_path / "other", hidden_act="relu")
    changed = dataclasses.replace(inputs.start, digest="0")
    for found, message in (
        (inputs.fingerprint(dataclasses.replace(settings, max_seq_length=19)), "max_seq_length = 20 there, 19 asked"),
        (inputs.fingerprint(dataclasses.replace(settings, classifier_dropout=0.1, dropout=0.3)), "hidden_dropout_prob"),
        (make_inputs(start, "classifier", make_rows("classifier", 13)).fingerprint(settings), "other training data"),
        (dataclasses.replace(inputs, start=changed).fingerprint(settings), "other weights to start from"),
        (make_inputs(other_start, "classifier", rows).fingerprint(settings), "config.hidden_act = 'gelu' there"),
        (make_inputs(start, "regression", rows).fingerprint(settings), "head = 'classifier' there"),
    ):
        with pytest.raises(ValueError, match=message):
            settings_module.check_same_run(text, found, "settings.json")
    # What does not decide the weights may change.
    moved = dataclasses.replace(settings, output_dir="elsewhere", save_checkpoints_steps=3, eval_steps=2)
    settings_module.check_same_run(text, inputs.fingerprint(moved), "settings.json")


def test_digests_see_each_part() -> None:
    rows = make_rows("token_classifier", 5)
    assert isinstance(rows.labels, list)
    digests = {
        examples_digest(rows),
        examples_digest(rows.select([1, 0, 2, 3, 4])),
        examples_digest(dataclasses.replace(rows, labels=[np.zeros_like(label) for label in rows.labels])),
        examples_digest(dataclasses.replace(rows, segment_ids=[np.zeros_like(ids) for ids in rows.input_ids])),
        examples_digest(dataclasses.replace(rows, labels=None)),
    }
    assert len(digests) == 5
    assert examples_digest(make_rows("token_classifier", 5)) in digests


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_seq_length": 0}, "max_seq_length must be a whole number of at least 1, got 0"),
        ({"dropout": 1.0}, r"dropout must be in \[0, 1\), got 1.0"),
        ({"classifier_dropout": -0.1}, r"classifier_dropout must be in \[0, 1\), got -0.1"),
        ({"optimizer": "sgd"}, "optimizer must be one of lamb, adamw, got 'sgd'"),
    ],
)
def test_settings_are_checked(tmp_path: pathlib.Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_settings(tmp_path, tmp_path, **change)


def test_more_tokens_than_the_model_has_positions(start: pathlib.Path, tmp_path: pathlib.Path) -> None:
    settings = make_settings(tmp_path / "run", start, max_seq_length=24)
    with pytest.raises(ValueError, match="max_seq_length must be at most the model's max_position_embeddings, 23, got"):
        make_run(settings, make_inputs(start, "classifier", make_rows("classifier", 12)))
