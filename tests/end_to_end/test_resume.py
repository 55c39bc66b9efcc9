"""Killed and resumed runs: the same weights, moments, averages and examples, bit for bit, as without a kill."""

from __future__ import annotations

import collections
import dataclasses
import pathlib
import random
import re
import subprocess
import time

import numpy as np
import pytest

from tests.end_to_end import killing
from tests.end_to_end.killing import Kind, Run

pytestmark = pytest.mark.xdist_group("resume")


@pytest.fixture
def undisturbed(tmp_path: pathlib.Path) -> Run:
    data = killing.write_data(tmp_path)
    return Run(data_dir=data, output_dir=tmp_path / "undisturbed", num_train_steps=61, save_steps=7)


@pytest.mark.slow
def test_three_kills_change_nothing(undisturbed: Run) -> None:
    killed = dataclasses.replace(undisturbed, output_dir=undisturbed.output_dir.parent / "killed")
    plan: list[tuple[Kind, int]] = [("kill", random.randint(8, 12)), ("term", random.randint(22, 26)), ("writing", 35)]
    table = killing.kill_again_and_again(killed, plan)
    print(table)
    assert {kind for kind, _, _ in table} == {"kill", "term", "writing"}
    undisturbed.finish()
    killing.assert_equal_runs(undisturbed, killed)
    lines = [re.sub(r'"masked_lm_loss.*?"learning_rate', "", text) for text in _metrics(undisturbed, killed)]
    assert lines[0] == lines[1]  # but for means, which are over the steps since the last line, or since the restart

    again = subprocess.run(killed.command, capture_output=True, text=True, timeout=60)
    assert again.returncode == 0
    assert "this run of 61 steps is finished already" in again.stderr


def _metrics(*runs: Run) -> list[str]:
    return [(run.output_dir / "metrics.jsonl").read_text() for run in runs]


@pytest.mark.slow
@pytest.mark.kill
@pytest.mark.timeout(3600)
def test_twenty_five_kills_change_nothing(tmp_path: pathlib.Path) -> None:
    """Prints the table of kills. The undisturbed run steps for more than a minute."""
    data = killing.write_data(tmp_path)
    undisturbed = Run(data_dir=data, output_dir=tmp_path / "undisturbed", num_train_steps=1601, save_steps=20)
    killed = dataclasses.replace(undisturbed, output_dir=tmp_path / "killed")
    kinds: list[Kind] = [*["kill"] * 12, *["writing"] * 7, *["term"] * 6]  # type: ignore[list-item]
    random.shuffle(kinds)
    steps = np.linspace(3, 1500, len(kinds)).astype(int)
    plan = [(kind, int(step) + random.randint(0, 25)) for kind, step in zip(kinds, steps, strict=True)]
    table = killing.kill_again_and_again(killed, plan)
    print("\nkind      last step  goes on from")
    for kind, step, checkpoint in table:
        print(f"{kind:8s} {step:10d} {checkpoint:13d}")
    counts = collections.Counter(kind for kind, _, _ in table)
    assert len(table) >= 25
    assert counts["term"] >= 5
    assert counts["writing"] >= 5
    begun = time.monotonic()
    undisturbed.finish()
    print(f"the undisturbed run took {time.monotonic() - begun:.0f} s")
    killing.assert_equal_runs(undisturbed, killed)
