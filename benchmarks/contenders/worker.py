"""One contender in a process of its own: a job on standard input, then orders; an answer to each, a JSON line.

Orders are {"predict": true} and {"train": [numbers of batches]}. An answer holds what was computed, and for each call
the seconds by the clock and of processor time.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def timed(call: Callable[[], T]) -> tuple[T, dict[str, float]]:
    """What `call` returns, and the seconds that it took."""
    wall, cpu = time.perf_counter(), time.process_time()
    found = call()
    return found, {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def serve(name: str) -> None:
    """Answers orders until standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries print what they like

    def answer(**values: Any) -> None:
        print(json.dumps(values), file=answers, flush=True)

    contender = importlib.import_module(f"benchmarks.contenders.on_{name}").Contender(json.loads(sys.stdin.readline()))
    answer(versions=contender.versions)
    for line in sys.stdin:
        order = json.loads(line)
        if "train" in order:
            steps = [timed(functools.partial(contender.train_step, number)) for number in order["train"]]
            answer(losses=[loss for loss, _ in steps], times=[times for _, times in steps])
        else:
            found, times = timed(contender.predict)
            answer(probabilities=found.tolist(), times=[times])


if __name__ == "__main__":
    serve(sys.argv[1])
