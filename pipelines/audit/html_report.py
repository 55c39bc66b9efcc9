"""The report of an inspection as one HTML file that needs nothing else: no script, no link, light and dark."""

from __future__ import annotations

import io
from typing import Any
from xml.etree import ElementTree

from pipelines.audit import report
from pipelines.audit.inspection import Inspection
from pipelines.audit.report import NOT_OK, Table

# Okabe and Ito's colours, which colour-blind readers tell apart.
_BLUE, _ORANGE, _GREEN = "#0072B2", "#D55E00", "#009E73"
_INK = "#010203"  # stands for the page's text colour while a plot is drawn

_STYLE = """
:root { color-scheme: light dark; --ink: #1a1a1a; --page: #ffffff; --line: #d0d0d0; --faint: #5f5f5f; --bad: #b33a00; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e6e6; --page: #16181c; --line: #3c4048; --faint: #a0a4ac; --bad: #ff9a5c; }
}
body { color: var(--ink); background: var(--page); font: 15px/1.5 system-ui, sans-serif; max-width: 62rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
h3 { font-size: .95rem; margin: 1.2rem 0 .2rem; }
h1, h2, h3, p { overflow-wrap: anywhere; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th, .faint { color: var(--faint); font-weight: normal; }
.bad { color: var(--bad); font-weight: bold; }
.scroll { overflow-x: auto; }
svg { max-width: 100%; height: auto; }
svg * { stroke-linejoin: round; stroke-linecap: butt; }
"""


def render(found: Inspection) -> str:
    """The whole file."""
    page = ElementTree.Element("html", {"lang": "en"})
    head, body = ElementTree.SubElement(page, "head"), ElementTree.SubElement(page, "body")
    ElementTree.SubElement(head, "meta", {"charset": "utf-8"})
    ElementTree.SubElement(head, "meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"})
    title = f"Inspection of {found.data.path}"
    _add(head, "title", title)
    _add(head, "style", _STYLE)
    _add(body, "h1", title)
    kind = f"{found.data.masking} records, {len(found.data.shards):,} shards, {found.bytes:,} bytes verified."
    _add(body, "p", f"{kind} Masks: {report.drawn_note(found)}.", {"class": "faint"})
    if found.faults:
        _add(body, "h2", "Broken")
        for fault in found.faults:
            _add(body, "p", fault, {"class": "bad"})
    for table in report.tables(found):
        _add_table(body, table)
    if found.figures.examples:
        _add(body, "h2", "Plots")
        body.extend([_length_plot(found), _mask_plot(found), _run_plot(found)])
    _add_examples(body, found)
    ElementTree.indent(body, space=" ")
    return "<!DOCTYPE html>\n" + ElementTree.tostring(page, encoding="unicode", method="html") + "\n"


def _add(parent: ElementTree.Element, tag: str, text: str, attributes: dict[str, str] | None = None) -> None:
    """A child with text; what HTML cannot hold is written as an escape."""
    child = ElementTree.SubElement(parent, tag, attributes or {})
    child.text = text if tag == "style" else report.printable(text)


def _add_table(body: ElementTree.Element, table: Table) -> None:
    _add(body, "h2", table.title)
    box = ElementTree.SubElement(body, "div", {"class": "scroll"})
    grid = ElementTree.SubElement(box, "table")
    head = ElementTree.SubElement(ElementTree.SubElement(grid, "thead"), "tr")
    columns = [column for column in table.columns if column]  # without bars of characters: there are plots
    for column in columns:
        _add(head, "th", column, {"scope": "col"})
    content = ElementTree.SubElement(grid, "tbody")
    for values in table.rows:
        row = ElementTree.SubElement(content, "tr")
        for _, value in zip(columns, values, strict=False):
            _add(row, "td", value, {"class": "bad"} if value == NOT_OK else {})


