"""Who the workers of a run are, and how this process finds them before TensorFlow connects them.

Needs no TensorFlow: wrong flags are refused at once, and Ctrl-C works while workers are waited for. TensorFlow itself
waits inside its library, deaf to signals, and lets two servers share a port.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import re
import socket
import time
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

from absl import logging

from albert_tf.json_object import parse_object

TF_CONFIG = "TF_CONFIG"
_JOBS = ("chief", "worker")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\],]+):(\d{1,5})")
# Seconds between two looks for a worker, for an answer to one, and until the first and the next word about it; and for
# all others to end before the chief does.
_LOOK_EVERY, _ANSWER_WITHIN, _FIRST_WORD, _NEXT_WORD = 0.2, 2.0, 10.0, 60.0
_OUTLAST_WITHIN = 15.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cluster:
    """The workers of a run, the chief first.

    Attributes:
      tasks: job ("chief" or "worker"), number in it, and "host:port" of each.
      number: which of `tasks` this process is.
    """

    tasks: tuple[tuple[str, int, str], ...]
    number: int

    @property
    def is_chief(self) -> bool:
        """Whether this process is the one that writes."""
        return self.number == 0

    @property
    def jobs(self) -> dict[str, list[str]]:
        """Hosts by job, as in TF_CONFIG."""
        return {job: [host for name, _, host in self.tasks if name == job] for job, _, _ in self.tasks}

    def name(self, number: int) -> str:
        """What messages call a task: "worker 1", "the chief"."""
        job, index, _ = self.tasks[number]
        return f"worker {index}" if job == "worker" else "the chief"

    def place(self, number: int) -> str:
        """Name and address of a task."""
        return f"{self.name(number)} ({self.tasks[number][2]})"


def find_cluster(
    strategy: str, hosts: Sequence[str], index: int | None, environment: Mapping[str, str]
) -> Cluster | None:
    """The cluster that flags or TF_CONFIG name; None for a strategy of one process.

    Args:
      strategy: of the run.
      hosts: "host:port" of each worker; empty leaves it to TF_CONFIG.
      index: which of them this process is.
      environment: of the process.

    Raises:
      ValueError: if neither or both name the workers, differently, or what they say is wrong.
    """
    text = environment.get(TF_CONFIG, "")
    if strategy != "multi_worker":
        if hosts or index is not None:
            name = "worker_hosts" if hosts else "worker_index"
            raise ValueError(f"{name} belongs to strategy=multi_worker, got strategy={strategy}")
        return None
    if bool(hosts) != (index is not None):
        there, missing = ("worker_hosts", "worker_index") if hosts else ("worker_index", "worker_hosts")
        raise ValueError(f"{there} needs {missing} beside it")
    if not hosts and not text:
        raise ValueError(
            "strategy=multi_worker needs worker_hosts=host:port,host:port and worker_index=N, or the environment "
            f"variable {TF_CONFIG} with cluster and task"
        )
    of_flags = of_hosts(hosts, index) if index is not None else None
    of_variable = of_tf_config(text) if text else None
    if of_flags and of_variable and of_flags != of_variable:
        raise ValueError(
            f"worker_hosts and worker_index say other than {TF_CONFIG} ({_summary(of_flags)}, and "
            f"{_summary(of_variable)}); give one of them"
        )
    return of_flags or of_variable


def of_hosts(hosts: Sequence[str], index: int) -> Cluster:
    """Cluster of workers that flags name.

    Raises:
      ValueError: for a host that is no host:port or named twice, or an index that none of them has.
    """
    _check_hosts(hosts, "worker_hosts")
    if not 0 <= index < len(hosts):
        raise ValueError(f"worker_index must be in [0, {len(hosts)}), the number of worker_hosts, got {index}")
    return Cluster(tasks=tuple(("worker", number, host) for number, host in enumerate(hosts)), number=index)


def of_tf_config(text: str) -> Cluster:
    """Cluster that TF_CONFIG names: `{"cluster": {"worker": [...]}, "task": {"type": "worker", "index": 0}}`.

    Raises:
      ValueError: naming what of it is missing or wrong.
    """
    content = parse_object(text, source=TF_CONFIG)
    cluster, task = content.get("cluster"), content.get("task")
    if not isinstance(cluster, dict) or not cluster:
        raise ValueError(f'{TF_CONFIG}: cluster must be as {{"worker": ["host:port", ...]}}, got {cluster!r}')
    if not isinstance(task, dict):
        raise ValueError(f'{TF_CONFIG}: task must be as {{"type": "worker", "index": 0}}, got {task!r}')
    for job in cluster:
        if job not in _JOBS:
            raise ValueError(f"{TF_CONFIG}: jobs must be chief and worker, got {job!r}; leave it out")
        if not isinstance(cluster[job], list) or not all(isinstance(host, str) for host in cluster[job]):
            raise ValueError(f"{TF_CONFIG}: {job} must be a list of host:port, got {cluster[job]!r}")
    if len(cluster.get("chief", [])) > 1:
        raise ValueError(f"{TF_CONFIG}: there must be one chief, got {len(cluster['chief'])}")
    tasks = tuple((job, number, host) for job in _JOBS for number, host in enumerate(cluster.get(job, [])))
    _check_hosts([host for _, _, host in tasks], f"{TF_CONFIG}: cluster")
    job, index = task.get("type"), task.get("index", 0 if task.get("type") == "chief" else None)
    numbers = [number for number, (name, place, _) in enumerate(tasks) if (name, place) == (job, index)]
    if not numbers or isinstance(index, bool):
        raise ValueError(f"{TF_CONFIG}: task must be one of the cluster's, got type {job!r} and index {index!r}")
    return Cluster(tasks=tasks, number=numbers[0])


def _check_hosts(hosts: Sequence[str], source: str) -> None:
    """Refuses what is no host:port, and doubles."""
    for host in hosts:
        match = _HOST.fullmatch(host)
        if match is None or not 0 < int(match[2]) < 65536:
            raise ValueError(f"{source} must be host:port each, such as 10.0.0.1:2222, got {host!r}")
        if hosts.count(host) > 1:
            raise ValueError(f"{source} must all differ, got {host} twice")


def _summary(cluster: Cluster) -> str:
    return f"{cluster.name(cluster.number)} of {','.join(host for _, _, host in cluster.tasks)}"


def _split(host: str) -> tuple[str, int]:
    name, _, port = host.rpartition(":")
    return name.strip("[]"), int(port)


def leave_proxies_out(cluster: Cluster, environment: MutableMapping[str, str]) -> None:
    """Has workers talk to each other directly, whatever `http_proxy` and `https_proxy` say.

    gRPC would send even calls to 127.0.0.1 through the proxy. It reads no_grpc_proxy, and no_proxy where that is not
    set; what is there is kept.
    """
    names = list(dict.fromkeys(_split(host)[0] for _, _, host in cluster.tasks))
    there = {name: environment.get(name, "") for name in ("no_grpc_proxy", "no_proxy")}
    there["no_grpc_proxy"] = there["no_grpc_proxy"] or there["no_proxy"]
    for variable, text in there.items():
        kept = [part.strip() for part in text.split(",") if part.strip()]
        environment[variable] = ",".join(dict.fromkeys([*kept, *names]))


def wait_for_workers(cluster: Cluster) -> None:
    """Returns when all workers of the cluster are there; names after a while those that are not.

    A worker is there when its port takes a connection. While it waits, this process holds its own port; TensorFlow
    opens it again afterwards.

    Raises:
      OSError: if the own port cannot be had.
    """
    with _own_port(cluster):
        missing = [number for number in range(len(cluster.tasks)) if number != cluster.number]
        next_word = time.monotonic() + _FIRST_WORD
        while missing := [number for number in missing if not _answers(cluster.tasks[number][2])]:
            if time.monotonic() >= next_word:
                names = ", ".join(f"{cluster.name(number)} at {cluster.tasks[number][2]}" for number in missing)
                logging.info("waiting for %s", names)
                next_word = time.monotonic() + _NEXT_WORD
            time.sleep(_LOOK_EVERY)


def outlast_workers(cluster: Cluster) -> None:
    """On the chief, returns when the other workers have closed their ports, or after some seconds.

    TensorFlow's service for all of them lives in the chief: a worker that ends after it asks for it in vain, for half
    a minute.
    """
    until = time.monotonic() + _OUTLAST_WITHIN
    while cluster.is_chief and time.monotonic() < until:
        if not any(_answers(host) for _, _, host in cluster.tasks[1:]):
            return
        time.sleep(_LOOK_EVERY)


def _own_port(cluster: Cluster) -> Any:
    """A socket that listens on this worker's port on all of the machine's addresses, as TensorFlow will."""
    _, _, host = cluster.tasks[cluster.number]
    name, port = _split(host)
    family = socket.AF_INET6 if ":" in name else socket.AF_INET
    try:
        return contextlib.closing(socket.create_server(("", port), family=family, backlog=64))
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise OSError(f"{cluster.name(cluster.number)} cannot listen at {host}: {error.strerror}") from error
        raise OSError(
            f"{cluster.name(cluster.number)} cannot listen at {host}: the port is taken already, perhaps by a worker "
            "of an earlier start; end that one, or name another port on all workers"
        ) from error


def _answers(host: str) -> bool:
    try:
        socket.create_connection(_split(host), timeout=_ANSWER_WITHIN).close()
    except OSError:
        return False
    return True
