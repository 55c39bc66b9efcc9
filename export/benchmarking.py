"""Artefacts measured beside each other, and the picture of it."""

from __future__ import annotations

import contextlib
import dataclasses
import platform
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from absl import logging

from albert_tf.analysis import pictures
from export.proof.process import AloneProcess, is_saved_model
from export.proof.proof import size_of
from export.proof.signatures import full_rows, timed_signature

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True, kw_only=True)
class MeasuredArtefact:
    """An artefact as a whole: its size in bytes, seconds to load, and bytes at the peak above its start.

    `memory` is None where the system does not tell it; `needs` are the programs that ran it, name -> version.
    """

    name: str
    kind: str
    signature: str
    bytes: int
    load_seconds: float
    memory: int | None
    needs: Mapping[str, str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Timing:
    """Calls of one artefact with rows of one length.

    Attributes:
      artefact: its name.
      batch_size: rows of a call.
      length: tokens of a row.
      median: seconds.
      p95: seconds that 95 of 100 calls stay below.
      throughput: rows, and tokens, in a second at the median.
      ratio: median over the rounds of the time as a multiple of the first artefact's.
    """

    artefact: str
    batch_size: int
    length: int
    median: float
    p95: float
    throughput: tuple[float, float]
    ratio: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measured:
    """What was measured, and how."""

    artefacts: tuple[MeasuredArtefact, ...]
    timings: tuple[Timing, ...]
    threads: int
    rounds: int
    repeats: int
    machine: str


class Contest:
    """Processes with an artefact each, which take turns.

    Args:
      paths: of the artefacts.
      threads: for arithmetic, in each.
      stack: ends the processes.

    Raises:
      FileNotFoundError, ValueError: if one cannot be loaded or takes no token ids.
    """

    def __init__(self, paths: Sequence[str], *, threads: int, stack: contextlib.ExitStack) -> None:
        self._paths, self._threads = paths, threads
        self._processes: list[AloneProcess] = []
        self._signatures: list[str] = []
        for path in paths:  # one after the other, for the time that loading takes
            process = stack.enter_context(AloneProcess(path, threads=threads))
            signature = timed_signature(process.loaded.signatures)
            if signature is None:
                raise ValueError(f"{path}: no signature takes token ids; it has {', '.join(process.loaded.signatures)}")
            self._processes.append(process)
            self._signatures.append(signature)

    def check_lengths(self, lengths: Sequence[int], *, leave_out: bool) -> list[int]:
        """Those of the lengths that every artefact can take.

        Raises:
          ValueError: if one cannot be taken and `leave_out` is false, or none is left.
        """
        taken: list[int] = []
        for length in sorted(lengths):
            try:
                for number, process in enumerate(self._processes):
                    process.run(self._signatures[number], [self._rows(number, 1, length)])
            except ValueError as error:
                if not leave_out or not taken:
                    raise ValueError(f"rows of {length} tokens: {error}") from error
                logging.info("rows of %d tokens and more are left out: not every artefact takes them", length)
                break
            taken.append(length)
        return taken

    def measure(
        self,
        lengths: Sequence[int],
        batch_sizes: Sequence[int],
        *,
        rounds: int,
        repeats: int,
        done: Callable[[], None],
    ) -> Measured:
        """Times of all artefacts for all lengths and batch sizes; `done` is called after each turn."""
        sizes = [(batch_size, length) for batch_size in batch_sizes for length in lengths]
        seconds: dict[tuple[int, int, int], list[list[float]]] = {}
        for _ in range(rounds):
            for size in sizes:
                for number, process in enumerate(self._processes):
                    rows = self._rows(number, *size)
                    turn = process.time(self._signatures[number], [rows], repeats=repeats)[0]
                    seconds.setdefault((number, *size), []).append(turn)
                    done()
        return Measured(
            artefacts=tuple(self._describe(number) for number in range(len(self._processes))),
            timings=tuple(
                _timing(self._paths[number], size, seconds[number, *size], seconds[0, *size])
                for size in sizes
                for number in range(len(self._processes))
            ),
            threads=self._threads,
            rounds=rounds,
            repeats=repeats,
            machine=f"{platform.system()} {platform.machine()}",
        )

    def _rows(self, number: int, batch_size: int, length: int) -> dict[str, np.ndarray]:
        return full_rows(self._processes[number].loaded.signatures[self._signatures[number]], batch_size, length)

    def _describe(self, number: int) -> MeasuredArtefact:
        path, process = self._paths[number], self._processes[number]
        return MeasuredArtefact(
            name=path,
            kind="SavedModel" if is_saved_model(path) else "TFLite",
            signature=self._signatures[number],
            bytes=size_of(path),
            load_seconds=process.loaded.load_seconds,
            memory=process.memory(),
            needs=process.loaded.needs,
        )


def _timing(name: str, size: tuple[int, int], turns: list[list[float]], first: list[list[float]]) -> Timing:
    times = np.concatenate(turns)
    batch_size, length = size
    median = float(np.median(times))
    ratios = np.median(turns, axis=1) / np.median(first, axis=1)  # of the same round
    return Timing(
        artefact=name,
        batch_size=batch_size,
        length=length,
        median=median,
        p95=float(np.percentile(times, 95)),
        throughput=(batch_size / median, batch_size * length / median),
        ratio=float(np.median(ratios)),
    )


def draw(found: Measured, path: str) -> None:
    """Writes a picture: time by length of the smallest batch, and throughput by length of each batch size.

    Raises:
      ValueError, OSError: as `pictures.draw_file`.
    """
    batch_sizes = sorted({one.batch_size for one in found.timings})
    names = [one.name for one in found.artefacts]

    def fill(figure: Figure, theme: pictures.Theme) -> None:
        panels = figure.subplots(1, 2)
        shown = ((panels[0], batch_sizes[0]), (panels[1], batch_sizes[-1]))
        for axes, batch_size in shown:
            for index, (name, label) in enumerate(zip(names, pictures.short_names(names), strict=True)):
                line = [one for one in found.timings if (one.artefact, one.batch_size) == (name, batch_size)]
                is_time = axes is panels[0]
                style = index % len(pictures.COLOURS)
                axes.plot(
                    [one.length for one in line],
                    [one.median * 1e3 if is_time else one.throughput[1] for one in line],
                    color=pictures.COLOURS[style],
                    marker=pictures.MARKERS[style],
                    linestyle=pictures.DASHES[(style + index // len(pictures.COLOURS)) % len(pictures.DASHES)],
                    markersize=4,
                    label=label,
                )
            axes.set_xscale("log", base=2)
            lengths = sorted({one.length for one in found.timings})
            axes.set_xticks(lengths, [str(length) for length in lengths])
            axes.minorticks_off()
            axes.set_xlabel("tokens of a row")
            axes.set_ylim(bottom=0)
            axes.grid()
        rows = ["1 row" if size == 1 else f"{size:,} rows" for _, size in shown]
        panels[0].set_title(f"Time of a call with {rows[0]}")
        panels[0].set_ylabel("ms, median")
        panels[1].set_title(f"Throughput of calls with {rows[1]}")
        panels[1].set_ylabel("tokens a second")
        panels[1].yaxis.set_major_formatter(lambda count, _: pictures.short_count(count, "g"))
        handles, labels = panels[0].get_legend_handles_labels()
        legend = figure.legend(handles, labels, loc="outside lower center", ncols=min(len(names), 3))
        for text in legend.get_texts():
            text.set_parse_math(False)

    pictures.draw_file(path, (10.0, 3.4 + 0.2 * ((len(names) + 2) // 3)), fill)
