"""What the doors that train share: flags of devices, memory and events, the claim on a folder, a run to its end."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from absl import flags, logging

from albert_tf import door, startup
from albert_tf.files import exists, lock_directory, read_whole
from albert_tf.leftovers import remove_leftovers
from albert_tf.tpu import requirements
from albert_tf.training import footprint, interrupts
from albert_tf.training import settings as settings_module
from albert_tf.training.settings import RunSettings

if TYPE_CHECKING:
    from albert_tf.training.cluster import Cluster
    from albert_tf.training.run import Run


_WRITTEN = (settings_module.SETTINGS_FILE, "model", "best", "label_counts.npy", "diverged.json", "seeds.json")


def define_precision() -> None:
    """Defines what is computed in, and whether the padding is computed."""
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


def define_devices() -> None:
    """Defines the flags of devices and memory."""
    with door.group("Devices"):
        flags.DEFINE_enum(
            "strategy", "auto", settings_module.STRATEGIES, "auto takes every GPU there is, else the CPU."
        )
        flags.DEFINE_integer("num_devices", None, "For mirrored: GPUs to use, or logical CPUs where there is no GPU.")
        flags.DEFINE_string("tpu", "", "For tpu: its name, or local for one of this machine.")
        flags.DEFINE_string(
            "tpu_zone", "", "Google Cloud zone of a TPU given by name; by default that of this machine."
        )
        flags.DEFINE_string(
            "gcp_project", "", "Google Cloud project of a TPU given by name; by default this machine's."
        )
        flags.DEFINE_list(
            "worker_hosts",
            [],
            "For multi_worker: host:port of each worker, worker 0 first. Give the same command on each machine, but "
            "for --worker_index. Without it the environment variable TF_CONFIG says who the workers are.",
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
            "Computes a device's share of the batch in so many micro-batches, one after the other: same step, less "
            "memory.",
        )
        flags.DEFINE_boolean(
            "remat",
            False,
            "Keeps only each layer's input and computes the rest again on the way back: a third more work, less "
            "memory.",
        )


def define_events() -> None:
    """Defines how often something is saved, evaluated and written down."""
    flags.DEFINE_integer("save_checkpoints_steps", 1000, "Steps between two checkpoints.")
    flags.DEFINE_float(
        "save_checkpoints_minutes", None, "Minutes after which a checkpoint is made in any case; by default never."
    )
    flags.DEFINE_integer("keep_checkpoints", 3, "How many of the newest checkpoints are kept.")
    flags.DEFINE_integer("eval_steps", None, "Steps between two evaluations; by default one at the end.")
    flags.DEFINE_integer("eval_batch_size", None, "Examples of an evaluation batch; by default as in training.")
    flags.DEFINE_integer("log_steps", 50, "Steps between two lines of metrics.jsonl.")
    flags.DEFINE_boolean("log_example_ids", False, "Write the examples of each step to example_ids.tsv.")


def check_tpu(values: Any) -> None:
    """Refuses --strategy=tpu without a TPU's name or its packages; call it before anything imports TensorFlow.

    Raises:
      UsageError: if no TPU is named.
      ValueError: for packages that do not go together.
    """
    if values.strategy == "tpu":
        if not values.tpu and "TPU_NAME" not in os.environ:
            raise door.UsageError("strategy=tpu needs --tpu: local for a TPU of this machine, or its name")
        requirements.check_installed(is_local=values.tpu == "local")


def find_workers(settings: RunSettings, values: Any) -> Cluster | None:
    """The workers of the run, None where there is this process alone.

    Raises:
      UsageError: if flags or TF_CONFIG name them wrongly.
    """
    with door.checking_flags():
        cluster = settings.cluster()
    if cluster is not None and values.verbosity < 1:
        startup.silence_tensorflow()
    return cluster


@contextlib.contextmanager
def keeping_folder(output_dir: str, cluster: Cluster | None) -> Iterator[None]:
    """Keeps other runs out of the folder, which the workers of one run share, and lets signals act once.

    What a run that was killed left there unfinished is removed, so that it does not count as content.
    """
    is_chief = cluster is None or cluster.is_chief
    with lock_directory(output_dir) if is_chief else contextlib.nullcontext(), interrupts.acting_once():
        if is_chief:
            tidy(output_dir)
        yield


def tidy(output_dir: str) -> None:
    """Removes what a run that was killed left unfinished in its folder; call it where no other run can be there."""
    remove_leftovers(output_dir, _WRITTEN)


def claim_output(output_dir: str, fingerprint: Mapping[str, Any], *, kind: str) -> None:
    """Refuses a folder of another run or purpose.

    Args:
      output_dir: the folder.
      fingerprint: what decides the weights of this run.
      kind: of run, for the message: "pretraining".

    Raises:
      ValueError: naming the settings that differ, or the folder.
    """
    path = os.path.join(output_dir, settings_module.SETTINGS_FILE)
    if exists(path):
        settings_module.check_same_run(read_whole(path).decode(errors="replace"), fingerprint, path)
    elif has_content(output_dir):
        raise ValueError(f"{output_dir}: has content, but none of a {kind} run; name another output_dir")


class Diverged(door.UserError):
    """A run that ended at a loss or gradient that was not finite; the message has advice.

    Attributes:
      account: what was not finite, and where.
    """

    def __init__(self, message: str, *, account: str) -> None:
        super().__init__(message)
        self.account = account


def carry_out(run: Run, settings: RunSettings, fingerprint: Mapping[str, Any]) -> dict[str, float]:
    """Trains a run to its end, and returns the figures of its last evaluation.

    Raises:
      Diverged: if a loss or gradient was not finite.
      ValueError: for bad input; a new run then leaves nothing behind.
    """
    from albert_tf.training.loop import DivergedError

    door.print_table("What a device holds", footprint.COLUMNS, run.footprint())
    is_new = not has_content(settings.output_dir)
    if run.is_chief:
        path = os.path.join(settings.output_dir, settings_module.SETTINGS_FILE)
        door.write_whole(path, settings_module.to_json(fingerprint))
    try:
        return run.run()
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
        raise Diverged(f"{settings.output_dir}: {error}. {advice}", account=str(error)) from error


def has_content(path: str) -> bool:
    """Whether `path` is a folder with something in it."""
    if not door.is_remote(path):
        return os.path.isdir(path) and bool(os.listdir(path))
    import tensorflow as tf

    return bool(tf.io.gfile.isdir(path)) and bool(tf.io.gfile.listdir(path))
