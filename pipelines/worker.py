"""One worker process of a local run with several. Started by `build_pretraining_data --num_workers=N`, not by hand.

Beam's own worker goes on when the process that started it is killed. This one ends with it, and when the run's folder,
its sign of life, is gone.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

_POLL_SECONDS = 0.2


def _end_with(launcher: int, folder: str) -> None:
    while os.getppid() == launcher and os.path.isdir(folder):
        time.sleep(_POLL_SECONDS)
    os._exit(1)


def main(launcher: int, folder: str) -> None:
    """Runs Beam's worker until it is done or process `launcher` ends.

    Args:
      launcher: id of the process that started this one.
      folder: exists as long as the work is wanted.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the launcher decides
    threading.Thread(target=_end_with, args=(launcher, folder), daemon=True).start()
    from apache_beam.runners.worker import sdk_worker_main

    sdk_worker_main.main(sys.argv)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
