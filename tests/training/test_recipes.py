"""The files of recipes: their flags are those of the door, and go together."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import pytest

from albert_tf.training import rates
from tests.conftest import ROOT

RECIPES = sorted((ROOT / "recipes").glob("*.flags"))


def flags_of(recipe: pathlib.Path) -> dict[str, str]:
    lines = [line for line in recipe.read_text().splitlines() if line.startswith("--")]
    return dict(line.removeprefix("--").split("=", 1) for line in lines)


def test_there_are_recipes() -> None:
    assert [recipe.stem for recipe in RECIPES] == ["gpu_base", "laptop", "tpu_base"]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.stem)
def test_the_door_takes_the_flags(tmp_path: pathlib.Path, recipe: pathlib.Path) -> None:
    """All of them, in range: the first thing that fails is the data, which is not there."""
    command = [sys.executable, "-m", "albert_tf.pretrain", f"--flagfile={recipe}", f"--output_dir={tmp_path / 'run'}"]
    given = flags_of(recipe)
    data = ["--data_dir=nowhere"] if "num_train_steps" in given else ["--stages=nowhere:90000:256,nowhere:10000:64"]
    if given.get("strategy") == "tpu":
        data.append("--strategy=cpu")
    done = subprocess.run([*command, *data], capture_output=True, text=True, timeout=100)
    assert done.returncode == 1, done.stderr
    assert re.fullmatch(r"albert_tf.pretrain: error: nowhere: .*", done.stderr.splitlines()[-1])


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.stem)
def test_lambs_rate_is_the_papers_scaled(recipe: pathlib.Path) -> None:
    given = flags_of(recipe)
    if given["optimizer"] == "lamb":
        batch = int(given.get("train_batch_size", 256))  # the first stage's
        assert float(given["learning_rate"]) == pytest.approx(rates.lamb_rate(batch), rel=0.01)


def test_the_papers_rate() -> None:
    assert rates.lamb_rate(4096) == 0.00176
    assert rates.lamb_rate(1024) == pytest.approx(0.00088)
