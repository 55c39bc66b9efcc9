"""Inspection of a data directory: every byte of every shard is verified, and figures are taken of what it holds.

A shard is read until its first fault; the others are read all the same.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import itertools
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from albert_tf.data.manifest import DataDirectory
from albert_tf.data.shards import Shard
from albert_tf.tokenizer_base import Tokenizer
from pipelines import files
from pipelines.audit import masked_rows
from pipelines.audit.figures import Figures
from pipelines.audit.masked_rows import MaskedRows
from pipelines.audit.record_checks import RecordChecker
from pipelines.audit.record_reader import BrokenRecordError, ExampleReader, Frame, read_frames

_BATCH_POSITIONS = 1 << 17  # of all rows that are looked at together; some 20 MB of arrays
_MOST_BATCH = 1024


class Example(NamedTuple):
    """One row to show: record `number` of the shard `path`."""

    path: str
    number: int
    rows: MaskedRows  # B = 1


@dataclasses.dataclass(kw_only=True)
class Inspection:
    """What was found.

    Attributes:
      data: what dataset.json says.
      figures: of all records before the first fault of each shard.
      faults: one line for each broken shard, in their order, then one for each other file that is wrong.
      broken_shards: how many of these lines are of shards.
      bytes: of the records in the figures.
      drawing_seconds: spent on the masks of dynamic records.
      examples: rows to show, in the order of the directory.
      tokenizer: None if its files are broken.
    """

    data: DataDirectory
    figures: Figures
    faults: list[str] = dataclasses.field(default_factory=list)
    broken_shards: int = 0
    bytes: int = 0
    drawing_seconds: float = 0.0
    examples: list[Example] = dataclasses.field(default_factory=list)
    tokenizer: Tokenizer | None = None


def inspect(data: DataDirectory, *, show: int = 0, advance: Callable[[int], None] = lambda count: None) -> Inspection:
    """Verifies the data directory and takes its figures.

    Args:
      data: `read_dataset` of it.
      show: examples to keep, chosen evenly over the directory.
      advance: called with the number of records that were looked at since the last call.
    """
    found = Inspection(data=data, figures=Figures(data))
    shards = _ShardInspector(found, advance)
    show = min(show, data.num_examples)
    wanted = [(2 * i + 1) * data.num_examples // (2 * show) for i in range(show)]
    before = 0
    for shard in data.shards:
        numbers = {number - before for number in wanted}
        fault = shards.inspect(shard, before, numbers)
        if fault is not None:
            found.faults.append(f"{shard.path}: {fault}")
        before += shard.examples
    found.broken_shards = len(found.faults)
    found.faults += _check_pieces(found) + _check_counts(found) + _check_tokenizer(found)
    return found


class _ShardInspector:
    """Inspects one shard after the other.

    Args:
      found: to add rows and examples to.
      advance: see `inspect`.
    """

    def __init__(self, found: Inspection, advance: Callable[[int], None]):
        self._found = found
        self._advance = advance
        self._reader = ExampleReader(found.data.features())
        self._checker = RecordChecker(found.data)

    def inspect(self, shard: Shard, before: int, wanted: set[int]) -> str | None:
        """What is first found wrong with a shard, None if nothing is.

        Args:
          shard: what it should be.
          before: examples in the shards before this one.
          wanted: numbers of the records to keep for showing, those beyond `shard.examples` left aside.
        """
        digest = hashlib.sha256()
        batch_size = max(1, min(_MOST_BATCH, _BATCH_POSITIONS // self._found.data.max_seq_length))
        records = size = 0
        try:
            with contextlib.closing(files.open_to_read(shard.path)) as stream:
                for frames, cut in _batches(read_frames(stream, digest), batch_size):
                    fault = self._inspect_batch(frames, shard, before, wanted)
                    self._advance(len(frames))
                    if fault is not None or cut is not None:
                        return fault or str(cut)
                    records += len(frames)
                    size = frames[-1].end
        except OSError as error:
            return error.strerror or str(error)
        for name, counted, said in (
            ("records", records, shard.examples),
            ("bytes", size, shard.bytes),
            ("SHA-256", digest.hexdigest(), shard.sha256),
        ):
            if counted != said:
                return f"{name}: {counted}, dataset.json says {said}"
        return None

    def _inspect_batch(self, frames: list[Frame], shard: Shard, before: int, wanted: set[int]) -> str | None:
        """The first fault in the records, with its place; adds the rows before it to the figures."""
        data = self._found.data
        columns, fault = self._reader.read_columns([frame.payload for frame in frames])
        if (earlier := self._checker.check(columns)) is not None:
            fault = earlier
            columns, _ = self._reader.read_columns([frame.payload for frame in frames[: fault[0]]])
        sound = frames if fault is None else frames[: fault[0]]
        if sound:
            if data.masking == "static":
                rows = masked_rows.read_static(columns, data)
            else:
                began = time.monotonic()
                rows = masked_rows.draw(columns, data, before + sound[0].number)
                self._found.drawing_seconds += time.monotonic() - began
            self._found.figures.add(rows)
            self._found.bytes += sound[-1].end - sound[0].offset
            for row, frame in enumerate(sound):
                if frame.number in wanted and frame.number < shard.examples:
                    self._found.examples.append(Example(shard.path, frame.number, rows.one(row)))
        if fault is None:
            return None
        frame = frames[fault[0]]
        return str(BrokenRecordError(frame.number, frame.offset, fault[1]))


def _batches(frames: Iterator[Frame], size: int) -> Iterator[tuple[list[Frame], BrokenRecordError | None]]:
    """Frames in lists of `size`; with the last list comes the fault that ends the file early, if there is one."""
    while True:
        batch: list[Frame] = []
        try:
            for frame in itertools.islice(frames, size):
                batch.append(frame)  # one by one: those before a fault are kept
        except BrokenRecordError as error:
            yield batch, error
            return
        if not batch:
            return
        yield batch, None


def _check_pieces(found: Inspection) -> list[str]:
    """Faults of piece_counts.npy."""
    name, digest = found.data.piece_counts
    path = files.join(found.data.path, name)
    try:
        content = files.read_bytes(path)
    except OSError as error:
        return [f"{path}: {error.strerror or error}"]
    if (is_found := hashlib.sha256(content).hexdigest()) != digest:
        return [f"{path}: SHA-256: {is_found}, dataset.json says {digest}"]
    try:
        counts = np.load(io.BytesIO(content), allow_pickle=False)
    except (ValueError, EOFError) as error:
        return [f"{path}: not a NumPy array: {error}"]
    if counts.shape != found.figures.piece_counts.shape:
        return [f"{path}: shape {counts.shape}, dataset.json says a vocabulary of {found.data.vocab_size}"]
    wrong = np.flatnonzero(counts != found.figures.piece_counts)
    if found.broken_shards or not len(wrong):
        return []
    first = int(wrong[0])
    return [f"{path}: id {first}: {counts[first]}, the records hold it {found.figures.piece_counts[first]} times"]


def _check_counts(found: Inspection) -> list[str]:
    """Faults of the counts in dataset.json; nothing is said if a shard is broken."""
    figures, data = found.figures, found.data
    counted = {"examples": figures.examples, "tokens_out": figures.tokens}
    if data.masking == "static":
        counted["positions_real"] = figures.real
        counted["positions_masked"] = figures.masks.masked
    if found.broken_shards:
        return []
    faults = [
        f"{data.source}: counts: {name} is {data.counts[name]}, the records hold {value}"
        for name, value in counted.items()
        if data.counts.get(name, value) != value
    ]
    if has_labels(data):
        names = ["examples_with_stranger"] if data.sentence_objective == "nsp" else ["examples_swapped"]
        if data.original_compatible and data.sentence_objective == "sop":
            names.append("examples_with_stranger")
        said, held = sum(data.counts.get(name, 0) for name in names), figures.labels_1
        if said != held:
            told = " and ".join(names)
            faults.append(f"{data.source}: counts: {told} make {said}, the records hold {held} labels of 1")
    return faults


def has_labels(data: DataDirectory) -> bool:
    """Whether the records say which of the two the second segment is."""
    return data.sentence_objective == "nsp" or (data.masking == "static" and data.sentence_objective == "sop")


def _check_tokenizer(found: Inspection) -> list[str]:
    """Faults of the tokenizer's files and of what dataset.json says of its ids; sets `found.tokenizer`."""
    data = found.data
    try:
        tokenizer = files.read_tokenizer(data.path if data.path.endswith("/") else f"{data.path}/")
    except (OSError, ValueError) as error:
        return [f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)]
    expected = {
        "tokenizer digest": (data.tokenizer_digest, tokenizer.digest),
        "vocab_size": (data.vocab_size, tokenizer.vocab_size),
        "special_ids": (
            dict(data.special_ids),
            {
                "pad": tokenizer.pad_id,
                "unk": tokenizer.unk_id,
                "cls": tokenizer.cls_id,
                "sep": tokenizer.sep_id,
                "mask": tokenizer.mask_id,
            },
        ),
        "excluded_replacement_ids": (sorted(data.excluded_replacement_ids), sorted(tokenizer.special_ids)),
    }
    faults = [
        f"{data.source}: {name} must be the tokenizer's, {actual}, got {said}"
        for name, (said, actual) in expected.items()
        if said != actual
    ]
    if not faults:
        found.tokenizer = tokenizer
    return faults
