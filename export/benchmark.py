"""Measures exported models on this machine: time by length and batch size, throughput, and memory.

Each artefact is loaded by a process of its own that has nothing of this project; a TFLite file's has no TensorFlow
either. The rounds take turns between the artefacts, so that what else the machine does falls on all of them, and the
ratio to the first artefact is the median of the rounds' ratios. Rows are full: nothing is padding. Token ids go in; of
a SavedModel that takes text the signature `ids` is measured.

  ms, p95    time of a call: median, and what 95 of 100 calls stay below
  MiB        memory at the peak above what the process had after its imports, loading included

Examples:
  python -m export.benchmark --saved_model=exported/ids --tflite=small_float32.tflite --tflite=small_int8.tflite
  python -m export.benchmark --tflite=small_int8.tflite --lengths=8,64,128 --batch_sizes=1,8 --plot=latency.svg
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from absl import flags, logging

from albert_tf import door

if TYPE_CHECKING:
    from export.benchmarking import Measured

LENGTHS = (8, 16, 32, 64, 128, 256, 512)
BATCH_SIZES = (1, 8)


def benchmark(
    paths: Sequence[str],
    *,
    lengths: Sequence[int] | None = None,
    batch_sizes: Sequence[int] = BATCH_SIZES,
    rounds: int = 5,
    repeats: int = 5,
    threads: int | None = None,
) -> Measured:
    """Measures the artefacts at `paths` beside each other.

    Args:
      paths: folders of SavedModels and TFLite files.
      lengths: tokens of a row; None takes those of `LENGTHS` that all artefacts can take.
      batch_sizes: rows of a call.
      rounds: how often each artefact has its turn.
      repeats: calls in a turn, after one that is not counted.
      threads: for arithmetic; None takes all processors.

    Raises:
      FileNotFoundError, ValueError: if an artefact cannot be loaded, or takes no rows of one of the `lengths`.
    """
    from export.benchmarking import Contest

    with contextlib.ExitStack() as stack:
        contest = Contest(paths, threads=threads or os.cpu_count() or 1, stack=stack)
        taken = contest.check_lengths(lengths or LENGTHS, leave_out=lengths is None)
        total = rounds * len(taken) * len(batch_sizes) * len(paths)
        with door.progress(total=total, description="measuring", unit="turns") as bar:
            return contest.measure(taken, batch_sizes, rounds=rounds, repeats=repeats, done=bar.advance)


def print_tables(found: Measured) -> None:
    """Prints what was measured."""
    rows = [
        (one.name, one.kind, one.bytes / 1e6, one.load_seconds, None if one.memory is None else one.memory / 2**20)
        for one in found.artefacts
    ]
    door.print_table("Artefacts", ("artefact", "kind", "MB", "s to load", "MiB"), rows)
    columns = ("artefact", "rows", "tokens", "ms", "p95", "rows/s", "tokens/s", "times the first")
    timed = [
        (one.artefact, one.batch_size, one.length, one.median * 1e3, one.p95 * 1e3, *one.throughput, one.ratio)
        for one in found.timings
    ]
    title = f"Calls with {found.threads} threads, {found.rounds} rounds of {found.repeats}"
    door.print_table(title, columns, timed)


def _define_flags() -> None:
    """Flags of the command; not at import, since other commands of this package use the same names."""
    with door.group("Artefacts"):
        flags.DEFINE_multi_string("saved_model", [], "Folder text/ or ids/ that export.saved_model wrote; repeatable.")
        flags.DEFINE_multi_string("tflite", [], "File that export.tflite wrote; repeatable.")
    with door.group("Measurement"):
        shown = ", ".join(map(str, LENGTHS))
        flags.DEFINE_list("lengths", None, f"Tokens of a row; by default {shown} as far as all artefacts go.")
        flags.DEFINE_list("batch_sizes", list(map(str, BATCH_SIZES)), "Rows of a call.")
        flags.DEFINE_integer("rounds", 5, "How often each artefact has its turn.", 1)
        flags.DEFINE_integer("repeats", 5, "Calls in a turn.", 1)
        flags.DEFINE_integer("threads", None, "Threads for arithmetic; by default all processors.", 1)
    with door.group("Output"):
        flags.DEFINE_bool("json", False, "Print one JSON object instead of tables.")
        flags.DEFINE_string("plot", None, "Picture to write, NAME.svg or NAME.png.")


def _numbers(name: str) -> list[int] | None:
    """Whole numbers of a list flag.

    Raises:
      UsageError: if one is none, or less than 1.
    """
    given = flags.FLAGS[name].value
    if given is None:
        return None
    if not all(one.isdecimal() and int(one) >= 1 for one in given):
        raise door.UsageError(
            f"--{name} must be whole numbers of at least 1 with commas between, got {','.join(given)}"
        )
    return sorted({int(one) for one in given})


def main() -> None:
    values = flags.FLAGS
    paths = [*values.saved_model, *values.tflite]
    if not paths:
        raise door.UsageError("give at least one of --saved_model and --tflite")
    if len(set(paths)) < len(paths):
        raise door.UsageError("an artefact is named twice; each is measured beside the others")
    if values.plot is not None and not values.plot.endswith((".svg", ".png")):
        raise door.UsageError(f"--plot must end in .svg or .png, got {values.plot!r}")
    lengths, batch_sizes = _numbers("lengths"), _numbers("batch_sizes")
    found = benchmark(
        paths,
        lengths=lengths,
        batch_sizes=batch_sizes or BATCH_SIZES,
        rounds=values.rounds,
        repeats=values.repeats,
        threads=values.threads,
    )
    if values.json:
        content: dict[str, Any] = dataclasses.asdict(found)
        print(json.dumps(content, ensure_ascii=False))
    else:
        print_tables(found)
    if values.plot is not None:
        from export.benchmarking import draw

        draw(found, values.plot)
        logging.info("wrote %s", values.plot)


if __name__ == "__main__":
    _define_flags()
    door.run(main)
