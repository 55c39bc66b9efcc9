"""Damaged files, a dataset.json that says something else, wrong use of the door."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from albert_tf.tokenizer import AlbertTokenizer
from pipelines.dataset import read_dataset
from tests.conftest import ROOT
from tests.pipelines import building
from tests.pipelines.audit.directories import change_dataset, flip, inspect, run, serialize, shard, write_shard
from tests.pipelines.conftest import make_documents, write_corpus
from tests.reference.records import parse_example, read_payloads
from tests.test_help import RUN, loaded


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (flip(40), "record 0 at byte 0: checksum does not match its bytes"),
        (flip(3), "record 0 at byte 0: damaged length"),
        (lambda path: path.write_bytes(path.read_bytes()[:-3]), r"record \d+ at byte \d+: cut off: \d+ of \d+ bytes"),
        (lambda path: path.write_bytes(path.read_bytes() * 2), r"records: \d+, dataset.json says \d+"),
        (lambda path: path.write_bytes(b""), r"records: 0, dataset.json says \d+"),
        (lambda path: path.unlink(), "No such file or directory"),
    ],
)
def test_a_damaged_file_is_named(damage: Callable[[Path], None], message: str, data: Path) -> None:
    damage(shard(data, 2))
    found = inspect(data)
    (fault,) = found.faults
    assert re.fullmatch(re.escape(f"{shard(data, 2)}: ") + message, fault)
    assert found.broken_shards == 1


def set_shard(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda dataset: dataset["shards"][1].update(values)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_shard(examples=7), "{shard}: records: {examples}, dataset.json says 7"),
        (set_shard(bytes=8), "{shard}: bytes: {bytes}, dataset.json says 8"),
        (set_shard(sha256="5" * 64), "{shard}: SHA-256: {sha256}, dataset.json says " + "5" * 64),
        (
            lambda dataset: dataset["piece_counts"].update(sha256="6" * 64),
            "{folder}/piece_counts.npy: SHA-256: {pieces}, dataset.json says " + "6" * 64,
        ),
        (
            lambda dataset: dataset["counts"].update(tokens_out=9),
            "{folder}/dataset.json: counts: tokens_out is 9, the records hold {tokens}",
        ),
        (
            lambda dataset: dataset["tokenizer"].update(digest="7"),
            "{folder}/dataset.json: tokenizer digest must be the tokenizer's, {digest}, got 7",
        ),
        (
            lambda dataset: dataset.update(excluded_replacement_ids=[0, 1, 2, 3, 4, 5]),
            "{folder}/dataset.json: excluded_replacement_ids must be the tokenizer's, [0, 1, 2, 3, 4], "
            "got [0, 1, 2, 3, 4, 5]",
        ),
    ],
)
def test_what_dataset_json_says_is_compared(
    change: Callable[[dict[str, Any]], None], message: str, data: Path, tokenizer: AlbertTokenizer
) -> None:
    dataset = json.loads((data / "dataset.json").read_text())
    entry = {**dataset["shards"][1], "shard": str(shard(data, 1)), "folder": str(data)}
    entry |= {"pieces": dataset["piece_counts"]["sha256"], "tokens": dataset["counts"]["tokens_out"]}
    change_dataset(data, change)
    found = inspect(data)
    if "excluded" in message:  # the records hold id 5, which must then be told too
        assert found.faults[-1] == message.format(**entry)
        return
    assert found.faults == [message.format(**entry, digest=tokenizer.digest)]
    assert found.broken_shards == ("{shard}" in message)


@pytest.mark.parametrize(("objective", "named"), [("sop", "examples_swapped"), ("nsp", "examples_with_stranger")])
def test_labels_are_compared_with_the_objective(
    objective: str, named: str, tmp_path: Path, tokenizer: AlbertTokenizer
) -> None:
    corpus = write_corpus(tmp_path / "c.txt", make_documents(20, seed=5))
    other = "nsp" if objective == "sop" else "sop"
    building.build(tmp_path / "data", [corpus], tokenizer, masking="static", sentence_objective=other)
    assert inspect(tmp_path / "data").faults == []
    change_dataset(tmp_path / "data", lambda dataset: dataset.update(sentence_objective=objective))
    (fault,) = inspect(tmp_path / "data").faults
    assert re.search(rf"dataset\.json: counts: {named} make 0, the records hold \d+ labels of 1", fault)


def test_piece_counts_are_compared_with_the_records(data: Path) -> None:
    counts = np.load(data / "piece_counts.npy")
    counts[[77, 78]] += [1, -1]
    np.save(data / "piece_counts.npy", counts)
    digest = hashlib.sha256((data / "piece_counts.npy").read_bytes()).hexdigest()
    change_dataset(data, lambda dataset: dataset["piece_counts"].update(sha256=digest))
    fault = f"{data}/piece_counts.npy: id 77: {counts[77]}, the records hold it {counts[77] - 1} times"
    assert inspect(data).faults == [fault]


def test_the_door_names_broken_shards(static: Path) -> None:
    payloads = [read_payloads(shard(static, index)) for index in range(3)]
    flip(-1)(shard(static, 0))
    write_shard(
        static, 2, [*payloads[2][:3], serialize({**parse_example(payloads[2][3]), "next_sentence_labels": [5]})]
    )
    done = run("--data_dir=static", "--html=r.html", "--show=1", cwd=static.parent)
    number = len(payloads[0]) - 1
    offsets = [sum(16 + len(payload) for payload in part) for part in (payloads[0][:-1], payloads[2][:3])]
    faults = [
        f"{shard(Path('static'), 0)}: record {number} at byte {offsets[0]}: checksum does not match its bytes",
        f"{shard(Path('static'), 2)}: record 3 at byte {offsets[1]}: next_sentence_labels must be 0 or 1, got 5",
    ]
    assert done.returncode == 1
    assert done.stdout.splitlines()[-2:] == faults
    error = f"pipelines.inspect_data: error: {faults[0]}; 2 of 3 shards are broken"
    assert done.stderr.splitlines()[-1] == error
    assert re.search(r"broken shards of 3 +2 +0 +NOT ok", done.stdout)
    assert "checksum does not match its bytes" in (static.parent / "r.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--data_dir=none"], 1, "none: no such folder; a data directory is wanted, as pipelines.build"),
        (["--data_dir=empty"], 1, "empty: is an empty folder; a data directory is wanted, as pipelines."),
        (["--data_dir=cut"], 1, "cut/dataset.json:1:11: not valid JSON: Expecting value"),
        (["--data_dir=other"], 1, "other/dataset.json: format must be \"albert_tf pretraining data\", got None"),
        (["--data_dir=dynamic", "--html=empty.html"], 1, "empty.html: is a folder, a file was expected"),
        (["--data_dir=dynamic", "--html=dynamic/dataset.json"], 2, "html must be a file name that ends in .html, got"),
        (["--data_dir=dynamic", "--html=nowhere/r.html"], 1, "nowhere: no such folder"),
        (["--data_dir=dynamic", "--show=-1"], 2, "show must be in [0, 1000], got -1"),
        (["--data_dir=dynamic", "--show=x"], 2, "flag --show=x: invalid literal for int() with base 10: 'x'"),
        (["--show=3"], 2, "missing --data_dir; --help explains the flags"),
        (["dynamic"], 2, "unexpected argument 'dynamic'; every value belongs to a flag, as --name=value"),
    ],
)  # fmt: skip
def test_wrong_use(arguments: list[str], code: int, message: str, dynamic: Path) -> None:
    (dynamic.parent / "empty").mkdir()
    (dynamic.parent / "empty.html").mkdir()
    (dynamic.parent / "cut").mkdir()
    (dynamic.parent / "cut" / "dataset.json").write_text('{"format":')
    (dynamic.parent / "other").mkdir()
    (dynamic.parent / "other" / "dataset.json").write_text("{}")
    done = run(*arguments, cwd=dynamic.parent)
    assert (done.returncode, done.stdout) == (code, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"pipelines.inspect_data: error: {message}")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda dataset: dataset.pop("shards"), "missing key 'shards'"),
        (lambda dataset: dataset.update(shards=[]), "the data directory holds no example"),
        (lambda dataset: dataset.update(counts=3), "counts must be an object, got 3"),
    ],
)  # fmt: skip
def test_a_wrong_dataset_json_is_refused(change: Callable[[dict[str, Any]], None], message: str, dynamic: Path) -> None:
    change_dataset(dynamic, change)
    with pytest.raises(ValueError, match=re.escape(f"{dynamic}/dataset.json: {message}")):
        read_dataset(str(dynamic))


def test_the_door_loads_no_tensorflow_and_no_beam(dynamic: Path) -> None:
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{RUN}"
    command = [sys.executable, "-c", code, "pipelines.inspect_data", "--data_dir=dynamic", "--show=2"]
    done = subprocess.run(command, cwd=dynamic.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "numpy" in loaded(done.stderr)
    assert loaded(done.stderr) & {"tensorflow", "keras", "apache_beam", "matplotlib"} == set()