def _add_examples(body: ElementTree.Element, found: Inspection) -> None:
    examples = report.shown_examples(found)
    if examples:
        _add(body, "h2", "Examples")
    for example in examples:
        _add(body, "h3", example.title)
        for segment in example.segments:
            _add(body, "p", f"{segment.name}: {segment.text}")
        if example.hidden:
            hidden = ElementTree.SubElement(ElementTree.SubElement(body, "div", {"class": "scroll"}), "table")
            head = ElementTree.SubElement(hidden, "tr")
            for name in ("masked words", "shown as"):
                _add(head, "th", name, {"scope": "col"})
            for label, shown in example.hidden:
                row = ElementTree.SubElement(hidden, "tr")
                _add(row, "td", label)
                _add(row, "td", shown)


def _length_plot(found: Inspection) -> ElementTree.Element:
    bins = report.length_bins(found)
    total = found.figures.examples

    def draw(axes: Any) -> None:
        axes.bar(range(len(bins)), [count / total for _, _, count in bins], color=_BLUE)
        axes.set_xticks(range(len(bins)), [str(end) for _, end, _ in bins])
        axes.set_xlabel("positions up to, with [CLS] and [SEP]")
        axes.set_ylabel("share of the examples")

    return _plot("lengths", "Lengths of the examples", draw)


def _mask_plot(found: Inspection) -> ElementTree.Element:
    shown = found.figures.shown()

    def draw(axes: Any) -> None:
        axes.bar(range(len(shown)), [figure.measured for figure in shown.values()], color=_ORANGE, hatch="//")
        for index, figure in enumerate(shown.values()):
            axes.plot([index - 0.4, index + 0.4], [figure.expected] * 2, color=_INK, linestyle="--")
        axes.set_xticks(range(len(shown)), list(shown))
        axes.set_ylabel("share of the predictions; dashed: expected")

    return _plot("masks", "What the model sees at the predictions", draw)


def _run_plot(found: Inspection) -> ElementTree.Element:
    runs = report.run_lengths(found)
    total = max(1, sum(count for _, count in runs))

    def draw(axes: Any) -> None:
        axes.bar(range(len(runs)), [count / total for _, count in runs], color=_GREEN)
        axes.set_xticks(range(len(runs)), [words for words, _ in runs])
        axes.set_xlabel("words in a run of adjacent masked words")
        axes.set_ylabel("share of the runs")

    return _plot("runs", "Runs of masked words", draw)


def _plot(name: str, title: str, draw: Any) -> ElementTree.Element:
    """A plot as an SVG element of the page, in the page's text colour."""
    import matplotlib
    from matplotlib import figure

    settings = {
        "svg.hashsalt": name,
        "svg.fonttype": "none",  # text stays text
        "font.size": 10,
        "hatch.color": _INK,
        "axes.spines.top": False,
        "axes.spines.right": False,
        **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), _INK),
    }
    with matplotlib.rc_context(settings):
        drawn = figure.Figure(figsize=(7.0, 3.0), layout="constrained")
        axes = drawn.subplots()
        draw(axes)
        axes.set_title(title, loc="left", fontsize=10)
        written = io.BytesIO()
        drawn.savefig(written, format="svg", transparent=True, metadata={"Date": None})
    text = written.getvalue().decode("utf-8").replace(_INK, "currentColor")
    return _as_part_of_a_page(ElementTree.fromstring(text), name, title)


def _as_part_of_a_page(svg: ElementTree.Element, name: str, title: str) -> ElementTree.Element:
    """The SVG without name spaces, metadata and style sheet, which the page has; ids are unique in the page."""
    for parent in list(svg.iter()):
        for child in list(parent):
            if _local(child.tag) in ("metadata", "style"):
                parent.remove(child)
    for element in svg.iter():
        element.tag = _local(element.tag)
        attributes = {_local(key): value for key, value in element.attrib.items()}
        element.attrib.clear()
        for key, value in attributes.items():
            if key == "id":
                value = f"{name}-{value}"
            element.set(key, value.replace("url(#", f"url(#{name}-"))
            if key == "href":
                element.set(key, value.replace("#", f"#{name}-", 1))
    svg.set("role", "img")
    svg.set("aria-label", title)
    return svg


def _local(name: str) -> str:
    """A name without its name space."""
    return name.rpartition("}")[2]
