"""A classifier of base size beside KerasHub and transformers: predictions of a dev set, and steps of fine-tuning.

All have the same random weights and the same batches, in the order of the file, each padded to its longest row; peers
get token ids, this project texts. Each is a process of its own with two threads, warmed up, and they take turns, round
after round. Before times count for anything, all must have computed the same numbers: probabilities, and the loss of
the first step. Later losses go apart, since the optimizers are each library's own AdamW, and this one, as the
original's, corrects no bias.

Example:
  python -m benchmarks.classification --data_dir=SST-2 --tokenizer=albert_en_30k.model
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import IO, Any, cast

import numpy as np
from absl import flags

from albert_tf import door
from albert_tf.files import read_whole
from benchmarks import contenders

with door.group("Files"):
    flags.DEFINE_string("data_dir", None, "Folder of SST-2, with train.tsv and dev.tsv.")
    flags.DEFINE_string("tokenizer", None, "Vocabulary: a folder or a SentencePiece file.")
    flags.DEFINE_string("json", "benchmarks/results/classification.json", "Where all figures go.")
with door.group("What is measured"):
    flags.DEFINE_list("measure", ["predict", "train"], "predict, train, or both.")
    flags.DEFINE_integer("rounds", 5, "Rounds, in which all take turns.", 1)
    flags.DEFINE_integer("batch_size", 32, "Rows of a batch.", 1)
    flags.DEFINE_integer("max_rows", None, "Rows of the dev set to predict; by default all.", 1)
    flags.DEFINE_integer("steps", 30, "Steps of training, a multiple of --rounds.", 1)
    flags.DEFINE_list("peers", list(contenders.NAMES[1:]), "Which peers.")

OURS = contenders.NAMES[0]
# Probabilities: float32 sums of 768 to 3,072 products in another order, twelve layers deep.
PROBABILITY_TOLERANCE = 1e-5
# Losses of the first step, before any update: as above, of a mean over the batch.
LOSS_TOLERANCE = 1e-4


class Process:
    """A contender's process; `ask` gives an order and waits for the answer.

    Raises:
      UserError: if it ends, with the last of what it said.
    """

    def __init__(self, name: str, job: dict[str, Any]) -> None:
        self.name = name
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the process)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.contenders.worker", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, "OMP_NUM_THREADS": str(contenders.THREADS), "TF_CPP_MIN_LOG_LEVEL": "2"},
            text=True,
        )
        self._orders, self._answers = cast(IO[str], self._process.stdin), cast(IO[str], self._process.stdout)
        try:
            self.versions = self.ask(job)["versions"]
        except BaseException:
            self.end()
            raise

    def ask(self, order: dict[str, Any]) -> dict[str, Any]:
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps(order), file=self._orders, flush=True)
        line = self._answers.readline()
        if not line:
            self._log.seek(0)
            said = self._log.read().decode(errors="replace").strip().splitlines()[-5:]
            raise door.UserError(f"{self.name} ended: {' / '.join(said)}")
        return dict(json.loads(line))

    def end(self) -> None:
        self._process.kill()
        with self._log, self._process, contextlib.suppress(BrokenPipeError):  # closes its pipes, waits for it
            self._orders.close()


@contextlib.contextmanager
def processes(jobs: dict[str, dict[str, Any]]) -> Iterator[list[Process]]:
    """A process for each job, ended with the block."""
    with contextlib.ExitStack() as stack:
        found = []
        for name, job in jobs.items():
            found.append(Process(name, job))
            stack.callback(found[-1].end)
        yield found


def summarize(rounds: dict[str, list[list[float]]]) -> list[tuple[str, float, float, float]]:
    """Name, median, spread as a share of it, and the ratio to `OURS`, of each contender.

    Args:
      rounds: seconds of each call, by contender and round. A round's figure is the median of its calls.
    """
    medians = {name: [statistics.median(calls) for calls in each] for name, each in rounds.items()}
    ours = statistics.median(medians[OURS])
    rows = []
    for name, each in medians.items():
        middle = statistics.median(each)
        rows.append((name, middle, (max(each) - min(each)) / middle, middle / ours))
    return rows


def read_tokenizer(path: str) -> Any:
    """The tokenizer of a folder, or of a SentencePiece file alone."""
    import albert_tf

    if os.path.isdir(path):
        return albert_tf.load_tokenizer(path)
    return albert_tf.AlbertTokenizer(read_whole(path))


def make_models(folder: str, tokenizer: Any) -> dict[str, str]:
    """Folder of the same classifier for each library."""
    import albert_tf
    from albert_tf import conversion
    from albert_tf.tasks.task_config import TASK_CONFIG_NAME, TaskConfig

    config = albert_tf.AlbertConfig.named("base", vocab_size=tokenizer.vocab_size)
    head = albert_tf.HeadConfig(head="classifier", labels=("0", "1"), dropout_prob=0.0)
    model = albert_tf.make_model(config, head, seed=3)
    kernel = model.named_weights()["classifier/kernel"]
    # Probabilities far from one half: else all would agree whatever they compute.
    kernel.assign(np.random.default_rng(5).normal(0, 0.3, kernel.shape))
    paths = {name: os.path.join(folder, name) for name in contenders.NAMES}
    task = TaskConfig(task="sst-2", max_seq_length=config.max_position_embeddings)
    albert_tf.save_model_directory(paths[OURS], model, tokenizer, files={TASK_CONFIG_NAME: task.to_json()})
    for name in contenders.NAMES[1:]:
        conversion.convert(paths[OURS], paths[name], format=name)
    return paths


def read_rows(data_dir: str, split: str, tokenizer: Any, count: int | None) -> dict[str, Any]:
    """Texts, token ids and labels of the first rows of a split."""
    from albert_tf.tasks.features import encode
    from albert_tf.tasks.making import make_task

    task = make_task("sst-2", data_dir)
    examples = task.read(split)[:count]
    encoded = encode(examples, task, tokenizer, max_seq_length=512)
    return {
        "texts": [example.texts[0] for example in examples],
        "input_ids": [row.tolist() for row in encoded.input_ids],
        "labels": np.asarray(encoded.labels).tolist(),
    }


def predict(running: Sequence[Process], count: int) -> dict[str, Any]:
    """Rounds of prediction; the first, which does not count, is compared."""
    first = {one.name: np.array(one.ask({"predict": True})["probabilities"]) for one in running}
    differences = {name: float(np.abs(found - first[OURS]).max()) for name, found in first.items()}
    _refuse_above(differences, PROBABILITY_TOLERANCE, "probabilities")
    rounds = [{one.name: one.ask({"predict": True})["times"] for one in running} for _ in range(count)]
    return {"differences": differences, "spread of probabilities": float(first[OURS].std()), "rounds": rounds}


def train(running: Sequence[Process], count: int, steps: int) -> dict[str, Any]:
    """Steps, a part of them in each round, after two that do not count; the first loss is compared."""
    first = {one.name: one.ask({"train": [0, min(1, steps - 1)]})["losses"][0] for one in running}
    differences = {name: abs(loss - first[OURS]) for name, loss in first.items()}
    _refuse_above(differences, LOSS_TOLERANCE, "first losses")
    rounds, losses = [], []
    for numbers in np.array_split(np.arange(steps), count):
        found = {one.name: one.ask({"train": numbers.tolist()}) for one in running}
        rounds.append({name: answer["times"] for name, answer in found.items()})
        losses.append({name: answer["losses"] for name, answer in found.items()})
    return {"differences": differences, "rounds": rounds, "losses": losses}


def _refuse_above(differences: dict[str, float], tolerance: float, what: str) -> None:
    for name, difference in differences.items():
        if not difference <= tolerance:
            raise door.UserError(
                f"{name} computes other {what} than {OURS}: {difference:.3g} apart, {tolerance} allowed"
            )


def main() -> None:
    values = flags.FLAGS
    unknown = sorted({*values.measure} - {"predict", "train"} | {*values.peers} - {*contenders.NAMES[1:]})
    if unknown or values.steps % values.rounds:
        raise door.UsageError(f"unknown {unknown[0]!r}" if unknown else "--steps must be a multiple of --rounds")
    results: dict[str, Any] = {"threads": contenders.THREADS, "batch_size": values.batch_size}
    tokenizer = read_tokenizer(values.tokenizer)
    with tempfile.TemporaryDirectory() as folder:
        models = make_models(folder, tokenizer)
        for kind in values.measure:
            split, most = ("dev", values.max_rows) if kind == "predict" else ("train", values.steps * values.batch_size)
            rows = {"batch_size": values.batch_size, **read_rows(values.data_dir, split, tokenizer, most)}
            if kind == "predict":
                del rows["labels"]
            elif len(rows["labels"]) < most:
                raise door.UserError(
                    f"{values.data_dir}: --steps={values.steps} need {most:,} training rows, there are "
                    f"{len(rows['labels']):,}"
                )
            named = {name: {"model": models[name], **rows} for name in (OURS, *values.peers)}
            with processes(named) as running:
                found = (
                    predict(running, values.rounds)
                    if kind == "predict"
                    else train(running, values.rounds, values.steps)
                )
                found["versions"] = {one.name: one.versions for one in running}
            lengths = np.array([len(row) for row in rows["input_ids"]])
            cells = sum(batch["mask"].size for batch in contenders.padded_batches(rows))
            results[kind] = {"rows": len(lengths), "filled": float(lengths.sum() / cells), **found}
            _show(kind, results[kind])
    results["python"] = sys.version.split()[0]
    results["numpy"] = importlib.metadata.version("numpy")
    door.write_whole(values.json, json.dumps(results, indent=2) + "\n")


def _show(kind: str, result: dict[str, Any]) -> None:
    tables = {
        clock: summarize(
            {name: [[t[clock] for t in one[name]] for one in result["rounds"]] for name in result["versions"]}
        )
        for clock in ("cpu", "wall")
    }
    rows = [
        (
            name,
            f"{cpu:.3f}",
            f"{spread:.0%}",
            f"{ratio:.2f}",
            f"{by_clock[3]:.2f}",
            f"{result['differences'][name]:.1e}",
        )
        for (name, cpu, spread, ratio), by_clock in zip(tables["cpu"], tables["wall"], strict=True)
    ]
    unit = "whole set" if kind == "predict" else "step"
    door.print_table(
        f"{kind}: {result['rows']:,} rows, batches {result['filled']:.0%} filled",
        ("library", f"CPU seconds, {unit}", "spread", "ratio", "ratio by clock", "apart"),
        rows,
    )


if __name__ == "__main__":
    door.run(main, required=["data_dir", "tokenizer"])
