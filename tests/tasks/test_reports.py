from __future__ import annotations

import dataclasses
import json
import pathlib

import numpy as np
import pytest

from albert_tf.tasks.metrics import outcomes
from albert_tf.tasks.pictures import draw_confusion_matrix
from albert_tf.tasks.predictions import Prediction
from albert_tf.tasks.reports import PER_CLASS_COLUMNS, confusion_matrix, per_class, write_report
from tests.tasks.toy import CLASSIFICATION, MULTI_LABEL, PAIRS, REGRESSION, TAGGING, example


def probable(label: str, probability: float) -> Prediction:
    return Prediction(label=label, probabilities=np.array([probability, 1 - probability, 0], np.float32))


EXAMPLES = [
    example("a dog", label="bad", number=1),
    example("tabs\tand\nlines", label="fair", number=2),
    example("a cat", label="bad", number=3),
    example("no cat", label="good", number=4),
]
PREDICTIONS = [probable("bad", 0.9), probable("bad", 0.6), probable("bad", 0.7), probable("bad", 0.8)]


def table(path: pathlib.Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_report_of_one_label(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "new" / "report"
    metrics = write_report(str(folder), CLASSIFICATION, EXAMPLES, PREDICTIONS)
    assert metrics == {"accuracy": 0.5}
    content = json.loads((folder / "metrics.json").read_text())
    assert content == {"task": "classification", "examples": 4, "metrics": metrics}
    assert table(folder / "per_class.tsv") == [
        list(PER_CLASS_COLUMNS),
        ["bad", "0.5000", "1.0000", "0.6667", "2", "4"],
        ["fair", "0.0000", "0.0000", "0.0000", "1", "0"],
        ["good", "0.0000", "0.0000", "0.0000", "1", "0"],
    ]
    assert table(folder / "confusion_matrix.tsv")[1:] == [
        ["bad", "2", "0", "0"],
        ["fair", "1", "0", "0"],
        ["good", "1", "0", "0"],
    ]
    # the most certain mistake first; a text is one cell
    assert table(folder / "errors.tsv") == [
        ["id", "true", "predicted", "probability", "text"],
        ["a.tsv:4", "good", "bad", "0.8000", "no cat"],
        ["a.tsv:2", "fair", "bad", "0.6000", "tabs and lines"],
    ]
    assert "accuracy 0.500" in (folder / "confusion_matrix.svg").read_text()
    assert (folder / "confusion_matrix.png").read_bytes().startswith(b"\x89PNG")
    assert len(list(folder.iterdir())) == 6  # nothing temporary is left


def test_labels_with_tabs_and_line_ends_stay_in_their_cells(tmp_path: pathlib.Path) -> None:
    labels = ("a\tb", "c\nd", "e")
    task = dataclasses.replace(CLASSIFICATION, labels=labels)
    write_report(str(tmp_path), task, [example("a dog", label="c\nd")], [probable("a\tb", 0.9)])
    assert table(tmp_path / "confusion_matrix.tsv") == [
        ["true \\ predicted", "a b", "c d", "e"],
        ["a b", "0", "0", "0"],
        ["c d", "1", "0", "0"],
        ["e", "0", "0", "0"],
    ]


def test_the_same_numbers_give_the_same_picture(tmp_path: pathlib.Path) -> None:
    matrix = np.array([[3, 1], [0, 5]])
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        draw_confusion_matrix(str(tmp_path / name), matrix, ["x", "y"], title="t")
    for ending in ("svg", "png"):
        first, second = (tmp_path / name / f"confusion_matrix.{ending}" for name in ("a", "b"))
        assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("count", [2, 40, 70])
def test_pictures_of_many_labels_and_of_any_script(tmp_path: pathlib.Path, count: int) -> None:
    labels = ["$x_", "汉字", *(f"a label that is much too long {i}" for i in range(count - 2))]
    paths = draw_confusion_matrix(str(tmp_path), np.eye(count, dtype=int), labels, title="$100 and _")
    assert [pathlib.Path(path).suffix for path in paths] == [".svg", ".png"]
    assert ("汉字" in pathlib.Path(paths[0]).read_text(encoding="utf-8")) == (count < 70)
    with pytest.raises(ValueError, match=r"matrix must be \[2, 2\], a row and a column a label, got \(3, 3\)"):
        draw_confusion_matrix(str(tmp_path), np.eye(3), ["x", "y"], title="")


def test_pairs_have_two_texts(tmp_path: pathlib.Path) -> None:
    write_report(str(tmp_path), PAIRS, [example("a", "b", label="0")], [probable("1", 0.3)])
    assert table(tmp_path / "errors.tsv") == [
        ["id", "true", "predicted", "probability", "text_a", "text_b"],
        ["a.tsv:1", "0", "1", "0.7000", "a", "b"],
    ]


def test_regression(tmp_path: pathlib.Path) -> None:
    examples = [example(text, label=label) for text, label in (("a", 1.0), ("b", 2.0), ("c", 4.0))]
    write_report(str(tmp_path), REGRESSION, examples, [Prediction(label=value) for value in (1.5, 2.0, 2.0)])
    assert table(tmp_path / "errors.tsv") == [
        ["id", "true", "predicted", "distance", "text"],
        ["a.tsv:1", "4.0000", "2.0000", "2.0000", "c"],
        ["a.tsv:1", "1.0000", "1.5000", "0.5000", "a"],
    ]
    assert {path.name for path in tmp_path.iterdir()} == {"metrics.json", "errors.tsv"}


def test_several_labels(tmp_path: pathlib.Path) -> None:
    examples = [example("a", label=("bad", "good")), example("b", label=()), example("c", label=("fair",))]
    predictions = [Prediction(label=label) for label in (("fair", "good"), (), ())]
    write_report(str(tmp_path), MULTI_LABEL, examples, predictions)
    assert table(tmp_path / "errors.tsv")[1:] == [["a.tsv:1", "bad", "fair", "a"], ["a.tsv:1", "fair", "", "c"]]
    assert table(tmp_path / "per_class.tsv")[1:] == [
        ["bad", "0.0000", "0.0000", "0.0000", "1", "0"],
        ["fair", "0.0000", "0.0000", "0.0000", "1", "1"],
        ["good", "1.0000", "1.0000", "1.0000", "1", "1"],
    ]
    assert not (tmp_path / "confusion_matrix.svg").exists()


def test_tagging(tmp_path: pathlib.Path) -> None:
    task = dataclasses.replace(TAGGING, labels=("B-X", "B-Y", "I-X", "O"), metrics=("entity_f1", "accuracy"))
    examples = [
        example("Jo", "Li", "ran", label=("B-X", "I-X", "O")),
        example("Bonn", label=("B-Y",)),
        example("so", "Jo", label=("O", "B-X")),
    ]
    predictions = [Prediction(label=label) for label in (("B-X", "I-X", "O"), ("O",), ("B-Y", ""))]
    metrics = write_report(str(tmp_path), task, examples, predictions)
    assert metrics["accuracy"] == 0.5
    assert table(tmp_path / "per_class.tsv")[1:] == [
        ["X", "1.0000", "0.5000", "0.6667", "2", "1"],
        ["Y", "0.0000", "0.0000", "0.0000", "1", "1"],
    ]
    assert table(tmp_path / "errors.tsv") == [
        ["id", "wrong_words", "text"],
        ["a.tsv:1", "2", "so[O, not B-Y] Jo[B-X, not cut off]"],
        ["a.tsv:1", "1", "Bonn[B-Y, not O]"],
    ]
    found = outcomes(task, examples, predictions)
    matrix = confusion_matrix(task, found)
    assert matrix is not None
    assert matrix.sum() == 5  # of six words one was cut off
    words = dataclasses.replace(task, metrics=("accuracy",))
    assert [row[0] for row in per_class(words, found)] == list(task.labels or ())
