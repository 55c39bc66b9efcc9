"""Fine-tunes toy models on two logical CPUs and on one device and prints, as JSON, how far they are apart.

A program of its own, run by test_finetuning_devices.py: logical devices must be made before TensorFlow runs anything.
"""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

import numpy as np

from albert_tf.training import strategies
from albert_tf.training.finetuning import Finetuning
from albert_tf.training.finetuning_inputs import HeldOut
from tests.training.task_rows import KINDS, make_inputs, make_rows, make_run, make_settings, write_start


def figures_of(run: Finetuning) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    figures = run.run()
    return {name: weight.numpy() for name, weight in run._model.named_weights().items()}, figures


def main(directory: str) -> None:
    folder = pathlib.Path(directory)
    strategies.make_strategy("mirrored", num_devices=2)  # splits the CPU
    start = write_start(folder / "start")
    result: dict[str, Any] = {}
    for head, is_multi_label in KINDS:
        rows = make_rows(head, 29, is_multi_label=is_multi_label)
        others = HeldOut(examples=make_rows(head, 7, seed=9, is_multi_label=is_multi_label), score=lambda logits: {})
        inputs = make_inputs(start, head, rows, is_multi_label=is_multi_label, held_out={"dev": others})
        name = f"{head} {is_multi_label}"
        found = []
        for strategy, count in (("cpu", None), ("mirrored", 2)):
            settings = make_settings(
                folder / f"{name} {strategy}", start, strategy=strategy, num_devices=count, num_train_steps=12,
                dtype="float64", clip_norm=0.1, log_steps=1, log_example_ids=True,
            )  # fmt: skip
            found.append(figures_of(make_run(settings, inputs)))
            lines = pathlib.Path(settings.output_dir, "metrics.jsonl").read_text().splitlines()
            norms = [json.loads(line).get("gradient_norm", 1.0) for line in lines]
        (one, alone), (two, both) = found
        examples = [(folder / f"{name} {strategy}" / "example_ids.tsv").read_text() for strategy in ("cpu", "mirrored")]
        result[name] = {
            "weights": float(max(np.abs(one[weight] - two[weight]).max() for weight in one)),
            "loss": abs(alone["loss"] - both["loss"]),
            "same_examples": examples[0] == examples[1],
            "least_norm": min(norms),
        }
    print(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1])
