"""Pretrains an ALBERT model on the shards of a data directory and writes a model directory.

Example:
  python -m albert_tf.pretrain --data_dir=data --eval_data_dir=held_out --output_dir=run \\
      --hidden_size=128 --num_hidden_layers=4 --num_attention_heads=2 --intermediate_size=512 --embedding_size=64 \\
      --num_train_steps=2000 --num_warmup_steps=200 --learning_rate=0.006

The shape of the model comes from --config (an albert_config.json), from --model_size, or from single shape flags; shape
flags change single fields of --model_size. Without --config the vocabulary size is that of the data. With --model the
run begins with the weights and the shape that are there: a model of the same vocabulary learns your domain, or longer
texts. The optimizer and the learning rate's schedule begin anew. With --stages one run learns of several data
directories, one after the other: of short sequences first, then of long ones.

A run that was interrupted goes on from its newest checkpoint when the same command is given again, and ends with the
same weights. The result is output_dir/model; figures by step are in output_dir/metrics.jsonl and, for TensorBoard, in
output_dir/tensorboard.
"""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from absl import flags, logging

from albert_tf import door, shape_flags, startup, training_door
from albert_tf.config import AlbertConfig
from albert_tf.conversion import FORMATS
from albert_tf.data import manifest
from albert_tf.head_config import HEADS
from albert_tf.model_directory import read_training
from albert_tf.training import rates, report, stages
from albert_tf.training import settings as settings_module
from albert_tf.training.inputs import fingerprint, read_inputs
from albert_tf.training.stages import Stage
from albert_tf.training.warm_start import WarmStart, read_warm_start

# What of a model's shape is no matter of its weights.
DROPOUTS = ("hidden_dropout_prob", "attention_probs_dropout_prob")
_FAR_OFF = 2.0  # times the advised rate, or a share of it: worth a word

with door.group("Files"):
    flags.DEFINE_string("data_dir", None, "Data directory to train on, from pipelines.build_pretraining_data.")
    flags.DEFINE_string("eval_data_dir", None, "Held-out data directory, made with the same tokenizer.")
    flags.DEFINE_string("output_dir", None, "Folder of the run: checkpoints, metrics, and at the end model/.")

    flags.DEFINE_string("model", None, "Model directory or checkpoint to go on from; by default a new model is made.")
    flags.DEFINE_enum("model_format", None, FORMATS, "The checkpoint's format, where it cannot be found out.")
    flags.DEFINE_enum("model_head", None, HEADS, "The checkpoint's head, where its files cannot tell it.")

shape_flags.define()

with door.group("Training"):
    flags.DEFINE_integer("num_train_steps", None, "Steps of the whole run.")
    flags.DEFINE_list(
        "stages",
        [],
        "Instead of --data_dir and --num_train_steps: DATA_DIR:STEPS or DATA_DIR:STEPS:BATCH of each part of the run, "
        "such as data128:9000:64,data512:1000:16. One schedule of the learning rate spans them.",
    )
    flags.DEFINE_integer("num_warmup_steps", 0, "Steps over which the learning rate rises.")
    flags.DEFINE_float(
        "learning_rate",
        None,
        "Learning rate that the warm-up aims at. The paper's for LAMB is 0.00176 for batches of 4,096, and goes with "
        "the square root of the batch; small models take 5e-4 to 6e-3.",
    )
    flags.DEFINE_integer("train_batch_size", 32, "Examples of a step, over all devices.")
    flags.DEFINE_enum("optimizer", "lamb", settings_module.OPTIMIZERS, "Optimizer.")
    flags.DEFINE_float("weight_decay", 0.01, "Rate of the decoupled weight decay.")
    flags.DEFINE_float("clip_norm", 1.0, "Largest global norm of the gradient; 0 clips nothing.")
    flags.DEFINE_float(
        "moving_average_decay",
        0.0,
        "Keeps a moving average of the weights, with this share of the old average in each step; evaluations and the "
        "model directory then use it. 0.999 averages over about 1,000 steps; 0 keeps none.",
    )
    flags.DEFINE_integer("seed", 0, "Seed of initial weights, order, masks and dropout.")
    training_door.define_precision()
    flags.DEFINE_integer("shards_in_flight", 4, "Shards that are read and mixed together.")
    flags.DEFINE_integer(
        "max_ngram",
        None,
        "Longest n-gram to mask, in words, where masks are drawn in training; by default the data's.",
    )

training_door.define_devices()

with door.group("While it runs"):
    training_door.define_events()
    flags.DEFINE_integer("max_eval_examples", None, "Held-out examples to use; by default all.")


def make_shape(values: Any, data: manifest.DataDirectory, start: WarmStart | None) -> AlbertConfig:
    """Shape of the model: that of the flags, or of the model to start from.

    Raises:
      door.UsageError: for flags that exclude each other, or are out of range.
      ValueError: for a damaged --config.
    """
    if start is None:
        return shape_flags.make_config(values, vocab_size=data.vocab_size)
    with door.checking_flags():
        return shape_flags.change_config(values, start.config, free=DROPOUTS, given_by="--model")


