"""Artefacts measured beside each other: tables, JSON and picture, and what the door refuses."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

from export import benchmark, benchmarking
from export.saved_model import SavedModelReport
from tests.conftest import ROOT


def run(folder: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    start = f"import runpy, sys; sys.path.insert(0, {str(ROOT)!r})"
    code = f"{start}; runpy.run_module('export.benchmark', run_name='__main__', alter_sys=True)"
    return subprocess.run([sys.executable, "-c", code, *arguments], cwd=folder, capture_output=True, text=True)


def test_times_of_the_same_turns(exported: SavedModelReport, float32: pathlib.Path) -> None:
    found = benchmark.benchmark(
        [exported.ids_folder, str(float32)], lengths=[7, 70], batch_sizes=[1, 3], rounds=2, repeats=3, threads=1
    )
    model, file = found.artefacts
    assert (model.kind, model.signature, set(model.needs)) == (
        "SavedModel",
        "serving_default",
        {"python", "numpy", "tensorflow"},
    )
    assert (file.kind, file.bytes) == ("TFLite", float32.stat().st_size)
    assert file.memory is None or 0 < file.memory < model.memory  # type: ignore[operator]
    assert [(one.batch_size, one.length) for one in found.timings[::2]] == [(1, 7), (1, 70), (3, 7), (3, 70)]
    for first, second in zip(found.timings[::2], found.timings[1::2], strict=True):
        assert (first.artefact, second.artefact) == (exported.ids_folder, str(float32))
        assert first.ratio == 1.0
        assert second.ratio > 0
        for one in (first, second):
            assert 0 < one.median <= one.p95
            assert one.throughput == pytest.approx(
                (one.batch_size / one.median, one.batch_size * one.length / one.median)
            )


def test_figures_of_turns() -> None:
    turns, first = [[0.2, 0.4, 0.3], [0.5, 0.9, 0.6]], [[0.1, 0.1, 0.1], [0.6, 0.3, 0.2]]
    one = benchmarking._timing("x", (4, 10), turns, first)
    assert one.median == pytest.approx(0.45)
    assert one.p95 == pytest.approx(np.percentile([0.2, 0.3, 0.4, 0.5, 0.6, 0.9], 95))
    assert one.throughput == pytest.approx((4 / 0.45, 40 / 0.45))
    assert one.ratio == pytest.approx(2.5)  # median of 3 and 2


def test_lengths_that_the_model_cannot_take(float32: pathlib.Path) -> None:
    found = benchmark.benchmark([str(float32)], batch_sizes=[1], rounds=1, repeats=1)
    assert [one.length for one in found.timings] == [8, 16, 32, 64]  # it has 70 positions
    with pytest.raises(ValueError, match=r"rows of 71 tokens: .*model é\.tflite"):
        benchmark.benchmark([str(float32)], lengths=[8, 71], batch_sizes=[1], rounds=1, repeats=1)


def test_json_and_picture(float32: pathlib.Path, int8: pathlib.Path, tmp_path: pathlib.Path) -> None:
    files = [f"--tflite={float32}", f"--tflite={int8}"]
    small = ["--lengths=4,12", "--batch_sizes=2", "--rounds=1", "--repeats=2"]
    done = run(tmp_path, *files, *small, "--json", "--plot=latency.svg")
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    assert [one["name"] for one in content["artefacts"]] == [str(float32), str(int8)]
    assert [(one["length"], one["batch_size"]) for one in content["timings"]] == [(4, 2), (4, 2), (12, 2), (12, 2)]
    picture = (tmp_path / "latency.svg").read_text(encoding="utf-8")
    for words in ("Time of a call with 2 rows", "Throughput of calls with 2 rows", "tokens of a row", "#0072b2"):
        assert words in picture
    assert [path.name for path in tmp_path.iterdir()] == ["latency.svg"]


def test_table(float32: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = benchmarking.MeasuredArtefact(
        name="small.tflite",
        kind="TFLite",
        signature="serving_default",
        bytes=11_800_000,
        load_seconds=0.0125,
        memory=45 << 20,
        needs={},
    )
    timing = benchmarking.Timing(
        artefact="small.tflite", batch_size=8, length=128, median=0.13, p95=0.2, throughput=(61.5, 7877.0), ratio=1.0
    )
    found = benchmarking.Measured(
        artefacts=(one,), timings=(timing,), threads=2, rounds=5, repeats=3, machine="Linux x86_64"
    )
    benchmark.print_tables(found)
    lines = [re.sub(r"\s+", " ", line).strip() for line in capsys.readouterr().out.splitlines()]
    assert "small.tflite TFLite 11.8 0.0125 45" in lines
    assert "small.tflite 8 128 130 200 61.5 7877 1" in lines
    assert "Calls with 2 threads, 5 rounds of 3" in lines


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "give at least one of --saved_model and --tflite"),
        (["--tflite=a.tflite", "--tflite=a.tflite"], 2, "an artefact is named twice"),
        (["--tflite=a.tflite", "--lengths=8,x"], 2, "--lengths must be whole numbers of at least 1"),
        (["--tflite=a.tflite", "--batch_sizes=0"], 2, "--batch_sizes must be whole numbers of at least 1"),
        (["--tflite=a.tflite", "--plot=a.pdf"], 2, "--plot must end in .svg or .png, got 'a.pdf'"),
        (["--saved_model=nowhere"], 1, "nowhere: neither a SavedModel (saved_model.pb) nor a TFLite file"),
    ],
)
def test_door_refuses(arguments: list[str], code: int, message: str, tmp_path: pathlib.Path) -> None:
    done = run(tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
