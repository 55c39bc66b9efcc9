from __future__ import annotations

import csv
import itertools
import pathlib

import pytest

from albert_tf.tasks.tables import header_of, read_rows, records


def rows(tmp_path: pathlib.Path, name: str, content: str | bytes, **options) -> list[tuple[int, dict]]:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    found = list(read_rows(str(path), **options))
    assert all(row.source.startswith(f"{path}:") for row in found)
    return [(int(row.source.rpartition(":")[2]), row.cells) for row in found]


def test_the_three_kinds_give_the_same_rows(tmp_path: pathlib.Path) -> None:
    expected = [(2, {"text": "a dog", "label": "1"}), (3, {"text": "", "label": "0"})]
    assert rows(tmp_path, "a.tsv", "text\tlabel\na dog\t1\n\t0\n") == expected
    assert rows(tmp_path, "a.csv", 'text,label\n"a dog",1\n,0\n') == expected
    lines = '{"text": "a dog", "label": "1"}\n\n{"text": "", "label": "0"}\n'
    assert rows(tmp_path, "a.jsonl", lines) == [(1, expected[0][1]), (3, expected[1][1])]
    for name in ("a.tsv", "a.csv", "a.jsonl"):
        assert header_of(str(tmp_path / name)) == ["text", "label"]


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.jsonl"])
@pytest.mark.parametrize(("start", "end"), [("\ufeff", "\n"), ("", "\r\n"), ("\ufeff", "\r\n")])
def test_byte_order_mark_and_line_ends_of_windows(tmp_path: pathlib.Path, name: str, start: str, end: str) -> None:
    lines = {
        "a.tsv": ["text\tlabel", "dög\t1", ""],
        "a.csv": ["text,label", "dög,1", ""],
        "a.jsonl": ['{"text": "dög", "label": "1"}', ""],
    }[name]
    assert [cells for _, cells in rows(tmp_path, name, start + end.join(lines))] == [{"text": "dög", "label": "1"}]


def test_without_an_end_of_the_last_line(tmp_path: pathlib.Path) -> None:
    assert [cells["b"] for _, cells in rows(tmp_path, "a.tsv", "a\tb\n1\t2\n3\t4")] == ["2", "4"]
    assert rows(tmp_path, "a.tsv", "a\tb\n1\t2\n\n\n") == [(2, {"a": "1", "b": "2"})]


def test_quotes_in_tsv_are_characters(tmp_path: pathlib.Path) -> None:
    found = rows(tmp_path, "a.tsv", 'text\tlabel\n"a dog\t1\nhe said "no" "\t0\n"x"\t1\n')
    assert [cells["text"] for _, cells in found] == ['"a dog', 'he said "no" "', '"x"']


def test_quotes_in_csv_keep_commas_and_line_ends(tmp_path: pathlib.Path) -> None:
    found = rows(tmp_path, "a.csv", 'text,label\n"a, ""big""\r\ndog",1\nx "y" z,0\n')
    assert found == [(2, {"text": 'a, "big"\ndog', "label": "1"}), (4, {"text": 'x "y" z', "label": "0"})]


def test_separators_of_lines_inside_a_text(tmp_path: pathlib.Path) -> None:
    text = "a\u2028b\x0bc\x85d"
    assert rows(tmp_path, "a.tsv", f"text\n{text}\n")[0][1] == {"text": text}


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "b.csv", "a.jsonl"])
def test_a_text_of_100_000_words(tmp_path: pathlib.Path, name: str) -> None:
    text = ("word, " if name == "b.csv" else "word ") * 100_000
    content = {"a.tsv": f"text\tlabel\n{text}\t1\n", "a.csv": f"text,label\n{text},1\n"}
    content |= {"b.csv": f'text,label\n"{text}",1\n', "a.jsonl": f'{{"text": "{text}", "label": "1"}}\n'}
    limit = csv.field_size_limit()
    assert [cells["text"] for _, cells in rows(tmp_path, name, content[name])] == [text]
    assert csv.field_size_limit() == limit


