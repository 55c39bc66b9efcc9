"""Compiles the training step for a TPU that is not there, and tells whether it fits into the chip's memory.

Example:
  python -m albert_tf.tpu_check --model_size=base --train_batch_size=32 --max_seq_length=128 --chip=v5e

The step is the one that `albert_tf.pretrain --strategy=tpu` hands to every chip. It is lowered here, and compiled ahead
of time by the TPU's own compiler, in an environment that `make tpu-check` builds. That takes minutes. The compiler says
how much memory the step needs and how much arithmetic it does: enough to choose batch and chip before paying for one.
It does not say how fast the step runs: the time shown is the least that the arithmetic takes at the chip's peak.

Exit code 0: it fits. 1: it does not, or could not be compiled.
"""

from __future__ import annotations

import dataclasses
import json
import os

from absl import flags, logging

from albert_tf import door, features, shape_flags
from albert_tf.modeling import arithmetic
from albert_tf.tpu import chips, compiling
from albert_tf.training import settings

with door.group("Step"):
    flags.DEFINE_integer(
        "train_batch_size", 32, "Examples of a step on one chip: with n chips, pretrain takes n times as many."
    )
    flags.DEFINE_integer("max_seq_length", 128, "Tokens of an example, as the shards have them.")
    flags.DEFINE_integer(
        "max_predictions_per_seq", None, "Masked positions of an example; by default as many as the shards have."
    )
    flags.DEFINE_enum("dtype", "bfloat16", ("bfloat16", "float32"), "What is computed in; weights stay in float32.")
    flags.DEFINE_enum("optimizer", "lamb", settings.OPTIMIZERS, "Optimizer.")
    flags.DEFINE_boolean("remat", False, "Compute the layers a second time on the way back instead of keeping them.")
    flags.DEFINE_integer(
        "gradient_accumulation_steps", 1, "Micro-batches that train_batch_size is computed in, one after the other."
    )
    flags.DEFINE_integer("vocab_size", 30000, "Pieces in the vocabulary, where --config does not say.")

shape_flags.define()

with door.group("Compiler"):
    flags.DEFINE_enum("chip", "v5e", tuple(chips.CHIPS), "The chip to compile for.")
    flags.DEFINE_string(
        "compiler_python",
        None,
        "Python with requirements-tpu-check.txt; by default that of .venv-tpu-check, which `make tpu-check` builds.",
    )
    flags.DEFINE_string("json", None, "File to write the figures to, in bytes and operations.")


def main() -> int:
    values = flags.FLAGS
    config = shape_flags.make_config(values, vocab_size=values.vocab_size)
    for name in ("train_batch_size", "max_seq_length", "max_predictions_per_seq", "gradient_accumulation_steps"):
        if (value := getattr(values, name)) is not None and value < 1:
            raise door.UsageError(f"{name} must be at least 1, got {value}")
    if values.train_batch_size % values.gradient_accumulation_steps:
        raise door.UsageError(
            f"train_batch_size must be a multiple of gradient_accumulation_steps, {values.gradient_accumulation_steps},"
            f" got {values.train_batch_size}"
        )
    if values.max_seq_length > config.max_position_embeddings:
        raise door.UsageError(
            f"max_seq_length must be at most the model's max_position_embeddings, {config.max_position_embeddings}, "
            f"got {values.max_seq_length}"
        )
    with door.checking_flags():
        predictions = features.max_predictions(values.max_seq_length)
        if (given := values.max_predictions_per_seq) is not None:
            if given > values.max_seq_length:
                raise ValueError(
                    f"max_predictions_per_seq must be at most max_seq_length, {values.max_seq_length}, got {given}"
                )
            predictions = given
    python = values.compiler_python or compiling.COMPILER_PYTHON
    if not os.path.exists(python):
        raise door.UserError(f"{python}: no such file; `make tpu-check` builds the compiler's environment")
    compiling.check_python(python)
    if values.json is not None:  # before minutes of compiling
        folder = os.path.dirname(values.json) or "."
        if not door.is_remote(folder) and not os.access(folder, os.W_OK):
            raise door.UserError(f"{values.json}: cannot be written, since {folder} is no folder that you may write to")
    text = _lower(config, predictions)
    chip = chips.CHIPS[values.chip]
    logging.info("compiling %.1f MB of StableHLO for %s; this takes minutes", len(text) / 1e6, chip.name)
    compiled = compiling.compile_for(
        chip,
        text,
        python=python,
        tell=lambda seconds: logging.info("still compiling, after %d s", seconds),
    )
    products = arithmetic.step_operations(
        config,
        batch_size=values.train_batch_size,
        max_seq_length=values.max_seq_length,
        max_predictions_per_seq=predictions,
        remat=values.remat,
    )
    step = {
        "model": values.model_size or values.config or "shape flags",
        "chip": chip.name,
        "train_batch_size": values.train_batch_size,
        "max_seq_length": values.max_seq_length,
        "max_predictions_per_seq": predictions,
        "dtype": values.dtype,
        "optimizer": values.optimizer,
        "remat": values.remat,
        "gradient_accumulation_steps": values.gradient_accumulation_steps,
        "hidden_dropout_prob": config.hidden_dropout_prob,
        "attention_probs_dropout_prob": config.attention_probs_dropout_prob,
    }
    rows = compiling.rows(compiled, chip, products=products, has_loops="stablehlo.while" in text)
    title = (
        f"{step['model']}, {values.train_batch_size} x {values.max_seq_length} on one {chip.name}, {values.dtype}, "
        f"{values.optimizer}, dropout {config.hidden_dropout_prob:g}{', remat' if values.remat else ''}"
    )
    door.print_table(title, ("one step", "by the compiler"), rows)
    if values.json is not None:
        content = {**step, "config": config.to_dict(), **dataclasses.asdict(compiled), "products": products}
        door.write_whole(values.json, json.dumps(content, indent=2) + "\n")
    return 0 if compiled.fits else door.FAILED


def _lower(config: shape_flags.AlbertConfig, predictions: int) -> str:
    """StableHLO of the step that the flags describe."""
    from albert_tf.tpu import lowering

    values = flags.FLAGS
    logging.info("lowering the step")
    trainer = lowering.make_trainer(
        config,
        dtype=values.dtype,
        optimizer=values.optimizer,
        remat=values.remat,
        gradient_accumulation_steps=values.gradient_accumulation_steps,
    )
    batch = lowering.example_batch(
        batch_size=values.train_batch_size,
        max_seq_length=values.max_seq_length,
        max_predictions_per_seq=predictions,
    )
    text = lowering.lower(trainer, batch)
    if found := lowering.obstacles(text):
        raise door.UserError(f"the step holds what no TPU can run: {', '.join(found[:3])}")
    return text


if __name__ == "__main__":
    door.run(main)
