"""The door of the analyses: both on models of the user, and mistakes in one line."""

from __future__ import annotations

import csv
import pathlib

import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.head_config import HeadConfig
from albert_tf.model_directory import write_model_directory
from albert_tf.weight_shapes import weight_shapes
from tests import wordpiece_toys
from tests.modeling.small_models import make_config
from tests.test_conversion import write
from tests.test_help import loaded, run
from tests.test_imports import TENSORFLOW

DOOR = "albert_tf.analyze"
PICTURES = {f"{ending}.{kind}" for ending in ("", "_dark") for kind in ("svg", "png")}


def read_csv(path: pathlib.Path) -> list[dict[str, str]]:
    with open(path, newline="") as stream:
        return list(csv.DictReader(stream))


def with_tokenizer(folder: pathlib.Path, **changes) -> pathlib.Path:
    """A model directory with random weights, a classifier, and the toy tokenizer."""
    tokenizer = wordpiece_toys.tokenizer()
    config, head = make_config(vocab_size=tokenizer.vocab_size, **changes), HeadConfig(head="classifier", num_labels=5)
    generator = np.random.default_rng(7)
    weights = {
        name: generator.standard_normal(shape).astype(np.float32) for name, shape in weight_shapes(config, head).items()
    }
    folder.mkdir(parents=True)
    write_model_directory(folder, config, head, weights, tokenizer)
    return folder


def test_parameters_of_own_models_beside_the_papers(tmp_path: pathlib.Path) -> None:
    config = make_config(parameter_sharing="none")
    (tmp_path / "mine.json").write_text(config.to_json())
    write(tmp_path / "model", HeadConfig(head="classifier", num_labels=5))
    done = run(DOOR, tmp_path, "parameters", "--config=mine.json", "--model=model", "--output_dir=out/here")
    assert done.returncode == 0, done.stderr
    assert loaded(done.stderr) & TENSORFLOW == set()
    for text in (
        "ALBERT xxlarge",
        "223,158,450",
        "encoder without its pooler: 333,557,760",
        "mine.json",
        "Operations:",
    ):
        assert text in done.stdout, text
    folder = tmp_path / "out" / "here"
    names = {f"{name}{ending}" for name in ("parameters", "training") for ending in PICTURES}
    assert {path.name for path in folder.iterdir()} == {"parameters.csv", *names}
    rows = read_csv(folder / "parameters.csv")
    own = [row for row in rows if row["group"] == "own"]
    assert [(row["model"], row["head"], row["max_seq_length"]) for row in own] == [
        ("mine.json", "pretraining", "17"),
        ("model", "classifier", "17"),
    ]
    assert (len(rows), own[1]["heads"]) == (24, str(24 * 5 + 5))


def test_own_models_alone(tmp_path: pathlib.Path) -> None:
    (tmp_path / "mine.json").write_text(AlbertConfig.named("base").to_json())
    done = run(DOOR, tmp_path, "parameters", "--config=mine.json", "--nopaper", "--max_seq_length=128")
    assert done.returncode == 0, done.stderr
    assert "BERT base" not in done.stdout
    assert "mine.json" in done.stdout
    assert "128" in done.stdout


@pytest.mark.slow
def test_layers_of_two_models_side_by_side(tmp_path: pathlib.Path) -> None:
    with_tokenizer(tmp_path / "a" / "model")
    with_tokenizer(tmp_path / "b" / "model", num_hidden_layers=2, parameter_sharing="none")
    (tmp_path / "text.txt").write_text("\n\n".join(wordpiece_toys.SENTENCES), encoding="utf-8")
    flags = ("--model=a/model", "--model=b/model", "--input=text.txt", "--text=again and again", "--output_dir=out")
    done = run(DOOR, tmp_path, "layers", *flags)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"layers.csv", *(f"layers{end}" for end in PICTURES)}
    rows = read_csv(tmp_path / "out" / "layers.csv")
    layers = [("a/model", str(layer)) for layer in (1, 2, 3, 4)] + [("b/model", str(layer)) for layer in (1, 2)]
    assert [(row["model"], row["layer"]) for row in rows] == layers
    encode = wordpiece_toys.tokenizer().encode
    lengths = [len(encode(text)) for text in ("again and again", *wordpiece_toys.SENTENCES)]
    tokens = sum(lengths) + 2 * sum(-(-length // 15) for length in lengths)  # 17 positions: rows of 15, [CLS] and [SEP]
    assert {row["tokens"] for row in rows} == {str(tokens)}
    assert f"A: a/model, {tokens} tokens" in done.stdout


@pytest.mark.slow
def test_a_tokenizer_from_elsewhere(tmp_path: pathlib.Path) -> None:
    """The model has none: that of --tokenizer is taken, if it has as many pieces."""
    with_tokenizer(tmp_path / "with")
    vocab_size = wordpiece_toys.tokenizer().vocab_size
    write(tmp_path / "without", vocab_size=vocab_size)
    done = run(DOOR, tmp_path, "layers", "--model=without", "--tokenizer=with", "--text=again and again")
    assert done.returncode == 0, done.stderr
    assert "without, " in done.stdout
    write(tmp_path / "other")
    done = run(DOOR, tmp_path, "layers", "--model=other", "--tokenizer=with", "--text=again and again")
    assert done.returncode == 1
    assert f"other: has a vocabulary of 97 pieces, its tokenizer {vocab_size}" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "the first word must be one of parameters, layers, objectives; --help explains them"),
        (("shapes",), 2, "the first word must be one of parameters, layers, objectives, got 'shapes'"),
        (("parameters", "--text=x"), 2, "unknown flag --text"),
        (("parameters", "--nopaper"), 2, "--nopaper needs --config or --model"),
        (("parameters", "--config=no.json"), 1, "no.json: No such file"),
        (("parameters", "--output_dir=gs://bucket/x"), 1, "folder of pictures must be local, got gs://bucket/x"),
        (
            ("parameters", "--model=model", "--max_seq_length=18"),
            1,
            "model: max_seq_length must be at most max_position_",
        ),
        (("layers",), 2, "missing --model"),
        (("layers", "--model=model"), 2, "no text to measure on: give --text or --input"),
        (("layers", "--model=model", "--text=x"), 2, "model: has no tokenizer; name the folder of one by --tokenizer"),
        (("layers", "--model=nowhere", "--text=x"), 1, "nowhere: "),
    ],
)
def test_mistakes(tmp_path: pathlib.Path, arguments: tuple[str, ...], code: int, message: str) -> None:
    write(tmp_path / "model")
    done = run(DOOR, tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert f"{DOOR}: error: {message}" in done.stderr.splitlines()[0]
    assert loaded(done.stderr) & TENSORFLOW == set()
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_help_of_one_analysis(tmp_path: pathlib.Path) -> None:
    done = run(DOOR, tmp_path, "layers", "--help")
    assert done.returncode == 0
    assert "--text=" in done.stdout
    assert "--config=" not in done.stdout
