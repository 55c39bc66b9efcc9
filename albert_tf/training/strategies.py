"""Which devices a run uses: a `tf.distribute.Strategy` by name."""

from __future__ import annotations

import os

import tensorflow as tf
from absl import logging

from albert_tf.training import interrupts
from albert_tf.training.cluster import Cluster, leave_proxies_out, wait_for_workers


def make_strategy(
    name: str,
    *,
    num_devices: int | None = None,
    tpu: str = "",
    tpu_zone: str = "",
    gcp_project: str = "",
    cluster: Cluster | None = None,
) -> tf.distribute.Strategy:
    """The strategy for `name`; call it before anything else runs in TensorFlow.

    Args:
      name: "auto" (every GPU there is, else the CPU), "cpu", "mirrored" (all GPUs, or `num_devices` logical CPUs where
        there is none), "multi_worker" (this process is one of `cluster`), or "tpu".
      num_devices: devices for "mirrored"; None takes all GPUs.
      tpu: name of the TPU for "tpu"; "local" for one on this machine; "" takes what TPU_NAME says.
      tpu_zone: Google Cloud zone of a TPU given by name; "" takes that of this machine.
      gcp_project: Google Cloud project of a TPU given by name; "" takes that of this machine.
      cluster: the workers, for "multi_worker"; they are waited for.

    Raises:
      ValueError: if there are not the devices asked for, saying what there is.
      OSError: if the workers cannot be connected.
    """
    gpus = tf.config.list_physical_devices("GPU") if name in ("auto", "mirrored") else []
    if name == "auto":
        name = "mirrored" if len(gpus) > 1 else "cpu"
        if len(gpus) == 1:
            strategy: tf.distribute.Strategy = tf.distribute.OneDeviceStrategy("/gpu:0")
            logging.info("training on 1 GPU")
            return strategy
    if name == "cpu":
        return tf.distribute.OneDeviceStrategy("/cpu:0")
    if name == "mirrored":
        return _mirrored(gpus, num_devices)
    if name == "multi_worker":
        if cluster is None:
            raise ValueError("strategy=multi_worker needs a cluster")
        return _multi_worker(cluster)
    if name == "tpu":
        return _tpu(tpu, tpu_zone, gcp_project)
    raise ValueError(f"strategy must be auto, cpu, mirrored, multi_worker or tpu, got {name!r}")


def _mirrored(gpus: list, num_devices: int | None) -> tf.distribute.Strategy:
    if gpus:
        count = num_devices or len(gpus)
        if count > len(gpus):
            raise ValueError(f"num_devices must be at most the number of GPUs, {len(gpus)}, got {count}")
        return tf.distribute.MirroredStrategy([f"/gpu:{i}" for i in range(count)])
    if num_devices is None:
        raise ValueError("strategy=mirrored found no GPU; name num_devices for that many logical CPUs, or use auto")
    tf.get_logger().setLevel("WARNING")  # it would tell of each reduction
    _split_cpu(num_devices)
    devices = [f"/cpu:{i}" for i in range(num_devices)]
    return tf.distribute.MirroredStrategy(devices, cross_device_ops=tf.distribute.ReductionToOneDevice())


def _split_cpu(count: int) -> None:
    """Makes at least `count` logical devices of the CPU."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    try:
        if len(tf.config.get_logical_device_configuration(cpu) or []) < count:
            tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * count)
    except RuntimeError as error:
        raise ValueError(f"{count} logical CPUs must be set up before TensorFlow runs anything") from error


def _multi_worker(cluster: Cluster) -> tf.distribute.Strategy:
    """This process and the other workers, connected."""
    tf.get_logger().setLevel("WARNING")  # it would tell of each collective operation
    leave_proxies_out(cluster, os.environ)
    wait_for_workers(cluster)
    job, index, _ = cluster.tasks[cluster.number]
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(cluster.jobs),
        task_type=job,
        task_id=index,
        num_accelerators={"GPU": len(tf.config.list_physical_devices("GPU"))},
        rpc_layer="grpc",
    )
    try:
        strategy: tf.distribute.Strategy = tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=resolver)
    except tf.errors.OpError as error:
        raise ConnectionError(
            f"{cluster.place(cluster.number)} cannot join the other workers ({error.message.splitlines()[0]}); end all "
            "workers, and start them again with the same command"
        ) from error
    # TensorFlow's service for several workers takes SIGTERM for itself, to tell the others, and then does not end.
    interrupts.set_again()
    return strategy


def _tpu(name: str, zone: str, project: str) -> tf.distribute.Strategy:
    """The TPU called `name`, connected and initialised."""
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
            tpu=name, zone=zone or None, project=project or None
        )
        if name != "local":
            tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, RuntimeError, OSError, tf.errors.OpError) as error:
        told = (line.strip() for line in str(getattr(error, "message", "") or error).splitlines())
        # TensorFlow's first lines say where in its graph the error was.
        said = (line for line in told if line and not line.startswith(("Graph exec", "Detected at", "<stack")))
        reason = next(said, type(error).__name__)
        raise ValueError(
            f"strategy=tpu found no TPU{f' {name!r}' if name else ''} ({reason}); "
            "on a TPU machine use the environment of `make env-tpu` and give --tpu=local, elsewhere use --strategy=auto"
        ) from error
    return tf.distribute.TPUStrategy(resolver)
