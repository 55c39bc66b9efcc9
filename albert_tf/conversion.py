"""Model directories out of other projects' files, and other projects' files out of model directories.

Numbers are only moved, never computed: every weight keeps its bits and its dtype. One tensor is in memory at a time,
and no model is built. What became of each tensor stands in `conversion_report.json` of the new folder.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from albert_tf import model_directory
from albert_tf.config import AlbertConfig
from albert_tf.dialects import reading
from albert_tf.dialects.foreign_model import ForeignModel
from albert_tf.dialects.matching import MatchedWeights, Row, match
from albert_tf.dialects.tables import Entry
from albert_tf.files import exists, whole_directory, write_whole
from albert_tf.head_config import HEADS, POOLED, HeadConfig
from albert_tf.tokenizer_files import CONFIG_FILE as TOKENIZER_CONFIG_FILE
from albert_tf.weight_shapes import weight_shapes

OWN = "albert_tf"
FORMATS = (*reading.DIALECTS, OWN)
REPORT_FILE = "conversion_report.json"
_ADVICE = "name another folder, or pass --overwrite to replace it"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConversionReport:
    """What a conversion has done: `rows` holds what became of each tensor, `notes` what was decided."""

    source: str
    source_format: str
    target: str
    target_format: str
    config: AlbertConfig
    head: HeadConfig
    rows: tuple[Row, ...]
    notes: tuple[str, ...]

    def to_json(self) -> str:
        """Text of `conversion_report.json`."""
        values = {**dataclasses.asdict(self), "config": self.config.to_dict(), "head": self.head.to_dict()}
        return json.dumps({"counts": self.counts(), **values}, indent=2) + "\n"

    def counts(self) -> dict[str, int]:
        """Number of tensors by what became of them."""
        found = dict.fromkeys(("used", "missing", "left over", "ignored"), 0)
        for row in self.rows:
            found[row.status] += 1
        return found


def is_model_directory(path: str | os.PathLike[str]) -> bool:
    """Whether `path` is a model directory of ours.

    The original's folders have the same configuration file, those of transformers the same file of weights: what stands
    in its header decides.
    """
    names = (model_directory.CONFIG_FILE, model_directory.WEIGHTS_FILE)
    if not all(exists(os.path.join(path, name)) for name in names):
        return False
    try:
        return model_directory.has_own_weights(path)
    except (OSError, ValueError):  # damaged: who opens it says so
        return not exists(os.path.join(path, "config.json"))


@contextlib.contextmanager
def open_weights(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    head: str | None = None,
    head_settings: Mapping[str, Any] | None = None,
    allow_missing: Sequence[str] = (),
) -> Iterator[tuple[str, ForeignModel, MatchedWeights]]:
    """The model at `path` in any format, opened: its format, the model, and its weights by canonical name.

    Args:
      path: a model directory, or what another project has written: a checkpoint prefix, a file or a folder.
      format: a name out of `reading.DIALECTS`, or "albert_tf"; None finds it out.
      head: the head, where the files cannot tell it, or another one: what it shares with theirs is taken, the rest must
        be named by `allow_missing`.
      head_settings: other fields of `HeadConfig` that the files cannot tell, such as {"start_n_top": 3}.
      allow_missing: glob patterns of names that may be unmatched; see `match`.

    Raises:
      FileNotFoundError: if there is nothing, or a file is missing.
      ValueError: if the files are damaged, of no known format, or do not hold what their configuration asks for.
    """
    if head is not None and head not in HEADS:
        raise ValueError(f"head must be one of {', '.join(HEADS)}, got {head!r}")
    settings = dict(head_settings or {})
    if format == OWN or (format is None and is_model_directory(path)):
        name, model = OWN, _open_model_directory(path, head, settings)
    else:
        name, model = reading.open_model(path, format=format, head=head)
    with model.weights:
        if settings:
            if head is not None and allow_missing and "labels" in settings:  # of a new head: they say how many
                settings.setdefault("num_labels", len(settings["labels"]))
            model = dataclasses.replace(model, head=model.head.replace(**settings))
        yield name, model, match(model, allow_missing=allow_missing)


def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    format: str | None = None,
    head: str | None = None,
    head_settings: Mapping[str, Any] | None = None,
    allow_missing: Sequence[str] = (),
    overwrite: bool = False,
) -> ConversionReport:
    """Brings a model in or takes one out; the folder `target` appears when it is complete.

    Args:
      source: what another project has written, which becomes a model directory; or a model directory, which is written
        in another project's format.
      target: folder to make.
      format: the other project's: of `source`, where that is no model directory of ours (None finds it out), else of
        `target`.
      head: the head, where the files cannot tell it, or another one: "masked_lm" leaves sentence order away, "encoder"
        every head, and the weights of a new one must be named by `allow_missing`.
      head_settings: other fields of `HeadConfig` that the files cannot tell, such as {"start_n_top": 3}.
      allow_missing: glob patterns of names that may be unmatched; see `match`.
      overwrite: whether a folder with content at `target` is replaced.

    Raises:
      FileNotFoundError, ValueError: as `open_weights`, for a `target` with content, and for what the target's format
        cannot express.
    """
    outward = is_model_directory(source)
    if outward and format is None:
        raise ValueError(
            f"{os.fspath(source)}: is a model directory already; --format says what to write: "
            f"{', '.join(reading.WRITTEN)}"
        )
    if outward and format not in reading.WRITTEN:
        raise ValueError(f"{format!r} is read only; a model directory can be written as {', '.join(reading.WRITTEN)}")
    if not outward:
        reading.check_format(source, format)
    opened = open_weights(
        source,
        format=OWN if outward else format,
        head=head,
        head_settings=head_settings,
        allow_missing=allow_missing,
    )
    with (
        opened as (source_format, model, weights),
        whole_directory(target, replace=overwrite, advice=_ADVICE) as folder,
    ):
        report = ConversionReport(
            source=os.fspath(source),
            source_format=source_format,
            target=os.fspath(target),
            target_format=str(format) if outward else OWN,
            config=model.config,
            head=model.head,
            rows=weights.rows,
            notes=model.notes,
        )
        if outward:
            module = reading.dialect(str(format))
            notes = module.save_model(folder, model.config, model.head, weights, model.tokenizer)
            rows = _named_theirs(report.rows, module.table(model.config, model.head))
            report = dataclasses.replace(report, rows=rows, notes=(*report.notes, *notes))
        else:
            model_directory.write_model_directory(folder, model.config, model.head, weights, model.tokenizer)
        write_whole(os.path.join(folder, REPORT_FILE), report.to_json())
    return report


def _open_model_directory(path: str | os.PathLike[str], head: str | None, settings: Mapping[str, Any]) -> ForeignModel:
    """A model directory; with another `head` than its own the encoder, and what it has of that head's weights."""
    config, own = model_directory.read_config(path), model_directory.read_head_config(path)
    wanted = own
    ignored: tuple[tuple[str, str], ...] = ()
    if head is not None and head != own.head:
        wanted = HeadConfig.from_dict({"head": head, "pooler": own.pooler or head in POOLED, **settings})
        rest = weight_shapes(config, own).keys() - weight_shapes(config, wanted).keys()
        ignored = tuple((re.escape(name), f"no part of the head {head!r}") for name in sorted(rest))
    has_tokenizer = model_directory.has_tokenizer(path)
    notes: tuple[str, ...] = ()
    if not has_tokenizer:
        notes = (f"There is no {TOKENIZER_CONFIG_FILE}: the model comes without a tokenizer.",)
    return ForeignModel(
        config=config,
        head=wanted,
        table=tuple(Entry(name, name) for name in weight_shapes(config, wanted)),
        weights=model_directory.open_weights_file(path),
        ignored=ignored,
        tokenizer=model_directory.load_tokenizer(path) if has_tokenizer else None,
        notes=notes,
    )


def _named_theirs(rows: Sequence[Row], table: Sequence[Entry]) -> tuple[Row, ...]:
    """Rows of a model directory with the names, shapes and transforms that they have in the written format."""
    entries = {entry.ours: entry for entry in table}
    return tuple(
        dataclasses.replace(
            row,
            theirs=entries[row.ours].theirs,
            their_shape=tuple(entries[row.ours].transform.their_shape(row.our_shape or ())),
            note=entries[row.ours].transform.name,
        )
        if row.ours
        else row
        for row in rows
    )
