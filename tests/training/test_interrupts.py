"""Signals: held back until a block ends, and acting once where they come twice."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from albert_tf.training import interrupts


class _StopError(Exception):
    """What the handler of these tests raises."""


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    def stop(number: int, frame: Any) -> None:
        raise _StopError(number)

    before = signal.signal(signal.SIGTERM, stop)
    yield
    signal.signal(signal.SIGTERM, before)


def test_held_back_until_the_block_ends() -> None:
    seen: list[list[int]] = []

    def work() -> None:
        with interrupts.held_back() as received:
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)  # the same wish once more
            seen.append(list(received))

    with pytest.raises(_StopError):
        work()
    assert seen == [[signal.SIGTERM]]


def test_one_that_comes_later_acts_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reached = []

    def work() -> None:
        with interrupts.held_back():
            signal.raise_signal(signal.SIGTERM)
            later = time.monotonic() + interrupts.PATIENCE + 1.0
            monkeypatch.setattr(interrupts.time, "monotonic", lambda: later)
            reached.append("second")
            signal.raise_signal(signal.SIGTERM)
            reached.append("end")

    with pytest.raises(_StopError):
        work()
    assert reached == ["second"]


def test_a_second_signal_does_not_break_the_clearing_up_off() -> None:
    steps = []
    with interrupts.acting_once():
        try:
            with interrupts.held_back():
                signal.raise_signal(signal.SIGTERM)
            steps.append("not reached")
        except _StopError:
            signal.raise_signal(signal.SIGTERM)
            steps.append("saved")
        finally:
            signal.raise_signal(signal.SIGTERM)
            steps.append("ended")
    assert steps == ["saved", "ended"]
    with pytest.raises(_StopError):
        signal.raise_signal(signal.SIGTERM)  # as before


def test_ignored_signals_stay_ignored() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with interrupts.acting_once(), interrupts.held_back() as received:
        signal.raise_signal(signal.SIGTERM)
    assert received == []


def test_a_signal_in_a_destructor_is_not_lost() -> None:
    """Python swallows what is raised in `__del__`; the wish to stop comes again behind it."""
    passed = []

    class Destroyed:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)
            passed.append(True)

    def work() -> None:
        thing = Destroyed()
        del thing
        time.sleep(20)

    with interrupts.acting_once(), pytest.raises(KeyboardInterrupt):
        work()
    assert passed == [True]
