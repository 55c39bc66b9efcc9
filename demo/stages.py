"""The demo's stages, in order. Each takes the run, leaves its files in the run's folder and returns its figures."""

from __future__ import annotations

import glob
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from albert_tf import door
from albert_tf.files import write_whole
from demo import answers, corpus, duplicates, learning, pretraining
from demo.commands import Command, run, run_together
from demo.settings import DemoSettings, cores
from demo.workspace import Workspace

Figures = dict[str, Any]
LONGEST_WORK = 2  # processes at once: the demo is made for two cores


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of the demo.

    Attributes:
      workspace: its folder.
      settings: the recipe.
      seconds_left: time until the demo should be done, for stages that can do with less.
      notes: what the stages before found, by stage.
    """

    workspace: Workspace
    settings: DemoSettings
    seconds_left: Callable[[], float]
    notes: dict[str, Figures]

    def path(self, *names: str) -> str:
        """Path in the run's folder."""
        return self.workspace.path(*names)


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One step of the way: `work` is done once for a folder.

    Attributes:
      name: of its note.
      title: what it does, for the reader.
      work: does it.
      outputs: files and folders that it leaves, by their path in the run's folder.
    """

    name: str
    title: str
    work: Callable[[Run], Figures]
    outputs: tuple[str, ...] = ()

    def is_done(self, workspace: Workspace) -> bool:
        """Whether it was finished and what it left is still there."""
        return workspace.finished(self.name) is not None and all(
            os.path.exists(workspace.path(output)) for output in self.outputs
        )


def make_corpus(run_: Run) -> Figures:
    """Reads documentation on this machine and writes `corpus/training.txt` and `corpus/held_out.txt`."""
    with door.progress(total=None, description="reading Python files", unit="files") as bar:

        def advance(done: int, total: int) -> None:
            bar.total = total
            bar.advance(done - bar.completed)

        found = corpus.build_corpus(processes=min(LONGEST_WORK, cores()), advance=advance)
    texts = {"training": corpus.to_text(found.training), "held_out": corpus.to_text(found.held_out)}
    for name, text in texts.items():
        write_whole(run_.path("corpus", f"{name}.txt"), text)
    leaks = count_leaks(run_.path("corpus", "training.txt"), run_.path("corpus", "held_out.txt"))
    if leaks:
        raise ValueError(
            f"{leaks} held-out sentences of {duplicates.LEAK_WORDS} words or more are in the training text"
        )
    door.print_table(
        "characters kept", ("package", "characters"), sorted(found.characters.items(), key=lambda item: -item[1])
    )
    return {
        "training characters": len(texts["training"]),
        "held-out characters": len(texts["held_out"]),
        "near-duplicate sentences left out": found.near_duplicates,
        "training sentences left out as held-out": found.overlapping,
        "held-out sentences in the training text": leaks,
    }


def count_leaks(training: str, held_out: str) -> int:
    """Sentences of the file `training` that a held-out sentence of five words or more covers, as the files are."""
    with open(held_out, encoding="utf-8") as file:
        sentences = duplicates.HeldOutSentences(corpus.from_text(file.read()))
    with open(training, encoding="utf-8") as file:
        return sum(len(sentences.found_in(document)) for document in corpus.from_text(file.read()))


def train_vocabulary(run_: Run) -> Figures:
    """Trains the SentencePiece vocabulary on the training text."""
    run(
        run_.workspace,
        Command(
            door="pipelines.train_tokenizer",
            flags={
                "input": run_.path("corpus", "training.txt"),
                "output_dir": run_.workspace.clear("tokenizer"),
                "vocab_size": run_.settings.vocab_size,
            },
        ),
    )
    return {"pieces": run_.settings.vocab_size}


def build_shards(run_: Run) -> Figures:
    """Turns both texts into record shards."""
    figures = {}
    for name, shards, workers in (("training", 8, min(LONGEST_WORK, cores())), ("held_out", 1, 1)):
        output = run_.workspace.clear("data", name)
        run(
            run_.workspace,
            Command(
                door="pipelines.build_pretraining_data",
                flags={
                    "input": run_.path("corpus", f"{name}.txt"),
                    "tokenizer": run_.path("tokenizer"),
                    "output_dir": output,
                    "max_seq_length": run_.settings.max_seq_length,
                    "num_shards": shards,
                    "num_workers": workers,
                    "seed": run_.settings.seed,
                },
            ),
        )
        with open(os.path.join(output, "dataset.json"), encoding="utf-8") as file:
            counts = json.load(file)["counts"]
        figures[f"{name.replace('_', '-')} examples"] = counts["examples"]
        figures[f"{name.replace('_', '-')} tokens"] = counts["tokens_out"]
    return figures


def pretrain(run_: Run) -> Figures:
    """Pretrains, in fewer steps where the machine would not be done in time."""
    return pretraining.pretrain(run_.workspace, run_.settings, run_.seconds_left)


def export_and_judge(run_: Run) -> Figures:
    """Exports the model in three forms, and beside that measures what it has learned."""
    model = run_.path("training", "model")
    run_.workspace.clear("exported")
    tflite = {
        form: Command(
            door="export.tflite",
            flags={"model": model, "output": run_.path("exported", f"demo_{form}.tflite"), "quantization": form},
        )
        for form in ("float32", "int8")
    }
    saved_model = Command(
        door="export.saved_model", flags={"model": model, "output_dir": run_.path("exported", "saved_model")}
    )
    figures: Figures = {}
    run_together(
        run_.workspace,
        [saved_model, *tflite.values()],
        meanwhile=lambda: figures.update(learning.judge(run_.workspace, run_.settings)),
    )
    for form, command in tflite.items():
        figures[f"TFLite {form}, MB"] = round(os.path.getsize(str(command.flags["output"])) / 1e6, 3)
    figures["SavedModel, MB"] = round(_size(run_.path("exported", "saved_model", "text")) / 1e6, 3)
    return figures


def _size(folder: str) -> int:
    paths = glob.glob(os.path.join(folder, "**", "*"), recursive=True)
    return sum(os.path.getsize(path) for path in paths if os.path.isfile(path))


def check_learning(run_: Run) -> Figures:
    """Draws the pictures and says whether the model is off the unigram plateau; fails if it had the time and is not."""
    figures = run_.notes["judge"]
    learning.draw(run_.workspace)
    verdict = learning.verdict(figures, reduced=bool(run_.notes["pretrain"].get("reduced")))
    print(verdict)
    return {"verdict": verdict}


def answer(run_: Run) -> Figures:
    """Asks the SavedModel and both TFLite files the same question and compares."""
    return answers.ask_all(run_.workspace, run_.notes["judge"]["query"])


STAGES = (
    Stage(
        name="corpus",
        title="Corpus: English from the documentation on this machine",
        work=make_corpus,
        outputs=("corpus/training.txt", "corpus/held_out.txt"),
    ),
    Stage(
        name="vocabulary",
        title="Vocabulary: SentencePiece pieces of that text",
        work=train_vocabulary,
        outputs=("tokenizer/spiece.model",),
    ),
    Stage(
        name="shards",
        title="Shards: examples for pretraining",
        work=build_shards,
        outputs=("data/training/dataset.json", "data/held_out/dataset.json"),
    ),
    Stage(
        name="pretrain",
        title="Pretraining: masked words and sentence order",
        work=pretrain,
        outputs=("training/model", f"training/{pretraining.METRICS_FILE}"),
    ),
    Stage(
        name="judge",
        title="Export, and judgement on held-out text",
        work=export_and_judge,
        outputs=("exported/saved_model", "exported/demo_float32.tflite", "exported/demo_int8.tflite"),
    ),
    Stage(
        name="check",
        title="Pictures and verdict",
        work=check_learning,
        outputs=("pictures/learning_curve.svg", "pictures/mask_examples.svg"),
    ),
    Stage(name="answer", title="Answers of the exported models", work=answer),
)


def remove(folder: str) -> bool:
    """Removes everything the demo made; whether there was anything."""
    if not os.path.isdir(folder):
        return False
    shutil.rmtree(folder)
    return True
