"""Trains small models that differ in one setting, with equal budgets, and puts their figures beside the paper's.

A recipe says what they share and what each changes; those of the paper's ablations stand in recipes/ablations: the
size of the embeddings, what layers share, depth, width, the sentence objective and the length of masked n-grams.

Example:
  python -m albert_tf.ablate --recipe=recipes/ablations/sharing.toml --data_dir=data --eval_data_dir=heldout_data \\
      --output_dir=runs/sharing

Each variant is a run of albert_tf.pretrain in a folder of its own; runs that are finished are not made again, and one
that was interrupted goes on, when the same command is given again. Figures of small models on little text say how
settings compare there; where the paper's models order them in another way, both stand in the table.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys

from absl import flags, logging

from albert_tf import door
from albert_tf.analysis import ablations
from albert_tf.analysis.ablations import Recipe, Variant
from albert_tf.files import read_whole
from albert_tf.model_directory import read_config, read_training

_TABLE, _CSV = "ablation.json", "ablation.csv"


def _define_flags() -> None:
    """Flags of the command; not at import, since other commands use the same names."""
    with door.group("What is compared"):
        flags.DEFINE_string("recipe", None, "TOML file: what the variants share, and what each changes.")
        flags.DEFINE_string(
            "data_dir", None, "Data directory to train on, or, where the recipe says so, folder of several."
        )
        flags.DEFINE_string("eval_data_dir", None, "Held-out data directory, or folder of several.")
        flags.DEFINE_string("output_dir", None, "Folder of all runs and the table.")
    with door.group("Budget"):
        flags.DEFINE_integer("num_train_steps", None, "Steps of each run; by default the recipe's.", 1)
        flags.DEFINE_integer("num_warmup_steps", None, "Steps of its warm-up; by default the recipe's.", 0)
        flags.DEFINE_integer("seed", 0, "Seed of each run.", 0)


def command(recipe_variant: Variant, folder: str) -> list[str]:
    """Arguments of `albert_tf.pretrain` for a variant whose run is in `folder`."""
    values = flags.FLAGS
    given = {**recipe_variant.flags, "seed": str(values.seed)}
    for name in ("num_train_steps", "num_warmup_steps"):
        if getattr(values, name) is not None:
            given[name] = str(getattr(values, name))
    for name in ("data_dir", "eval_data_dir"):
        path = getattr(values, name)
        given[name] = os.path.join(path, recipe_variant.data) if recipe_variant.data else path
    return [*(f"--{name}={value}" for name, value in given.items()), f"--output_dir={folder}"]


def train(variant: Variant, folder: str) -> None:
    """Runs a variant to its end.

    Raises:
      UserError: if the run fails; what it said stands before.
    """
    arguments = command(variant, folder)
    logging.info("python -m albert_tf.pretrain %s", shlex.join(arguments))
    process = subprocess.Popen([sys.executable, "-m", "albert_tf.pretrain", *arguments], stdout=subprocess.DEVNULL)
    try:
        code = process.wait()
    except BaseException:  # Ctrl-C reaches it by itself, SIGTERM does not
        process.terminate()
        process.wait()
        raise
    if code:
        advice = "the others are kept, and the same command goes on"
        if code == door.WRONG_USAGE:
            advice = "correct the flags in the recipe or of this command"
        raise door.UserError(f"{variant.name}: its run ended with exit code {code}, see above; {advice}")


def write(folder: str, recipe: Recipe, rows: list[tuple[object, ...]]) -> None:
    """Writes the table, as JSON and as CSV."""
    from albert_tf.analysis.tables import to_csv

    columns = ablations.columns(recipe)
    content = {
        "title": recipe.title,
        "source": recipe.source,
        "rows": [dict(zip(columns, row, strict=True)) for row in rows],
    }
    door.write_whole(os.path.join(folder, _TABLE), json.dumps(content, indent=2) + "\n")
    door.write_whole(os.path.join(folder, _CSV), to_csv(columns, rows))


def main() -> None:
    values = flags.FLAGS
    text = read_whole(values.recipe).decode("utf-8", errors="replace")
    recipe = ablations.parse_recipe(text, path=values.recipe)
    rows: list[tuple[object, ...]] = []
    for number, variant in enumerate(recipe.variants, start=1):
        logging.info("%d of %d: %s", number, len(recipe.variants), variant.name)
        folder = os.path.join(values.output_dir, variant.name)
        train(variant, folder)
        model = os.path.join(folder, "model")
        rows.append(ablations.row(recipe, variant, read_config(model), read_training(model).get("evaluation", {})))
        write(values.output_dir, recipe, rows)
    door.print_table(recipe.title, ablations.columns(recipe), rows)
    if recipe.source:
        print(f"the paper's figures: {recipe.source}")
    print(f"tables: {os.path.join(values.output_dir, _TABLE)}, {_CSV}")
    print(f"curves: tensorboard --logdir={shlex.quote(values.output_dir)}")


if __name__ == "__main__":
    _define_flags()
    door.run(main, required=["recipe", "data_dir", "eval_data_dir", "output_dir"])