def test_names_for_files_without_a_header(tmp_path: pathlib.Path) -> None:
    assert rows(tmp_path, "a.tsv", "1\tdog\n0\tcat\n", columns=("label", "text"))[0] == (
        1,
        {"label": "1", "text": "dog"},
    )
    assert len(rows(tmp_path, "a.tsv", "label\ttext\n0\tcat\n", columns=("label", "text"))) == 1
    assert rows(tmp_path, "a.tsv", "a\tb\n1\n", may_be_short=True) == [(2, {"a": "1"})]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", "a\tb\n1\t2\n3\n", r"a\.tsv:3: must have 2 cells \(a, b\), got 1 between tabs"),
        ("a.tsv", "a\tb\n1\t2\t3\n", r"a\.tsv:2: must have 2 cells \(a, b\), got 3"),
        ("a.tsv", "a\tb\n\n1\t2\n", r"a\.tsv:2: must have 2 cells"),
        ("a.csv", "a,b\n1\n", r"a\.csv:2: must have 2 cells \(a, b\), got 1 between commas"),
        ("a.tsv", "a\tb\ta\n1\t2\t3\n", r"a\.tsv:1: two columns have the name 'a'"),
        ("a.csv", 'a,b\n1,2\n"3,4\n5,6\n', r"a\.csv:3: a quote \(\"\) that is never closed"),
        ("a.csv", 'a,b\n"3"x,4\n', r"a\.csv:2: not valid CSV"),
        ("a.csv", 'a,b\n3"\n4",5\n', r"a\.csv:2: not valid CSV: a cell with a quote"),
        ("a.tsv", b"a\tb\n1\t\xe4\n", r"a\.tsv:2: not UTF-8 at byte 2 of the line"),
        ("a.tsv", "a\tb\n".encode("utf-16"), r"a\.tsv: is UTF-16, must be UTF-8"),
        ("a.jsonl", '{"a": 1}\n{"a": \n', r"a\.jsonl:2:7: not valid JSON"),
        ("a.jsonl", '{"a": 1}\n{"a": 1, "b": 2, "b": 3}\n', r"a\.jsonl:2: two values have the key 'b'"),
        ("a.jsonl", '{"a": {"c": 1, "c": 2}}\n', r"a\.jsonl:1: two values have the key 'c'"),
        ("a.jsonl", "[1]\n", r"a\.jsonl:1: must hold a JSON object, got list"),
        ("a.xlsx", "x", r"a\.xlsx: must end in one of \.tsv, "),
    ],
)
def test_bad_files(tmp_path: pathlib.Path, name: str, content: str | bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rows(tmp_path, name, content)


def test_cells_are_checked(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(
        '{"t": 1, "n": " x ", "f": "2.5", "b": true, "e": "", "i": 3, "bad": "1e999", "far": -1e39, '
        '"cut": "x\\ud800", "two": "1_5"}'
    )
    (row,) = read_rows(str(path))
    assert (row.name("n"), row.name("i"), row.number("f"), row.number("i")) == ("x", "3", 2.5, 3.0)
    for read, column, message in (
        (row.text, "t", "t must be text, got 1"),
        (row.name, "b", "b must be a name, text or a whole number, got True"),
        (row.name, "e", "e must be a name, text or a whole number, got ''"),
        (row.name, "cut", r"a\.jsonl:1: cut: text must be valid Unicode, got a lone surrogate at character 1"),
        (row.number, "bad", "bad must be a number, got '1e999'"),
        (row.number, "n", "n must be a number"),
        (row.number, "far", r"far must be a number of at most 3\.4e\+38, got -1e\+39"),
        (row.number, "two", "two must be a number, got '1_5'"),
        (row.number, "b", "b must be a number, got True"),
        (row.text, "label", "a.jsonl:1: no column 'label'; columns: 't', 'n'"),
    ):
        with pytest.raises(ValueError, match=message):
            read(column)


def test_a_quote_that_is_never_closed_ends_the_reading() -> None:
    lines = itertools.chain([(1, 'text,"b')], ((number, "x" * 1_000_000) for number in itertools.count(2)))
    with pytest.raises(ValueError, match=r'endless\.csv:1: a quote \("\) that is never closed'):
        list(records(lines, "endless.csv", ","))
