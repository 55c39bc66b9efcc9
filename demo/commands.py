"""Runs the project's doors (`python -m ...`) as a user would, and shows the command lines.

A child ends with the demo: Ctrl-C reaches it through the terminal, and on Linux the kernel ends it when the demo is
killed. Where that cannot be had, the folder's lock, which children hold too, keeps a second demo out of its way.
"""

from __future__ import annotations

import ctypes
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from albert_tf.door import UserError
from demo.workspace import Workspace

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_TAIL_LINES = 30
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, kw_only=True)
class Command:
    """One door and its flags."""

    door: str
    flags: dict[str, object] = field(default_factory=dict)

    @property
    def arguments(self) -> list[str]:
        """What the process is started with, from the interpreter on."""
        return [sys.executable, "-m", self.door, *(f"--{name}={value}" for name, value in self.flags.items())]

    def __str__(self) -> str:
        """The command as one would type it, a flag on a line."""
        parts = [f"python -m {self.door}", *(shlex.quote(argument) for argument in self.arguments[3:])]
        return " \\\n      ".join(parts)


def run(
    workspace: Workspace, command: Command, *, watch: Callable[[subprocess.Popen[bytes]], None] | None = None
) -> None:
    """Runs one door; what it prints goes where ours goes.

    Args:
      watch: called with the running process; returns when it has seen enough of it. It may end the process.

    Raises:
      UserError: if the door fails; it has then said why.
    """
    announce(command)
    process = _start(workspace, command, None)
    try:
        if watch:
            watch(process)
        code = process.wait()
    except BaseException:
        _stop([process])
        raise
    if code:
        raise UserError(f"{command.door} ended with exit code {code}; what it said stands above")


def run_together(workspace: Workspace, commands: Sequence[Command], meanwhile: Callable[[], None]) -> None:
    """Runs several doors at once and `meanwhile()` beside them; what the doors print goes to `logs/`.

    Raises:
      UserError: if a door fails, with the end of what it said printed before.
    """
    logs = [workspace.path("logs", f"{index}-{command.door}.txt") for index, command in enumerate(commands)]
    os.makedirs(workspace.path("logs"), exist_ok=True)
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for command, log in zip(commands, logs, strict=True):
            announce(command)
            processes.append(_start(workspace, command, log))
        meanwhile()
        codes = [process.wait() for process in processes]
    except BaseException:
        _stop(processes)
        raise
    for command, log, code in zip(commands, logs, codes, strict=True):
        if code:
            with open(log, encoding="utf-8", errors="replace") as file:
                print("".join(file.readlines()[-_TAIL_LINES:]), file=sys.stderr)
            raise UserError(f"{command.door} ended with exit code {code}; all it said is in {log}")


def announce(command: Command) -> None:
    """Prints the command line."""
    print(f"\n  $ {command}\n", flush=True)


def _start(workspace: Workspace, command: Command, log: str | None) -> subprocess.Popen[bytes]:
    environment = dict(os.environ)
    # The doors are found even where the project was not installed; the working directory stays the user's.
    environment["PYTHONPATH"] = os.pathsep.join([ROOT, *filter(None, [environment.get("PYTHONPATH")])])
    output = None if log is None else open(log, "wb")  # noqa: SIM115 (closed below, the child has its own)
    try:
        return subprocess.Popen(
            command.arguments,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(workspace.lock_file,),
            preexec_fn=_end_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509 (this process has no threads)
        )
    finally:
        if output:
            output.close()


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Asks processes that are still running to end, and ends them if they do not."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
    for process in processes:
        try:
            process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
