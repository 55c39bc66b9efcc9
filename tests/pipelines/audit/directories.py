"""Data directories to audit: read, broken on purpose, and written anew."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from albert_tf.features import Feature
from pipelines.audit import inspection
from pipelines.audit.inspection import Inspection
from pipelines.dataset import read_dataset
from pipelines.records import frame_record, serialize_examples
from tests.pipelines import building
from tests.reference.records import parse_example, read_payloads

Example = dict[str, list[Any]]

S, P, V = 61, 10, 211
PAD, UNK, CLS, SEP, MASK = range(5)


def inspect(folder: Path, show: int = 0) -> Inspection:
    return inspection.inspect(read_dataset(str(folder)), show=show)


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pipelines.inspect_data", *arguments]
    return subprocess.run(command, cwd=cwd, env=building.environment(), capture_output=True, text=True)


def shard(folder: Path, index: int) -> Path:
    return folder / f"pretrain-{index:05d}-of-00003.tfrecord"


def change_dataset(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = folder / "dataset.json"
    values = json.loads(path.read_text())
    change(values)
    path.write_text(json.dumps(values))


def serialize(example: Example) -> bytes:
    """One record; types are those of the values."""
    columns, contract = {}, []
    for name, values in example.items():
        is_float = isinstance(values[0], float)
        contract.append(Feature(name=name, dtype="float32" if is_float else "int64", length=None))
        columns[name] = np.array(values, dtype=np.float32 if is_float else np.int64), np.array([len(values)])
    (payload,) = serialize_examples(contract, columns)
    return payload


def write_shard(folder: Path, index: int, payloads: list[bytes]) -> None:
    """Writes a shard anew, and dataset.json so that it tells of the new bytes."""
    content = b"".join(map(frame_record, payloads))
    shard(folder, index).write_bytes(content)

    def change(values: dict[str, Any]) -> None:
        values["shards"][index].update(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())

    change_dataset(folder, change)


def edit_all(folder: Path, index: int, edit: Callable[[Example], Any]) -> None:
    """Edits every example of a shard."""
    examples = [parse_example(payload) for payload in read_payloads(shard(folder, index))]
    for example in examples:
        edit(example)
    write_shard(folder, index, [serialize(example) for example in examples])


def unmasked(example: Example) -> list[int]:
    """Row of a static record with its masks undone."""
    ids = list(example["input_ids"])
    for position, label, weight in zip(
        example["masked_lm_positions"], example["masked_lm_ids"], example["masked_lm_weights"], strict=True
    ):
        if weight:
            ids[position] = label
    return ids


def text_of(example: Example) -> tuple[int, ...]:
    """Tokens of a record in the order of the text."""
    if "segment_tokens" in example:
        return tuple(example["segment_tokens"])
    ids, real, second = unmasked(example), sum(example["input_mask"]), example["segment_ids"].index(1)
    one, two = ids[1 : second - 1], ids[second : real - 1]
    return tuple(two + one if example["next_sentence_labels"][0] else one + two)


def first_sep(example: Example) -> int:
    return example["segment_ids"].index(1) - 1


def last(example: Example) -> int:
    return sum(example["input_mask"]) - 1


def used(example: Example) -> int:
    return int(sum(example["masked_lm_weights"]))


def flip(at: int) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[at] ^= 4
        path.write_bytes(content)

    return damage
