"""Metrics of predictions, by name, as scikit-learn, SciPy and nervaluate count them.

| name | of | what |
|---|---|---|
| accuracy | one label, tagging | share of examples, or of words, with the right label |
| f1 | two labels | F1 of the second label |
| macro_f1 | labels | mean of the labels' F1 |
| micro_f1 | several labels | F1 over all decisions |
| exact_match | several labels | share of examples with exactly the right labels |
| matthews | one label | Matthews' correlation coefficient, in [-1, 1] |
| pearson, spearman | regression | correlation of numbers, of ranks |
| mse | regression | mean squared error |
| entity_f1, entity_precision, entity_recall | tagging | entities with the right type, begin and end |

A correlation is 0 where one side is constant, F1 where nothing is found and nothing was there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from albert_tf.tasks.predictions import Prediction
from albert_tf.tasks.task import Example, Task

LOWER_IS_BETTER = frozenset({"mse"})
_TO_IOB2 = {"S": "B", "U": "B", "E": "I", "L": "I"}  # IOBES and BILOU


@dataclasses.dataclass(frozen=True)
class Outcomes:
    """Truth and predictions as arrays.

    Attributes:
      true, predicted: int32 [n], ids of labels (for tagging of all words, one text after the other; -1 for a word
        without prediction); float32 [n] for regression; int32 [n, C] of 0 and 1 for multi-label.
      labels: names of the ids, () for regression.
      sentences: for tagging true and predicted names of each text's words.
    """

    true: np.ndarray
    predicted: np.ndarray
    labels: tuple[str, ...]
    sentences: tuple[list[list[str]], list[list[str]]] = dataclasses.field(default_factory=lambda: ([], []))


def outcomes(task: Task, examples: Sequence[Example], predictions: Sequence[Prediction]) -> Outcomes:
    """Truth and predictions of examples as arrays.

    Raises:
      ValueError: if the counts differ, there is no example, or one has no label.
    """
    if len(examples) != len(predictions) or not examples:
        raise ValueError(
            f"examples and predictions must be as many, at least one, got {len(examples)}, {len(predictions)}"
        )
    without = next((example for example in examples if example.label is None), None)
    if without is not None:
        raise ValueError(f"{without.source}: has no label to compare with")
    labels = task.labels or ()
    true = [example.label for example in examples]
    predicted = [prediction.label for prediction in predictions]
    if task.head == "regression":
        return Outcomes(np.array(true, np.float32), np.array(predicted, np.float32), ())
    ids = {label: i for i, label in enumerate(labels)}
    if task.is_multi_label:
        return Outcomes(_indicators(true, ids), _indicators(predicted, ids), labels)
    if task.head == "token_classifier":
        both = (_sentences(true), _sentences(predicted))
        words = [np.array([ids.get(name, -1) for sentence in part for name in sentence], np.int32) for part in both]
        return Outcomes(words[0], words[1], labels, both)
    return Outcomes(
        np.array([ids[str(name)] for name in true], np.int32),
        np.array([ids[str(name)] for name in predicted], np.int32),
        labels,
    )


def measure(task: Task, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, float]:
    """The task's metrics of predictions, the one that decides first.

    Raises:
      ValueError: if the counts differ, there is no example, or one has no label.
    """
    found = outcomes(task, examples, predictions)
    return {name: float(METRICS[name](found)) for name in task.metrics}


def is_better(metric: str, value: float, than: float | None) -> bool:
    """Whether a model with `value` is to be preferred; with None any value is. Not a number is never better."""
    if than is None or np.isnan(than):
        return not np.isnan(value)
    return value < than if metric in LOWER_IS_BETTER else value > than


def entity_scores(found: Outcomes) -> dict[str, tuple[float, float, float, int, int]]:
    """Precision, recall, F1, true and predicted count of entities by type; of all types under ""."""
    from nervaluate import Evaluator

    true, predicted = ([list(map(_to_iob2, sentence)) for sentence in part] for part in found.sentences)
    types = sorted({label[2:] for label in found.labels if label[1:2] == "-"})
    result = Evaluator(true, predicted, tags=types, loader="list").evaluate()
    by_type = {"": result["overall"]["strict"]}
    by_type |= {name: result["entities"][name]["strict"] for name in types if name in result["entities"]}
    return {
        name: (float(one.precision), float(one.recall), float(one.f1), int(one.possible), int(one.actual))
        for name, one in by_type.items()
    }


def _accuracy(found: Outcomes) -> float:
    return float(np.mean(found.true == found.predicted))


def _exact_match(found: Outcomes) -> float:
    return float(np.mean((found.true == found.predicted).all(-1)))


def _f1(found: Outcomes, average: str) -> float:
    from sklearn.metrics import f1_score

    if average == "binary" and len(found.labels) != 2:
        raise ValueError(f"f1 is for two labels, the task has {len(found.labels)}; macro_f1 is for any number")
    options = {"labels": range(len(found.labels))} if average != "binary" else {}
    return float(f1_score(found.true, found.predicted, average=average, zero_division=0.0, **options))


def _matthews(found: Outcomes) -> float:
    from sklearn.metrics import matthews_corrcoef

    if np.ptp(found.true) == 0 or np.ptp(found.predicted) == 0:
        return 0.0
    return float(matthews_corrcoef(found.true, found.predicted))


def _correlation(found: Outcomes, name: str) -> float:
    from scipy import stats

    if len(found.true) < 2 or np.ptp(found.true) == 0 or np.ptp(found.predicted) == 0:
        return 0.0
    true, predicted = found.true.astype(np.float64), found.predicted.astype(np.float64)
    return float(getattr(stats, name)(true, predicted).statistic)


def _mse(found: Outcomes) -> float:
    return float(np.mean((found.true.astype(np.float64) - found.predicted) ** 2))


METRICS: dict[str, Callable[[Outcomes], float]] = {
    "accuracy": _accuracy,
    "f1": lambda found: _f1(found, "binary"),
    "macro_f1": lambda found: _f1(found, "macro"),
    "micro_f1": lambda found: _f1(found, "micro"),
    "exact_match": _exact_match,
    "matthews": _matthews,
    "pearson": lambda found: _correlation(found, "pearsonr"),
    "spearman": lambda found: _correlation(found, "spearmanr"),
    "mse": _mse,
    "entity_f1": lambda found: entity_scores(found)[""][2],
    "entity_precision": lambda found: entity_scores(found)[""][0],
    "entity_recall": lambda found: entity_scores(found)[""][1],
}


def _indicators(names: Sequence[Any], ids: dict[str, int]) -> np.ndarray:
    values = np.zeros((len(names), len(ids)), np.int32)
    for row, chosen in enumerate(names):
        values[row, [ids[name] for name in chosen]] = 1
    return values


def _sentences(labels: Sequence[Any]) -> list[list[str]]:
    return [list(names) for names in labels]


def _to_iob2(label: str) -> str:
    return _TO_IOB2.get(label[:1], label[:1]) + label[1:] if label[1:2] == "-" else "O"
