"""What an inspection found, as tables and as readable examples; the terminal and the HTML file show the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from albert_tf.data.manifest import DataDirectory
from albert_tf.tokenizer_base import Tokenizer
from pipelines.audit.figures import STANDARD_ERRORS, Figure, binomial
from pipelines.audit.inspection import Example, Inspection, has_labels

OK, NOT_OK = "ok", "NOT ok"

_LABEL_1 = {"sop": "exchanged segments", "nsp": "a second segment of another document"}

_ANSWERS = {
    "sop": (", not swapped (label 0)", ", swapped (label 1)"),
    "nsp": (", both of one document (label 0)", ", B of another document (label 1)"),
    "none": ("", ""),
}
_DRAWN = {"sop": "order and masks", "nsp": "masks", "none": "masks"}
_BINS, _BAR_WIDTH = 16, 40
_LONGEST_RUN = 8  # words; longer ones share a row
_JOINERS = "\u200c\u200d"  # invisible, but part of how some scripts are spelled


class Table(NamedTuple):
    """Rows of text under a title."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


class ShownSegment(NamedTuple):
    """One segment as the model sees it: "A" (earlier in the text) or "B", and its text."""

    name: str
    text: str


class ShownExample(NamedTuple):
    """One example in words. `hidden` holds, for each run of masked words, what stood there and what is shown."""

    title: str
    segments: list[ShownSegment]
    hidden: list[tuple[str, str]]


def tables(found: Inspection) -> list[Table]:
    """All tables of the report."""
    if not found.figures.examples:
        return []
    return [_counts(found), _lengths(found), _masks(found), _runs(found)]


def failed(found: Inspection) -> list[str]:
    """What lies outside of its range, one phrase each."""
    return [f"{row[0]} {row[1]}" for table in tables(found) for row in table.rows if row[-1] == NOT_OK]


def drawn_note(found: Inspection) -> str:
    """Where the masks come from."""
    if found.data.masking == "static":
        return "in the records"
    return f"drawn here, for one epoch, as static records would have them (seed {found.data.seed})"


def _counts(found: Inspection) -> Table:
    figures, data = found.figures, found.data
    examples = figures.examples
    broken = (str(found.broken_shards), "0", OK if not found.broken_shards else NOT_OK)
    rows = [
        (f"broken shards of {len(data.shards):,}", *broken),
        ("examples", f"{examples:,}", f"{data.num_examples:,}", OK if examples == data.num_examples else NOT_OK),
        ("tokens in segments", f"{figures.tokens:,}", "", ""),
        _row("padding, of all positions", figures.padding()),
        _row("unknown, of all tokens", Figure(figures.unknown / max(1, figures.tokens))),
        _row("examples equal to another one", Figure(figures.duplicates() / examples)),
    ]
    if data.sentence_objective != "none":
        # The records do not tell; that labels and counts agree is checked where both are there.
        strangers = data.counts.get("examples_with_stranger", 0)
        rows.append(_row("examples across documents, as counted in the build", Figure(strangers / examples)))
    if has_labels(data):
        share = binomial(figures.labels_1, examples, 0.5)
        # The original gives label 1 to every chunk of one sentence.
        share = Figure(share.measured) if data.original_compatible else share
        rows.append(_row(f"examples with {_LABEL_1[data.sentence_objective]} (label 1)", share))
    return Table(f"{data.path}: counts", ("what", "found", _range_title(), "verdict"), rows)


def _range_title() -> str:
    return f"expected (range: {STANDARD_ERRORS:.0f} standard errors)"


def _row(name: str, figure: Figure) -> tuple[str, str, str, str]:
    """A row of four; without a verdict where nothing is expected."""
    measured = f"{figure.measured:.3%}"
    if figure.expected is None:
        return name, measured, "", ""
    expected = f"{figure.expected:.3%} ({figure.lowest:.3%} to {figure.highest:.3%})"
    return name, measured, expected, OK if figure.is_ok else NOT_OK


