"""Brings ALBERT weights in from other projects' files, and takes them out again.

  in    --from is what another project has written; --to becomes a model directory, for albert_tf.load_model and, with
        pretraining heads, for the exporters. Read are the original's TensorFlow 1 checkpoints, TF-Hub modules, Model
        Garden checkpoints, transformers directories, KerasHub presets and albert_zh checkpoints. The format is found by
        itself.
  out   --from is a model directory; --to is written in the format that --format names: original, transformers,
        kerashub. From one project to another it takes both steps.

Numbers are moved, never computed: every tensor keeps its bits. What became of each is printed and stands in
conversion_report.json of the new folder, which appears when it is complete.

Examples:
  python -m export.convert_checkpoint --from=albert_base/model.ckpt-best --to=models/base
  python -m export.convert_checkpoint --from=hub/albert-base-v2 --to=models/base
  python -m export.convert_checkpoint --from=models/base --to=for_transformers --format=transformers
"""

from __future__ import annotations

import collections
import shlex
from typing import TYPE_CHECKING

from absl import flags

from albert_tf import door
from albert_tf.dialects.tables import SAME
from export.artifacts import check_apart

if TYPE_CHECKING:
    from albert_tf.conversion import ConversionReport
    from albert_tf.dialects.matching import Row


def _define_flags() -> None:
    """Flags of the command; not at import, since other commands of this package use the same names."""
    from albert_tf.dialects.reading import DIALECTS
    from albert_tf.head_config import HEADS

    with door.group("Conversion"):
        flags.DEFINE_string("from", None, "Checkpoint prefix (.../model.ckpt-0), file or folder to read.")
        flags.DEFINE_string("to", None, "Folder to make.")
        flags.DEFINE_enum(
            "format",
            None,
            DIALECTS,
            "The other project's format: of --from, found by itself where this is not given; or of --to, where --from "
            "is a model directory.",
        )
        flags.DEFINE_enum(
            "head",
            None,
            HEADS,
            "The head, where the files cannot tell it, such as regression for an original checkpoint with one output. "
            "Or another one than theirs: masked_lm leaves sentence order away, encoder every head, and of a new head "
            "--allow_missing must name the weights.",
        )
        flags.DEFINE_list("labels", None, "Names of a classifier's labels, as a,b,c, where the files do not hold them.")
        flags.DEFINE_integer("start_n_top", None, "Starts that a SQuAD 2.0 head goes on with; by default 5.", 1)
        flags.DEFINE_integer("end_n_top", None, "Ends that it gives for each of them; by default 5.", 1)
        flags.DEFINE_multi_string(
            "allow_missing",
            [],
            "Glob pattern of names, ours such as 'classifier/*' or the files' own, that may be unmatched: a weight "
            "that the files lack then starts as in a new model, a tensor without a place is left out. May be repeated.",
        )
        flags.DEFINE_bool("overwrite", False, "Replace a folder with content at --to.")


def print_report(report: ConversionReport) -> None:
    """Prints what became of each tensor, and the sums; of ignored ones how many there are for each reason."""
    other = report.source_format if report.target_format == "albert_tf" else report.target_format
    rows = [(row.ours, row.theirs, _shape(row), _how(row)) for row in report.rows if row.status == "used"]
    door.print_table("Tensors used", ("albert_tf", other, "shape", "there"), rows)
    for status, meaning in (
        ("missing", "missing: these start as in a new model"),
        ("left over", "left over: the model has no place for these"),
    ):
        names = [(row.ours or row.theirs, _shape(row)) for row in report.rows if row.status == status]
        if names:
            door.print_table(f"Tensors {meaning}", ("name", "shape"), names)
    counts = report.counts()
    print(", ".join(f"{count:,} {status}" for status, count in counts.items()))
    reasons = collections.Counter(row.note for row in report.rows if row.status == "ignored")
    for reason, count in sorted(reasons.items()):
        print(f"ignored: {count:,} x {reason}")
    for note in report.notes:
        print(f"note: {note}")


def _shape(row: Row) -> str:
    return str(list(row.our_shape or row.their_shape or ()))


def _how(row: Row) -> str:
    """How a tensor lies in the other file, and its dtype where that is not the usual one."""
    parts = [] if row.our_shape == row.their_shape else [str(list(row.their_shape or ()))]
    parts += [] if row.note == SAME.name else [row.note]
    parts += [] if row.dtype == "float32" else [row.dtype]
    return ", ".join(parts)


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
    settings = {name: getattr(values, name) for name in ("labels", "start_n_top", "end_n_top")}
    report = conversion.convert(
        source,
        target,
        format=values.format,
        head=values.head,
        head_settings={name: value for name, value in settings.items() if value is not None},
        allow_missing=values.allow_missing,
        overwrite=values.overwrite,
    )
    print_report(report)
    print(f"{report.source_format} -> {report.target_format}: {target}")
    if report.target_format == conversion.OWN:
        given = [f"--a_format={values.format}"] if values.format else []
        given += [f"--head={values.head}"] if values.head else []
        if not (values.allow_missing or values.start_n_top or values.end_n_top or values.labels):  # verify has none
            paths = [f"--a={shlex.quote(source)}", f"--b={shlex.quote(target)}"]
            print(f"next: python -m export.verify {' '.join([*paths, *given])}")


if __name__ == "__main__":
    _define_flags()
    door.run(main, required=["from", "to"])
