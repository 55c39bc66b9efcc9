"""Runs the pretraining door with --strategy=tpu, two logical CPUs for a TPU, and tells as JSON what was used.

A program of its own, run by test_door.py: logical devices must be made before TensorFlow runs anything. Only the
resolver, the connection, the initialisation and the strategy's class are replaced. The first run is stopped by SIGTERM
once it has a checkpoint, as a machine that is taken away would be; the second goes on.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from typing import Any

import tensorflow as tf

from albert_tf import door, pretrain
from albert_tf.modeling.encoder import AlbertEncoder

seen: dict[str, Any] = {"codes": [], "calls": [], "resolvers": [], "encoded": []}


class Resolver:
    """Stands for `TPUClusterResolver`."""

    def __init__(self, tpu: str | None = None, zone: str | None = None, project: str | None = None) -> None:
        seen["resolvers"].append([tpu, zone, project])


class TwoReplicas(tf.distribute.MirroredStrategy):
    """Stands for `TPUStrategy`: a replica on each of two logical CPUs."""

    def __init__(self, resolver: Resolver) -> None:
        assert isinstance(resolver, Resolver)
        seen["calls"].append("strategy")
        super().__init__(["/cpu:0", "/cpu:1"], cross_device_ops=tf.distribute.ReductionToOneDevice())


def stop_at_checkpoint(folder: str) -> None:
    """Sends SIGTERM to this process once a checkpoint is complete: TensorFlow writes the file `checkpoint` last."""
    while not os.path.exists(os.path.join(folder, "checkpoints", "checkpoint")):
        time.sleep(0.002)
    os.kill(os.getpid(), signal.SIGTERM)


def noting(name: str) -> Any:
    """A function that notes its call with a resolver."""

    def called(resolver: Resolver) -> None:
        assert isinstance(resolver, Resolver)
        seen["calls"].append(name)

    return called


def run_door() -> None:
    try:
        door.run(pretrain.main, required=["data_dir", "output_dir", "num_train_steps", "learning_rate"])
    except SystemExit as end:
        seen["codes"].append(end.code)


def main() -> None:
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    tf.distribute.cluster_resolver.TPUClusterResolver = Resolver
    tf.config.experimental_connect_to_cluster = noting("connect")
    tf.tpu.experimental.initialize_tpu_system = noting("initialize")
    tf.distribute.TPUStrategy = TwoReplicas
    encode = AlbertEncoder.encode

    def encode_noting(self: AlbertEncoder, inputs: Any, **options: Any) -> Any:
        seen["encoded"].append([options["form"], options["training"], inputs["input_ids"].shape.as_list()])
        return encode(self, inputs, **options)

    setattr(AlbertEncoder, "encode", encode_noting)  # noqa: B010
    output_dir = next(argument for argument in sys.argv if argument.startswith("--output_dir=")).partition("=")[2]
    threading.Thread(target=stop_at_checkpoint, args=(output_dir,), daemon=True).start()
    run_door()
    run_door()
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
