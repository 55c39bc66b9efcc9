"""Ahead-of-time compilation of a step in the compiler's own environment, and what its answer means."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import re
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

from albert_tf.tpu.chips import GIB, Chip

_WORKER = pathlib.Path(__file__).with_name("compile_worker.py")
# TensorFlow and the newer libtpu do not stand each other, hence an environment of its own.
COMPILER_PYTHON = pathlib.Path(__file__).resolve().parents[2] / ".venv-tpu-check" / "bin" / "python"
# No TPU is looked for, no metadata server is asked, and two compilations at once may load the library.
_VARIABLES = {"JAX_PLATFORMS": "cpu", "TPU_SKIP_MDS_QUERY": "1", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}
_SECONDS_BETWEEN_NEWS = 30.0

# How the compiler says that the memory does not suffice, by the form of the program: needed, then available.
_TOO_LARGE = (
    re.compile(r"\((?P<needed>[\d.]+[KMGT]?)\) exceeds available HBM \((?P<available>[\d.]+[KMGT]?)\)"),
    re.compile(r"Used (?P<needed>[\d.]+[KMGT]?) of (?P<available>[\d.]+[KMGT]?) hbm", re.IGNORECASE),
)
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": GIB, "T": 2**40}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compiled:
    """What the compiler says of a step on one chip.

    Attributes:
      fits: whether it fits into the memory that the chip gives to a program.
      needed: bytes needed in all; where the compiler gave up, what it asked for when it did.
      available: bytes that the chip gives to a program.
      seconds: that compiling took.
      jax: version of jax.
      libtpu: version of libtpu, which holds the compiler.
      arguments: bytes of weights, optimizer's slots and batch; None, as all that follow, where it does not fit.
      outputs: bytes of outputs that do not take the place of arguments.
      temporary: bytes of activations, gradients and other intermediate values.
      code: bytes of the program itself.
      flops: floating-point operations of a step, by the compiler's own count, in which each loop's body counts once.
    """

    fits: bool
    needed: float
    available: float
    seconds: float
    jax: str
    libtpu: str
    arguments: int | None = None
    outputs: int | None = None
    temporary: int | None = None
    code: int | None = None
    flops: float | None = None


def check_python(python: str | os.PathLike[str]) -> None:
    """Refuses what is no Python with the compiler.

    Raises:
      ValueError: saying how to get one.
    """
    code = "import importlib.metadata as m; print(m.version('jax'), m.version('libtpu'))"
    try:
        done = subprocess.run([os.fspath(python), "-I", "-c", code], capture_output=True, text=True, check=False)
        found = done.returncode == 0 and len(done.stdout.split()) == 2
    except OSError:
        found = False
    if not found:
        raise ValueError(
            f"{os.fspath(python)}: is no Python with jax and libtpu; `make tpu-check` builds an environment with them"
        )


def compile_for(chip: Chip, text: str, *, python: str | os.PathLike[str], tell: Callable[[float], None]) -> Compiled:
    """Compiles StableHLO for one chip.

    Args:
      chip: the target.
      text: StableHLO of the step.
      python: of an environment with requirements-tpu-check.txt.
      tell: called with the seconds since the beginning, every half minute.

    Raises:
      FileNotFoundError: if there is no such Python.
      ValueError: if the compiler refuses the step for another reason than its size, or dies.
    """
    with tempfile.TemporaryDirectory() as folder:
        source, target = pathlib.Path(folder, "step.mlir"), pathlib.Path(folder, "result.json")
        source.write_text(text, encoding="utf-8")
        command = [os.fspath(python), "-I", str(_WORKER), str(source), str(target), chip.topology, chip.configuration]
        with tempfile.TemporaryFile() as said:
            # -I: modules of the caller's folder or PYTHONPATH are of another environment.
            child = subprocess.Popen(
                command, env={**os.environ, **_VARIABLES}, stdin=subprocess.DEVNULL, stdout=said, stderr=said
            )
            code = _wait(child, tell)
            said.seek(0)
            if code:
                lines = said.read().decode(errors="replace").strip().splitlines()
                raise ValueError(
                    f"the TPU's compiler ended with exit code {code}: {lines[-1] if lines else 'it said nothing'}"
                )
        return read_answer(json.loads(target.read_text(encoding="utf-8")), chip)


def _wait(child: subprocess.Popen[bytes], tell: Callable[[float], None]) -> int:
    """Exit code of `child`, which is ended where this process is interrupted."""
    waited = 0.0
    try:
        while True:
            try:
                return child.wait(timeout=_SECONDS_BETWEEN_NEWS)
            except subprocess.TimeoutExpired:
                waited += _SECONDS_BETWEEN_NEWS
                tell(waited)
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()


def read_answer(answer: Mapping[str, Any], chip: Chip) -> Compiled:
    """What the worker's answer says of `chip`.

    Raises:
      ValueError: if the compiler refused the step for another reason than its size.
    """
    common = {"seconds": answer["seconds"], "jax": answer["jax"], "libtpu": answer["libtpu"]}
    if (error := answer.get("error")) is not None:
        for pattern in _TOO_LARGE:
            if match := pattern.search(error):
                return Compiled(
                    fits=False, needed=_bytes(match["needed"]), available=_bytes(match["available"]), **common
                )
        raise ValueError(f"the TPU's compiler refuses the step: {' '.join(error.split())[:500]}")
    outputs = answer["outputs"] - answer["aliased"]
    needed = answer["arguments"] + outputs + answer["temporary"] + answer["code"]
    return Compiled(
        fits=needed <= chip.available,
        needed=needed,
        available=chip.available,
        outputs=outputs,
        **{name: answer[name] for name in ("arguments", "temporary", "code", "flops")},
        **common,
    )


def _bytes(text: str) -> float:
    """Bytes of a size as the compiler prints it, such as "15.75G"."""
    unit = text[-1] if text[-1] in _UNITS else ""
    return float(text.removesuffix(unit)) * _UNITS[unit]


def rows(compiled: Compiled, chip: Chip, *, products: int, has_loops: bool) -> list[tuple[str, str]]:
    """The table of one step: what, and how much.

    Args:
      compiled: what the compiler says.
      chip: what it was compiled for.
      products: operations of the step's matrix products.
      has_loops: whether the step has loops, whose bodies the compiler counts once.
    """
    parts = (
        ("arguments: weights, slots, batch", compiled.arguments),
        ("outputs beside them", compiled.outputs),
        ("temporary: activations, gradients", compiled.temporary),
        ("code", compiled.code),
    )
    shown = [(name, _gib(value)) for name, value in parts if value is not None]
    if compiled.fits:
        shown.append(("total", f"{_gib(compiled.needed)} of {_gib(compiled.available)}: fits"))
    else:
        shown.append(("total", f"does not fit: needs {_gib(compiled.needed)} of {_gib(compiled.available)}"))
    if compiled.flops is not None:
        note = ", each loop's body counted once" if has_loops else ""
        shown.append(("operations, by the compiler", f"{compiled.flops / 1e12:.3f} T{note}"))
    shown.append(("operations of matrix products", f"{products / 1e12:.3f} T"))
    peak = f"{chip.peak / 1e12:.0f} TFLOP/s"
    shown.append((f"these at the peak of {peak}", f"{1e3 * products / chip.peak:.1f} ms a step at least"))
    shown.append((f"compiled by libtpu {compiled.libtpu} in", f"{compiled.seconds:.0f} s"))
    return shown


def _gib(value: float) -> str:
    return f"{value / GIB:.3f} GiB"
