"""Examples to ids, as the original ALBERT's `classifier_utils.py` makes them, but without padding.

One text is `[CLS] a [SEP]`, two are `[CLS] a [SEP] b [SEP]`; where they do not fit, the longer one loses its end. With
a stride nothing is lost: a long text is cut into windows that overlap, each a row of its own
(`albert_tf.tasks.windows`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from absl import logging

from albert_tf.tasks.task import Example, Task, check_label
from albert_tf.tasks.windows import pair_windows, text_windows
from albert_tf.tokenizer_base import Tokenizer

NO_LABEL = -1
_SHORTEST_SEQUENCE = 5  # [CLS] a [SEP] b [SEP]
_BATCH = 4096  # texts that the tokenizer takes at once

Labels = np.ndarray | list[np.ndarray] | None


@dataclasses.dataclass(frozen=True)
class EncodedExamples:
    """Examples as training and prediction take them: in memory, without padding. T_i: tokens of row i.

    Attributes:
      input_ids: for each row int32 [T_i].
      segment_ids: for each row int32 [T_i], 1 at the second text and its [SEP].
      labels: int32 [n]; float32 [n] for regression; float32 [n, C] of 0 and 1 for multi-label; for tagging a list of
        int32 [T_i], `NO_LABEL` (-1) where none counts. None where the examples have none.
      example_of: int32 [n], which example each row is of, ascending; 0 to n-1 without windows.
      word_of: for tagging a list of int32 [T_i]: which word's first piece stands there, -1 elsewhere. Else None.
    """

    input_ids: list[np.ndarray]
    segment_ids: list[np.ndarray]
    labels: Labels
    example_of: np.ndarray
    word_of: list[np.ndarray] | None = None

    def __post_init__(self) -> None:
        counts = {len(part) for part in (self.input_ids, self.segment_ids, self.example_of)}
        counts |= {len(part) for part in (self.labels, self.word_of) if part is not None}
        if len(counts) > 1:
            raise ValueError(f"all features must have as many rows as input_ids, got {sorted(counts)}")

    def __len__(self) -> int:
        return len(self.input_ids)

    @property
    def lengths(self) -> np.ndarray:
        """int32 [n]: tokens of each row."""
        return np.array([len(ids) for ids in self.input_ids], np.int32)

    def select(self, rows: Sequence[int] | np.ndarray) -> EncodedExamples:
        """These rows, in this order; `example_of` keeps its values."""
        labels = self.labels
        if labels is not None:
            labels = labels[rows] if isinstance(labels, np.ndarray) else [labels[row] for row in rows]
        return EncodedExamples(
            input_ids=[self.input_ids[row] for row in rows],
            segment_ids=[self.segment_ids[row] for row in rows],
            labels=labels,
            example_of=self.example_of[rows],
            word_of=None if self.word_of is None else [self.word_of[row] for row in rows],
        )


def encode(
    examples: Sequence[Example], task: Task, tokenizer: Tokenizer, *, max_seq_length: int, stride: int | None = None
) -> EncodedExamples:
    """Features of examples.

    A second text without pieces is left away, as in the original. For tagging each word is cut by itself, and one that
    gives no piece stands as the unknown piece, so that every word has a first piece.

    Args:
      examples: of `task`; all with labels, or none.
      task: says which label has which id.
      tokenizer: of the model.
      max_seq_length: most tokens of a row, special ones counted (S).
      stride: tokens from the start of a window to that of the next one, for texts that do not fit; None cuts them.

    Raises:
      ValueError: for an unknown label, labels on some examples only, a wrong number of texts, or text that is not valid
        Unicode, each with the example's place; for a length or stride out of range.
    """
    check_room(max_seq_length, stride)
    _check_examples(examples, task)
    if task.head == "token_classifier":
        return _encode_words(examples, task, tokenizer, max_seq_length, stride)
    encoded = _encode_rows(examples, task, tokenizer, max_seq_length, stride)
    labels = label_values(examples, task)
    return dataclasses.replace(encoded, labels=None if labels is None else labels[encoded.example_of])


def check_room(max_seq_length: int, stride: int | None) -> None:
    """Refuses a length that holds no pair, and windows that leave tokens out.

    Raises:
      ValueError: saying what each must be.
    """
    if max_seq_length < _SHORTEST_SEQUENCE:
        raise ValueError(f"max_seq_length must be at least {_SHORTEST_SEQUENCE}, got {max_seq_length}")
    if stride is not None and not 1 <= stride <= max_seq_length - 2:
        raise ValueError(
            f"stride must be in [1, {max_seq_length - 2}] for max_seq_length {max_seq_length}, got {stride}"
        )


def label_values(examples: Sequence[Example], task: Task) -> np.ndarray | None:
    """Labels of examples, not of tagging: int32 [n], float32 [n] (regression) or [n, C] (multi-label); None if none.

    Raises:
      ValueError: for a label that the task does not know, or labels on some examples only.
    """
    if not _are_labelled(examples):
        return None
    if task.head == "regression":
        return np.array([float(example.label) for example in examples], np.float32)  # type: ignore[arg-type]
    if not task.is_multi_label:
        return np.array([_id_of(example.label, task, example) for example in examples], np.int32)
    values = np.zeros((len(examples), len(task.labels or ())), np.float32)
    for row, example in enumerate(examples):
        values[row, [_id_of(name, task, example) for name in _names_of(example)]] = 1.0
    return values


def _encode_rows(
    examples: Sequence[Example], task: Task, tokenizer: Tokenizer, max_seq_length: int, stride: int | None
) -> EncodedExamples:
    """Features of texts and pairs, without labels."""
    columns = zip(*(example.texts for example in examples), strict=True)
    texts = [_encode_texts(column, examples, tokenizer) for column in columns]
    input_ids, segment_ids, example_of = [], [], []
    cut = 0
    for index, pieces in enumerate(zip(*texts, strict=True)):
        a, b = pieces if len(pieces) == 2 else (pieces[0], [])
        if b:
            windows = pair_windows(len(a), len(b), max_seq_length - 3, stride)
        else:
            windows = [(window, slice(0, 0)) for window in text_windows(len(a), max_seq_length - 2, stride)]
        for of_a, of_b in windows:
            first = [tokenizer.cls_id, *a[of_a], tokenizer.sep_id]
            second = [*b[of_b], tokenizer.sep_id] if b else []
            input_ids.append(np.array(first + second, np.int32))
            segment_ids.append(np.repeat(np.array([0, 1], np.int32), [len(first), len(second)]))
            example_of.append(index)
        cut += stride is None and len(input_ids[-1]) < len(a) + len(b) + (3 if b else 2)
    _report_cut(cut, len(examples), max_seq_length)
    return EncodedExamples(input_ids, segment_ids, None, np.array(example_of, np.int32))


def _encode_words(
    examples: Sequence[Example], task: Task, tokenizer: Tokenizer, max_seq_length: int, stride: int | None
) -> EncodedExamples:
    vocabulary: dict[str, Example] = {}  # word -> the first example that has it
    for example in examples:
        for word in example.texts:
            vocabulary.setdefault(word, example)
    found = _encode_texts(list(vocabulary), list(vocabulary.values()), tokenizer)
    pieces_of = {word: ids or [tokenizer.unk_id] for word, ids in zip(vocabulary, found, strict=True)}
    is_labelled = _are_labelled(examples)
    input_ids, labels, word_of, example_of = [], [], [], []
    cut = 0
    for index, example in enumerate(examples):
        counts = [len(pieces_of[word]) for word in example.texts]
        pieces = [piece for word in example.texts for piece in pieces_of[word]]
        words, ids = np.full((2, len(pieces)), -1, np.int32)
        first_pieces = np.cumsum([0, *counts])[:-1]
        words[first_pieces] = np.arange(len(counts))
        if is_labelled:
            ids[first_pieces] = [_id_of(name, task, example) for name in _names_of(example)]
        for window in text_windows(len(pieces), max_seq_length - 2, stride):
            input_ids.append(np.array([tokenizer.cls_id, *pieces[window], tokenizer.sep_id], np.int32))
            word_of.append(np.pad(words[window], 1, constant_values=-1))
            labels.append(np.pad(ids[window], 1, constant_values=NO_LABEL))
            example_of.append(index)
        cut += stride is None and len(pieces) > max_seq_length - 2
    _report_cut(cut, len(examples), max_seq_length)
    return EncodedExamples(
        input_ids=input_ids,
        segment_ids=[np.zeros_like(ids) for ids in input_ids],
        labels=labels if is_labelled else None,
        example_of=np.array(example_of, np.int32),
        word_of=word_of,
    )


def _encode_texts(texts: Sequence[str], examples: Sequence[Example], tokenizer: Tokenizer) -> list[list[int]]:
    """Ids of each text; an error names the place of the example that has it."""
    found: list[list[int]] = []
    for start in range(0, len(texts), _BATCH):
        try:
            found += tokenizer.encode_batch(texts[start : start + _BATCH])
        except ValueError:
            for text, example in zip(texts[start:], examples[start:], strict=True):
                try:
                    tokenizer.encode(text)
                except ValueError as error:
                    raise ValueError(f"{example.source}: {error}") from error
            raise
    return found


def _report_cut(cut: int, count: int, max_seq_length: int) -> None:
    if cut:
        logging.info("%d of %d examples are cut to %d tokens; a stride reads all of them", cut, count, max_seq_length)


def _check_examples(examples: Sequence[Example], task: Task) -> None:
    for example in examples:
        if task.head == "token_classifier":
            if example.label is not None and len(_names_of(example)) != len(example.texts):
                raise ValueError(f"{example.source}: must have one label for each of its {len(example.texts)} words")
        elif len(example.texts) != task.num_texts:
            raise ValueError(
                f"{example.source}: must have {task.num_texts} texts for {task.name}, got {len(example.texts)}"
            )


def _are_labelled(examples: Sequence[Example]) -> bool:
    without = next((example for example in examples if example.label is None), None)
    if without is not None and any(example.label is not None for example in examples):
        raise ValueError(f"{without.source}: has no label, others have: all examples of a split need one, or none")
    return without is None


def _names_of(example: Example) -> tuple[str, ...]:
    if not isinstance(example.label, tuple):
        raise ValueError(f"{example.source}: label must be a tuple of names, got {example.label!r}")
    return example.label


def _id_of(label: object, task: Task, example: Example) -> int:
    ids = task.label_ids or {}
    check_label(str(label), ids, source=example.source)
    return ids[str(label)]
