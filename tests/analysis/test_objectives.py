"""What can be read from vectors: by hand, from a model's own, and through the door."""

from __future__ import annotations

import csv
import math
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from albert_tf import features, model_directory
from albert_tf.analysis import objectives
from albert_tf.data.batches import evaluation_batches
from albert_tf.data.manifest import read_data_directory
from albert_tf.head_config import HeadConfig
from albert_tf.modeling.models import make_model
from tests.data import toy
from tests.modeling.small_models import randomize


def test_what_stands_in_the_vectors_is_read() -> None:
    """One number tells the label of 19 of 20, the rest is noise."""
    generator = np.random.default_rng(3)
    labels = generator.integers(0, 2, 2000)
    told = np.where(generator.random(2000) < 0.95, labels, 1 - labels)
    vectors = np.concatenate([told[:, None], generator.normal(size=(2000, 5))], axis=1)
    found = objectives.probe(vectors, labels)
    assert found.num_pairs == 800
    right = (told == labels)[1200:].mean()
    assert found.accuracy == pytest.approx(right, abs=1e-12)
    assert found.standard_error == pytest.approx(math.sqrt(right * (1 - right) / 800))
    share = labels[1200:].mean()
    assert found.majority == pytest.approx(max(share, 1 - share))
    spread = math.sqrt(found.majority * (1 - found.majority) / 800)
    assert found.errors_above_chance == pytest.approx((right - found.majority) / spread)
    assert found.errors_above_chance > 20


def test_noise_is_chance() -> None:
    generator = np.random.default_rng(4)
    found = objectives.probe(generator.normal(size=(3000, 7)), generator.integers(0, 2, 3000))
    assert abs(found.errors_above_chance) < 3


def test_pairs_that_tell_nothing() -> None:
    with pytest.raises(ValueError, match="must have at least 50 pairs, got 49"):
        objectives.probe(np.zeros((49, 2)), np.arange(49) % 2)
    with pytest.raises(ValueError, match="both parts of the pairs must have both answers"):
        objectives.probe(np.zeros((60, 2)), np.arange(60) // 36)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Holds pairs of both kinds, 73 each, and a model."""
    path = tmp_path_factory.mktemp("objectives")
    for objective in ("sop", "nsp"):
        shards = [
            toy.random_rows(count, max_seq_length=20, vocab_size=61, seed=count, sentence_objective=objective)
            for count in (40, 33)
        ]
        toy.write_directory(
            path / objective, shards, max_seq_length=20, max_predictions_per_seq=3, sentence_objective=objective
        )
    model = make_model(toy.CONFIG, HeadConfig())
    randomize(model.named_weights())
    model_directory.save_model_directory(path / "model", model, toy.tokenizer())
    return path


def test_vectors_and_labels_are_those_of_the_pairs(folder: pathlib.Path) -> None:
    data = read_data_directory(folder / "nsp")
    encoder = model_directory.load_model(folder / "model").encoder
    steps: list[int] = []
    vectors, labels = objectives.read_pairs(encoder, data, batch_size=10, advance=steps.append)
    assert (vectors.shape, labels.shape, sum(steps)) == ((73, 10), (73,), 73)
    at = 0
    for batch in evaluation_batches(data, batch_size=1):
        names = (features.INPUT_IDS, features.INPUT_MASK, features.SEGMENT_IDS)
        expected = encoder({name: batch[name] for name in names})["sequence_output"].numpy()[0, 0]
        np.testing.assert_allclose(vectors[at], expected, rtol=0, atol=1e-5)  # another order of sums
        assert labels[at] == int(np.reshape(batch[features.SENTENCE_ORDER_LABEL], -1)[0])
        at += 1
    assert at == 73


def door(folder: pathlib.Path, **changes: object) -> subprocess.CompletedProcess[str]:
    given = {
        "model": folder / "model",
        "sop_data_dir": folder / "sop",
        "nsp_data_dir": folder / "nsp",
        "output_dir": folder / "out",
        **changes,
    }
    flags = [f"--{name}={value}" for name, value in given.items() if value is not None]
    command = [sys.executable, "-m", "albert_tf.analyze", "objectives", *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=200)


def test_through_the_door(folder: pathlib.Path) -> None:
    done = door(folder)
    assert done.returncode == 0, done.stderr
    assert "Always the same answer is right in: NSP" in done.stdout
    with open(folder / "out" / "objectives.csv", newline="") as file:
        (row,) = csv.DictReader(file)
    assert row["model"] == str(folder / "model")
    assert row["masked LM"] == ""
    encoder = model_directory.load_model(folder / "model").encoder
    for objective in ("nsp", "sop"):
        pairs = objectives.read_pairs(encoder, read_data_directory(folder / objective), batch_size=8)
        assert row[objective.upper()].startswith(f"{100 * objectives.probe(*pairs).accuracy:.1f} ±")


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ({"model": None}, 2, "missing --model"),
        ({"nsp_data_dir": None}, 2, "give both --sop_data_dir and --nsp_data_dir"),
        ({"nsp_data_dir": "sop"}, 1, "sentence_objective must be nsp, got sop; build it with --sentence_objective=nsp"),
    ],
)
def test_what_is_refused(folder: pathlib.Path, changes: dict[str, str | None], code: int, message: str) -> None:
    placed = {name: value if value is None else folder / value for name, value in changes.items()}
    done = door(folder, **placed)
    assert done.returncode == code, done.stderr
    assert message in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
