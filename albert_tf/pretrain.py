"""Pretrains an ALBERT model on the shards of a data directory and writes a model directory.

Example:
  python -m albert_tf.pretrain --data_dir=data --eval_data_dir=held_out --output_dir=run \\
      --hidden_size=128 --num_hidden_layers=4 --num_attention_heads=2 --intermediate_size=512 --embedding_size=64 \\
      --num_train_steps=2000 --num_warmup_steps=200 --learning_rate=0.006

The shape of the model comes from --config (an albert_config.json), from --model_size, or from single shape flags; shape
flags change single fields of --model_size. Without --config the vocabulary size is that of the data.

A run that was interrupted goes on from its newest checkpoint when the same command is given again, and ends with the
same weights. The result is output_dir/model; figures by step are in output_dir/metrics.jsonl and, for TensorBoard, in
output_dir/tensorboard.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shlex
from collections.abc import Mapping
from typing import Any

from absl import flags, logging

from albert_tf import door, shape_flags, startup
from albert_tf.config import AlbertConfig
from albert_tf.data import manifest
from albert_tf.files import exists, lock_directory, read_whole
from albert_tf.model_directory import read_training
from albert_tf.tpu import requirements
from albert_tf.training import footprint, interrupts, report
from albert_tf.training import settings as settings_module
from albert_tf.training.inputs import read_inputs

with door.group("Files"):
    flags.DEFINE_string("data_dir", None, "Data directory to train on, from pipelines.build_pretraining_data.")
    flags.DEFINE_string("eval_data_dir", None, "Held-out data directory, made with the same tokenizer.")
    flags.DEFINE_string("output_dir", None, "Folder of the run: checkpoints, metrics, and at the end model/.")

shape_flags.define()

with door.group("Training"):
    flags.DEFINE_integer("num_train_steps", None, "Steps of the whole run.")
    flags.DEFINE_integer("num_warmup_steps", 0, "Steps over which the learning rate rises.")
    flags.DEFINE_float(
        "learning_rate",
        None,
        "Learning rate that the warm-up aims at. The paper's is 0.00176 for batches of 4,096; small models and batches "
        "take 5e-4 to 6e-3.",
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
    flags.DEFINE_enum(
        "dtype",
        "float32",
        settings_module.DTYPES,
        "What is computed in; weights stay in float32. bfloat16 is for TPUs and newer GPUs; float16, with a dynamic "
        "loss scale, for older ones.",
    )
    flags.DEFINE_enum(
        "skip_padding", "auto", settings_module.SKIP_PADDING, "Leave the padding out; auto: not on a TPU."
    )
    flags.DEFINE_integer("shards_in_flight", 4, "Shards that are read and mixed together.")

with door.group("Devices"):
    flags.DEFINE_enum("strategy", "auto", settings_module.STRATEGIES, "auto takes every GPU there is, else the CPU.")
    flags.DEFINE_integer("num_devices", None, "For mirrored: GPUs to use, or logical CPUs where there is no GPU.")
    flags.DEFINE_string("tpu", "", "For tpu: its name, or local for one of this machine.")
    flags.DEFINE_string("tpu_zone", "", "Google Cloud zone of a TPU given by name; by default that of this machine.")
    flags.DEFINE_string("gcp_project", "", "Google Cloud project of a TPU given by name; by default this machine's.")
    flags.DEFINE_list(
        "worker_hosts",
        [],
        "For multi_worker: host:port of each worker, worker 0 first. Give the same command on each machine, but for "
        "--worker_index. Without it the environment variable TF_CONFIG says who the workers are.",
    )
    flags.DEFINE_integer(
        "worker_index",
        None,
        "For multi_worker: which of --worker_hosts this process is, from 0. Worker 0 writes; all must see "
        "--output_dir.",
    )

with door.group("Memory"):
    flags.DEFINE_integer(
        "gradient_accumulation_steps",
        1,
        "Computes a device's share of the batch in so many micro-batches, one after the other: same step, less memory.",
    )
    flags.DEFINE_boolean(
        "remat",
        False,
        "Keeps only each layer's input and computes the rest again on the way back: a third more work, less memory.",
    )

with door.group("While it runs"):
    flags.DEFINE_integer("save_checkpoints_steps", 1000, "Steps between two checkpoints.")
    flags.DEFINE_float(
        "save_checkpoints_minutes", None, "Minutes after which a checkpoint is made in any case; by default never."
    )
    flags.DEFINE_integer("keep_checkpoints", 3, "How many of the newest checkpoints are kept.")
    flags.DEFINE_integer("eval_steps", None, "Steps between two evaluations; by default one at the end.")
    flags.DEFINE_integer("eval_batch_size", None, "Examples of an evaluation batch; by default as in training.")
    flags.DEFINE_integer("max_eval_examples", None, "Held-out examples to use; by default all.")
    flags.DEFINE_integer("log_steps", 50, "Steps between two lines of metrics.jsonl.")
    flags.DEFINE_boolean("log_example_ids", False, "Write the examples of each step to example_ids.tsv.")


def make_settings(values: Any, shape: AlbertConfig) -> settings_module.PretrainingSettings:
    """Settings of the run from the flags' values, which have the same names.

    Raises:
      door.UsageError: for a value out of range.
    """
    names = [field.name for field in dataclasses.fields(settings_module.PretrainingSettings) if field.name != "config"]
    with door.checking_flags():
        return settings_module.PretrainingSettings(config=shape, **{name: getattr(values, name) for name in names})


def claim_output(settings: settings_module.PretrainingSettings, data: manifest.DataDirectory) -> None:
    """Refuses a folder of another run or purpose.

    Raises:
      ValueError: naming the settings that differ, or the folder.
    """
    path = os.path.join(settings.output_dir, settings_module.SETTINGS_FILE)
    if exists(path):
        text = read_whole(path).decode(errors="replace")
        settings_module.check_same_run(text, settings.fingerprint(data.digest), path)
    elif _has_content(settings.output_dir):
        raise ValueError(f"{settings.output_dir}: has content, but none of a pretraining run; name another output_dir")


def main() -> None:
    values = flags.FLAGS
    if values.strategy == "tpu":
        if not values.tpu and "TPU_NAME" not in os.environ:
            raise door.UsageError("strategy=tpu needs --tpu: local for a TPU of this machine, or its name")
        requirements.check_installed(is_local=values.tpu == "local")  # before anything imports TensorFlow
    data = manifest.read_data_directory(values.data_dir)
    settings = make_settings(values, shape_flags.make_config(values, vocab_size=data.vocab_size))
    with door.checking_flags():
        cluster = settings.cluster()
    is_chief = cluster is None or cluster.is_chief
    if cluster is not None and values.verbosity < 1:
        startup.silence_tensorflow()
    # The workers of one run share its folder.
    with lock_directory(settings.output_dir) if is_chief else contextlib.nullcontext(), interrupts.acting_once():
        _run(settings, data)


def _run(settings: settings_module.PretrainingSettings, data: manifest.DataDirectory) -> None:
    """Trains from the newest checkpoint to the end, and reports."""
    claim_output(settings, data)
    model_path = os.path.join(settings.output_dir, "model")
    if _has_content(model_path):
        logging.info("this run of %d steps is finished already", settings.num_train_steps)
        training = read_training(model_path)
        if settings.eval_data_dir in (None, training.get("eval_data_dir")):
            _report(model_path, training.get("evaluation", {}))
            return
        logging.info("it is evaluated on %s", settings.eval_data_dir)

    inputs = read_inputs(settings)
    _warn_of_unseen_positions(settings.config, data)

    startup.keep_freed_memory(little=settings.remat)
    if settings.remat and settings.strategy in ("auto", "cpu"):  # devices and workers wait for each other
        startup.run_one_by_one()

    from albert_tf.training.loop import DivergedError
    from albert_tf.training.pretraining import Pretraining

    run = Pretraining(settings, door.progress, inputs=inputs)
    door.print_table("What a device holds", footprint.COLUMNS, run.footprint())
    fingerprint = settings_module.to_json(settings.fingerprint(data.digest))
    is_new = not _has_content(settings.output_dir)
    if run.is_chief:
        door.write_whole(os.path.join(settings.output_dir, settings_module.SETTINGS_FILE), fingerprint)
    try:
        figures = run.run()
    except ValueError:
        if is_new and not run.has_checkpoint:
            run.remove_output()  # bad input, found while reading: nothing is left of it
        raise
    except (KeyboardInterrupt, SystemExit):  # Ctrl-C, SIGTERM
        logging.info("%s", run.stop())
        run.outlast_workers()
        raise
    except DivergedError as error:
        other = "" if settings.dtype == "float32" else ", or --dtype=float32"
        advice = f"Try a lower --learning_rate, a longer warm-up{other}, in another --output_dir"
        raise door.UserError(f"{settings.output_dir}: {error}. {advice}") from error
    if run.is_chief:
        _report(model_path, figures)
    else:
        logging.info("done; worker 0 has written %s", model_path)
    run.outlast_workers()


def _warn_of_unseen_positions(shape: AlbertConfig, data: manifest.DataDirectory) -> None:
    if data.max_seq_length < shape.max_position_embeddings:
        logging.warning(
            "the model has %d positions, but this data trains the first %d only (its max_seq_length); exports will cut "
            "texts there. --max_position_embeddings=%d leaves the others out",
            shape.max_position_embeddings,
            data.max_seq_length,
            data.max_seq_length,
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


def _has_content(path: str) -> bool:
    """Whether `path` is a folder with something in it."""
    if not door.is_remote(path):
        return os.path.isdir(path) and bool(os.listdir(path))
    import tensorflow as tf

    return bool(tf.io.gfile.isdir(path)) and bool(tf.io.gfile.listdir(path))


if __name__ == "__main__":
    door.run(main, required=["data_dir", "output_dir", "num_train_steps", "learning_rate"])
