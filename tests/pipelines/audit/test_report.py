"""Examples as they are shown, and the HTML file."""

from __future__ import annotations

import html.parser
import io
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import sentencepiece

from albert_tf.tokenizer import AlbertTokenizer, TokenizerConfig
from pipelines.audit import html_report, report
from tests.pipelines import building
from tests.pipelines.audit.directories import MASK, first_sep, flip, inspect, last, run, shard, unmasked, used
from tests.pipelines.conftest import write_corpus

ODD = ["<script>alert(1)</script>", "[red]", "\u202e", "\x1b", "&lt;", "\U0001f600"]


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data directory whose vocabulary has pieces that look like markup or have no shape; half the words are such."""
    words = ["an", "bel", "cor", "dis"]
    lines = [" ".join([*(words * 2)[n % 4 :], ODD[n % 6], ODD[(n + 2) % 6], words[n % 3]]) for n in range(90)]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=35, hard_vocab_limit=False, pad_id=0, unk_id=1,
        bos_id=-1, eos_id=-1, control_symbols=["[CLS]", "[SEP]", "[MASK]"], user_defined_symbols=ODD,
        normalization_rule_name="identity", minloglevel=2,
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("odd")
    corpus = write_corpus(folder / "corpus.txt", [lines])
    tokenizer = AlbertTokenizer(model.getvalue(), config=TokenizerConfig(strip_accents=False))
    building.build(folder / "data", [corpus], tokenizer, masking="static", max_seq_length=67)
    return folder / "data"


def test_examples_are_shown_as_they_are(odd: Path) -> None:
    done = run("--data_dir=data", "--show=4", cwd=odd.parent)
    assert done.returncode == 0, done.stderr
    shown = done.stdout[done.stdout.index("\n\ndata/pretrain-") :]
    titles = re.findall(
        r"^data/pretrain-0000\d-of-00003\.tfrecord: record \d+: \d+ positions, .*$", shown, re.MULTILINE
    )
    assert len(titles) == len(set(titles)) == 4
    for text in ("<script>alert(1)</script>", "[red]", "[MASK]", "\\u202e", "\\x1b", "\U0001f600", "&lt;"):
        assert text in shown
    assert "\u202e" not in done.stdout
    assert "\x1b" not in done.stdout


def test_examples_are_those_of_the_records(static: Path, tokenizer: AlbertTokenizer) -> None:
    found = inspect(static, show=5)
    total = found.data.num_examples
    numbers = [(2 * i + 1) * total // 10 for i in range(5)]
    records = building.read_examples(static)
    shown = report.shown_examples(found)
    assert len(shown) == 5
    for number, example in zip(numbers, shown, strict=True):
        record = records[number]
        ids, second, real = unmasked(record), first_sep(record) + 1, last(record) + 1
        order = ["swapped (label 1)" if record["next_sentence_labels"][0] else "not swapped (label 0)"]
        assert example.title.endswith(f": {real} positions, {order[0]}")
        assert [segment.name for segment in example.segments] == (["B", "A"] if order[0][0] == "s" else ["A", "B"])
        for segment, (begin, end) in zip(example.segments, ((1, second - 1), (second, real - 1)), strict=True):
            shown_ids = record["input_ids"][begin:end]
            assert segment.text.count("[MASK]") == shown_ids.count(MASK)
            if MASK not in shown_ids:
                assert segment.text == "".join(map(tokenizer.id_to_piece, shown_ids)).replace("\u2581", " ").strip()
        labels = "".join(label.replace(" ", "") for label, _ in example.hidden)
        predicted = [ids[position] for position in record["masked_lm_positions"][: used(record)]]
        assert labels == "".join(map(tokenizer.id_to_piece, predicted)).replace("\u2581", "")
        assert sum(seen.count("[MASK]") for _, seen in example.hidden) == record["input_ids"].count(MASK)


@pytest.mark.parametrize("show", [0, 1, 7, 500])
def test_examples_are_chosen_evenly(show: int, built: Path) -> None:
    found = inspect(built / "dynamic", show=show)
    starts = np.cumsum([0, *(entry.examples for entry in found.data.shards)])
    paths = [entry.path for entry in found.data.shards]
    numbers = [int(starts[paths.index(example.path)]) + example.number for example in found.examples]
    total = found.data.num_examples
    assert len(numbers) == len(set(numbers)) == min(show, total)
    gaps: list[int] = np.diff([-1, *numbers, total]).tolist() if numbers else []
    assert all(0.4 * total / len(numbers) <= gap <= total / len(numbers) + 1.5 for gap in gaps)


class Page(html.parser.HTMLParser):
    """Elements of a page; fails where they are not nested properly."""

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.cells: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self.open.append(tag)
        if tag == "td":
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data
        if "td" in self.open:
            self.cells[-1] += data


def test_the_html_file_stands_by_itself(odd: Path) -> None:
    found = inspect(odd, show=6)
    text = html_report.render(found)
    page = Page(text)
    assert text.startswith("<!DOCTYPE html>")
    tags = Counter(tag for tag, _ in page.elements)
    assert (tags["svg"], tags["title"], tags["h1"]) == (3, 1, 1)
    assert tags.keys() & {"script", "link", "img", "iframe", "object", "a", "base", "foreignobject"} == set()
    attributes = [(name, value or "") for _, values in page.elements for name, value in values.items()]
    assert [
        name for name, _ in attributes if name.startswith(("on", "xmlns")) or name in ("src", "data", "action")
    ] == []
    assert "http" not in text
    assert "@import" not in text
    ids = [value for name, value in attributes if name == "id"]
    assert len(ids) == len(set(ids)) > 10
    references = [value for name, value in attributes if name.endswith("href")]
    references += re.findall(r"url\(([^)]*)\)", text)
    assert references
    assert {reference.removeprefix("#") for reference in references} <= set(ids)
    assert all(reference.startswith("#") for reference in references)
    assert "prefers-color-scheme: dark" in text
    assert "currentColor" in text
    assert "#010203" not in text


def test_the_html_file_holds_tables_and_examples(odd: Path) -> None:
    found = inspect(odd, show=6)
    page = Page(html_report.render(found))
    tables = report.tables(found)
    # The bars of characters, a column without a name, are for the terminal.
    values = [v for table in tables for row in table.rows for v, name in zip(row, table.columns, strict=True) if name]
    hidden = [value for example in report.shown_examples(found) for pair in example.hidden for value in pair]
    assert page.cells == values + hidden
    for example in report.shown_examples(found):
        for segment in example.segments:
            assert f"{segment.name}: {segment.text}" in page.text
    assert "<script>alert(1)</script>" in page.text
    assert "\\x1b" in page.text
    assert "\x1b" not in page.text
    assert "\u202e" not in page.text


def test_no_figures_of_nothing(dynamic: Path) -> None:
    for index in range(3):
        flip(0)(shard(dynamic, index))
    found = inspect(dynamic, show=2)
    assert len(found.faults) == found.broken_shards == 3
    assert report.tables(found) == []
    assert [path in Page(html_report.render(found)).text for path in found.faults] == [True] * 3


def test_printable() -> None:
    assert report.printable("a b\u200cé日\n\x00\xad\U0001f600\ud800") == "a b\u200cé日\\n\\x00\\xad\U0001f600\\ud800"
