"""Recipes of ablations: what is read, what is refused, and the table of runs."""

from __future__ import annotations

import csv
import json
import os
import pathlib
import subprocess
import sys

import pytest

from albert_tf.analysis import ablations
from albert_tf.config import AlbertConfig
from tests.conftest import ROOT
from tests.data import toy

RECIPES = sorted((ROOT / "recipes" / "ablations").glob("*.toml"))
RECIPE = """
title = "Sharing"
source = "somewhere"
paper_columns = ["average"]
[flags]
hidden_size = 10
num_attention_heads = 2
intermediate_size = 14
embedding_size = 6
max_position_embeddings = 23
train_batch_size = 5
num_train_steps = 2
learning_rate = 0.01
strategy = "cpu"
[[variants]]
name = "all"
flags = { num_hidden_layers = 2 }
paper = [80.1]
[[variants]]
name = "none"
flags = { num_hidden_layers = 3, parameter_sharing = "none" }
"""


def parse(text: str) -> ablations.Recipe:
    return ablations.parse_recipe(text, path="a.toml")


def test_what_a_recipe_says() -> None:
    recipe = parse(RECIPE)
    assert (recipe.title, recipe.source, recipe.paper_columns) == ("Sharing", "somewhere", ("average",))
    one, other = recipe.variants
    assert (one.name, one.paper, one.data) == ("all", ("80.1",), None)
    assert one.flags["hidden_size"] == "10"
    assert other.flags["parameter_sharing"] == "none"
    assert other.flags["num_hidden_layers"] == "3"


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('title = "Sharing"', "title = ", "a.toml: not valid TOML"),
        ('title = "Sharing"', "", "a.toml: title is missing"),
        ('title = "Sharing"', "title = 3", "a.toml: title must be a str, got 3"),
        ('source = "somewhere"', "sauce = 1", "a.toml: unknown key 'sauce'; known: title, source,"),
        ('name = "none"', 'name = "all"', "a.toml: variants must be two or more with different names, got all, all"),
        ('name = "none"', 'name = "../x"', r"a.toml: variant 2: name must be letters, digits and \._=-, got '\.\./x'"),
        ("paper = [80.1]", "paper = [1, 2]", "variant 1: paper must have 1 figures, as paper_columns, got 2"),
        ("hidden_size = 10", 'output_dir = "x"', "variant 1: output_dir cannot be a flag of a variant"),
        ("hidden_size = 10", "seed = 3", "variant 1: seed cannot be a flag of a variant"),
    ],
)
def test_bad_recipes(before: str, after: str, message: str) -> None:
    assert RECIPE.count(before) == 1
    with pytest.raises(ValueError, match=message):
        parse(RECIPE.replace(before, after))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_the_recipes_that_come_along(path: pathlib.Path) -> None:
    """Each variant's flags are those of the door; the shape is one."""
    recipe = ablations.parse_recipe(path.read_text(), path=str(path))
    for variant in recipe.variants:
        assert int(variant.flags["num_train_steps"]) > int(variant.flags["num_warmup_steps"])
        fields = AlbertConfig().to_dict()
        shape = {name: type(fields[name])(value) for name, value in variant.flags.items() if name in fields}
        assert AlbertConfig.from_dict({"vocab_size": 61, **shape}).hidden_size >= 64


def test_there_are_recipes_of_every_axis() -> None:
    assert [path.stem for path in RECIPES] == ["depth", "embedding_size", "ngram", "objective", "sharing", "width"]


def test_parameters_are_the_papers() -> None:
    assert ablations.parameters(AlbertConfig.named("base", vocab_size=30000)) == 11_683_584


def run(folder: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "albert_tf.ablate", f"--recipe={folder / 'recipe.toml'}"]
    command += [f"--data_dir={folder / 'data'}", f"--eval_data_dir={folder / 'data'}"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [*command, f"--output_dir={folder / 'out'}", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
    )


@pytest.mark.thorough
@pytest.mark.slow
def test_from_runs_to_the_table(tmp_path: pathlib.Path) -> None:
    shards = [toy.random_rows(9 + i, max_seq_length=20, vocab_size=61, seed=i) for i in range(2)]
    toy.write_directory(tmp_path / "data", shards, max_seq_length=20, max_predictions_per_seq=3)
    (tmp_path / "recipe.toml").write_text(RECIPE)
    done = run(tmp_path)
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "out" / "ablation.json").read_text())["rows"]
    assert [row["variant"] for row in rows] == ["all", "none"]
    # V E + S E + 2 E + 2 E (norm) + (E + 1) H; a layer 4 (H + 1) H + (H + 1) F + (F + 1) H + 4 H; a pooler (H + 1) H
    embeddings, pooler = 61 * 6 + 23 * 6 + 2 * 6 + 2 * 6 + 7 * 10, 11 * 10
    layer = 4 * 11 * 10 + 11 * 14 + 15 * 10 + 4 * 10
    assert [row["parameters"] for row in rows] == [embeddings + pooler + n * layer for n in (1, 3)]
    assert [row["paper: average"] for row in rows] == ["80.1", ""]
    for row in rows:
        evaluation = json.loads((tmp_path / "out" / row["variant"] / "model" / "training.json").read_text())
        assert row["masked-LM loss at [MASK]"] == f"{evaluation['evaluation']['masked_lm_loss_at_mask']:.3f}"
    with open(tmp_path / "out" / "ablation.csv", newline="") as file:
        assert [row["variant"] for row in csv.DictReader(file)] == ["all", "none"]
    before = (tmp_path / "out" / "all" / "model" / "model.safetensors").stat().st_mtime_ns
    again = run(tmp_path)
    assert again.returncode == 0, again.stderr
    assert again.stdout == done.stdout
    assert (tmp_path / "out" / "all" / "model" / "model.safetensors").stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        (
            RECIPE.replace("hidden_size = 10", "hidden_sice = 10"),
            "all: its run ended with exit code 2, see above; correct the flags",
        ),
        (RECIPE, "all: its run ended with exit code 1, see above"),  # there is no data
        ("title = 1", "recipe.toml: title must be a str, got 1"),
    ],
)
def test_what_fails_is_named(tmp_path: pathlib.Path, recipe: str, message: str) -> None:
    (tmp_path / "recipe.toml").write_text(recipe)
    done = run(tmp_path)
    assert done.returncode == 1
    assert message in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
