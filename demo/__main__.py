"""The whole path once, on English that is on this machine: text, vocabulary, shards, pretraining, export, an answer.

Nothing is downloaded. It takes six to seven minutes on two cores. What was done before with the same settings and
versions is used again; after Ctrl-C the next run goes on where this one stopped.

Examples:
  python -m demo
  python -m demo --clean
"""

from __future__ import annotations

import os
import resource
import time
from typing import Any

from absl import flags

from albert_tf import door

with door.group("Demo"):
    FOLDER = flags.DEFINE_string("folder", "demo-output", "Folder for all that it makes.")
    CLEAN = flags.DEFINE_boolean("clean", False, "Removes that folder and ends.")
    MINUTES = flags.DEFINE_float("minutes", 8.0, "Time it may take; a slow machine trains fewer steps.", 2.0)

# Names of figures that need more words.
_TITLES = {
    "positions": "held-out [MASK] positions",
    "loss": "loss at them",
    "bound": "  context-free bound: frequencies of the training labels",
    "permuted": "  the model itself with contexts permuted",
    "below_bound": "loss below the bound",
    "below_bound_error": "  standard error",
    "below_permuted": "loss below that with permuted contexts",
    "below_permuted_error": "  standard error",
    "accuracy": "right at the first guess, share",
    "bound_accuracy": "  always the commonest label",
    "order_accuracy": "order of segments recognised, share",
    "order_majority": "  always the same answer",
}


def main() -> None:
    """Runs what the flags ask for."""
    from demo import settings, stages, workspace

    if CLEAN.value:
        print(f"{FOLDER.value} {'removed' if stages.remove(FOLDER.value) else 'was not there'}")
        return
    began = time.monotonic()
    recipe = settings.DemoSettings()
    key = workspace.folder_key(recipe.to_dict(), settings.versions())
    try:
        with workspace.open_workspace(os.path.join(FOLDER.value, key)) as room:
            run = stages.Run(
                workspace=room,
                settings=recipe,
                seconds_left=lambda: 60.0 * MINUTES.value - (time.monotonic() - began),
                notes={},
            )
            rows = [_one_stage(number, stage, run) for number, stage in enumerate(stages.STAGES, start=1)]
            _summary(run, rows, time.monotonic() - began)
    except workspace.FolderInUseError as error:
        raise door.UserError(f"{error}: another run of the demo works in this folder; wait for it or end it") from error


def _one_stage(number: int, stage: Any, run: Any) -> tuple[str, str, str]:
    """Does a stage unless that was done before; its row of the last table."""
    from demo.stages import STAGES

    print(f"\n[{number}/{len(STAGES)}] {stage.title}", flush=True)
    note = run.workspace.finished(stage.name)
    if note is not None and stage.is_done(run.workspace):
        print(f"  used again, made before in {note['seconds']:.0f} s", flush=True)
        run.notes[stage.name] = note["figures"]
        return stage.title, "used again", ""
    for later in STAGES[number - 1 :]:  # what was made from older output is made again too
        run.workspace.forget(later.name)
    clock, processor = time.monotonic(), _processor_seconds()
    figures = stage.work(run)
    seconds, processor = time.monotonic() - clock, _processor_seconds() - processor
    run.workspace.finish(
        stage.name, {"seconds": round(seconds, 2), "cpu_seconds": round(processor, 2), "figures": figures}
    )
    run.notes[stage.name] = figures
    return stage.title, f"{seconds:.1f}", f"{processor:.1f}"


def _processor_seconds() -> float:
    """Processor time of this process and of those it has started that have ended."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _summary(run: Any, rows: list[tuple[str, str, str]], seconds: float) -> None:
    """Prints what was found, where everything is, and what it took."""
    figures = [
        (_TITLES.get(name, name.replace("_", " ")), value)
        for stage in ("corpus", "vocabulary", "shards", "pretrain", "judge")
        for name, value in run.notes[stage].items()
        if not isinstance(value, bool)
    ]
    print()
    door.print_table("Figures (losses in nats at held-out [MASK] positions)", ("what", "value"), figures)
    door.print_table(
        "Files",
        ("what", "where"),
        [
            ("model directory", run.path("training", "model")),
            ("SavedModel", run.path("exported", "saved_model", "text")),
            ("TFLite", run.path("exported", "demo_float32.tflite")),
            ("TFLite, int8", run.path("exported", "demo_int8.tflite")),
            ("learning curve", run.path("pictures", "learning_curve.svg")),
            ("mask examples", run.path("pictures", "mask_examples.svg")),
        ],
    )
    door.print_table(f"Time: {seconds:.0f} s", ("stage", "seconds", "CPU seconds"), rows)
    print(run.notes["check"]["verdict"])


if __name__ == "__main__":
    door.run(main)
