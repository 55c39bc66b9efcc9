"""The data directory as a whole: looks at what is there, runs the pipeline, adds dataset.json and the tokenizer."""

from __future__ import annotations

import hashlib
import io
import json
import os
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import logging

from albert_tf import door
from albert_tf.tokenizer_base import Tokenizer
from pipelines import dataset, files, readers, running, unfinished
from pipelines.example_settings import ExampleSettings


def build_data_directory(
    inputs: Sequence[str],
    tokenizer: Tokenizer,
    output_dir: str,
    settings: ExampleSettings,
    *,
    reading: readers.ReaderSettings | None = None,
    runner: str = running.LOCAL_RUNNER,
    num_workers: int = 1,
    beam_options: Sequence[str] = (),
    verbose: bool = False,
) -> dict[str, Any]:
    """Makes a data directory out of text files, whole or not at all; returns what build.log.json holds.

    Args:
      inputs: names of text files or glob patterns.
      tokenizer: gives ids and word starts.
      output_dir: folder to make. A data directory there is replaced if the same settings made it.
      settings: what decides the records.
      reading: how the files are read; None for plain text with a sentence a line, and JSON lines.
      runner: "local", or the name of a Beam runner.
      num_workers: processes of the local runner.
      beam_options: further flags for Beam.
      verbose: whether Beam's own log is shown.

    Raises:
      ValueError: for input that is missing, empty or not UTF-8, or an output made with other settings.
      OSError: if a file cannot be read or written.
    """
    reading = reading or readers.ReaderSettings()
    found = files.find_files(inputs)
    output_dir = output_dir.rstrip("/")
    description = dataset.describe_settings(settings, reading, tokenizer)
    replace = _may_replace(files.join(output_dir, dataset.DATASET_FILE), description)
    files.load_beam(verbose=verbose)
    from pipelines import transforms

    began = time.time()
    paths = [file.path for file in found]
    with unfinished.open_unfinished(output_dir, description, found, replace=replace) as room:
        folder = room.folder
        running.run(
            lambda pipeline, notes: transforms.build(
                pipeline,
                paths,
                reading,
                settings,
                tokenizer,
                folder,
                finished_shards=room.finished,
                progress_folder=notes,
            ),
            runner=runner,
            num_workers=num_workers,
            beam_options=beam_options,
            total=sum(file.size for file in found),
            verbose=verbose,
        )
        log = _complete(folder, settings, tokenizer, description, ",".join(inputs))
        for shard in room.finished:
            log["shards"][shard]["kept"] = True
        log = {
            "runner": "FnApiRunner" if runner == running.LOCAL_RUNNER else runner,
            "num_workers": num_workers,
            "launcher": os.getpid(),
            "seconds": round(time.time() - began, 3),
            **log,
            "inputs": [file._asdict() for file in found],
        }
        door.write_whole(files.join(folder, dataset.LOG_FILE), dataset.to_json(log))
        notes = [dataset.manifest_name(shard) for shard in range(settings.num_shards)]
        notes += [transforms.COUNTS_FILE, unfinished.BUILDING_FILE]
        files.remove([files.join(folder, name) for name in notes])
    return log


def _may_replace(path: str, description: dict[str, Any]) -> bool:
    """Whether a data directory made with the same settings stands there already; `path` is its dataset.json.

    Raises:
      ValueError: if it was made with other settings.
    """
    try:
        text = files.read_bytes(path).decode("utf-8", errors="replace")
    except OSError:
        return False
    dataset.check_same_settings(text, description, path)
    logging.info("%s was made with the same settings; it will be replaced", os.path.dirname(path))
    return True


def _complete(
    folder: str, settings: ExampleSettings, tokenizer: Tokenizer, description: dict[str, Any], source: str
) -> dict[str, Any]:
    """Adds to the shards in `folder` all else but the log, and returns what that says of the work.

    Raises:
      ValueError: if there is no document or no example.
    """
    from pipelines import transforms

    work = json.loads(files.read_bytes(files.join(folder, transforms.COUNTS_FILE)))
    manifests = [transforms.read_manifest(folder, shard) for shard in range(settings.num_shards)]
    counts = Counter(work["counts"])
    for manifest in manifests:
        counts.update(manifest["counts"])
    counts["bad_input"] = len(work["bad_input"])
    if not counts.get("documents"):
        faults = (
            f" ({door.counted(counts['bad_input'], 'document')} left out as bad input)" if counts["bad_input"] else ""
        )
        raise ValueError(f"{source}: no text; one sentence a line is expected{faults}")
    if not counts.get("examples"):
        raise ValueError(f"{source}: no document of two words or more, so no example could be made")
    stream = io.BytesIO()
    np.save(stream, np.sum([manifest["piece_counts"] for manifest in manifests], axis=0, dtype=np.int64))
    door.write_whole(files.join(folder, dataset.PIECE_COUNTS_FILE), stream.getvalue())
    pieces = hashlib.sha256(stream.getvalue()).hexdigest()
    door.write_whole(files.join(folder, tokenizer.vocabulary_file), tokenizer.vocabulary)
    door.write_whole(files.join(folder, files.CONFIG_FILE), tokenizer.config.to_json())
    content = dataset.describe(description, counts, [manifest["manifest"] for manifest in manifests], pieces)
    door.write_whole(files.join(folder, dataset.DATASET_FILE), dataset.to_json(content))
    return {
        "counts": content["counts"],
        "bad_input": work["bad_input"],
        "processes": work["processes"],
        "shards": [manifest["work"] for manifest in manifests],
    }
