"""The nine tasks of GLUE (Wang et al. 2019) and its diagnostic set AX, in their public file layouts.

A folder holds the files themselves, or folders of their names ("SST-2", "MNLI" ...), as `download_glue_data.py` of
GLUE's baselines leaves them. Columns are found by the names in the header line; CoLA's train and dev files have none,
nor have some copies of MRPC. Labels, their order and the metric that chooses the best model are the original ALBERT's.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator

from absl import logging

from albert_tf.tasks import labelled_files, tables
from albert_tf.tasks.task import TRAIN, Example, Label, check_label

_BINARY = ("0", "1")
_TWO_WAY = ("entailment", "not_entailment")
_THREE_WAY = ("contradiction", "entailment", "neutral")


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Layout:
    """Where the files of a task are and what stands in them.

    Attributes:
      folders: folder's names in a GLUE folder; the first one is GLUE's own.
      texts: columns of the texts.
      label: column of the label; test files have none.
      labels: names; None for regression.
      metrics: as in `Task`.
      files: split -> names of its file, the usual one first.
      ids: columns that may hold an id.
      renamed: columns of texts and label in a file that has other names for them.
      headless: columns of files that may come without a header line; the line is left out where it stands.
      may_be_short: rows with too few cells are left out and counted, as in the original.
    """

    folders: tuple[str, ...]
    texts: tuple[str, ...]
    label: str = "label"
    labels: tuple[str, ...] | None = _BINARY
    metrics: tuple[str, ...] = ("accuracy",)
    files: tuple[tuple[str, tuple[str, ...]], ...] = (
        (TRAIN, ("train.tsv",)),
        ("dev", ("dev.tsv",)),
        ("test", ("test.tsv",)),
    )
    ids: tuple[str, ...] = ("index",)
    renamed: tuple[str, ...] = ()
    headless: tuple[str, ...] = ()
    may_be_short: bool = False


_MNLI_FILES = (
    (TRAIN, ("train.tsv",)),
    ("dev_matched", ("dev_matched.tsv",)),
    ("dev_mismatched", ("dev_mismatched.tsv",)),
    ("test_matched", ("test_matched.tsv",)),
    ("test_mismatched", ("test_mismatched.tsv",)),
)
_MRPC_FILES = (
    (TRAIN, ("train.tsv", "msr_paraphrase_train.txt")),
    ("dev", ("dev.tsv",)),
    ("test", ("test.tsv", "msr_paraphrase_test.txt")),
)
_SENTENCES = ("sentence1", "sentence2")
_LAYOUTS = {
    "cola": _Layout(
        folders=("CoLA",),
        texts=("sentence",),
        metrics=("matthews", "accuracy"),
        headless=("source", "label", "mark", "sentence"),
    ),
    "sst-2": _Layout(folders=("SST-2",), texts=("sentence",)),
    "mrpc": _Layout(
        folders=("MRPC",),
        texts=("#1 String", "#2 String"),
        label="Quality",
        metrics=("accuracy", "f1"),
        files=_MRPC_FILES,
        headless=("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"),
    ),
    "sts-b": _Layout(folders=("STS-B",), texts=_SENTENCES, label="score", labels=None, metrics=("pearson", "spearman")),
    "qqp": _Layout(
        folders=("QQP",),
        texts=("question1", "question2"),
        label="is_duplicate",
        metrics=("accuracy", "f1"),
        ids=("id",),
        may_be_short=True,
    ),
    "mnli": _Layout(folders=("MNLI",), texts=_SENTENCES, label="gold_label", labels=_THREE_WAY, files=_MNLI_FILES),
    "qnli": _Layout(folders=("QNLI",), texts=("question", "sentence"), labels=_TWO_WAY),
    "rte": _Layout(folders=("RTE",), texts=_SENTENCES, labels=_TWO_WAY),
    "wnli": _Layout(folders=("WNLI",), texts=_SENTENCES),
    "ax": _Layout(
        folders=("diagnostic", "AX", "ax"),
        texts=_SENTENCES,
        labels=_THREE_WAY,
        metrics=("matthews", "accuracy"),
        # The full file has labels, and its own names of columns.
        files=(("dev", ("diagnostic-full.tsv",)), ("test", ("diagnostic.tsv", "AX.tsv", "ax.tsv"))),
        renamed=("Premise", "Hypothesis", "Label"),
    ),
}
GLUE_TASKS = tuple(_LAYOUTS)


@dataclasses.dataclass(frozen=True, kw_only=True)
class GlueTask(labelled_files.FileTask):
    """A task of GLUE."""

    def find_paths(self, folder: str) -> dict[str, str]:
        layout = _LAYOUTS[self.name]
        folders = [os.path.join(folder, name) for name in layout.folders] + [folder]
        found = {split: next(labelled_files.first_existing(folders, names), None) for split, names in layout.files}
        return {split: path for split, path in found.items() if path is not None}

    def expected_file(self, split: str) -> str:
        layout = _LAYOUTS[self.name]
        names = dict(layout.files)
        if split not in names:
            raise ValueError(f"split must be one of {', '.join(names)} for {self.name}, got {split!r}")
        return f"{' or '.join(names[split])}, neither there nor in {layout.folders[0]}"

    def stream(self, path: str, *, is_labelled: bool | None) -> Iterator[Example]:
        layout = _LAYOUTS[self.name]
        header = tables.header_of(path)
        columns = None if layout.texts[0] in header or not layout.headless else layout.headless
        names = header if columns is None else list(columns)
        if layout.renamed and layout.renamed[0] in names:
            *texts, label = layout.renamed
            layout = dataclasses.replace(layout, texts=tuple(texts), label=label)
        if is_labelled is None:
            is_labelled = layout.label in names
        identifier = next((name for name in layout.ids if name in names), None)
        short = []
        for row in tables.read_rows(path, columns=columns, may_be_short=layout.may_be_short):
            if layout.may_be_short and len(row.cells) < len(names):
                short.append(row.source)
                continue
            yield Example(
                id=labelled_files.default_id(row.source) if identifier is None else row.name(identifier),
                source=row.source,
                texts=tuple(row.text(column) for column in layout.texts),
                label=self._label(row, layout) if is_labelled else None,
            )
        if short:
            logging.warning("%s: %d rows with too few cells are left out, the first at %s", path, len(short), short[0])

    def _label(self, row: tables.Row, layout: _Layout) -> Label:
        if layout.labels is None:
            return row.number(layout.label)
        name = row.name(layout.label)
        check_label(name, layout.labels, source=row.source)
        return name


def glue_task(name: str, data_dir: str | None) -> GlueTask:
    """A task of GLUE by its name, one of `GLUE_TASKS`; `data_dir` holds its files or its folder."""
    layout = _LAYOUTS[name]
    return GlueTask(
        name=name,
        data_dir=data_dir,
        head="regression" if layout.labels is None else "classifier",
        num_texts=len(layout.texts),
        labels=layout.labels,
        metrics=layout.metrics,
    )
