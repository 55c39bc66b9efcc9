"""Interrupts: Ctrl-C and SIGTERM wait until a step and what is written of it are done.

A checkpoint can then be made of the state that the logs describe. A second signal soon after the first is the same wish
once more (supervisors send SIGTERM to a process and to its group) and must not break the saving off; one that comes
later does.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

CTRL_C = signal.SIGINT
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
# Seconds after the first signal in which another one changes nothing.
PATIENCE = 10.0
_AGAIN = 0.05  # seconds until a signal that came in a destructor comes again


class _Stop:
    """The first Ctrl-C or SIGTERM of this process: when it came, and what is done about the following ones."""

    def __init__(self) -> None:
        self._first = float("-inf")

    def is_new(self) -> bool:
        """Whether a signal that comes now is a wish of its own; notes it if so."""
        now = time.monotonic()
        if now - self._first < PATIENCE:
            return False
        self._first = now
        return True


@contextlib.contextmanager
def acting_once() -> Iterator[None]:
    """In the block a signal acts as before, and others that follow within `PATIENCE` seconds do not act at all."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = _handlers()
    stop = _Stop()

    def act(number: int, frame: Any) -> None:
        if _is_destroying(frame):
            again = threading.Timer(_AGAIN, os.kill, (os.getpid(), number))
            again.daemon = True
            again.start()
            return
        handler = before[number]
        if stop.is_new() and callable(handler):
            handler(number, frame)

    _handle(before, act)
    try:
        yield
    finally:
        _restore(before)


@contextlib.contextmanager
def held_back() -> Iterator[list[int]]:
    """Holds the first Ctrl-C or SIGTERM back until the block ends; one `PATIENCE` seconds later acts at once.

    Yields:
      The list that the first one's number is put into. What is still in it at the end of the block acts then.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received  # signals reach the main thread only
        return
    before = _handlers()
    stop = _Stop()

    def note(number: int, _: Any) -> None:
        if not stop.is_new():
            return
        if received:
            _restore(before)
            signal.raise_signal(number)
        else:
            received.append(number)
            with contextlib.suppress(OSError):  # a log handler could be in the middle of a line
                os.write(2, b"stopping as soon as this step is done\n")

    _handle(before, note)
    try:
        yield received
    finally:
        _restore(before)
    for number in received:
        signal.raise_signal(number)


def _is_destroying(frame: Any) -> bool:
    """Whether a frame belongs to a destructor: Python swallows what is raised there, and the wish would be lost."""
    while frame is not None:
        if frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False


def set_again() -> None:
    """Sets the handlers of this process again, after a library has set its own behind Python's back."""
    if threading.current_thread() is threading.main_thread():
        _restore(_handlers())


def _handle(before: Mapping[int, Any], handler: Any) -> None:
    """Puts a handler in the place of others; what is ignored, as in a shell's background jobs, stays so."""
    for number, old in before.items():
        if old is not signal.SIG_IGN:
            signal.signal(number, handler)


def _handlers() -> dict[int, Any]:
    return {number: signal.getsignal(number) for number in _SIGNALS}


def _restore(handlers: Mapping[int, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)