def length_bins(found: Inspection) -> list[tuple[int, int, int]]:
    """(first length, last length, examples) of each bin of real positions, up to S."""
    S = found.data.max_seq_length
    width = -(-S // _BINS)
    return [
        (begin, min(begin + width - 1, S), int(found.figures.lengths[begin : begin + width].sum()))
        for begin in range(1, S + 1, width)
    ]


def run_lengths(found: Inspection) -> list[tuple[str, int]]:
    """(length in words, runs of masked words of this length); the last row holds all longer ones."""
    runs = found.figures.masks.runs
    rows = [(str(words), int(runs[words])) for words in range(1, min(len(runs), _LONGEST_RUN + 1))]
    if len(runs) > _LONGEST_RUN + 1:
        rows.append((f"{_LONGEST_RUN + 1} and more", int(runs[_LONGEST_RUN + 1 :].sum())))
    return rows


def _histogram(bins: list[tuple[str, int]]) -> list[tuple[str, ...]]:
    """Rows of label, count, share and bar."""
    total, most = max(1, sum(count for _, count in bins)), max([1, *(count for _, count in bins)])
    return [
        (label, f"{count:,}", f"{count / total:.1%}", "#" * round(_BAR_WIDTH * count / most)) for label, count in bins
    ]


def _lengths(found: Inspection) -> Table:
    bins = [(f"{begin} to {end}" if end > begin else str(end), count) for begin, end, count in length_bins(found)]
    title = f"{found.data.path}: lengths, with [CLS] and [SEP]"
    return Table(title, ("positions", "examples", "share", ""), _histogram(bins))


def _masks(found: Inspection) -> Table:
    masks, data = found.figures.masks, found.data
    rows = [
        ("predictions", f"{masks.masked:,}", "", ""),
        _row(f"predictions, of real positions (masked_lm_prob {data.masked_lm_prob:g})", found.figures.masked()),
        *(_row(f"predictions that show {name}", figure) for name, figure in found.figures.shown().items()),
        ("words that are masked in part", f"{masks.words_cut:,}", "0", OK if not masks.words_cut else NOT_OK),
        _row(
            f"examples with the most predictions ({data.max_predictions_per_seq})",
            Figure(masks.full / found.figures.examples),
        ),
    ]
    return Table(f"{data.path}: masks, {drawn_note(found)}", ("what", "found", _range_title(), "verdict"), rows)


def _runs(found: Inspection) -> Table:
    title = f"{found.data.path}: runs of adjacent masked words "
    return Table(title, ("words", "runs", "share", ""), _histogram(run_lengths(found)))


def shown_examples(found: Inspection) -> list[ShownExample]:
    """The examples that were kept, in words; none if the tokenizer is broken."""
    if found.tokenizer is None:
        return []
    return [_shown(example, found.tokenizer, found.data) for example in found.examples]


def _shown(example: Example, tokenizer: Tokenizer, data: DataDirectory) -> ShownExample:
    rows = example.rows
    ids, shown_ids = rows.ids[0], rows.shown_ids[0]
    first, real = int(rows.first_lengths[0]), int(rows.real_lengths[0])
    order = _ANSWERS[data.sentence_objective][int(rows.labels[0])]
    drawn = "" if data.masking == "static" else f", {_DRAWN[data.sentence_objective]} drawn here"
    names = "BA" if rows.is_swapped[0] else "A" if data.sentence_objective == "none" else "AB"
    spans = zip(names, ((1, first + 1), (first + 2, real - 1)), strict=False)
    return ShownExample(
        title=f"{printable(example.path)}: record {example.number}: {real} positions{order}{drawn}",
        segments=[ShownSegment(name, _joined(ids, shown_ids, *span, tokenizer)) for name, span in spans],
        hidden=[
            (_joined(ids, ids, *span, tokenizer), _joined(ids, shown_ids, *span, tokenizer))
            for span in _hidden_runs(rows.is_masked[0])
        ],
    )


def _hidden_runs(is_masked: np.ndarray) -> Iterator[tuple[int, int]]:
    edges = np.diff(is_masked.astype(np.int8), prepend=0, append=0)
    yield from zip(np.flatnonzero(edges > 0).tolist(), np.flatnonzero(edges < 0).tolist(), strict=True)


def _joined(ids: np.ndarray, shown_ids: np.ndarray, begin: int, end: int, tokenizer: Tokenizer) -> str:
    """Text of the positions `begin:end` as shown; a mask has the space that stood before what it hides."""
    text = ""
    for label, shown in zip(ids[begin:end].tolist(), shown_ids[begin:end].tolist(), strict=True):
        if shown != tokenizer.mask_id:
            text += tokenizer.shown_piece(shown)
        else:
            text += " " * tokenizer.shown_piece(label).startswith(" ") + tokenizer.id_to_piece(shown)
    return printable(text.strip())


def printable(text: str) -> str:
    """`text` with whatever has no shape of its own, such as control characters, written as an escape."""
    return "".join(c if c.isprintable() or c in _JOINERS else c.encode("unicode_escape").decode("ascii") for c in text)
