"""Metrics of the libraries against their definitions, restated."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from albert_tf.tasks.metrics import METRICS, Outcomes, entity_scores, is_better, measure, outcomes
from albert_tf.tasks.predictions import Prediction
from albert_tf.tasks.task import Task
from tests.tasks.toy import CLASSIFICATION, MULTI_LABEL, PAIRS, REGRESSION, TAGGING, example


def of(*metrics: str, task: Task = CLASSIFICATION) -> Task:
    return dataclasses.replace(task, metrics=metrics)


def measured(task: Task, true, predicted) -> dict[str, float]:
    texts = ("x",) * task.num_texts
    words = task.head == "token_classifier"
    examples = [example(*(("x",) * len(label) if words else texts), label=label) for label in true]
    return measure(task, examples, [Prediction(label=label) for label in predicted])


def draws(seed: int, count: int = 60, labels: int = 3, errors: float = 0.4) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    true = generator.integers(0, labels, count)
    return true, np.where(generator.random(count) < errors, generator.integers(0, labels, count), true)


def f1_of(true: np.ndarray, predicted: np.ndarray) -> float:
    hits = np.sum(true & predicted)
    return 2 * hits / max(true.sum() + predicted.sum(), 1)


@pytest.mark.parametrize("seed", range(4))
def test_one_label(seed: int) -> None:
    true, predicted = draws(seed)
    names = np.array(CLASSIFICATION.labels)
    found = measured(of("accuracy", "macro_f1", "matthews"), names[true], names[predicted])
    assert found["accuracy"] == pytest.approx(np.mean(true == predicted))
    assert found["macro_f1"] == pytest.approx(np.mean([f1_of(true == i, predicted == i) for i in range(3)]))
    # Matthews' coefficient is the correlation of indicators (Gorodkin 2004)
    one, two = np.eye(3)[true] - np.eye(3)[true].mean(0), np.eye(3)[predicted] - np.eye(3)[predicted].mean(0)
    assert found["matthews"] == pytest.approx((one * two).sum() / np.sqrt((one**2).sum() * (two**2).sum()))
    assert list(found) == ["accuracy", "macro_f1", "matthews"]


def test_f1_is_of_the_second_label() -> None:
    true, predicted = draws(7, labels=2)
    found = measured(of("f1", task=PAIRS), true.astype(str), predicted.astype(str))
    assert found["f1"] == pytest.approx(f1_of(true == 1, predicted == 1))
    with pytest.raises(ValueError, match="f1 is for two labels, the task has 3; macro_f1 is for any number"):
        measured(of("f1"), ["bad"], ["bad"])


def test_several_labels() -> None:
    generator = np.random.default_rng(5)
    true, predicted = generator.integers(0, 2, (2, 30, 3))
    names = np.array(MULTI_LABEL.labels)
    true_names, predicted_names = ([tuple(names[row == 1]) for row in part] for part in (true, predicted))
    found = measured(of("micro_f1", "macro_f1", "exact_match", task=MULTI_LABEL), true_names, predicted_names)
    assert found["micro_f1"] == pytest.approx(f1_of(true, predicted))
    assert found["macro_f1"] == pytest.approx(np.mean([f1_of(true[:, i], predicted[:, i]) for i in range(3)]))
    assert found["exact_match"] == np.mean((true == predicted).all(-1))


def test_regression() -> None:
    generator = np.random.default_rng(5)
    true = generator.normal(size=40).astype(np.float32)
    predicted = (true + generator.normal(size=40)).astype(np.float32)
    found = measured(of("pearson", "spearman", "mse", task=REGRESSION), true.tolist(), predicted.tolist())
    assert found["pearson"] == pytest.approx(np.corrcoef(true, predicted)[0, 1], abs=1e-6)
    ranks, predicted_ranks = (np.argsort(np.argsort(values)) for values in (true, predicted))
    assert found["spearman"] == pytest.approx(np.corrcoef(ranks, predicted_ranks)[0, 1], abs=1e-6)
    assert found["mse"] == pytest.approx(np.mean((true - predicted) ** 2), rel=1e-5)


def entities(labels: list[str]) -> set[tuple[str, int, int]]:
    """Type, begin and end of each entity: it begins at B, or at I behind another type, and goes on while I follows."""
    found, begin, kind = set(), 0, ""
    for i, label in enumerate([*labels, "O"]):
        prefix, _, name = label.partition("-")
        if kind and (label == "O" or prefix == "B" or name != kind):
            found.add((kind, begin, i - 1))
            kind = ""
        if label != "O" and not kind:
            begin, kind = i, name
    return found


@pytest.mark.parametrize("seed", range(6))
def test_entities(seed: int) -> None:
    generator = np.random.default_rng(seed)
    names = ("B-X", "B-Y", "I-X", "I-Y", "O")
    task = dataclasses.replace(
        TAGGING, labels=names, metrics=("entity_f1", "entity_precision", "entity_recall", "accuracy")
    )
    true = [tuple(generator.choice(names, generator.integers(1, 12))) for _ in range(20)]
    predicted = [tuple(t if generator.random() < 0.7 else str(generator.choice(names)) for t in row) for row in true]
    found = measured(task, true, predicted)
    both = [[entities(list(row)) for row in part] for part in (true, predicted)]
    hits = sum(len(a & b) for a, b in zip(*both, strict=True))
    count, said = (sum(map(len, part)) for part in both)
    assert found["entity_precision"] == pytest.approx(hits / said)
    assert found["entity_recall"] == pytest.approx(hits / count)
    assert found["entity_f1"] == pytest.approx(2 * hits / (count + said))
    flat = [[label for row in part for label in row] for part in (true, predicted)]
    assert found["accuracy"] == pytest.approx(np.mean(np.array(flat[0]) == np.array(flat[1])))


def test_entities_by_type_in_iobes() -> None:
    labels = ("B-X", "E-X", "I-X", "O", "S-X", "S-Y")
    task = dataclasses.replace(TAGGING, labels=labels)
    true = [("B-X", "I-X", "E-X", "O", "S-Y"), ("S-X", "S-X")]
    predicted = [("B-X", "I-X", "E-X", "O", "S-X"), ("S-X", "O")]
    examples = [example(*label, label=label) for label in true]
    scores = entity_scores(outcomes(task, examples, [Prediction(label=label) for label in predicted]))
    assert scores["X"][3:] == (3, 3)
    assert scores[""][3:] == (4, 3)
    assert scores[""][0] == pytest.approx(2 / 3)
    assert scores[""][1] == pytest.approx(2 / 4)


def test_words_that_were_cut_off_are_wrong() -> None:
    task = dataclasses.replace(TAGGING, labels=("N", "V"), metrics=("accuracy", "macro_f1"))
    found = measured(task, [("N", "V", "N")], [("N", "V", "")])
    assert found["accuracy"] == pytest.approx(2 / 3)
    assert found["macro_f1"] == pytest.approx((2 / 3 + 1) / 2)


def test_constant_predictions_give_zero() -> None:
    assert measured(of("matthews"), ["bad", "good"], ["good", "good"]) == {"matthews": 0.0}
    assert measured(of("matthews"), ["bad", "bad"], ["bad", "bad"]) == {"matthews": 0.0}
    assert measured(of("pearson", "spearman", task=REGRESSION), [1.0, 2.0], [3.0, 3.0]) == {"pearson": 0, "spearman": 0}
    assert measured(of("pearson", task=REGRESSION), [1.0], [3.0]) == {"pearson": 0.0}
    assert measured(of("micro_f1", task=MULTI_LABEL), [(), ()], [(), ()]) == {"micro_f1": 0.0}
    assert measured(of("entity_f1", task=TAGGING), [("O",)], [("O",)]) == {"entity_f1": 0.0}


def test_which_is_better() -> None:
    assert is_better("accuracy", 0.5, None)
    assert is_better("accuracy", 0.6, 0.5)
    assert not is_better("accuracy", 0.5, 0.5)
    assert is_better("mse", 0.4, 0.5)
    assert not is_better("accuracy", float("nan"), None)
    assert is_better("accuracy", 0.1, float("nan"))


def test_every_metric_of_a_task_is_known() -> None:
    assert {"accuracy", "f1", "matthews", "pearson", "spearman", "entity_f1"} <= set(METRICS)
    assert isinstance(outcomes(CLASSIFICATION, [example("x", label="bad")], [Prediction(label="bad")]), Outcomes)


@pytest.mark.parametrize(
    ("true", "predicted", "message"),
    [
        ([], [], "at least one, got 0, 0"),
        (["bad"], [], "must be as many, at least one, got 1, 0"),
        ([None], ["bad"], "a.tsv:1: has no label to compare with"),
    ],
)
def test_what_cannot_be_measured(true, predicted, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        measured(CLASSIFICATION, true, predicted)
