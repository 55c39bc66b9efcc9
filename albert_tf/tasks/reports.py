"""What there is to read after an evaluation: metrics, a line for each label, the confusion matrix, the errors.

A folder gets

* `metrics.json`: the metrics, and how many examples they are of;
* `per_class.tsv`: precision, recall and F1 of each label, for tagging of each type of entity;
* `confusion_matrix.tsv`, `.svg` and `.png`: true against predicted labels, for tasks of one label an example or word;
* `errors.tsv`: what was wrong, the most certain mistake (for regression: the farthest) first, to be read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from albert_tf.files import make_directory, write_whole
from albert_tf.tasks.metrics import Outcomes, entity_scores, measure, outcomes
from albert_tf.tasks.pictures import draw_confusion_matrix
from albert_tf.tasks.predictions import Prediction
from albert_tf.tasks.task import Example, Task

PER_CLASS_COLUMNS = ("label", "precision", "recall", "f1", "examples", "predicted")
_PICTURED_LABELS = 200


def write_report(
    folder: str, task: Task, examples: Sequence[Example], predictions: Sequence[Prediction]
) -> dict[str, float]:
    """Writes all files named above that the task has, and returns the metrics.

    Raises:
      ValueError: if an example has no label.
      OSError: if a file cannot be written.
    """
    metrics = measure(task, examples, predictions)
    found = outcomes(task, examples, predictions)
    make_directory(folder)
    content = {"task": task.name, "examples": len(examples), "metrics": metrics}
    write_whole(os.path.join(folder, "metrics.json"), json.dumps(content, indent=2) + "\n")
    rows = per_class(task, found)
    if rows:
        _write_tsv(folder, "per_class.tsv", PER_CLASS_COLUMNS, rows)
    matrix = confusion_matrix(task, found)
    if matrix is not None:
        labels = found.labels
        counts = [[label, *map(int, row)] for label, row in zip(labels, matrix, strict=True)]
        _write_tsv(folder, "confusion_matrix.tsv", ("true \\ predicted", *labels), counts)
        if len(labels) <= _PICTURED_LABELS:
            first = next(iter(metrics))
            title = f"{task.name}: {first} {metrics[first]:.3f}, {len(examples):,} examples"
            draw_confusion_matrix(folder, matrix, labels, title=title)
    columns, errors = list_errors(task, examples, predictions)
    _write_tsv(folder, "errors.tsv", columns, errors)
    return metrics


def per_class(task: Task, found: Outcomes) -> list[tuple[str, float, float, float, int, int]]:
    """Rows of `PER_CLASS_COLUMNS`, a label each; for labels that name entities a type each; [] for regression."""
    if task.head == "regression":
        return []
    if task.metrics[0] == "entity_f1":
        scores = entity_scores(found)
        return [(name, *scores[name]) for name in sorted(scores) if name]
    from sklearn.metrics import precision_recall_fscore_support

    count = len(found.labels)
    columns = precision_recall_fscore_support(found.true, found.predicted, labels=range(count), zero_division=0.0)
    if found.predicted.ndim == 2:
        predicted = found.predicted.sum(0)
    else:
        predicted = np.bincount(found.predicted[found.predicted >= 0], minlength=count)
    return [
        (label, float(p), float(r), float(f), int(examples), int(chosen))
        for label, p, r, f, examples, chosen in zip(found.labels, *columns, predicted, strict=True)
    ]


def confusion_matrix(task: Task, found: Outcomes) -> np.ndarray | None:
    """Counts int64 [C, C] by true (row) and predicted label; None for multi-label and regression.

    Words without a prediction, since they were cut off, are in no column.
    """
    if task.head == "regression" or task.is_multi_label:
        return None
    count = len(found.labels)
    is_seen = found.predicted >= 0
    pairs = found.true[is_seen].astype(np.int64) * count + found.predicted[is_seen]
    return np.bincount(pairs, minlength=count * count).reshape(count, count)


def list_errors(
    task: Task, examples: Sequence[Example], predictions: Sequence[Prediction]
) -> tuple[tuple[str, ...], list[list[Any]]]:
    """Columns and rows of what was wrong, the most certain mistake first; for regression all, the farthest first."""
    pairs = [
        (example, prediction)
        for example, prediction in zip(examples, predictions, strict=True)
        if example.label != prediction.label
    ]
    if task.head == "regression":
        distances = [abs(float(p.label) - float(e.label)) for e, p in pairs]  # type: ignore[arg-type]
        rows = [
            [e.id, e.label, f"{p.label:.4f}", f"{d:.4f}", *e.texts] for (e, p), d in zip(pairs, distances, strict=True)
        ]
        return ("id", "true", "predicted", "distance", *_text_columns(task)), _sorted(rows, distances)
    if task.head == "token_classifier":
        return ("id", "wrong_words", "text"), _word_errors(pairs)
    if task.is_multi_label:
        rows, weights = [], []
        for e, p in pairs:
            true, predicted = set(e.label or ()), set(p.label)  # type: ignore[arg-type]
            missed, extra = sorted(true - predicted), sorted(predicted - true)
            rows.append([e.id, ", ".join(missed), ", ".join(extra), *e.texts])
            weights.append(len(missed) + len(extra))
        return ("id", "missed", "extra", *_text_columns(task)), _sorted(rows, weights)
    certainty = [float(p.probabilities.max()) if p.probabilities is not None else 0.0 for _, p in pairs]
    rows = [[e.id, e.label, p.label, f"{c:.4f}", *e.texts] for (e, p), c in zip(pairs, certainty, strict=True)]
    return ("id", "true", "predicted", "probability", *_text_columns(task)), _sorted(rows, certainty)


def _word_errors(pairs: Sequence[tuple[Example, Prediction]]) -> list[list[Any]]:
    """Sentences with wrong words, those with most first; "Peter[B-PER, not O]" is B-PER and was taken for O."""
    rows, counts = [], []
    for example, prediction in pairs:
        true, predicted = tuple(example.label or ()), tuple(prediction.label)  # type: ignore[arg-type]
        shown = [
            word if is_label == was_label else f"{word}[{is_label}, not {was_label or 'cut off'}]"
            for word, is_label, was_label in zip(example.texts, true, predicted, strict=True)
        ]
        counts.append(sum(a != b for a, b in zip(true, predicted, strict=True)))
        rows.append([example.id, counts[-1], " ".join(shown)])
    return _sorted(rows, counts)


def _text_columns(task: Task) -> tuple[str, ...]:
    return ("text",) if task.num_texts == 1 else ("text_a", "text_b")


def _sorted(rows: list[list[Any]], weights: Sequence[float]) -> list[list[Any]]:
    return [rows[i] for i in sorted(range(len(rows)), key=lambda i: -weights[i])]


def _write_tsv(folder: str, name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    lines = ["\t".join(map(_cell, columns)), *("\t".join(map(_cell, row)) for row in rows)]
    write_whole(os.path.join(folder, name), "\n".join(lines) + "\n")


def _cell(value: Any) -> str:
    """Text for a table of one line a row: white space becomes single spaces."""
    return f"{value:.4f}" if isinstance(value, float) else " ".join(str(value).split())
