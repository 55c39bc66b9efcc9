"""The folder of a data directory that is being built: it outlives a kill, and finished shards in it are used again.

OUTPUT_DIR.building/
  building.json           settings and input of the run
  pretrain-*.tfrecord     shards; one is finished when its manifest is there
  manifest-*.json         what the writer of a shard says about it

The folder gets the name OUTPUT_DIR when everything is there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from absl import logging

from albert_tf import door
from albert_tf import files as whole_files
from pipelines import dataset, files

ENDING = ".building"
BUILDING_FILE = "building.json"

_MANIFEST = re.compile(r"manifest-(\d{5})\.json")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Unfinished:
    """A folder to build in.

    Attributes:
      folder: its path.
      finished: numbers of the shards that an earlier run finished.
    """

    folder: str
    finished: frozenset[int]


@contextlib.contextmanager
def open_unfinished(
    output_dir: str, description: Mapping[str, Any], inputs: Sequence[files.InputFile], *, replace: bool
) -> Iterator[Unfinished]:
    """Folder to build `output_dir` in, with what a killed run with the same settings and input left there.

    It becomes `output_dir` when the block ends. If the block is interrupted, or something fails that is no fault of the
    input, it stays where a shard in it is finished; otherwise it is removed.

    Args:
      output_dir: the data directory to make.
      description: settings that decide the records.
      inputs: files that are read.
      replace: whether a data directory there is replaced.

    Raises:
      ValueError: if another run works in the folder, or one with other settings left it.
      OSError: if it cannot be made.
    """
    whole_files.check_directory(output_dir, replace=replace)
    folder = f"{output_dir}{ENDING}"
    whole_files.make_directory(folder)
    with whole_files.lock_directory(folder):
        finished = _take_over(folder, description, inputs)
        try:
            yield Unfinished(folder=folder, finished=finished)
            whole_files.move_directory(folder, output_dir, replace=replace)
        except BaseException as error:
            kept = len(_manifests(folder))
            if kept and not isinstance(error, ValueError):  # which is a fault of the input
                shards = door.counted(kept, "finished shard")
                logging.warning("kept %s in %s; the same command goes on from there", shards, folder)
            else:
                whole_files.remove_directory(folder)
            raise


def _take_over(folder: str, description: Mapping[str, Any], inputs: Sequence[files.InputFile]) -> frozenset[int]:
    """Numbers of the finished shards in `folder`; all else in it is removed, and building.json written."""
    path = files.join(folder, BUILDING_FILE)
    listed = [[file.path, file.size, file.modified] for file in inputs]
    try:
        content: bytes | None = files.read_bytes(path)
    except OSError:
        content = None
    finished: dict[int, str] = {}
    vocab_size, num_shards = description["vocab_size"], description["settings"]["num_shards"]
    if content is not None:
        found = dataset.check_same_settings(content.decode("utf-8", errors="replace"), description, path)
        if found.get("inputs") == listed:
            finished = {
                shard: name
                for shard, name in _manifests(folder).items()
                if shard < num_shards and _is_whole(folder, name, dataset.shard_name(shard, num_shards), vocab_size)
            }
        else:
            logging.info("the input has changed since the run that left %s; all shards are made anew", folder)
    kept = {BUILDING_FILE, *finished.values(), *(dataset.shard_name(shard, num_shards) for shard in finished)}
    files.remove([files.join(folder, name) for name in files.list_names(folder) if name not in kept])
    if content is None or not finished:
        door.write_whole(path, dataset.to_json({**description, "inputs": listed}))
    if finished:
        logging.info("kept %s of an earlier run", door.counted(len(finished), "finished shard"))
    return frozenset(finished)


def _manifests(folder: str) -> dict[int, str]:
    """Shard numbers and names of the manifests in a folder."""
    matches = map(_MANIFEST.fullmatch, files.list_names(folder))
    return {int(match[1]): match[0] for match in matches if match}


def _is_whole(folder: str, name: str, shard: str, vocab_size: int) -> bool:
    """Whether a manifest says all it must, and the file of its shard is what it says."""
    try:
        found = json.loads(files.read_bytes(files.join(folder, name)))
        manifest, counts, work = found["manifest"], found["counts"], found["work"]
        content = files.read_bytes(files.join(folder, shard))
        return (
            manifest["file"] == shard
            and manifest["examples"] == counts.get("examples", 0)
            and manifest["bytes"] == len(content)
            and manifest["sha256"] == hashlib.sha256(content).hexdigest()
            and len(found["piece_counts"]) == vocab_size
            and sum(found["piece_counts"]) == counts.get("tokens_out", 0)
            and work.keys() >= {"process", "seconds"}
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return False
