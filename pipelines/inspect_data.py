"""Inspects a data directory: verifies every byte and every record, and shows what is in it.

Verified are both checksums of each record, that it holds exactly the features of the record contract, that ids,
segments, masks and labels are as they must be, and that records, bytes and SHA-256 of each shard, the piece counts and
the tokenizer are those that dataset.json tells of. The first broken record of each shard is named; exit code 1.

Figures follow: lengths, duplicates, unknown tokens, masks. Where it is known what a figure should be, a verdict stands
beside it: "ok", or "NOT ok" if it is off by more than four standard errors, which is a warning and no failure.
Dynamic records hold no masks; they are drawn here for one epoch as static records would have them.

Examples:
  python -m pipelines.inspect_data --data_dir=data
  python -m pipelines.inspect_data --data_dir=data --show=5 --html=report.html
"""

from __future__ import annotations

import os
import textwrap
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from absl import flags, logging

from albert_tf import door

if TYPE_CHECKING:
    from pipelines.audit.report import ShownExample

_MOST_SHOWN = 1000
_WIDTH = 100  # columns

DATA_DIR = flags.DEFINE_string("data_dir", None, "Folder made by pipelines.build_pretraining_data.")
SHOW = flags.DEFINE_integer("show", 0, "Examples to show in words, chosen evenly over the directory.")
HTML = flags.DEFINE_string("html", None, "File to write the report to, with plots; it needs no other file.")


def main() -> None:
    from pipelines import dataset
    from pipelines.audit import inspection, report

    if not 0 <= SHOW.value <= _MOST_SHOWN:
        raise door.UsageError(f"show must be in [0, {_MOST_SHOWN}], got {SHOW.value}")
    if HTML.value:
        _check_report(HTML.value)
    data = dataset.read_dataset(DATA_DIR.value)
    began = time.monotonic()
    with door.progress(total=data.num_examples, description="inspecting", unit="examples") as bar:
        found = inspection.inspect(data, show=SHOW.value, advance=bar.advance)
    seconds = time.monotonic() - began
    for table in report.tables(found):
        door.print_table(*table)
    _print_examples(report.shown_examples(found))
    for fault in found.faults:
        print(report.printable(fault))
    if HTML.value:
        from pipelines.audit import html_report

        door.write_whole(HTML.value, html_report.render(found))
        logging.info("wrote %s", HTML.value)
    for figure in report.failed(found):
        logging.warning("NOT ok: %s", figure)
    size, verifying = found.bytes / 1e6, max(seconds - found.drawing_seconds, 1e-9)
    logging.info("%.1f MB verified in %.1f s, %.1f MB/s", size, verifying, size / verifying)
    if data.masking == "dynamic":
        logging.info("masks drawn in %.1f s more", found.drawing_seconds)
    if found.faults:
        first = report.printable(found.faults[0])
        raise door.UserError(f"{first}; {found.broken_shards} of {len(data.shards)} shards are broken")


def _check_report(path: str) -> None:
    """Refuses what is no file for a report, before the work: nothing else must be overwritten."""
    if not path.endswith((".html", ".htm")):
        raise door.UsageError(f"html must be a file name that ends in .html, got {path}")
    if door.is_remote(path):
        return
    if os.path.isdir(path):
        raise IsADirectoryError(21, "is a folder, a file was expected", path)
    if not os.path.isdir(os.path.dirname(path) or "."):
        raise FileNotFoundError(2, "no such folder", os.path.dirname(path))


def _print_examples(examples: Sequence[ShownExample]) -> None:
    """Prints examples as they are: what looks like markup in a text is none."""
    for example in examples:
        print(f"\n{example.title}")
        for segment in example.segments:
            print(_wrapped(f"  {segment.name}: ", segment.text))
        hidden = [label if label == shown else f"{label} (shown: {shown})" for label, shown in example.hidden]
        print(_wrapped("  masked: ", " | ".join(hidden) or "nothing"))


def _wrapped(start: str, text: str) -> str:
    return textwrap.fill(text, _WIDTH, initial_indent=start, subsequent_indent=" " * len(start), break_on_hyphens=False)


if __name__ == "__main__":
    door.run(main, required=["data_dir"])
