"""Two replicas train as one device does, with gradient clipping active."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_two_replicas_equal_one_device(tmp_path: pathlib.Path) -> None:
    command = [sys.executable, "-m", "tests.training.two_devices", str(tmp_path / "data")]
    root = pathlib.Path(__file__).resolve().parents[2]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["replicas"] == 2
    for name, tolerance in (("float64 Lamb", 1e-9), ("float32 AdamWeightDecay", 1e-4)):
        assert found[name]["weights"] < tolerance, name
        assert found[name]["metrics"] < max(tolerance, 1e-5), name  # accuracies are summed in float32
        assert min(found[name]["norms"]) > 0.3, name  # each step was clipped
    assert found["evaluation"] < 1e-3
    assert found["examples"] == [19, 19]
