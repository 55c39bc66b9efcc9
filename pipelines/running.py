"""Runs a Beam pipeline from a door: chooses the runner, shows progress, stops the workers, translates their errors."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from absl import logging

from albert_tf import door

LOCAL_RUNNER = "local"

_WORKER_THREAD = "run_worker"  # Beam's, one for each worker process
_POLL_SECONDS = 0.1
_SMALL_BYTES, _LARGE_BYTES = 1 << 20, 1 << 25
_STOP_SECONDS = 5.0
# The last line of a traceback that a worker sent as text, for the errors that a user can cause.
_SYSTEM_ERROR = re.compile(r"\[Errno (?P<number>\d+)\] (?P<reason>[^:]+): (?P<quote>['\"])(?P<path>.*)(?P=quote)")
_WORKER_ERROR = re.compile(
    r"^(?:pipelines\.readers\.InputError|(?:\w+\.)*(?:BeamIOError|OSError|PermissionError|FileNotFoundError"
    r"|IsADirectoryError|NotADirectoryError|EOFError|BadGzipFile)): (?P<message>.+?)(?: \[while running .*)?$",
    re.MULTILINE,
)


def run(
    build: Callable[[Any, str | None], None],
    *,
    runner: str,
    num_workers: int,
    beam_options: Sequence[str],
    total: int,
    verbose: bool,
) -> None:
    """Builds and runs a pipeline, and returns when it is done.

    Args:
      build: adds the transforms to the pipeline it is given; its second argument is the folder for notes of progress.
      runner: "local", or the name of a Beam runner.
      num_workers: processes that work, for the local runner; with 1 it is this one.
      beam_options: further flags for Beam.
      total: bytes of input, for the progress shown.
      verbose: whether Beam's own log is shown.

    Raises:
      ValueError, OSError: for a fault that a worker found in the input or while writing.
      UserError: if a worker process was killed.
    """
    folder = tempfile.mkdtemp(prefix="albert-pipeline-")
    failures: list[BaseException] = []

    def work() -> None:
        try:
            _run_pipeline(build, folder, runner, num_workers, beam_options, verbose)
        except BaseException as error:
            failures.append(error)

    # In a thread, since Beam would answer Ctrl-C only after all work in flight is done.
    thread = threading.Thread(target=work, daemon=True, name="pipeline")
    with _watch_workers(verbose) as lost_worker:
        try:
            thread.start()
            _show_until_done(lambda: lost_worker.is_set() or not thread.is_alive(), folder, total)
        finally:
            shutil.rmtree(folder, ignore_errors=True)  # tells all workers to stop, if they still run
            thread.join(_STOP_SECONDS)
    if failures:
        raise _translated(failures[0]) from failures[0]
    if lost_worker.is_set():
        raise _lost_worker()


def _show_until_done(is_done: Callable[[], bool], folder: str, total: int) -> None:
    """Returns when `is_done`; shows progress from the moment there is some."""
    from pipelines import transforms

    def measured(what: str) -> int:
        return transforms.measure_progress(folder, what)

    # A small input is done in a moment, and a fault in any is found while reading, before there is progress to show. It
    # then stands alone on the terminal.
    if total > _LARGE_BYTES:
        logging.info("reading %.0f MB; progress is shown as soon as examples are built", total / 1e6)
    while not is_done() and (total < _SMALL_BYTES or not measured(transforms.TEXT_READ)):
        time.sleep(_POLL_SECONDS)
    if is_done():
        return
    with door.progress(total=total, description="building examples", unit="bytes") as bar:
        while not is_done() and not measured(transforms.EXAMPLES_WRITTEN):
            time.sleep(_POLL_SECONDS)
            done = min(measured(transforms.TEXT_READ), total)  # a little less: blank lines are not counted
            bar.advance(done - bar.completed)
    if is_done():
        return
    # All examples are made before the first one is written.
    made = measured(transforms.EXAMPLES_MADE)
    with door.progress(total=made, description="writing records", unit="examples") as bar:
        while not is_done():
            time.sleep(_POLL_SECONDS)
            bar.advance(measured(transforms.EXAMPLES_WRITTEN) - bar.completed)


def _run_pipeline(
    build: Callable[[Any, str | None], None],
    folder: str,
    runner: str,
    num_workers: int,
    beam_options: Sequence[str],
    verbose: bool,
) -> None:
    import apache_beam as beam
    from apache_beam.options import pipeline_options

    flags = [*beam_options]
    if runner == LOCAL_RUNNER:
        chosen = _local_runner(folder, num_workers, verbose)
        flags += [f"--direct_num_workers={num_workers}"]
    else:
        chosen = runner
    pipeline = beam.Pipeline(runner=chosen, options=pipeline_options.PipelineOptions(flags))
    build(pipeline, folder if runner == LOCAL_RUNNER else None)
    pipeline.run().wait_until_finish()


def _local_runner(folder: str, num_workers: int, verbose: bool) -> Any:
    # Named, since Beam's default runner first tries to download a program.
    from apache_beam.runners.portability import fn_api_runner
    from apache_beam.transforms import environments

    if num_workers == 1:
        return fn_api_runner.FnApiRunner()
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    search_path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    command = shlex.join([sys.executable, "-m", "pipelines.worker", str(os.getpid()), folder])
    output = "" if verbose else " >/dev/null 2>&1"
    return fn_api_runner.FnApiRunner(
        default_environment=environments.SubprocessSDKEnvironment.from_command_string(
            f"PYTHONPATH={shlex.quote(search_path)} exec {command}{output}"
        )
    )


def _translated(error: BaseException) -> BaseException:
    """The fault behind what Beam raises: workers wrap errors or send them as text."""
    from pipelines import readers

    if isinstance(error, (readers.InputError, OSError)) and "\n" not in str(error) and "[while" not in str(error):
        return error
    text = "".join(traceback.format_exception(error))
    found = list(_WORKER_ERROR.finditer(text))
    if found:
        message = found[-1]["message"]
        if of_system := _SYSTEM_ERROR.fullmatch(message):  # of the disk, say, and no fault of the input
            return OSError(int(of_system["number"]), of_system["reason"], of_system["path"])
        return ValueError(message)
    if "Channel closed prematurely" in text or "Worker subprocess exited" in text:
        return _lost_worker()
    return error


def _lost_worker() -> door.UserError:
    return door.UserError(
        "a worker process ended before its work was done, perhaps for lack of memory; "
        "try fewer with --num_workers, or --verbosity=1 for what it says"
    )


@contextlib.contextmanager
def _watch_workers(verbose: bool) -> Iterator[threading.Event]:
    """Event that is set when a worker process fails.

    Beam waits for each worker in a thread of its own, which then raises; the run itself may wait for ever.
    """
    lost, shown = threading.Event(), threading.excepthook

    def hook(arguments: Any) -> None:
        name = arguments.thread.name if arguments.thread is not None else ""
        if name == _WORKER_THREAD:
            lost.set()
        if verbose:  # all other threads here are Beam's, and several of them lose their worker at once
            shown(arguments)

    threading.excepthook = hook
    try:
        yield lost
    finally:
        if not lost.is_set():  # else threads of Beam may still find out, after our own line
            threading.excepthook = shown
