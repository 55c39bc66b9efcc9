"""Two workers of a door, each a process on this machine."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping

from tests.training.free_ports import local_hosts


@contextlib.contextmanager
def two_workers(door: str, flags: Mapping[str, object]) -> Iterator[list[subprocess.Popen[str]]]:
    """Starts both, with a proxy in the environment that answers nobody; what is left of them at the end is killed.

    Args:
      door: module to run, such as "albert_tf.pretrain".
      flags: its flags by name, but for those of the workers.
    """
    command = [sys.executable, "-m", door, "--strategy=multi_worker", f"--worker_hosts={','.join(local_hosts(2))}"]
    command += [f"--{name}={value}" for name, value in flags.items()]
    proxies = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
    started = [
        subprocess.Popen(
            [*command, f"--worker_index={index}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **proxies},
        )
        for index in range(2)
    ]
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()
            for stream in (process.stdout, process.stderr):
                if stream:
                    stream.close()
