"""What pretraining is worth: SST-2 from a pretrained encoder and from random weights, under the same rules.

Everything goes through the project's commands, so that an interrupted experiment goes on where it was: a vocabulary
and shards from plain text, a pretraining run, then fine-tuning. Both arms have the same model, steps and grid of
learning rates; the rate of each is chosen on rows that are taken out of the training file, before the dev set is looked
at. The arm without pretraining draws new encoder weights for each seed. A logistic regression on words and pairs of
words, its strength of regularisation chosen on the same rows, stands in the same table.

Example:
  python -m benchmarks.pretraining_gain --text='corpora/*.txt' --data_dir=SST-2 --output_dir=gain
"""

from __future__ import annotations

import glob
import json
import math
import os
import resource
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from absl import flags

from albert_tf import door

with door.group("Files"):
    flags.DEFINE_string("text", None, "Pattern of the text files: a sentence a line, blank lines between documents.")
    flags.DEFINE_string("data_dir", None, "Folder of SST-2, with train.tsv and dev.tsv.")
    flags.DEFINE_string("output_dir", None, "Folder of all runs; finished ones in it are not made again.")
    flags.DEFINE_string("json", "benchmarks/results/pretraining_gain.json", "Where all figures go.")
with door.group("Experiment"):
    flags.DEFINE_integer("pretraining_steps", 6000, "Steps of pretraining.", 1)
    flags.DEFINE_integer("pretraining_length", 32, "Most tokens of an example in pretraining; a batch has 2,048.", 8)
    flags.DEFINE_integer("steps", 1500, "Steps of each fine-tuning run.", 1)
    flags.DEFINE_list("rates", ["0.0001", "0.0003", "0.001"], "Learning rates to choose from, for both arms.")
    flags.DEFINE_list("seeds", ["1", "2", "3"], "Seeds of the runs that count.")
    flags.DEFINE_list("grid_seeds", ["1"], "Seeds of the runs that choose a rate.")

VOCAB_SIZE, LONGEST, TOKENS = 8000, 72, 2048
SHAPE = {
    "embedding_size": 128,
    "hidden_size": 192,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "intermediate_size": 384,
    "initializer_range": 0.04,
    "max_position_embeddings": LONGEST,
}
PRETRAINING = {"optimizer": "adamw", "learning_rate": 7e-4, "seed": 7}
FINETUNING = {"train_batch_size": 64, "optimizer": "adamw", "max_seq_length": LONGEST, "dropout": 0.1}
HELD_OUT = 20  # one document in so many
CHOICE_ROWS, LONG = 1000, 12  # words of a row that is a sentence, or nearly
STRENGTHS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
ARMS = ("pretrained", "random")


