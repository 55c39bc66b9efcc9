"""Two logical devices fine-tune as one device does, whatever the head: denominators span the devices."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest

from tests.conftest import ROOT


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.xdist_group("devices")
def test_two_devices_equal_one(tmp_path: pathlib.Path) -> None:
    command = [sys.executable, "-m", "tests.training.finetuning_devices", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=500)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert len(found) == 4
    for name, figures in found.items():
        # The order of summation differs, and nothing else: float64, grown over 12 steps.
        assert figures["weights"] < 1e-9, name
        assert figures["loss"] < 1e-9, name
        assert figures["same_examples"], name
        assert figures["least_norm"] > 0.1, name  # each step was clipped
