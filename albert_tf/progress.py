"""What a long run shows while it works, and tables at its end.

A progress bar on a terminal; elsewhere (a log file, CI) one plain line at growing intervals. Both go to standard error,
so that standard output holds results only.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from absl import logging

_FIRST_LINE_SECONDS = 2.0
_LONGEST_PAUSE_SECONDS = 30.0
_PIPE_WIDTH = 500  # columns: a log is searched and cut by other programs, so nothing is folded


class Progress:
    """Counter of finished units. `advance` moves it; keyword values are shown beside the count."""

    def __init__(self, *, total: int | None, description: str, unit: str, completed: int = 0) -> None:
        self.total = total
        self.description = description
        self.unit = unit
        self.completed = completed

    def advance(self, count: int = 1, **values: Any) -> None:
        """Adds `count` units; `values` (numbers or text, such as `loss=5.21`) are shown, numbers with four digits."""
        self.completed += count
        self._show(values)

    def _show(self, values: dict[str, Any]) -> None:
        """Shows nothing; the two forms below do."""


class _Lines(Progress):
    """Plain lines at intervals that double from 2 s up to 30 s."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._begun_at, self._begun_with = time.monotonic(), self.completed
        self._pause = _FIRST_LINE_SECONDS
        self._next = self._begun_at + self._pause
        self._printed = -1
        self._values: dict[str, Any] = {}

    def _show(self, values: dict[str, Any]) -> None:
        self._values = values or self._values
        now = time.monotonic()
        if now >= self._next:
            self._print(now)
            self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS)
            self._next = now + self._pause

    def finish(self) -> None:
        if self._printed != self.completed:
            self._print(time.monotonic())

    def _print(self, now: float) -> None:
        self._printed = self.completed
        rate = (self.completed - self._begun_with) / max(now - self._begun_at, 1e-9)
        if self.total is None:
            text = f"{self.description}: {self.completed:,} {self.unit}"
        else:
            share = f" ({self.completed / self.total:.0%})" if self.total else ""
            text = f"{self.description}: {self.completed:,} of {self.total:,} {self.unit}{share}"
        text += f", {rate:,.3g} {self.unit}/s"
        if self.total is not None and rate > 0 and self.completed < self.total:
            text += f", {_duration((self.total - self.completed) / rate)} left"
        print(text + _shown(self._values, ", "), file=sys.stderr, flush=True)


@contextlib.contextmanager
def progress(*, total: int | None = None, description: str, unit: str, completed: int = 0) -> Iterator[Progress]:
    """Shows how far the work in the block is: `with progress(total=9, description="reading", unit="files") as bar:`.

    Args:
      total: units to do in all, None where that is not known.
      description: what is going on, a few words.
      unit: plural noun of what `advance` counts.
      completed: units that were done before, after a restart.
    """
    settings = {"total": total, "description": description, "unit": unit, "completed": completed}
    if _is_terminal(sys.stderr):
        with _bar(settings) as bar:
            yield bar
        return
    lines = _Lines(**settings)
    try:
        yield lines
    finally:
        lines.finish()


@contextlib.contextmanager
def _bar(settings: dict[str, Any]) -> Iterator[Progress]:
    """A rich progress bar; log lines that come meanwhile are printed above it."""
    from rich import console, text
    from rich import progress as rich_progress

    class Rate(rich_progress.ProgressColumn):
        def render(self, task: Any) -> text.Text:
            speed = task.finished_speed or task.speed
            return text.Text("" if speed is None else f"{speed:,.3g} {settings['unit']}/s")

    columns = (
        rich_progress.TextColumn("{task.description}", markup=False),
        rich_progress.BarColumn(bar_width=None),
        rich_progress.MofNCompleteColumn(),
        Rate(),
        rich_progress.TimeElapsedColumn(),
        rich_progress.TimeRemainingColumn(),
        rich_progress.TextColumn("{task.fields[values]}", markup=False),
    )
    shown = rich_progress.Progress(*columns, console=console.Console(stderr=True), refresh_per_second=4)
    task = shown.add_task(settings["description"], total=settings["total"], completed=settings["completed"], values="")

    class Bar(Progress):
        def _show(self, values: dict[str, Any]) -> None:
            fields: dict[str, Any] = {"values": _shown(values, "")} if values else {}
            shown.update(task, completed=self.completed, **fields)

    handler = logging.get_absl_handler().python_handler
    with shown:  # replaces sys.stderr; the log handler holds the old one
        stream, handler.stream = handler.stream, sys.stderr
        try:
            yield Bar(**settings)
        finally:
            handler.stream = stream


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Prints a table on standard output. Whole numbers get thousands separators, other numbers four digits.

    Raises:
      ValueError: if a row has not one value for each column.
    """
    from rich import box, console, table, text

    rows = [tuple(row) for row in rows]
    for index, row in enumerate(rows):
        if len(row) != len(columns):
            raise ValueError(f"row {index} must have {len(columns)} values ({', '.join(columns)}), got {len(row)}")
    shown = table.Table(title=text.Text(title), title_justify="left", box=box.SIMPLE_HEAD)
    for index, name in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[index], (int, float)) for row in rows)
        shown.add_column(text.Text(name), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        shown.add_row(*(text.Text(_formatted(value)) for value in row))  # Text, so that "[mask]" is no markup
    width = None if _is_terminal(sys.stdout) else _PIPE_WIDTH
    console.Console(file=sys.stdout, width=width, highlight=False).print(shown)


def counted(count: int, noun: str) -> str:
    """A count with its noun: "1 file", "2,000 files"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _formatted(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _shown(values: dict[str, Any], start: str) -> str:
    parts = (f"{name} {_formatted(value)}" for name, value in values.items())
    return start + ", ".join(parts) if values else ""


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _is_terminal(stream: Any) -> bool:
    return bool(getattr(stream, "isatty", lambda: False)()) and os.environ.get("TERM") != "dumb"