def make_settings(
    values: Any, shape: AlbertConfig, parts: tuple[Stage, ...] = ()
) -> settings_module.PretrainingSettings:
    """Settings of the run from the flags' values, which have the same names.

    Raises:
      door.UsageError: for a value out of range.
    """
    names = {field.name for field in dataclasses.fields(settings_module.PretrainingSettings)} - {"config", "stages"}
    given = {name: getattr(values, name) for name in names}
    if parts:
        steps = stages.ends(parts)[-1]
        given |= {**dataclasses.asdict(parts[0]), "num_train_steps": steps}
    with door.checking_flags():
        return settings_module.PretrainingSettings(config=shape, stages=parts, **given)


def main() -> None:
    values = flags.FLAGS
    training_door.check_tpu(values)
    with door.checking_flags():
        parts = stages.parse(values.stages, train_batch_size=values.train_batch_size)
    if parts:
        _check_no_rivals(values)
    elif values.data_dir is None or values.num_train_steps is None:
        raise door.UsageError("give --data_dir and --num_train_steps, or --stages")
    data = [manifest.read_data_directory(path) for path in [stage.data_dir for stage in parts] or [values.data_dir]]
    start = None
    if values.model is not None:
        start = read_warm_start(values.model, format=values.model_format, head=values.model_head)
    elif values.model_format or values.model_head:
        raise door.UsageError("--model_format and --model_head are about --model, which is not given")
    settings = make_settings(values, make_shape(values, data[0], start), parts)
    with training_door.keeping_folder(settings.output_dir, training_door.find_workers(settings, values)):
        _run(settings, data, start)


def _check_no_rivals(values: Any) -> None:
    """Refuses flags that say what --stages says too.

    Raises:
      door.UsageError: naming them.
    """
    for name in ("data_dir", "num_train_steps"):
        if getattr(values, name) is not None:
            raise door.UsageError(f"give either --stages or --{name}: the stages say it")


def _run(
    settings: settings_module.PretrainingSettings, data: Sequence[manifest.DataDirectory], start: WarmStart | None
) -> None:
    """Trains from the newest checkpoint to the end, and reports."""
    decisive = fingerprint(settings, data, start)
    training_door.claim_output(settings.output_dir, decisive, kind="pretraining")
    model_path = os.path.join(settings.output_dir, "model")
    if training_door.has_content(model_path):
        logging.info("this run of %d steps is finished already", settings.num_train_steps)
        training = read_training(model_path)
        if settings.eval_data_dir in (None, training.get("eval_data_dir")):
            _report(model_path, training.get("evaluation", {}))
            return
        logging.info("it is evaluated on %s", settings.eval_data_dir)

    inputs = read_inputs(settings, start)
    _warn_of_rate(settings)
    _warn_of_unseen_positions(settings.config, data)

    startup.prepare_training(remat=settings.remat, strategy=settings.strategy)

    from albert_tf.training.pretraining import Pretraining

    run = Pretraining(settings, door.progress, inputs=inputs)
    figures = training_door.carry_out(run, settings, decisive)
    if run.is_chief:
        _report(model_path, figures)
    else:
        logging.info("done; worker 0 has written %s", model_path)
    run.outlast_workers()


def _warn_of_unseen_positions(shape: AlbertConfig, data: Sequence[manifest.DataDirectory]) -> None:
    longest = max(one.max_seq_length for one in data)
    if longest < shape.max_position_embeddings:
        logging.warning(
            "the model has %d positions, but this data trains the first %d only (its max_seq_length); exports will cut "
            "texts there. --max_position_embeddings=%d leaves the others out",
            shape.max_position_embeddings,
            longest,
            longest,
        )


def _warn_of_rate(settings: settings_module.PretrainingSettings) -> None:
    """Of LAMB's rate for models as large as the paper's; smaller ones bear far more."""
    if settings.optimizer != "lamb" or settings.config.hidden_size < rates.PAPER_HIDDEN_SIZE:
        return
    advised = rates.lamb_rate(settings.train_batch_size)
    if not 1 / _FAR_OFF <= settings.learning_rate / advised <= _FAR_OFF:
        logging.warning(
            "--learning_rate is %g; the paper's for LAMB, scaled with the square root of the batch, is %.2g for "
            "batches of %d",
            settings.learning_rate,
            advised,
            settings.train_batch_size,
        )


def _report(model_path: str, figures: Mapping[str, float]) -> None:
    """Prints what was learned, where the model is, and what can be done with it."""
    if figures:
        columns = ("on held-out data", "at [MASK]", "at all predictions")
        title = f"{figures['examples']:,} held-out examples; losses in nats per prediction"
        door.print_table(title, columns, report.rows(figures))
        print(f"{report.verdict(figures)}\n")
    print(f"model directory: {model_path}")
    print(f"next: python -m export.saved_model --model={shlex.quote(model_path)} --output_dir=exported")


if __name__ == "__main__":
    door.run(main, required=["output_dir", "learning_rate"])
