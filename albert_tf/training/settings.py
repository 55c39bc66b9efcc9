"""Settings of a run and of pretraining: all that it depends on, checked when made, and what a resume must keep."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.config import AlbertConfig
from albert_tf.features import LONGEST_NGRAM
from albert_tf.json_object import parse_object
from albert_tf.training import stages
from albert_tf.training.cluster import Cluster, find_cluster
from albert_tf.training.stages import Stage

OPTIMIZERS = ("lamb", "adamw")
STRATEGIES = ("auto", "cpu", "mirrored", "multi_worker", "tpu")
DTYPES = ("float32", "bfloat16", "float16", "float64")
SKIP_PADDING = ("auto", "yes", "no")
SETTINGS_FILE = "settings.json"

# What decides the weights of any run. The rest (where, how often, on which devices) may change when it goes on.
DECISIVE = (
    "train_batch_size",
    "num_train_steps",
    "num_warmup_steps",
    "learning_rate",
    "optimizer",
    "weight_decay",
    "clip_norm",
    "moving_average_decay",
    "seed",
    "dtype",
    "skip_padding",
)

# Settings that are digests, and what it means that they differ.
_DIGESTS = {"data": "other training data", "start": "other weights to start from"}

# What may differ between the workers of a run.
_OF_ONE_WORKER = (
    "data_dir",
    "eval_data_dir",
    "model",
    "output_dir",
    "worker_hosts",
    "worker_index",
    "keep_checkpoints",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunSettings:
    """What every training run depends on. Field names are the doors' flags.

    Attributes:
      output_dir: folder of the run: settings, checkpoints, metrics, and at the end `model/`.
      strategy: "auto" takes every GPU there is, else the CPU.
      num_devices: devices for "mirrored": None takes all GPUs; without GPUs, logical CPUs.
      tpu: name of the TPU for "tpu"; "local" for one on this machine.
      tpu_zone: Google Cloud zone of a TPU given by name; empty takes that of this machine.
      gcp_project: Google Cloud project of a TPU given by name; empty takes that of this machine.
      worker_hosts: for "multi_worker": "host:port" of each worker, worker 0 first; empty takes TF_CONFIG.
      worker_index: which of them this process is.
      train_batch_size: examples of a step, over all devices.
      num_train_steps: steps of the whole run.
      num_warmup_steps: steps over which the learning rate rises.
      learning_rate: the rate the warm-up aims at.
      optimizer: "lamb" or "adamw".
      weight_decay: rate of the decoupled weight decay.
      clip_norm: largest global norm of the gradient; 0 clips nothing.
      moving_average_decay: share of the old average in each step's moving average of the weights; 0 keeps none.
      gradient_accumulation_steps: in how many micro-batches a device's share of a batch is computed.
      remat: whether the layers are computed a second time on the way back, to save memory.
      save_checkpoints_steps: steps between two checkpoints.
      save_checkpoints_minutes: minutes after which one is made in any case; None for never.
      keep_checkpoints: how many of the newest are kept.
      eval_steps: steps between two evaluations; None evaluates at the end only.
      eval_batch_size: examples of an evaluation batch, over all devices; None takes `train_batch_size`.
      log_steps: steps between two lines of metrics.jsonl.
      seed: of initial weights, order, masks and dropout, in [0, 2**31).
      dtype: "bfloat16" and "float16" compute in it and keep weights in float32, float16 with a dynamic loss scale;
        "float64" is for exact comparisons.
      skip_padding: whether the model leaves the padding out: "yes", "no", or "auto" (yes, but on a TPU).
      log_example_ids: whether the examples of each step are written to example_ids.tsv.
    """

    output_dir: str
    num_train_steps: int
    learning_rate: float
    strategy: str = "auto"
    num_devices: int | None = None
    tpu: str = ""
    tpu_zone: str = ""
    gcp_project: str = ""
    worker_hosts: Sequence[str] = ()
    worker_index: int | None = None
    train_batch_size: int = 32
    num_warmup_steps: int = 0
    optimizer: str = "lamb"
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    moving_average_decay: float = 0.0
    gradient_accumulation_steps: int = 1
    remat: bool = False
    save_checkpoints_steps: int = 1000
    save_checkpoints_minutes: float | None = None
    keep_checkpoints: int = 3
    eval_steps: int | None = None
    eval_batch_size: int | None = None
    log_steps: int = 50
    seed: int = 0
    dtype: str = "float32"
    skip_padding: str = "auto"
    log_example_ids: bool = False

    def __post_init__(self) -> None:
        at_least_one = (
            "train_batch_size",
            "num_train_steps",
            "gradient_accumulation_steps",
            "save_checkpoints_steps",
            "keep_checkpoints",
            "log_steps",
        )
        self._check_counts(at_least_one, optional=("num_devices", "eval_steps", "eval_batch_size"))
        if not 0 <= self.num_warmup_steps <= self.num_train_steps:
            limits = f"[0, num_train_steps = {self.num_train_steps}]"
            raise ValueError(f"num_warmup_steps must be in {limits}, got {self.num_warmup_steps}")
        for name in ("learning_rate", "weight_decay", "clip_norm"):
            if not 0.0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"{name} must be a finite number of at least 0, got {getattr(self, name)}")
        if self.num_train_steps >= 2**31:
            raise ValueError(f"num_train_steps must be below 2**31, got {self.num_train_steps}")
        if self.num_devices is not None and self.strategy not in ("auto", "mirrored"):
            raise ValueError(f"num_devices belongs to strategy=mirrored, got strategy={self.strategy}")
        for name in ("tpu", "tpu_zone", "gcp_project"):
            if getattr(self, name) and self.strategy != "tpu":
                raise ValueError(f"{name} belongs to strategy=tpu, got strategy={self.strategy}")
        if found := sorted(set(self.output_dir) & set("*?[]\\")):
            raise ValueError(
                "output_dir must have none of *?[]\\ in its name, which TensorFlow takes for a pattern, got "
                f"{found[0]} in {self.output_dir!r}"
            )
        if not 0.0 <= self.moving_average_decay < 1.0:
            raise ValueError(f"moving_average_decay must be in [0, 1), got {self.moving_average_decay}")
        minutes = self.save_checkpoints_minutes
        if minutes is not None and not 0.0 < minutes < float("inf"):
            raise ValueError(f"save_checkpoints_minutes must be a finite number above 0, got {minutes}")
        if not 0 <= self.seed < 2**31:
            raise ValueError(f"seed must be in [0, 2**31), got {self.seed}")
        choices = {"optimizer": OPTIMIZERS, "strategy": STRATEGIES, "dtype": DTYPES, "skip_padding": SKIP_PADDING}
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {getattr(self, name)!r}")

    def _check_counts(self, names: Sequence[str], *, optional: Sequence[str] = ()) -> None:
        """Refuses fields that are no whole numbers of at least 1; the optional ones may be None."""
        for name in (*names, *optional):
            value = getattr(self, name)
            if (value is not None or name not in optional) and (not isinstance(value, int) or value < 1):
                raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")

    def cluster(self) -> Cluster | None:
        """The workers of the run; None for a strategy of one process.

        Raises:
          ValueError: if flags or TF_CONFIG name none, or wrongly.
        """
        return find_cluster(self.strategy, self.worker_hosts, self.worker_index, os.environ)

    def check_devices(self, replicas: int) -> None:
        """Refuses a batch that the devices cannot share evenly.

        Raises:
          ValueError: saying what it must be a multiple of.
        """
        pieces = self.gradient_accumulation_steps
        for size in self.batch_sizes:
            if size % (replicas * pieces):
                raise ValueError(
                    f"train_batch_size must be a multiple of {replicas * pieces} (devices: {replicas}, "
                    f"gradient_accumulation_steps: {pieces}), got {size}"
                )

    @property
    def batch_sizes(self) -> tuple[int, ...]:
        """Examples of a step, of each stage of the run."""
        return (self.train_batch_size,)

    def same_on_all_workers(self) -> dict[str, Any]:
        """What workers of one run must agree on, ready for JSON: all but what is of one machine."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: value for name, value in fields.items() if name not in _OF_ONE_WORKER}


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingSettings(RunSettings):
    """One pretraining run. Field names are the door's flags.

    Attributes:
      data_dir: data directory to train on.
      config: shape of the model.
      eval_data_dir: held-out data directory, or None.
      max_eval_examples: held-out examples to use, from the beginning; None for all.
      shards_in_flight: shards that are read and mixed together.
      model: model directory or checkpoint to start from; None begins with a new model.
      stages: parts of the run on data of their own; none for a run on `data_dir` alone. Their steps make up
        `num_train_steps`, `data_dir` and `train_batch_size` are those of the first.
      max_ngram: longest n-gram to mask, in words, where masks are drawn while training; None takes the data's.
    """

    data_dir: str
    config: AlbertConfig
    eval_data_dir: str | None = None
    max_eval_examples: int | None = None
    shards_in_flight: int = 4
    model: str | None = None
    stages: tuple[Stage, ...] = ()
    max_ngram: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_counts(["shards_in_flight"], optional=["max_eval_examples"])
        if self.max_ngram is not None and not 1 <= self.max_ngram <= LONGEST_NGRAM:
            raise ValueError(f"max_ngram must be in [1, {LONGEST_NGRAM}], got {self.max_ngram}")
        if self.stages:
            of_stages = (self.stages[0].data_dir, stages.ends(self.stages)[-1], self.stages[0].train_batch_size)
            if of_stages != (self.data_dir, self.num_train_steps, self.train_batch_size):
                raise ValueError(
                    "data_dir, num_train_steps and train_batch_size must be those of the stages, "
                    f"{of_stages}, got {(self.data_dir, self.num_train_steps, self.train_batch_size)}"
                )

    @property
    def all_stages(self) -> tuple[Stage, ...]:
        """The stages of the run, of which there is at least one."""
        only = Stage(
            data_dir=self.data_dir,
            num_train_steps=self.num_train_steps,
            train_batch_size=self.train_batch_size,
        )
        return self.stages or (only,)

    @property
    def batch_sizes(self) -> tuple[int, ...]:
        return tuple(stage.train_batch_size for stage in self.all_stages)

    def same_on_all_workers(self) -> dict[str, Any]:
        """What workers of one run must agree on, ready for JSON: all but what is of one machine."""
        same = super().same_on_all_workers()
        sizes = [[stage.num_train_steps, stage.train_batch_size] for stage in self.all_stages]
        return {
            **same,
            "stages": sizes,
            "config": self.config.to_dict(),
            "eval_data_dir": self.eval_data_dir is not None,
        }

    def fingerprint(self, *data_digests: str, start_digest: str | None = None) -> dict[str, Any]:
        """What decides the weights, ready for JSON.

        Args:
          data_digests: of the training data's dataset.json, one for each stage.
          start_digest: of the weights to start from; None for a new model.
        """
        config = {f"config.{name}": value for name, value in self.config.to_dict().items()}
        decisive = (*DECISIVE, "shards_in_flight")
        data: dict[str, Any] = {"data": data_digests[0]}
        if self.stages:
            data = {
                "data": list(data_digests),
                "stages": [[stage.num_train_steps, stage.train_batch_size] for stage in self.stages],
            }
        start: dict[str, Any] = {} if start_digest is None else {"start": start_digest}
        if self.max_ngram is not None:
            start["max_ngram"] = self.max_ngram
        return {**data, **start, **{name: getattr(self, name) for name in decisive}, **config}


def to_json(fingerprint: Mapping[str, Any]) -> str:
    """Text of settings.json."""
    return json.dumps(fingerprint, indent=2) + "\n"


def check_same_run(text: str, fingerprint: Mapping[str, Any], source: str) -> None:
    """Refuses to go on with a run that other settings began.

    Args:
      text: content of the settings.json found in the output directory.
      fingerprint: of the run asked for.
      source: path of that file.

    Raises:
      ValueError: naming every setting that differs.
    """
    try:
        found = parse_object(text, source=source)
    except ValueError as error:
        raise ValueError(f"{error}; name another output_dir") from error
    different = [
        _DIGESTS.get(name) or f"{name} = {found.get(name)!r} there, {asked!r} asked for"
        for name in dict.fromkeys([*fingerprint, *found])
        if found.get(name) != (asked := fingerprint.get(name))
    ]
    if different:
        raise ValueError(
            f"{source}: made by a run with other settings ({'; '.join(different)}); name another output_dir, "
            "or remove this one to begin anew"
        )
