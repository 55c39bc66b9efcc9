"""Tagging: a label for each word, out of CoNLL columns or JSON lines.

CoNLL: one word a line, columns between tabs or spaces, a blank line between sentences; lines that begin with
`-DOCSTART-` part documents and are left out. A label stands in the last column, the word in the first. JSON lines:
`{"words": ["..."], "labels": ["..."]}`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence

from albert_tf.tasks import labelled_files, tables
from albert_tf.tasks.task import Example, check_label
from albert_tf.tasks.text_tasks import names_or_none, with_labels

CONLL = (".conll", ".bio", ".iob", ".iob2", ".txt", ".tsv")
_ENDINGS = (*CONLL, *tables.JSON_LINES)
OUTSIDE = "O"
_ENTITY = re.compile(r"[BIESLU]-.+")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaggingTask(labelled_files.FileTask):
    """Tagging of words.

    Attributes:
      word_column: number of a CoNLL file's column with the words, from 0, or -1 for the last.
      label_column: the same for the labels.
      words_key: key of the words in JSON lines.
      labels_key: key of the labels in JSON lines; lines of a test file may lack it.
    """

    word_column: int = 0
    label_column: int = -1
    words_key: str = "words"
    labels_key: str = "labels"

    def find_paths(self, folder: str) -> dict[str, str]:
        return labelled_files.split_paths(folder, _ENDINGS)

    def expected_file(self, split: str) -> str:
        return f"file for the split {split!r} ({labelled_files.names_with(split, _ENDINGS)})"

    def stream(self, path: str, *, is_labelled: bool | None) -> Iterator[Example]:
        read = self._from_json if tables.ending_of(path) in tables.JSON_LINES else self._from_conll
        return read(path, is_labelled)

    def _from_conll(self, path: str, is_labelled: bool | None) -> Iterator[Example]:
        words: list[str] = []
        labels: list[str] = []
        begun = width = 0
        for number, line in tables.read_lines(path):
            if not line.strip():
                if words:
                    yield self._example(f"{path}:{begun}", words, labels)
                words, labels = [], []
                continue
            if line.startswith("-DOCSTART-"):
                continue
            cells = line.split("\t") if "\t" in line else [cell for cell in line.split(" ") if cell]
            width = width or len(cells)
            if len(cells) != width:
                raise ValueError(f"{path}:{number}: must have {width} columns like the lines before, got {len(cells)}")
            is_labelled = width > 1 if is_labelled is None else is_labelled
            source = f"{path}:{number}"
            words.append(self._cell(cells, self.word_column, "word_column", source))
            if is_labelled:
                if width < 2:
                    raise ValueError(f"{source}: must have a word and a label, got one column")
                label = self._cell(cells, self.label_column, "label_column", source)
                check_label(label, self.label_ids, source=source)
                labels.append(label)
            begun = begun if len(words) > 1 else number
        if words:
            yield self._example(f"{path}:{begun}", words, labels)

    def _cell(self, cells: list[str], column: int, option: str, source: str) -> str:
        if not -len(cells) <= column < len(cells):
            raise ValueError(f"{source}: has no column {column} ({option}), it has {len(cells)}")
        if not cells[column].strip():
            raise ValueError(f"{source}: column {column} ({option}) is empty")
        return cells[column].strip()

    def _from_json(self, path: str, is_labelled: bool | None) -> Iterator[Example]:
        for row in tables.read_rows(path):
            words = self._texts(row, self.words_key)
            labels = None
            is_labelled = self.labels_key in row.cells if is_labelled is None else is_labelled
            if is_labelled:
                labels = self._texts(row, self.labels_key)
                if len(labels) != len(words):
                    expected = f"must be {len(words)}, one for each word, got {len(labels)}"
                    raise ValueError(f"{row.source}: {self.labels_key} {expected}")
                for label in labels:
                    row.check_unicode(label, self.labels_key)
                    check_label(label, self.label_ids, source=row.source)
            yield self._example(row.source, words, labels)

    def _texts(self, row: tables.Row, key: str) -> list[str]:
        values = row[key]
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise ValueError(f"{row.source}: {key} must be a list of texts")
        return values

    def _example(self, source: str, words: Sequence[str], labels: Sequence[str] | None) -> Example:
        label = None if labels is None or len(labels) < len(words) else tuple(labels)
        return Example(id=labelled_files.default_id(source), source=source, texts=tuple(words), label=label)


def tagging_task(
    name: str,
    data_dir: str | None,
    *,
    labels: Sequence[str] | None = None,
    word_column: int = 0,
    label_column: int = -1,
    words_key: str = "words",
    labels_key: str = "labels",
) -> TaggingTask:
    """The tagging task; `labels` None takes those of the training file, sorted.

    Where labels name entities ("B-PER", "I-PER", "O"), entities are counted; else words.

    Raises:
      ValueError: if there are less than two labels, or the training file cannot be read.
      OSError: if it is not there.
    """
    given = {"word_column": word_column, "label_column": label_column, "words_key": words_key, "labels_key": labels_key}
    for option, value in given.items():
        kind = type(getattr(TaggingTask, option))
        if type(value) is not kind:
            raise ValueError(f"{option} must be {'text' if kind is str else 'a whole number'}, got {value!r}")
    task = TaggingTask(
        name=name,
        data_dir=data_dir,
        head="token_classifier",
        num_texts=1,
        labels=names_or_none("labels", labels),
        metrics=("accuracy",),
        word_column=word_column,
        label_column=label_column,
        words_key=words_key,
        labels_key=labels_key,
    )
    task = with_labels(task)
    metrics = ("entity_f1", "accuracy") if name_entities(task.labels or ()) else ("accuracy", "macro_f1")
    options = {key: value for key, value in given.items() if value != getattr(TaggingTask, key)}
    return dataclasses.replace(task, metrics=metrics, options={**options, "labels": task.labels})


def name_entities(labels: Sequence[str]) -> bool:
    """Whether labels say where entities begin and go on (IOB, IOB2, IOBES, BILOU)."""
    return OUTSIDE in labels and all(label == OUTSIDE or _ENTITY.fullmatch(label) for label in labels)
