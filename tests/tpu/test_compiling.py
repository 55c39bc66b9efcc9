"""What the compiler's answers mean, with answers as it gave them, and a worker that stands for it."""

from __future__ import annotations

import json
import pathlib
import sys

import pytest

from albert_tf.tpu import chips, compiling
from albert_tf.tpu.chips import CHIPS, GIB

# The step of the published base model, 32 x 128 in bfloat16 with LAMB, on a v5e.
BASE = {
    "jax": "0.10.2",
    "libtpu": "0.0.52",
    "arguments": 141897216,
    "outputs": 141811712,
    "aliased": 141810688,
    "temporary": 1291894784,
    "code": 149619712,
    "flops": 2180717084672.0,
    "seconds": 380.4,
}
# That of the large one, 32 x 512.
TOO_LARGE = {
    "jax": "0.10.2",
    "libtpu": "0.0.52",
    "seconds": 18.2,
    "error": "RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory required for "
    "HLO temporaries (20.83G) exceeds available HBM (15.75G). HLO module: a_inference_replica_step.\nSee more.",
}


def test_a_step_that_fits() -> None:
    compiled = compiling.read_answer(BASE, CHIPS["v5e"])
    assert compiled.fits
    assert compiled.outputs == 1024  # the others are written over the arguments
    assert compiled.needed == 141897216 + 1024 + 1291894784 + 149619712
    assert compiling.rows(compiled, CHIPS["v5e"], products=2_167_000_000_000, has_loops=False) == [
        ("arguments: weights, slots, batch", "0.132 GiB"),
        ("outputs beside them", "0.000 GiB"),
        ("temporary: activations, gradients", "1.203 GiB"),
        ("code", "0.139 GiB"),
        ("total", "1.475 GiB of 15.750 GiB: fits"),
        ("operations, by the compiler", "2.181 T"),
        ("operations of matrix products", "2.167 T"),
        ("these at the peak of 197 TFLOP/s", "11.0 ms a step at least"),
        ("compiled by libtpu 0.0.52 in", "380 s"),
    ]


def test_a_step_that_the_compiler_finds_too_large() -> None:
    compiled = compiling.read_answer(TOO_LARGE, CHIPS["v5e"])
    assert not compiled.fits
    assert (compiled.needed, compiled.available) == (20.83 * GIB, 15.75 * GIB)
    assert compiling.rows(compiled, CHIPS["v5e"], products=394_000_000_000, has_loops=False) == [
        ("total", "does not fit: needs 20.830 GiB of 15.750 GiB"),
        ("operations of matrix products", "0.394 T"),
        ("these at the peak of 197 TFLOP/s", "2.0 ms a step at least"),
        ("compiled by libtpu 0.0.52 in", "18 s"),
    ]


@pytest.mark.parametrize(
    ("error", "needed", "available"),
    [
        ("RESOURCE_EXHAUSTED: Used 17.32G of 15.75G hbm. Exceeded hbm capacity by 1.57G.", 17.32 * GIB, 15.75 * GIB),
        (
            "RESOURCE_EXHAUSTED: required for HLO temporaries (1.5T) exceeds available HBM (512.5M)",
            1536 * GIB,
            2**29 + 2**19,
        ),
    ],
)
def test_sizes_in_other_words_and_units(error: str, needed: float, available: float) -> None:
    compiled = compiling.read_answer({**TOO_LARGE, "error": error}, CHIPS["v5e"])
    assert [compiled.needed, compiled.available] == pytest.approx([needed, available])


def test_a_step_that_compiles_but_exceeds_the_chip() -> None:
    small = chips.Chip(name="toy", topology="toy:1x1", memory=2e9, available=1.25 * GIB, peak=3e12)
    compiled = compiling.read_answer(BASE, small)
    assert not compiled.fits
    total, operations = compiling.rows(compiled, small, products=3, has_loops=True)[4:6]
    assert total == ("total", "does not fit: needs 1.475 GiB of 1.250 GiB")
    assert operations[1] == "2.181 T, each loop's body counted once"


def test_another_error_of_the_compiler() -> None:
    answer = {**TOO_LARGE, "error": "INVALID_ARGUMENT: no such\noperation"}
    with pytest.raises(ValueError, match="refuses the step: INVALID_ARGUMENT: no such operation"):
        compiling.read_answer(answer, CHIPS["v5e"])


def test_no_chip_has_more_available_than_it_has() -> None:
    # The documentation's sizes are rounded to whole gigabytes, of which it does not say how many bytes they have.
    for chip in CHIPS.values():
        assert 0.9 * chip.memory < chip.available < 1.1 * chip.memory


# --- The worker's process ---


def worker(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    path = tmp_path / "worker.py"
    path.write_text(script, encoding="utf-8")
    monkeypatch.setattr(compiling, "_WORKER", path)


def compile_toy() -> compiling.Compiled:
    return compiling.compile_for(CHIPS["v4"], "module {}", python=sys.executable, tell=print)


def test_the_worker_gets_text_chip_and_variables(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Where the library would look for a TPU, it would ask the network for minutes.
    script = f"""
import json, os, pathlib, sys
source, target, topology, configuration = sys.argv[1:]
assert pathlib.Path(source).read_text() == "module {{}}"
assert (topology, configuration) == ("v4:1x1x1", "megacore")
assert (os.environ["JAX_PLATFORMS"], os.environ["TPU_SKIP_MDS_QUERY"]) == ("cpu", "1")
pathlib.Path(target).write_text({json.dumps(json.dumps(BASE))})
"""
    worker(tmp_path, monkeypatch, script)
    assert compile_toy().flops == BASE["flops"]


def test_a_worker_that_dies(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker(tmp_path, monkeypatch, "import sys; print('noise'); sys.exit('no luck')")
    with pytest.raises(ValueError, match=r"ended with exit code 1: no luck"):
        compile_toy()


def test_news_while_it_compiles_and_no_worker_left_over(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = tmp_path / "pid"
    worker(tmp_path, monkeypatch, f"import os, time; open({str(note)!r}, 'w').write(str(os.getpid())); time.sleep(600)")
    monkeypatch.setattr(compiling, "_SECONDS_BETWEEN_NEWS", 0.05)
    told: list[float] = []

    def interrupted(seconds: float) -> None:
        told.append(seconds)
        if note.exists() and note.read_text() and len(told) > 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compiling.compile_for(CHIPS["v5e"], "module {}", python=sys.executable, tell=interrupted)
    assert told[:3] == pytest.approx([0.05, 0.10, 0.15])
    assert not pathlib.Path("/proc", note.read_text()).exists()
