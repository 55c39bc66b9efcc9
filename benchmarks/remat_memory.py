"""Peak resident memory of a training step by number of layers, plain and with --remat.

Each figure is the peak of a process of its own that makes two steps at base width, the smallest of --repeats: what the
allocator keeps of freed memory depends on which thread came first, and only adds. The slope over the layers, by least
squares, is given in block inputs, B x S x H x 4 bytes: what --remat keeps of a layer.

Example:
  python -m benchmarks.remat_memory --layers=6,18,30 --shapes=8x128,4x512
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys

from absl import flags

from albert_tf import door

with door.group("What is measured"):
    flags.DEFINE_list("layers", ["6", "18", "30"], "Numbers of layers, at least two.")
    flags.DEFINE_list("shapes", ["8x128", "4x512"], "Batches, as examples x tokens.")
    flags.DEFINE_list("modes", ["remat", "plain"], "remat, plain, or both.")
    flags.DEFINE_integer("repeats", 3, "Processes for each figure.", 1)
    flags.DEFINE_string("json", "benchmarks/results/remat_memory.json", "Where all figures go.")

HIDDEN, VOCAB = 768, 8000
STEPS = 2


def step_peak(layers: int, batch: int, sequence: int, mode: str) -> int:
    """Peak resident bytes of this process after some steps."""
    from albert_tf import startup

    startup.keep_freed_memory(little=mode == "remat")  # as pretrain does

    import numpy as np
    import tensorflow as tf

    from albert_tf.config import AlbertConfig
    from albert_tf.training.building import build_pretraining_trainer
    from albert_tf.training.settings import PretrainingSettings

    config = AlbertConfig.named("base_v1", vocab_size=VOCAB, num_hidden_layers=layers)
    settings = PretrainingSettings(
        data_dir="", output_dir="", config=config, num_train_steps=9, learning_rate=1e-4, remat=mode == "remat"
    )
    trainer = build_pretraining_trainer(settings, tf.distribute.get_strategy(), form="packed")
    generator = np.random.default_rng(0)
    predictions = sequence * 15 // 100
    made = {
        "input_ids": generator.integers(5, VOCAB, (batch, sequence)),
        "input_mask": np.ones((batch, sequence)),
        "segment_ids": np.zeros((batch, sequence)),
        "masked_lm_positions": generator.integers(0, sequence, (batch, predictions)),
        "masked_lm_ids": generator.integers(5, VOCAB, (batch, predictions)),
        "sentence_order_label": np.zeros(batch),
    }
    features = {name: tf.constant(value.astype(np.int32)) for name, value in made.items()}
    features["masked_lm_weights"] = tf.ones([batch, predictions])
    examples = tf.zeros([batch], tf.int64)
    dataset = tf.data.Dataset.from_tensors({**features, "epoch": examples, "example": examples}).repeat()
    trainer.run(iter(dataset), STEPS)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    values = flags.FLAGS
    layers = sorted(int(count) for count in values.layers)
    if len(layers) < 2:
        raise door.UsageError(f"--layers must name at least two numbers, got {','.join(values.layers)}")
    rows, results = [], []
    for shape in values.shapes:
        batch, sequence = (int(size) for size in shape.split("x"))
        block_input = batch * sequence * HIDDEN * 4
        for mode in values.modes:
            rounds = [[_measured(count, batch, sequence, mode) for count in layers] for _ in range(values.repeats)]
            peaks = [min(one) for one in zip(*rounds, strict=True)]
            slope = statistics.linear_regression(layers, peaks).slope
            shown = [f"{peak / 2**20:,.0f}" for peak in peaks]
            rows.append((shape, mode, *shown, f"{slope / 2**20:.1f}", f"{slope / block_input:.2f}"))
            results.append(
                {"shape": shape, "mode": mode, "layers": layers, "rounds": rounds, "block_input": block_input}
            )
    columns = ("batch", "layers kept", *(f"L={count}" for count in layers), "per layer", "in block inputs")
    door.print_table("Peak resident memory of training steps at base width, MiB", columns, rows)
    door.write_whole(values.json, json.dumps(results, indent=2) + "\n")


def _measured(layers: int, batch: int, sequence: int, mode: str) -> int:
    """`step_peak` in a process of its own."""
    code = f"from benchmarks import remat_memory as r; print(r.step_peak({layers}, {batch}, {sequence}, {mode!r}))"
    # One arena for all threads: else the allocator keeps a share of its own for each, which is no part of the step.
    environment = {**os.environ, "MALLOC_ARENA_MAX": "1", "TF_CPP_MIN_LOG_LEVEL": "2"}
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True, env=environment)
    return int(done.stdout.split()[-1])


if __name__ == "__main__":
    door.run(main)
