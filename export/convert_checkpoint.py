"""Brings ALBERT weights in from other projects' files, and takes them out again.

  in    --from is what another project has written; --to becomes a model directory, which every other command reads:
        the original's TensorFlow 1 checkpoints, TF-Hub modules, Model Garden checkpoints, transformers directories,
        KerasHub presets, albert_zh checkpoints. The format is found by itself.
  out   --from is a model directory; --to is written in the format that --format names: original, transformers,
        kerashub.

Numbers are moved, never computed: every tensor keeps its bits. What became of each is printed and stands in
conversion_report.json of the new folder, which appears when it is complete.

Examples:
  python -m export.convert_checkpoint --from=albert_base/model.ckpt-best --to=models/base
  python -m export.convert_checkpoint --from=hub/albert-base-v2 --to=models/base
  python -m export.convert_checkpoint --from=models/base --to=for_transformers --format=transformers
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from absl import flags

from albert_tf import door
from export.artifacts import check_apart

if TYPE_CHECKING:
    from albert_tf.conversion import ConversionReport

FORMATS = ("original", "tf_hub", "model_garden", "transformers", "kerashub", "albert_zh")


def _define_flags() -> None:
    """Flags of the command; not at import, since other commands of this package use the same names."""
    from albert_tf.head_config import HEADS

    with door.group("Conversion"):
        flags.DEFINE_string("from", None, "Checkpoint prefix (.../model.ckpt-0), file or folder to read.")
        flags.DEFINE_string("to", None, "Folder to make.")
        flags.DEFINE_enum(
            "format",
            None,
            FORMATS,
            "The other project's format: of --from, found by itself where this is not given; or of --to, where --from "
            "is a model directory.",
        )
        flags.DEFINE_enum(
            "head",
            None,
            HEADS,
            "The head, where the files cannot tell it, such as regression for an original checkpoint with one output. "
            "For a model directory the part to take out: masked_lm leaves sentence order away, encoder every head.",
        )
        flags.DEFINE_multi_string(
            "allow_missing",
            [],
            "Glob pattern of names that may be unmatched: a weight that the files lack then starts as in a new model, "
            "a tensor without a place is left out. May be repeated.",
        )
        flags.DEFINE_bool("overwrite", False, "Replace a folder with content at --to.")


def print_report(report: ConversionReport) -> None:
    """Prints what became of each tensor, and the sums."""
    rows = [
        (
            row.status,
            row.ours or "-",
            row.theirs,
            _shape(row.our_shape),
            _shape(row.their_shape),
            row.dtype or "-",
            row.note,
        )
        for row in report.rows
    ]
    columns = ("tensor", "ours", report.target_format if report.target_format != "albert_tf" else report.source_format)
    door.print_table("What became of each tensor", (*columns, "our shape", "theirs", "dtype", "how"), rows)
    counts = report.counts()
    print(", ".join(f"{count:,} {status}" for status, count in counts.items()))
    for note in report.notes:
        print(f"note: {note}")


def _shape(shape: tuple[int, ...] | None) -> str:
    return "-" if shape is None else str(list(shape))


def main() -> None:
    from albert_tf import conversion

    values = flags.FLAGS
    source, target = values["from"].value, values.to
    check_apart(target, source)
    if values.format is None and conversion.is_model_directory(source):
        raise door.UsageError(
            f"--from={source} is a model directory already; name what to write with --format: original, transformers "
            "or kerashub"
        )
    report = conversion.convert(
        source,
        target,
        format=values.format,
        head=values.head,
        allow_missing=values.allow_missing,
        overwrite=values.overwrite,
    )
    print_report(report)
    print(f"{report.source_format} -> {report.target_format}: {target}")
    if report.target_format == conversion.OWN:
        print(f"next: python -m export.verify --a={shlex.quote(source)} --b={shlex.quote(target)}")


if __name__ == "__main__":
    _define_flags()
    door.run(main, required=["from", "to"])
