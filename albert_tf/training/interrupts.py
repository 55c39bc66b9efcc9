"""Interrupts: Ctrl-C and SIGTERM wait until a step and what is written of it are done.

A checkpoint can then be made of the state that the logs describe.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator, Mapping
from typing import Any

CTRL_C = signal.SIGINT
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def held_back() -> Iterator[list[int]]:
    """Holds the first Ctrl-C or SIGTERM back until the block ends; a second one acts at once.

    Yields:
      The list that the first one's number is put into. What is still in it at the end of the block acts then.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received  # signals reach the main thread only
        return
    before: dict[int, Any] = {number: signal.getsignal(number) for number in _SIGNALS}

    def note(number: int, _: Any) -> None:
        received.append(number)
        _restore(before)  # for a second one

    for number in before:
        signal.signal(number, note)
    try:
        yield received
    finally:
        _restore(before)
    for number in received:
        signal.raise_signal(number)


def set_again() -> None:
    """Sets the handlers of this process again, after a library has set its own behind Python's back."""
    if threading.current_thread() is threading.main_thread():
        _restore({number: signal.getsignal(number) for number in _SIGNALS})


def _restore(handlers: Mapping[int, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)