class Experiment:
    """The stages, each in a folder of its own under `folder`."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.commands: list[str] = []

    def path(self, *parts: str) -> str:
        return os.path.join(self.folder, *parts)

    def run(self, name: str, result: str, **values: object) -> None:
        """Runs a command, unless its result is there.

        Raises:
          UserError: if the command fails, or another command was begun for the same result.
        """
        arguments = [f"--{flag}={value}" for flag, value in values.items()]
        command = shlex.join(["python", "-m", name, *arguments])
        self.commands.append(command)
        record = self._record(result)
        begun = self._read(record)
        if begun.get("command", command) != command:
            raise door.UserError(f"{result}: made by another command ({record}); name another --output_dir")
        if os.path.exists(result):
            return
        door.write_whole(record, json.dumps({"command": command}))
        print(f"\n$ {command}", flush=True)
        before, start = _children_seconds(), time.monotonic()
        done = subprocess.run([sys.executable, "-m", name, *arguments], check=False)
        if done.returncode:
            raise door.UserError(f"{name} ended with exit code {done.returncode}; what it said stands above")
        took = {"wall_minutes": (time.monotonic() - start) / 60, "cpu_minutes": (_children_seconds() - before) / 60}
        door.write_whole(record, json.dumps({"command": command, **took}))

    def took(self, result: str) -> dict[str, float]:
        """Minutes that the last start of the command with this result took, by the clock and of processor time.

        Empty where the experiment was stopped before they were written.
        """
        return {name: value for name, value in self._read(self._record(result)).items() if name != "command"}

    def _record(self, result: str) -> str:
        return self.path("commands", os.path.relpath(result, self.folder).replace(os.sep, "+") + ".json")

    @staticmethod
    def _read(record: str) -> dict[str, Any]:
        if not os.path.exists(record):
            return {}
        with open(record, encoding="utf-8") as file:
            return dict(json.load(file))

    def pretrain(self, pattern: str, steps: int, length: int) -> str:
        """Text to a pretrained model directory."""
        paths = sorted(glob.glob(pattern))
        if not paths:
            raise door.UserError(f"--text: no file matches {pattern!r}")
        for path in paths:
            with open(path, encoding="utf-8") as file:
                documents = [document for document in file.read().split("\n\n") if document.strip()]
            kept = [document for place, document in enumerate(documents) if place % HELD_OUT != HELD_OUT - 1]
            rest = documents[HELD_OUT - 1 :: HELD_OUT]
            for side, chosen in (("training", kept), ("held_out", rest)):
                door.write_whole(self.path("text", side, os.path.basename(path)), "\n\n".join(chosen) + "\n")
        tokenizer = self.path("tokenizer")
        self.run(
            "pipelines.train_tokenizer",
            tokenizer,
            input=self.path("text", "training", "*.txt"),
            output_dir=tokenizer,
            vocab_size=VOCAB_SIZE,
        )
        for side, shards in (("training", 8), ("held_out", 1)):
            self.run(
                "pipelines.build_pretraining_data",
                self.path("data", side),
                input=self.path("text", side, "*.txt"),
                tokenizer=tokenizer,
                output_dir=self.path("data", side),
                max_seq_length=length,
                max_ngram=1,
                num_shards=shards,
                num_workers=2,
            )
        model = self.path("pretraining", "model")
        self.run(
            "albert_tf.pretrain",
            model,
            data_dir=self.path("data", "training"),
            eval_data_dir=self.path("data", "held_out"),
            output_dir=self.path("pretraining"),
            train_batch_size=TOKENS // length,
            num_train_steps=steps,
            num_warmup_steps=steps // 10,
            eval_steps=-(-steps // 8),
            **SHAPE,
            **PRETRAINING,
        )
        return model

    def start(self, arm: str, seed: str, pretrained: str) -> str:
        """Model directory that a run of an arm begins with."""
        if arm == "pretrained":
            return pretrained
        path = self.path("random", seed)
        if not os.path.exists(path):
            import albert_tf

            source = albert_tf.load_model(pretrained)
            model = albert_tf.make_model(source.config, source.head_config, seed=1000 + int(seed))
            albert_tf.save_model_directory(path, model, albert_tf.load_tokenizer(pretrained))
        return path

    def finetune(self, arm: str, rate: str, seed: str, *, data_dir: str, steps: int, pretrained: str) -> float:
        """Accuracy in [0, 1] on the dev.tsv of `data_dir`."""
        folder = self.path("finetuning", os.path.basename(data_dir), f"{arm}-{rate}-{seed}")
        model = os.path.join(folder, "model")
        self.run(
            "albert_tf.finetune",
            model,
            task="sst-2",
            data_dir=data_dir,
            model=self.start(arm, seed, pretrained),
            output_dir=folder,
            learning_rate=rate,
            seeds=seed,
            num_train_steps=steps,
            num_warmup_steps=steps // 10,
            **FINETUNING,
        )
        with open(os.path.join(model, "training.json"), encoding="utf-8") as file:
            return float(json.load(file)["evaluation"]["accuracy"])

    def rows_to_choose_on(self, data_dir: str) -> str:
        """A copy of the task whose dev.tsv are long rows of train.tsv.

        The training set holds phrases and the sentences that they come from. So no row that is part of a chosen one,
        or that it is part of, stays: else what is learned by heart would look like what is understood.
        """
        with open(os.path.join(data_dir, "train.tsv"), encoding="utf-8") as file:
            header, *rows = [line.rstrip("\n") for line in file]  # no other mark ends a line
        texts = [f" {row.rpartition(chr(9))[0].strip()} " for row in rows]
        long = [place for place, text in enumerate(texts) if len(text.split()) >= LONG]
        if len(long) < 2 * CHOICE_ROWS:
            raise door.UserError(f"{file.name}: must have {2 * CHOICE_ROWS:,} rows of {LONG} words, got {len(long):,}")
        chosen = long[:: len(long) // CHOICE_ROWS][:CHOICE_ROWS]
        together = "\n".join(texts[place] for place in chosen)
        dev = [rows[place] for place in chosen]
        taken = set(chosen)
        train = [
            row
            for place, (row, text) in enumerate(zip(rows, texts, strict=True))
            if place not in taken and text not in together and not any(texts[one] in text for one in chosen)
        ]
        folder = self.path("choice")
        for name, kept in (("train.tsv", train), ("dev.tsv", dev)):
            door.write_whole(os.path.join(folder, name), "\n".join([header, *kept]) + "\n")
        return folder


def bag_of_words(data_dir: str, choice_dir: str) -> dict[str, Any]:
    """Accuracy of a logistic regression on counts of words and of pairs of neighbouring words."""
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression

    def accuracy(folder: str, strength: float) -> float:
        train, dev = (make_task("sst-2", folder).read(split) for split in ("train", "dev"))
        counter = CountVectorizer(ngram_range=(1, 2), binary=True, token_pattern=r"\S+")
        model = LogisticRegression(C=strength, max_iter=2000)
        model.fit(counter.fit_transform(row.texts[0] for row in train), [row.label for row in train])
        return float(model.score(counter.transform(row.texts[0] for row in dev), [row.label for row in dev]))

    from albert_tf.tasks.making import make_task

    chosen_on = {strength: accuracy(choice_dir, strength) for strength in STRENGTHS}
    best = max(chosen_on, key=lambda strength: chosen_on[strength])
    return {"chosen_on": chosen_on, "C": best, "accuracies": [accuracy(data_dir, best)]}


def summarize(accuracies: Sequence[float]) -> tuple[float, float]:
    """Mean and standard error of it, in points."""
    points = [100 * value for value in accuracies]
    error = statistics.stdev(points) / math.sqrt(len(points)) if len(points) > 1 else 0.0
    return statistics.mean(points), error


def main() -> None:
    values = flags.FLAGS
    experiment = Experiment(os.path.abspath(values.output_dir))
    pretrained = experiment.pretrain(values.text, values.pretraining_steps, values.pretraining_length)
    choice = experiment.rows_to_choose_on(values.data_dir)
    results: dict[str, Any] = {}
    for arm in ARMS:
        grid = {
            rate: statistics.mean(
                experiment.finetune(arm, rate, seed, data_dir=choice, steps=values.steps, pretrained=pretrained)
                for seed in values.grid_seeds
            )
            for rate in values.rates
        }
        results[arm] = {"chosen_on": grid, "learning_rate": max(grid, key=lambda rate: grid[rate])}
    for arm in ARMS:
        results[arm]["accuracies"] = [
            experiment.finetune(
                arm,
                results[arm]["learning_rate"],
                seed,
                data_dir=os.path.abspath(values.data_dir),
                steps=values.steps,
                pretrained=pretrained,
            )
            for seed in values.seeds
        ]
    results["bag of words"] = bag_of_words(values.data_dir, choice)
    rows = []
    for name, result in results.items():
        mean, error = summarize(result["accuracies"])
        tuned = f"rate {result['learning_rate']}" if "learning_rate" in result else f"C {result['C']:g}"
        each = ", ".join(f"{100 * value:.2f}" for value in result["accuracies"])
        rows.append((name, tuned, each, f"{mean:.2f}", f"{error:.2f}"))
    door.print_table(
        "SST-2, accuracy on dev, %", ("start", "chosen", "by seed", "mean", "standard error of the mean"), rows
    )
    (with_it, error_with), (without, error_without) = (summarize(results[arm]["accuracies"]) for arm in ARMS)
    error = math.hypot(error_with, error_without)
    took = experiment.took(pretrained)
    print(f"\nPretraining gains {with_it - without:.2f} points, {error:.2f} the standard error of the difference.")
    if took:
        print(f"It took {took['wall_minutes']:.0f} minutes, {took['cpu_minutes']:.0f} minutes of processor time.")
    summary = {"gain": with_it - without, "standard_error": error, "pretraining": took, "results": results}
    door.write_whole(values.json, json.dumps({**summary, "commands": experiment.commands}, indent=2) + "\n")


def _children_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    door.run(main, required=["text", "data_dir", "output_dir"])
