"""Builds data directories, in this process or through the door in one of its own, and reads them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from albert_tf.tokenizer_base import Tokenizer
from pipelines import data_directory
from pipelines.example_settings import ExampleSettings
from pipelines.readers import ReaderSettings
from tests.conftest import ROOT
from tests.reference.records import parse_example, read_payloads


def command(*arguments: str) -> list[str]:
    """Command line of the door."""
    return [sys.executable, "-m", "pipelines.build_pretraining_data", *arguments]


def environment() -> dict[str, str]:
    """Environment in which the project is found from every folder."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs the door to its end."""
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=300, cwd=cwd, env=environment())


KILLED_AFTER_FIRST_SHARD = """
import os, signal, sys
from pipelines import transforms
write = transforms.WriteShards._write
def write_and_die(self, name, content):
    write(self, name, content)
    if name.startswith("manifest-"):
        os.kill(os.getpid(), signal.SIGKILL)
transforms.WriteShards._write = write_and_die
from albert_tf import door
from pipelines import build_pretraining_data
door.run(build_pretraining_data.main)
"""


def run_and_kill_after_first_shard(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the door, and kills it (SIGKILL) as soon as a shard is finished."""
    program = [sys.executable, "-c", KILLED_AFTER_FIRST_SHARD, *arguments]
    return subprocess.run(program, capture_output=True, text=True, timeout=300, env=environment())


def build(
    output: Path,
    inputs: Sequence[Path | str],
    tokenizer: Tokenizer,
    *,
    reading: ReaderSettings | None = None,
    num_workers: int = 1,
    runner: str = "local",
    **settings: Any,
) -> dict[str, Any]:
    """Makes a data directory in this process and returns its dataset.json; `settings` are those of the examples."""
    chosen = ExampleSettings(**({"max_seq_length": 61, "num_shards": 3, "seed": 11} | settings))
    names = [str(path) for path in inputs]
    data_directory.build_data_directory(
        names, tokenizer, str(output), chosen, reading=reading, num_workers=num_workers, runner=runner
    )
    result: dict[str, Any] = json.loads((output / "dataset.json").read_text())
    return result


def read_log(output: Path) -> dict[str, Any]:
    """Content of build.log.json."""
    result: dict[str, Any] = json.loads((output / "build.log.json").read_text())
    return result


def read_examples(output: Path) -> list[dict[str, list[Any]]]:
    """All records, in the order of the shards."""
    return [parse_example(payload) for path in sorted(output.glob("*.tfrecord")) for payload in read_payloads(path)]


def content(output: Path) -> dict[str, bytes]:
    """Bytes of every file but the log, by name."""
    return {path.name: path.read_bytes() for path in output.iterdir() if path.name != "build.log.json"}
