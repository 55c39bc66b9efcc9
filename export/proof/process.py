"""An artefact in a process of its own: `alone.py`, asked from here."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from albert_tf.files import is_remote
from export.artifacts import SAVED_MODEL_FILE

Arrays = Mapping[str, np.ndarray]
_SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "alone.py")
_TFLITE_MARK = b"TFL3"


def is_saved_model(path: str | os.PathLike[str]) -> bool:
    """Whether there is a SavedModel at `path`."""
    if is_remote(path):
        import tensorflow as tf

        return bool(tf.saved_model.contains_saved_model(os.fspath(path)))
    return os.path.isfile(os.path.join(path, SAVED_MODEL_FILE))


def is_tflite(path: str | os.PathLike[str]) -> bool:
    """Whether `path` is a TFLite file, by its mark."""
    if is_remote(path) or not os.path.isfile(path):
        return False
    with open(path, "rb") as stream:
        return stream.read(8)[4:] == _TFLITE_MARK


@dataclasses.dataclass(frozen=True, kw_only=True)
class Signature:
    """Inputs and outputs of a signature: by name a dtype's name and a shape; a free size is None, a free rank too."""

    inputs: Mapping[str, tuple[str, tuple[int | None, ...] | None]]
    outputs: Mapping[str, tuple[str, tuple[int | None, ...] | None]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Loaded:
    """What loading told: `needs` are the programs that ran it, name -> version."""

    load_seconds: float
    signatures: Mapping[str, Signature]
    needs: Mapping[str, str]


class AloneProcess:
    """A SavedModel or TFLite file, loaded by a process that can import neither this project nor Keras.

    A context manager; the process ends with the block.

    Args:
      path: the SavedModel's folder or the TFLite file.
      name: what errors call it; None takes the path.
      threads: for arithmetic; None leaves it to TensorFlow or LiteRT.

    Raises:
      FileNotFoundError: if there is no artefact at `path`.
      ValueError: if it cannot be loaded.
    """

    def __init__(self, path: str | os.PathLike[str], *, name: str | None = None, threads: int | None = None) -> None:
        self.name = name or os.fspath(path)
        if not is_saved_model(path) and not is_tflite(path):
            raise FileNotFoundError(f"{self.name}: neither a SavedModel ({SAVED_MODEL_FILE}) nor a TFLite file")
        self._folder = tempfile.TemporaryDirectory(prefix="albert_tf-alone-")
        self._messages = open(os.path.join(self._folder.name, "messages"), "w+b")  # noqa: SIM115 (closed by `close`)
        self._process = subprocess.Popen(
            [sys.executable, "-I", _SCRIPT],
            cwd=self._folder.name,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._messages,
            text=True,
            encoding="utf-8",
        )
        try:
            full = os.fspath(path) if is_remote(path) else os.path.abspath(path)
            self.loaded = _loaded(self._ask({"artefact": full, "threads": threads}))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the process and removes its files."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._messages.close()
        self._folder.cleanup()

    def run(self, signature: str, cases: Sequence[Arrays]) -> list[dict[str, np.ndarray]]:
        """Outputs by name for each case's inputs by name; texts as arrays of `np.str_`.

        Raises:
          ValueError: if the artefact cannot run a case.
        """
        outputs = os.path.join(self._folder.name, "outputs.npz")
        self._ask({"run": self._write_cases(cases), "signature": signature, "outputs": outputs})
        found: list[dict[str, np.ndarray]] = [{} for _ in cases]
        with np.load(outputs) as arrays:
            for key in arrays.files:
                number, _, name = key.partition("/")
                found[int(number)][name] = arrays[key]
        os.remove(outputs)
        return found

    def time(self, signature: str, cases: Sequence[Arrays], *, repeats: int) -> list[list[float]]:
        """Seconds of each of `repeats` calls with each case's inputs, after one call that is not counted."""
        return list(
            self._ask({"time": self._write_cases(cases), "signature": signature, "repeats": repeats})["seconds"]
        )

    def memory(self) -> int | None:
        """Bytes at the peak above what the process had after its imports; None where the system does not tell."""
        found = self._ask({"memory": True})["memory"]
        return None if found is None else int(found)

    def _write_cases(self, cases: Sequence[Arrays]) -> str:
        path = os.path.join(self._folder.name, "cases.npz")
        arrays: dict[str, Any] = {
            f"{number}/{name}": value for number, case in enumerate(cases) for name, value in case.items()
        }
        np.savez(path, **arrays)
        return path

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise RuntimeError("the process has no pipes")
        try:
            stdin.write(json.dumps(request) + "\n")
            stdin.flush()
            line = stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise ValueError(f"{self.name}: the process that loaded it ended: {self._last_message()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise ValueError(f"{self.name}: does not run on its own: {' '.join(answer['error'].split())[:600]}")
        return answer

    def _last_message(self) -> str:
        self._process.wait()
        self._messages.seek(0)
        lines = self._messages.read().decode("utf-8", "replace").strip().splitlines()
        return f"exit code {self._process.returncode}" + (f", {lines[-1]}" if lines else "")


def _loaded(answer: Mapping[str, Any]) -> Loaded:
    def specs(found: Mapping[str, Any]) -> dict[str, tuple[str, tuple[int | None, ...] | None]]:
        return {name: (dtype, None if shape is None else tuple(shape)) for name, (dtype, shape) in found.items()}

    return Loaded(
        load_seconds=answer["load_seconds"],
        signatures={
            name: Signature(inputs=specs(one["inputs"]), outputs=specs(one["outputs"]))
            for name, one in sorted(answer["signatures"].items())
        },
        needs=answer["needs"],
    )
