"""What is kept of the model that fine-tuning starts from."""

from __future__ import annotations

import dataclasses
import pathlib

import numpy as np
import pytest
import safetensors.numpy

from albert_tf import model_directory
from albert_tf.head_config import HeadConfig
from albert_tf.modeling.models import make_model
from albert_tf.training.warm_start import read_warm_start
from tests.data import toy
from tests.modeling.small_models import randomize
from tests.training import task_rows

CLASSIFIER = HeadConfig(head="classifier", labels=("no", "yes"))


@pytest.fixture
def start(tmp_path: pathlib.Path) -> pathlib.Path:
    """A classifier with labels."""
    model = make_model(task_rows.CONFIG, CLASSIFIER)
    randomize(model.named_weights())
    model_directory.save_model_directory(tmp_path / "start", model, toy.tokenizer())
    return tmp_path / "start"


def taken(start: pathlib.Path, head: HeadConfig) -> tuple[set[str], set[str]]:
    """Names of the weights that are those at `start`, and of those that are new."""
    model = make_model(task_rows.CONFIG, head, seed=4)
    before = {name: weight.numpy() for name, weight in model.named_weights().items()}
    read_warm_start(start).assign(model)
    there = safetensors.numpy.load_file(start / "model.safetensors")
    kept, new = set(), set()
    for name, weight in model.named_weights().items():
        if name in there and np.array_equal(weight.numpy(), there[name]):
            kept.add(name)
        elif np.array_equal(weight.numpy(), before[name]):
            new.add(name)
    assert kept | new == set(before)
    return kept, new


@pytest.mark.parametrize(
    ("head", "is_kept"),
    [
        (CLASSIFIER, True),
        (dataclasses.replace(CLASSIFIER, dropout_prob=0.3), True),
        (HeadConfig(head="classifier", labels=("yes", "no")), False),
        (HeadConfig(head="classifier", labels=("a", "b", "c")), False),
        (HeadConfig(head="regression"), False),
        (HeadConfig(head="token_classifier", labels=("no", "yes")), False),
    ],
)
def test_the_encoder_is_kept_and_the_head_where_it_fits(start: pathlib.Path, head: HeadConfig, is_kept: bool) -> None:
    assert read_warm_start(start).keeps_head(head) == is_kept
    kept, new = taken(start, head)
    assert new == (set() if is_kept else {f"{head.head}/kernel", f"{head.head}/bias"})
    assert "encoder/pooler/kernel" in kept


def test_a_head_without_names_of_its_labels_fits_as_many(tmp_path: pathlib.Path) -> None:
    model = make_model(task_rows.CONFIG, HeadConfig(head="classifier", num_labels=2), seed=1)
    model_directory.save_model_directory(tmp_path / "start", model, None)
    start = read_warm_start(tmp_path / "start")
    assert start.tokenizer is None
    assert start.keeps_head(CLASSIFIER)
    assert not start.keeps_head(HeadConfig(head="classifier", labels=("a", "b", "c")))


def test_a_model_without_a_pooler_gets_a_new_one(tmp_path: pathlib.Path) -> None:
    model = make_model(task_rows.CONFIG, HeadConfig(head="masked_lm", pooler=False), seed=1)
    model_directory.save_model_directory(tmp_path / "start", model, toy.tokenizer())
    _, new = taken(tmp_path / "start", CLASSIFIER)
    assert new == {"encoder/pooler/kernel", "encoder/pooler/bias", "classifier/kernel", "classifier/bias"}


def test_the_digest_is_that_of_the_weights(start: pathlib.Path, tmp_path: pathlib.Path) -> None:
    first = read_warm_start(start)
    assert first.digest == read_warm_start(start).digest
    assert first.tokenizer is not None
    assert first.tokenizer.digest == toy.tokenizer().digest
    weights = safetensors.numpy.load_file(start / "model.safetensors")
    weights["encoder/pooler/bias"][3] += 1e-3
    other = tmp_path / "other"
    other.mkdir()
    for path in start.iterdir():
        (other / path.name).write_bytes(path.read_bytes())
    safetensors.numpy.save_file(weights, other / "model.safetensors", metadata={"format": "albert_tf"})
    assert read_warm_start(other).digest != first.digest


def test_a_checkpoint_of_the_original(reference_data: pathlib.Path) -> None:
    """Its classifier has three labels without names: a head of three takes it over."""
    (prefix,) = (reference_data / "golden" / "tf1_classifier_3").glob("*.index")
    start = read_warm_start(prefix.with_suffix(""), head="classifier")
    assert start.keeps_head(HeadConfig(head="classifier", labels=("a", "b", "c")))
    model = make_model(start.config, HeadConfig(head="classifier", labels=("a", "b", "c")), seed=4)
    before = {name: weight.numpy() for name, weight in model.named_weights().items()}
    start.assign(model)
    assert all(not np.array_equal(w.numpy(), before[name]) for name, w in model.named_weights().items())


def test_nothing_there(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_warm_start(tmp_path / "none")
