"""Several runs that differ in their seed: which is the best, mean and deviation, and what is written."""

from __future__ import annotations

import json
import math
import pathlib

import pytest

from albert_tf.training import seeds
from albert_tf.training.seeds import Result


def results(folder: pathlib.Path, values: list[float], *, more_is_better: bool = True) -> list[Result]:
    found = []
    for seed, value in enumerate(values, start=5):
        path = folder / f"seed-{seed}" / "model"
        path.mkdir(parents=True)
        (path / "model.safetensors").write_text(str(seed))
        collapse = "it says the same" if seed == 6 else None
        found.append(Result(seed, str(path), {"f1": value, "loss": 1.0}, "f1", more_is_better, collapse))
    return found


def test_the_best_models_directory_is_copied(tmp_path: pathlib.Path) -> None:
    found = results(tmp_path, [0.5, 0.25, 0.75])
    for _ in range(2):  # a second time, too
        assert seeds.write(str(tmp_path), found).seed == 7
        assert (tmp_path / "model" / "model.safetensors").read_text() == "7"
    written = json.loads((tmp_path / "seeds.json").read_text())
    assert (written["figure"], written["mean"], written["standard_deviation"]) == ("f1", 0.5, 0.25)
    assert (written["best"], [run["seed"] for run in written["runs"]]) == (7, [5, 6, 7])
    assert written["runs"][1] == {
        "seed": 6, "evaluation": {"f1": 0.25, "loss": 1.0}, "collapse": "it says the same", "diverged": None,
    }  # fmt: skip
    assert seeds.rows(found) == [
        ("5", "f1", "0.5000", ""),
        ("6", "f1", "0.2500", "collapsed"),
        ("7", "f1", "0.7500", "best"),
        ("mean", "f1", "0.5000", "standard deviation 0.2500"),
    ]


def test_less_may_be_better_and_no_figure_never_is(tmp_path: pathlib.Path) -> None:
    found = results(tmp_path, [0.5, 0.25, math.nan], more_is_better=False)
    assert seeds.find_best(found).seed == 6
    assert seeds.find_best(found[2:] + found[:1]).seed == 5
    assert seeds.summarize(found[:1]) == (0.5, 0.0)


def test_a_run_that_diverged_does_not_count(tmp_path: pathlib.Path) -> None:
    found = results(tmp_path, [0.5, 0.75])
    found.insert(0, Result(4, "", {}, "f1", True, diverged="step 3 gave values that are not finite"))
    assert seeds.write(str(tmp_path), found).seed == 6
    written = json.loads((tmp_path / "seeds.json").read_text())
    assert written["mean"] == 0.625
    assert written["runs"][0]["diverged"] == "step 3 gave values that are not finite"
    rows = seeds.rows(found)
    assert rows[0] == ("4", "f1", "-", "diverged")
    assert rows[-1] == ("mean", "f1", "0.6250", "standard deviation 0.1768, without 1 that diverged")


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["1", "x"], r"seeds must be whole numbers in \[0, 2\*\*31\), got 'x'"),
        (["-1"], "got '-1'"),
        ([str(2**31)], "got '2147483648'"),
        (["3", "3"], "seeds must be one or more that differ, got '3,3'"),
        ([], "seeds must be one or more that differ"),
    ],
)
def test_seeds_that_are_none(texts: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        seeds.parse(texts)


def test_seeds() -> None:
    assert seeds.parse(["3", " 0"]) == [3, 0]
