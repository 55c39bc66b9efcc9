"""Who the workers are: flags and TF_CONFIG, what is refused, proxies, and waiting."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Mapping
from typing import Any

import pytest
from absl import logging

from albert_tf.training import cluster
from tests.training.free_ports import local_hosts

HOSTS = ("10.0.0.1:2221", "10.0.0.2:2222", "[fe80::1]:2223")


def of_variable(content: Any) -> cluster.Cluster:
    return cluster.of_tf_config(json.dumps(content))


def task(job: str, index: int) -> dict[str, Any]:
    return {"cluster": {"worker": list(HOSTS[1:]), "chief": [HOSTS[0]]}, "task": {"type": job, "index": index}}


def test_flags_and_variable_name_the_same_workers() -> None:
    flags = cluster.of_hosts(HOSTS, 1)
    assert (flags.is_chief, flags.place(1), flags.jobs) == (False, "worker 1 (10.0.0.2:2222)", {"worker": list(HOSTS)})
    text = json.dumps({"cluster": {"worker": HOSTS}, "task": {"type": "worker", "index": 1}})
    assert cluster.of_tf_config(text) == flags
    for environment in ({}, {"TF_CONFIG": text}):
        assert cluster.find_cluster("multi_worker", HOSTS, 1, environment) == flags
    assert cluster.find_cluster("multi_worker", (), None, {"TF_CONFIG": text}) == flags
    assert cluster.find_cluster("cpu", (), None, {"TF_CONFIG": text}) is None


def test_a_job_of_the_chief_comes_first() -> None:
    chief, second = of_variable(task("chief", 0)), of_variable(task("worker", 1))
    assert (chief.is_chief, chief.number, second.is_chief, second.number) == (True, 0, False, 2)
    assert [second.name(number) for number in range(3)] == ["the chief", "worker 0", "worker 1"]
    assert second.jobs == {"chief": [HOSTS[0]], "worker": list(HOSTS[1:])}


@pytest.mark.parametrize(
    ("strategy", "hosts", "index", "variable", "message"),
    [
        ("cpu", HOSTS, 0, "", "worker_hosts belongs to strategy=multi_worker, got strategy=cpu"),
        ("auto", (), 0, "", "worker_index belongs to strategy=multi_worker"),
        ("multi_worker", (), None, "", "needs worker_hosts=host:port,host:port and worker_index=N, or the environment"),
        ("multi_worker", HOSTS, None, "", "worker_hosts needs worker_index beside it"),
        ("multi_worker", (), 1, "", "worker_index needs worker_hosts beside it"),
        ("multi_worker", HOSTS, 3, "", r"worker_index must be in \[0, 3\), the number of worker_hosts, got 3"),
        ("multi_worker", HOSTS, -1, "", r"worker_index must be in \[0, 3\).*got -1"),
        ("multi_worker", ("10.0.0.1",), 0, "", "worker_hosts must be host:port each, .*got '10.0.0.1'"),
        ("multi_worker", ("http://a:1",), 0, "", "must be host:port each"),
        ("multi_worker", ("a:65536",), 0, "", "must be host:port each"),
        ("multi_worker", ("a:1", "b:2", "a:1"), 0, "", "worker_hosts must all differ, got a:1 twice"),
        ("multi_worker", HOSTS, 0, json.dumps(task("worker", 1)), "say other than TF_CONFIG .worker 0 of .*give one"),
        ("multi_worker", (), None, "{", "TF_CONFIG"),
        ("multi_worker", (), None, "[]", "TF_CONFIG"),
    ],
)
def test_refusals(strategy: str, hosts: tuple[str, ...], index: int | None, variable: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        cluster.find_cluster(strategy, hosts, index, {"TF_CONFIG": variable})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cluster": None}, "cluster must be as"),
        ({"cluster": {}}, "cluster must be as"),
        ({"task": None}, "task must be as"),
        ({"cluster": {"worker": HOSTS, "ps": ["a:1"]}}, "jobs must be chief and worker, got 'ps'; leave it out"),
        ({"cluster": {"worker": HOSTS, "evaluator": ["a:1"]}}, "jobs must be chief and worker, got 'evaluator'"),
        ({"cluster": {"worker": "a:1"}}, "worker must be a list of host:port, got 'a:1'"),
        ({"cluster": {"chief": HOSTS}}, "there must be one chief, got 3"),
        ({"task": {"type": "worker", "index": 2}}, "task must be one of the cluster's, got type 'worker' and index 2"),
        ({"task": {"type": "evaluator", "index": 0}}, "task must be one of the cluster's, got type 'evaluator'"),
        ({"task": {"type": "worker"}}, "task must be one of the cluster's, got type 'worker' and index None"),
        ({"cluster": {"worker": ["a:1", "a:1"]}}, "cluster must all differ, got a:1 twice"),
    ],
)
def test_a_wrong_variable_is_refused(change: Mapping[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^TF_CONFIG: {message}"):
        of_variable({**task("worker", 1), **change})


def test_workers_are_left_out_of_proxies_and_what_is_there_stays() -> None:
    own = cluster.of_hosts(HOSTS, 0)
    environment = {"no_proxy": "localhost, 10.0.0.2"}
    cluster.leave_proxies_out(own, environment)
    assert environment["no_proxy"] == "localhost,10.0.0.2,10.0.0.1,fe80::1"
    assert environment["no_grpc_proxy"] == environment["no_proxy"]  # else it would hide the other one
    environment = {"no_grpc_proxy": "a"}
    cluster.leave_proxies_out(own, environment)
    assert environment == {"no_grpc_proxy": "a,10.0.0.1,10.0.0.2,fe80::1", "no_proxy": "10.0.0.1,10.0.0.2,fe80::1"}


def test_a_taken_port_is_one_line() -> None:
    hosts = local_hosts(2)
    with (
        contextlib.closing(socket.create_server(("", int(hosts[1].rpartition(":")[2])))),
        pytest.raises(OSError, match=f"^worker 1 cannot listen at {hosts[1]}: the port is taken already") as caught,
    ):
        cluster.wait_for_workers(cluster.of_hosts(hosts, 1))
    assert caught.value.strerror is None  # or its number and class would be shown


def test_workers_that_are_not_there_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = local_hosts(3)
    words: list[str] = []
    is_said = threading.Event()

    def note(message: str, *values: Any) -> None:
        words.append(message % values)
        is_said.set()

    monkeypatch.setattr(logging, "info", note)
    monkeypatch.setattr(cluster, "_FIRST_WORD", 0.0)
    waiting = threading.Thread(target=cluster.wait_for_workers, args=(cluster.of_hosts(hosts, 0),))
    waiting.start()
    assert is_said.wait(60)
    assert words == [f"waiting for worker 1 at {hosts[1]}, worker 2 at {hosts[2]}"]
    with contextlib.ExitStack() as stack:
        for host in hosts[1:]:
            stack.enter_context(contextlib.closing(socket.create_server(("127.0.0.1", int(host.rpartition(":")[2])))))
        waiting.join(60)
    assert not waiting.is_alive()


def test_the_chief_ends_last() -> None:
    hosts = local_hosts(2)
    chief, other = (cluster.of_hosts(hosts, number) for number in range(2))
    with contextlib.closing(socket.create_server(("127.0.0.1", int(hosts[1].rpartition(":")[2])))):
        cluster.outlast_workers(other)  # waits for nobody
        waiting = threading.Thread(target=cluster.outlast_workers, args=(chief,))
        waiting.start()
        waiting.join(1)
        assert waiting.is_alive()
    waiting.join(60)
    assert not waiting.is_alive()
