"""Two logical devices and two workers train as one device does, with gradient clipping active in every step."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.training.free_ports import local_hosts

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("devices")]

# The order of summation differs, and nothing else: a few units in the last place, grown over 20 steps.
TOLERANCE = {"float64": 1e-9, "float32": 1e-4}
FIRST, *_, LAST = [f"{floatx} {optimizer}" for floatx in TOLERANCE for optimizer in ("Lamb", "AdamWeightDecay")]
# Each takes a third of a minute of both cores.
FURTHER = ("float64 AdamWeightDecay", "float32 Lamb")
combinations = pytest.mark.parametrize(
    "name", [FIRST, LAST, *(pytest.param(name, marks=pytest.mark.thorough) for name in FURTHER)]
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("devices")


@pytest.fixture(scope="module")
def devices(folder: pathlib.Path) -> dict[str, Any]:
    """What the program of two logical devices and one has found, with the first combination and the last one."""
    return run_devices(folder, FIRST, LAST)


@pytest.fixture(scope="module")
def further_devices(folder: pathlib.Path) -> dict[str, Any]:
    """The same with the further combinations."""
    return run_devices(folder, *FURTHER)


def run_devices(folder: pathlib.Path, *names: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.training.two_devices", str(folder), *names]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=500)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture
def on_devices(name: str, request: pytest.FixtureRequest) -> dict[str, Any]:
    """What two devices and one have found with the combination `name`."""
    found: dict[str, Any] = request.getfixturevalue("further_devices" if name in FURTHER else "devices")[name]
    return found


@pytest.fixture(scope="module")
def workers(devices: dict[str, Any], folder: pathlib.Path) -> list[dict[str, Any]]:
    """What each of two workers has found with the first combination."""
    return run_workers(folder, FIRST)


@pytest.fixture(scope="module")
def further_workers(further_devices: dict[str, Any], folder: pathlib.Path) -> list[dict[str, Any]]:
    """The same with the further combinations."""
    return run_workers(folder, *FURTHER)


def run_workers(folder: pathlib.Path, *names: str) -> list[dict[str, Any]]:
    """Runs both workers, with a proxy in the environment that answers nobody."""
    hosts = ",".join(local_hosts(2))
    environment = {**os.environ, "http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.training.two_workers", str(folder), hosts, str(index), *names],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment,
        )
        for index in range(2)
    ]
    try:
        ended = [process.communicate(timeout=500) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0], ended[0][1][-2000:] + ended[1][1][-2000:]
    return [json.loads(output.splitlines()[-1]) for output, _ in ended]


@combinations
def test_two_replicas_equal_one_device(on_devices: dict[str, Any], name: str) -> None:
    tolerance = TOLERANCE[name.split(maxsplit=1)[0]]
    assert on_devices["replicas"] == 2
    assert 0 < on_devices["weights"] < tolerance
    assert on_devices["metrics"] < tolerance
    assert len(on_devices["norms"]) == 20
    assert min(on_devices["norms"]) > 0.3  # each step was clipped
    assert on_devices["same_examples"]


@combinations
def test_a_float64_step_holds_nothing_of_lower_precision(on_devices: dict[str, Any], name: str) -> None:
    for found in on_devices["precision"]:
        if name.startswith("float64"):
            assert found["lower"] == 0, found["first"]
            assert found["float64"] > 1000
        else:  # the walk sees such outputs where there are some
            assert found["lower"] > 1000


def test_a_run_of_one_device_goes_on_on_two(devices: dict[str, Any]) -> None:
    """Another number of devices at a resume: the same examples in the same order, and the same weights."""
    resumed, name = devices["resumed"], FIRST
    assert resumed["step"] == 9
    assert resumed["examples"] == devices[name]["examples"][9:]
    assert resumed["weights"] < TOLERANCE["float64"]


def test_replicas_draw_different_dropout_masks_and_steps_the_same_again(devices: dict[str, Any]) -> None:
    assert devices["dropout"] == {"replicas_differ": True, "steps_differ": True, "repeats": True}


def test_two_devices_evaluate_as_one_does(devices: dict[str, Any]) -> None:
    assert devices["evaluation"] < 1e-3
    assert devices["examples"] == [19, 19]


@pytest.mark.parametrize("name", [FIRST, *(pytest.param(name, marks=pytest.mark.thorough) for name in FURTHER)])
def test_two_workers_equal_one_device(on_devices: dict[str, Any], name: str, request: pytest.FixtureRequest) -> None:
    floatx = name.split(maxsplit=1)[0]
    workers = request.getfixturevalue("further_workers" if name in FURTHER else "workers")
    for worker in workers:
        assert worker["replicas"] == 2
        assert worker[name]["weights"] < TOLERANCE[floatx]
        assert worker[name]["norms"] == pytest.approx(on_devices["norms"], abs=TOLERANCE[floatx])
        assert (worker[name]["precision"]["lower"] == 0) == (floatx == "float64")
    both = [first + second for first, second in zip(*(worker[name]["examples"] for worker in workers), strict=True)]
    assert both == on_devices["examples"]


def test_workers_agree_or_all_refuse(workers: list[dict[str, Any]]) -> None:
    assert [worker["is_chief"] for worker in workers] == [True, False]
    for worker in workers:
        assert worker["steps"] == 6  # the least that one of them can afford
        assert worker["alike"] == ""
        assert "goes on from step 0, worker 0 from 40: output_dir must be a folder that all" in worker["other_step"]
        assert "was started with other settings than worker 0: seed, data; start all" in worker["other_settings"]
        assert worker["other_step"].startswith("worker 1 (127.0.0.1:")
