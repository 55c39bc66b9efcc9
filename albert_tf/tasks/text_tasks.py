"""Tasks of one's own: a label, several labels or a number for each text or pair of texts, out of named columns.

A folder holds `train`, `dev` and `test`, or some of them, each as `.tsv`, `.csv` or `.jsonl`; further sets may be
called `dev_...` and `test_...`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from albert_tf.tasks import labelled_files, tables
from albert_tf.tasks.task import TRAIN, Example, Label, check_label

_AnyTask = TypeVar("_AnyTask", bound=labelled_files.FileTask)

TEXT_TASKS = ("classification", "pair_classification", "regression")
_METRICS: dict[str, tuple[str, ...]] = {
    "single": ("accuracy", "macro_f1", "matthews"),
    "multi": ("micro_f1", "macro_f1", "exact_match"),
    "regression": ("pearson", "spearman", "mse"),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Columns:
    """Where a text task finds what it needs. Checks itself when made.

    Attributes:
      text_column: the text, or the first of two.
      text_b_column: the second text; None for tasks of one.
      label_column: the label; a test file may lack it.
      id_column: ids, all different; None for none.
      label_separator: what stands between several labels of a text; JSON lines may have lists instead.
      columns: names for files without a header line.
    """

    text_column: str = "text"
    text_b_column: str | None = None
    label_column: str = "label"
    id_column: str | None = None
    label_separator: str = ","
    columns: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name != "columns" and value is not None and not isinstance(value, str):
                raise ValueError(f"{field.name} must be text, got {value!r}")
        named = [self.text_column, self.text_b_column, self.label_column, self.id_column]
        names = [name for name in named if name is not None]
        if len(set(names)) < len(names) or not all(names):
            raise ValueError(f"text, label and id must be columns that differ, got {', '.join(map(repr, names))}")
        if not self.label_separator:
            raise ValueError("label_separator must be at least one character, got ''")
        if self.columns is not None:
            if len(set(self.columns)) < len(self.columns):
                raise ValueError(f"columns must differ, got {', '.join(self.columns)}")
            missing = [name for name in (self.text_column, self.text_b_column) if name and name not in self.columns]
            if missing:
                raise ValueError(f"columns must hold {missing[0]!r}, got {', '.join(self.columns)}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextTask(labelled_files.FileTask):
    """A task of one's own files."""

    columns: Columns = Columns()

    def find_paths(self, folder: str) -> dict[str, str]:
        return labelled_files.split_paths(folder, tables.ENDINGS)

    def expected_file(self, split: str) -> str:
        return f"file for the split {split!r} ({labelled_files.names_with(split, tables.ENDINGS)})"

    def stream(self, path: str, *, is_labelled: bool | None) -> Iterator[Example]:
        columns = self.columns
        if is_labelled is None:
            is_labelled = columns.label_column in (columns.columns or tables.header_of(path))
        texts = [name for name in (columns.text_column, columns.text_b_column) if name is not None]
        for row in tables.read_rows(path, columns=columns.columns):
            yield Example(
                id=labelled_files.default_id(row.source) if columns.id_column is None else row.name(columns.id_column),
                source=row.source,
                texts=tuple(row.text(name) for name in texts),
                label=self._label(row) if is_labelled else None,
            )

    def _label(self, row: tables.Row) -> Label:
        column = self.columns.label_column
        if self.head == "regression":
            return row.number(column)
        if self.is_multi_label:
            return self._names(row, column)
        if isinstance(row[column], list):
            raise ValueError(f"{row.source}: {column} holds a list, one label was expected; several need multi_label")
        name = row.name(column)
        check_label(name, self.label_ids, source=row.source)
        return name

    def _names(self, row: tables.Row, column: str) -> tuple[str, ...]:
        value = row[column]
        parts = value.split(self.columns.label_separator) if isinstance(value, str) else value
        if not isinstance(parts, list):
            raise ValueError(f"{row.source}: {column} must be text or a list, got {value!r}")
        if isinstance(value, str):
            parts = [part for part in parts if part.strip()]
        names = sorted({tables.Row(row.source, {column: part}).name(column) for part in parts})
        for name in names:
            check_label(name, self.label_ids, source=row.source)
        return tuple(names)


def text_task(
    name: str,
    data_dir: str | None,
    *,
    labels: Sequence[str] | None = None,
    multi_label: bool = False,
    **columns: Any,
) -> TextTask:
    """A text task by its name, one of `TEXT_TASKS`.

    Args:
      name: "classification", "pair_classification" (a second text is read from "text_b" if nothing else is said) or
        "regression" (of pairs, if `text_b_column` is named).
      data_dir: folder of its files, or None.
      labels: names in the order of their ids; None takes those of the training file, sorted.
      multi_label: whether a text may have any number of labels.
      columns: fields of `Columns`.

    Raises:
      ValueError: for options that do not fit, or a training file that cannot be read.
      OSError: if it is not there.
    """
    if name == "pair_classification":
        columns = {"text_b_column": "text_b", **columns}
    if name == "classification" and columns.get("text_b_column") is not None:
        raise ValueError("text_b_column is for pair_classification and regression, the task is classification")
    if not isinstance(multi_label, bool):
        raise ValueError(f"multi_label must be true or false, got {multi_label!r}")
    columns["columns"] = names_or_none("columns", columns.get("columns"))
    where = Columns(**columns)
    is_regression = name == "regression"
    if is_regression and (labels is not None or multi_label):
        raise ValueError("labels and multi_label are for classification, the task is regression")
    task = TextTask(
        name=name,
        data_dir=data_dir,
        head="regression" if is_regression else "classifier",
        num_texts=1 if where.text_b_column is None else 2,
        labels=names_or_none("labels", labels),
        metrics=_METRICS["regression" if is_regression else "multi" if multi_label else "single"],
        is_multi_label=multi_label,
        columns=where,
    )
    if not is_regression:
        task = with_labels(task)
    options = {key: value for key, value in dataclasses.asdict(where).items() if value != Columns.__dict__[key]}
    if multi_label:
        options["multi_label"] = True
    return dataclasses.replace(task, options=options if is_regression else {**options, "labels": task.labels})


def names_or_none(option: str, names: Sequence[str] | None) -> tuple[str, ...] | None:
    """Names as a tuple; None as it is.

    Raises:
      ValueError: if it is one text, or not all of them are texts with something in them.
    """
    if names is None:
        return None
    if isinstance(names, str) or not all(isinstance(name, str) and name for name in names):
        raise ValueError(f"{option} must be a list of names, got {names!r}")
    return tuple(names)


def with_labels(task: _AnyTask) -> _AnyTask:
    """A task with the labels of its training file, sorted, if it has none; checks those it has.

    Raises:
      ValueError: if there are less than two (one for multi-label), or two are equal, or there is no training file, or
        none of its examples.
    """
    labels, source = task.labels, task.name
    if labels is None:
        if TRAIN not in task.paths:
            where = task.data_dir or "no folder is given"
            raise ValueError(f"labels must be named where there is no training file to take them from ({where})")
        source = task.paths[TRAIN]
        found, count = set[str](), 0
        for example in task.stream(source, is_labelled=True):
            found.update(example.label if isinstance(example.label, tuple) else (str(example.label),))
            count += 1
        if not count:
            raise ValueError(f"{source}: holds no example")
        labels = tuple(sorted(found))
    least = 1 if task.is_multi_label else 2
    if len(labels) < least or len(set(labels)) < len(labels):
        raise ValueError(f"{source}: labels must be at least {least} that differ, got {', '.join(labels) or 'none'}")
    return dataclasses.replace(task, labels=labels)
