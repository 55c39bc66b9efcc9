"""What of a killed build is used again: shards whose manifest says all it must, and is right."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipelines import dataset, files, unfinished

DESCRIPTION = {"vocab_size": 5, "settings": {"num_shards": 3}}


def leave(folder: Path, number: int, change: Callable[[dict[str, Any]], Any] = lambda manifest: None) -> None:
    """A shard and its manifest, changed."""
    shard = folder / dataset.shard_name(number, 3)
    shard.write_bytes(b"records of shard %d" % number)
    manifest = {
        "manifest": {
            "file": shard.name,
            "examples": 2,
            "bytes": len(shard.read_bytes()),
            "sha256": hashlib.sha256(shard.read_bytes()).hexdigest(),
        },
        "counts": {"examples": 2, "tokens_out": 11},
        "piece_counts": [0, 1, 2, 3, 5],
        "work": {"process": 7, "seconds": 0.5},
    }
    change(manifest)
    (folder / dataset.manifest_name(number)).write_text(json.dumps(manifest))


def finished(tmp_path: Path) -> frozenset[int]:
    with unfinished.open_unfinished(str(tmp_path / "data"), DESCRIPTION, [], replace=False) as room:
        names = files.list_names(room.folder)
        assert [name for name in names if name.startswith("manifest")] == list(
            map(dataset.manifest_name, sorted(room.finished))
        )
        return room.finished


@pytest.fixture
def working(tmp_path: Path) -> Path:
    folder = tmp_path / "data.building"
    folder.mkdir()
    (folder / "building.json").write_text(json.dumps({**DESCRIPTION, "inputs": []}))
    leave(folder, 0)
    return folder


def test_whole_shards_are_kept(tmp_path: Path, working: Path) -> None:
    leave(working, 2)
    assert finished(tmp_path) == {0, 2}


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m["manifest"].update(file=dataset.shard_name(0, 3)),
        lambda m: m["manifest"].update(examples=3),
        lambda m: m["manifest"].update(bytes=4),
        lambda m: m["manifest"].update(sha256="0" * 64),
        lambda m: m["manifest"].pop("examples"),
        lambda m: m["manifest"].pop("sha256"),
        lambda m: m.update(manifest=[]),
        lambda m: m.pop("counts"),
        lambda m: m.update(counts=None),
        lambda m: m.pop("work"),
        lambda m: m["work"].pop("seconds"),
        lambda m: m.update(piece_counts=[0, 1, 2, 8]),
        lambda m: m.update(piece_counts=[0, 1, 2, 3, 4]),
    ],
)
def test_a_shard_with_a_wrong_manifest_is_made_again(
    tmp_path: Path, working: Path, change: Callable[[dict[str, Any]], Any]
) -> None:
    leave(working, 1, change)
    assert finished(tmp_path) == {0}


def test_a_manifest_under_another_number_is_not_taken(tmp_path: Path, working: Path) -> None:
    for number in (2, 99):
        (working / dataset.manifest_name(number)).write_bytes((working / dataset.manifest_name(0)).read_bytes())
    assert finished(tmp_path) == {0}
