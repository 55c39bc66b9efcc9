"""Puts a dialect's table, a file of tensors and a configuration together; nothing unmatched passes unseen."""

from __future__ import annotations

import dataclasses
import fnmatch
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from albert_tf.dialects.foreign_model import ForeignModel
from albert_tf.dialects.tables import Entry
from albert_tf.initial_weights import initial_weight
from albert_tf.weight_files.weight_file import is_floating
from albert_tf.weight_shapes import Shape, weight_shapes

Status = Literal["used", "ignored", "missing", "left over"]
_SEED = 0  # of weights that the file lacks
_SHOWN = 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """What became of one tensor.

    Attributes:
      status: "used"; "ignored": no weight, by the dialect; "missing": the file lacks it, it starts as in a new model;
        "left over": the model has no place for it.
      ours: canonical name of the weight, or "".
      theirs: name in the file, or the one that was looked for.
      our_shape: shape of the weight; None for a tensor that is none.
      their_shape: shape in the file; None where it is missing.
      dtype: as stored; "" where it is missing.
      note: the transform, or why it is ignored.
    """

    status: Status
    ours: str
    theirs: str
    our_shape: Shape | None
    their_shape: Shape | None
    dtype: str
    note: str


class MatchedWeights(Mapping[str, np.ndarray]):
    """The weights of a foreign model by canonical name, read one at a time when asked for.

    Attributes:
      rows: what became of every tensor.
    """

    def __init__(self, model: ForeignModel, rows: Sequence[Row]) -> None:
        self.rows = tuple(rows)
        self._model = model
        self._entries = {entry.ours: entry for entry in model.table}
        self._rows = {row.ours: row for row in rows if row.ours}

    def __getitem__(self, name: str) -> np.ndarray:
        row = self._rows[name]
        if row.status == "missing":
            drawn = initial_weight(
                name, row.our_shape or (), seed=_SEED, initializer_range=self._model.config.initializer_range
            )
            return drawn.astype(np.float32)
        value = self._entries[name].transform.to_ours(self._model.weights.read(row.theirs))
        if not is_finite(value):
            raise ValueError(f"{self._model.weights.path}: {row.theirs} holds values that are not finite")
        return np.ascontiguousarray(value)

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def shape(self, name: str) -> Shape:
        """Shape of a weight, without reading it."""
        return self._rows[name].our_shape or ()

    def dtype(self, name: str) -> str:
        """Dtype of a weight, without reading it."""
        return self._rows[name].dtype or "float32"


def match(model: ForeignModel, *, allow_missing: Sequence[str] = ()) -> MatchedWeights:
    """Weights of `model`, each found in its file with the shape that the configuration asks for.

    Args:
      model: opened, and open as long as the result is read.
      allow_missing: glob patterns of names, ours or the file's, that may be unmatched: a weight that the file lacks
        then starts as in a new model, a tensor without a place is left out.

    Raises:
      ValueError: for a weight that the file lacks, a tensor without a place, a wrong shape, or numbers that are no
        floating-point ones.
    """
    shapes = weight_shapes(model.config, model.head)
    _check_table(model.table, shapes)
    path, tensors = model.weights.path, model.weights.tensors
    rows, wrong = [], []
    for entry in model.table:
        shape = shapes[entry.ours]
        info = tensors.get(entry.theirs)
        if info is None:
            rows.append(_row("missing", entry, shape))
            continue
        expected = entry.transform.their_shape(shape)
        if info.shape != tuple(expected):
            wrong.append(f"{entry.theirs} has shape {list(info.shape)}, the configuration needs {list(expected)}")
        elif not is_floating(info.dtype):
            wrong.append(f"{entry.theirs} must hold floating-point numbers, got {info.dtype}")
        rows.append(_row("used", entry, shape, their_shape=info.shape, dtype=info.dtype))
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise ValueError(f"{path}: {wrong[0]}{more}; the weights are not those of the configuration")
    rows += _rest(model)
    _check_unmatched(path, rows, allow_missing)
    return MatchedWeights(model, rows)


def is_finite(value: np.ndarray) -> bool:
    """Whether all numbers are finite; one row at a time, since a table of words may be large."""
    return all(bool(np.isfinite(part).all()) for part in np.atleast_2d(value))


def _row(status: Status, entry: Entry, shape: Shape, **their: Any) -> Row:
    values = {"their_shape": None, "dtype": "", **their}
    return Row(
        status=status, ours=entry.ours, theirs=entry.theirs, our_shape=shape, note=entry.transform.name, **values
    )


def _rest(model: ForeignModel) -> Iterator[Row]:
    """Rows of the tensors that the table does not name."""
    named = {entry.theirs for entry in model.table}
    for name, info in model.weights.tensors.items():
        if name in named:
            continue
        reason = next((reason for pattern, reason in model.ignored if re.fullmatch(pattern, name)), None)
        yield Row(
            status="left over" if reason is None else "ignored",
            ours="",
            theirs=name,
            our_shape=None,
            their_shape=info.shape,
            dtype=info.dtype,
            note=reason or "",
        )


def _check_unmatched(path: str, rows: Sequence[Row], allowed: Sequence[str]) -> None:
    def is_allowed(row: Row) -> bool:
        names = [name for name in (row.ours, row.theirs) if name]
        return any(fnmatch.fnmatchcase(name, pattern) for name in names for pattern in allowed)

    unmatched = [row for row in rows if row.status in ("missing", "left over")]
    refused = [row for row in unmatched if not is_allowed(row)]
    if refused:
        parts = []
        for status, words in (("missing", "the file lacks"), ("left over", "the model has no place for")):
            names = [row.theirs for row in refused if row.status == status]
            if names:
                more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
                parts.append(f"{words} {', '.join(names[:_SHOWN])}{more}")
        raise ValueError(
            f"{path}: {'; '.join(parts)}; if that is meant, let them be unmatched with --allow_missing=PATTERN"
        )


def _check_table(table: Sequence[Entry], shapes: Mapping[str, Shape]) -> None:
    """A fault of a dialect's module, not of a user's file."""
    names = [entry.ours for entry in table]
    if sorted(names) != sorted(shapes) or len({entry.theirs for entry in table}) != len(table):
        raise RuntimeError(f"the table does not name each weight once: {set(names) ^ set(shapes)}")
