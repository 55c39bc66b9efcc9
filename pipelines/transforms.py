"""Beam wrappers round the plain functions, and the one pipeline they make.

Documents are grouped by their digest: that spreads the work over the workers, and brings equal documents together, of
which the first is used and the others are counted. Records are grouped by shard and sorted there
by their random key. Nothing in the bytes depends on files, workers, runner or order.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import IO, Any

import apache_beam as beam
from apache_beam.io import filesystems
from apache_beam.transforms import window
from apache_beam.utils import windowed_value

from albert_tf.files import naming
from albert_tf.tokenizer_base import Tokenizer
from pipelines import dataset, documents, examples, files, readers, records, shard_records
from pipelines.example_settings import ExampleSettings

COUNTS_KEY = -1  # stands among the shard numbers for "counts of one bundle"
BAD_INPUT_KEY = b""  # stands among the documents' digests for "a fault that was passed over"
COUNTS_FILE = "counts.json"
# What notes of progress are about.
TEXT_READ, EXAMPLES_MADE, EXAMPLES_WRITTEN = "text", "made", "written"

_FLUSH_BYTES = 1 << 22
_PROGRESS_SECONDS = 0.3


class ReadDocuments(beam.DoFn):
    """Path to (digest, sentences joined by line feeds) of each document, and (BAD_INPUT_KEY, JSON) of each fault.

    Args:
      settings: how to read.
    """

    def __init__(self, settings: readers.ReaderSettings):
        self._settings = settings

    def process(self, path: str) -> Iterator[tuple[bytes, str]]:
        faults: list[readers.BadInput] = []
        for document in readers.read_documents(files.read_lines(path), path, self._settings, note=faults.append):
            yield documents.document_digest(document), "\n".join(document)
        for fault in faults:
            yield BAD_INPUT_KEY, json.dumps(fault._asdict())


class BuildExamples(beam.DoFn):
    """Equal documents to (shard, [packed pair, ...]); at the end of a bundle (COUNTS_KEY, [counts]).

    Counts travel with the records because metrics and tagged outputs do not work on every runner.

    Args:
      settings: what to build.
      tokenizer: travels as bytes.
      finished_shards: shards to make no pairs for.
      progress_folder: where to note how many bytes of text are read and pairs made, or None.
    """

    def __init__(
        self,
        settings: ExampleSettings,
        tokenizer: Tokenizer,
        finished_shards: frozenset[int] = frozenset(),
        progress_folder: str | None = None,
    ):
        self._settings = settings
        self._tokenizer = tokenizer
        self._finished = finished_shards
        self._progress_folder = progress_folder

    def start_bundle(self) -> None:
        self._builder = examples.ExampleBuilder(self._settings, self._tokenizer, finished_shards=self._finished)
        self._buffer: dict[int, list[bytes]] = {}
        self._buffered = 0
        self._faults: list[dict[str, Any]] = []
        self._began = time.time()
        self._read = _Meter(self._progress_folder, TEXT_READ)
        self._made = _Meter(self._progress_folder, EXAMPLES_MADE)

    def process(self, element: tuple[bytes, Iterable[str]]) -> Iterator[tuple[int, list[Any]]]:
        digest, texts = element
        if digest == BAD_INPUT_KEY:
            self._faults += map(json.loads, texts)
            return
        for occurrence, text in enumerate(texts):
            sentences = text.split("\n")
            if occurrence:
                self._builder.count_duplicate(sentences)
            else:
                made = 0
                for shard, item in self._builder.build(sentences, digest):
                    self._buffer.setdefault(shard, []).append(item)
                    self._buffered += len(item)
                    made += 1
                self._made.add(made)
            self._read.add(len(text.encode()) + 1)
        if self._buffered > _FLUSH_BYTES:
            yield from self._flush()

    def finish_bundle(self) -> Iterator[windowed_value.WindowedValue]:
        work = {
            "counts": dict(self._builder.counts),
            "process": os.getpid(),
            "seconds": time.time() - self._began,
            "bad_input": self._faults,
        }
        self._made.flush()
        self._read.flush()
        for item in (*self._flush(), (COUNTS_KEY, [work])):
            yield windowed_value.WindowedValue(item, window.GlobalWindow().max_timestamp(), [window.GlobalWindow()])

    def _flush(self) -> Iterator[tuple[int, list[bytes]]]:
        yield from self._buffer.items()
        self._buffer, self._buffered = {}, 0


class WriteShards(beam.DoFn):
    """(shard, lists of packed pairs) to one sorted TFRecord file and its manifest; sums the counts up likewise.

    A file is written under a name of its own and renamed, so that a second attempt of the same work does no harm.

    Args:
      folder: where to write.
      settings: what to write.
      tokenizer: travels as bytes.
      progress_folder: where to note how many examples are written, or None.
    """

    def __init__(
        self, folder: str, settings: ExampleSettings, tokenizer: Tokenizer, progress_folder: str | None = None
    ):
        self._folder = folder
        self._settings = settings
        self._tokenizer = tokenizer
        self._progress_folder = progress_folder

    def process(self, element: tuple[int, Iterable[list[Any]]]) -> Iterator[int]:
        shard, groups = element
        if shard == COUNTS_KEY:
            self._write_counts([work for group in groups for work in group])
        else:
            self._write_shard(shard, sorted(item for group in groups for item in group))
        yield shard

    def _write_shard(self, shard: int, items: list[bytes]) -> None:
        name = dataset.shard_name(shard, self._settings.num_shards)
        began = time.time()
        digest, size = hashlib.sha256(), 0
        maker = shard_records.RecordMaker(self._settings, self._tokenizer)
        meter = _Meter(self._progress_folder, EXAMPLES_WRITTEN)
        temporary = files.join(self._folder, f".{name}.{uuid.uuid4().hex}")
        with self._create(temporary, name) as stream:
            for payloads in maker.make(items):
                framed = b"".join(records.frame_records(payloads))
                stream.write(framed)
                digest.update(framed)
                size += len(framed)
                meter.add(len(payloads))
        meter.flush()
        filesystems.FileSystems.rename([temporary], [files.join(self._folder, name)])
        content = {
            "manifest": {"file": name, "examples": len(items), "bytes": size, "sha256": digest.hexdigest()},
            "counts": maker.counts,
            "piece_counts": maker.piece_counts.tolist(),
            "work": {"process": os.getpid(), "seconds": time.time() - began},
        }
        self._write(dataset.manifest_name(shard), json.dumps(content).encode())

    def _write_counts(self, works: list[dict[str, Any]]) -> None:
        counts: Counter[str] = Counter()
        processes: dict[int, dict[str, Any]] = {}
        for work in works:
            counts.update(work["counts"])
            done = processes.setdefault(work["process"], {"documents": 0, "bundles": 0, "seconds": 0.0})
            done["documents"] += work["counts"].get("documents", 0)
            done["bundles"] += 1
            done["seconds"] += work["seconds"]
        faults = sorted((fault for work in works for fault in work["bad_input"]), key=lambda f: (f["file"], f["byte"]))
        found = {"counts": counts, "processes": processes, "bad_input": faults}
        self._write(COUNTS_FILE, json.dumps(found).encode())

    def _write(self, name: str, content: bytes) -> None:
        with self._create(files.join(self._folder, name), name) as stream:
            stream.write(content)

    @contextlib.contextmanager
    def _create(self, path: str, name: str) -> Iterator[IO[bytes]]:
        """A file at `path`; where it cannot be written, the error names it `name`."""
        with (
            naming(files.join(self._folder, name)),
            filesystems.FileSystems.create(path, compression_type="uncompressed") as stream,
        ):
            yield stream


def build(
    pipeline: beam.Pipeline,
    paths: Iterable[str],
    reading: readers.ReaderSettings,
    settings: ExampleSettings,
    tokenizer: Tokenizer,
    folder: str,
    *,
    finished_shards: frozenset[int] = frozenset(),
    progress_folder: str | None = None,
) -> None:
    """Adds the whole way from files to shards in `folder` to `pipeline`; `finished_shards` are there already."""
    groups = (
        pipeline
        | "Paths" >> beam.Create(sorted(paths))
        | "SpreadPaths" >> beam.Reshuffle()
        | "ReadDocuments" >> beam.ParDo(ReadDocuments(reading))
        | "GroupEqualDocuments" >> beam.GroupByKey()
        | "BuildExamples" >> beam.ParDo(BuildExamples(settings, tokenizer, finished_shards, progress_folder))
    )
    # A shard that got no example is written too, empty.
    missing = sorted(set(range(settings.num_shards)) - finished_shards)
    every_shard = pipeline | "EveryShard" >> beam.Create([(shard, []) for shard in missing])
    _ = (
        (groups, every_shard)
        | "AddEmpty" >> beam.Flatten()
        | "GroupByShard" >> beam.GroupByKey()
        | "WriteShards" >> beam.ParDo(WriteShards(folder, settings, tokenizer, progress_folder))
    )


def read_manifest(folder: str, shard: int) -> dict[str, Any]:
    """What the writer of a shard said about it."""
    manifest: dict[str, Any] = json.loads(files.read_bytes(files.join(folder, dataset.manifest_name(shard))))
    return manifest


class _Meter:
    """Notes in a file of this process how much is done, for the process that shows the progress.

    Args:
      folder: where to; None to note nothing.
      what: one of the names above.
    """

    def __init__(self, folder: str | None, what: str):
        self._folder = folder
        self._what = what
        self._waiting = 0
        self._next = 0.0

    def add(self, amount: int) -> None:
        self._waiting += amount
        if self._folder and time.monotonic() >= self._next:
            self.flush()

    def flush(self) -> None:
        if self._folder and self._waiting:
            if not os.path.isdir(self._folder):
                raise InterruptedError("the run was stopped")
            with open(os.path.join(self._folder, f"{self._what}-{os.getpid()}"), "a", encoding="ascii") as stream:
                stream.write(f"{self._waiting}\n")
            self._waiting = 0
            self._next = time.monotonic() + _PROGRESS_SECONDS


def measure_progress(folder: str, what: str) -> int:
    """How much of `what` all processes together noted as done."""
    total = 0
    for entry in os.scandir(folder):
        if entry.name.startswith(f"{what}-"):
            with open(entry.path, encoding="ascii") as stream:
                total += sum(int(line) for line in stream if line.endswith("\n"))
    return total
