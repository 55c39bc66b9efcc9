"""Rows out of files, pipes and standard input: every format, what is wrong with a line, and how little is read."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import threading

import pytest

from albert_tf.inference.row_streams import chunks, format_of, stream_rows
from tests.conftest import ROOT


def write(folder: pathlib.Path, name: str, content: bytes) -> str:
    (folder / name).write_bytes(content)
    return str(folder / name)


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.txt", b"one\n\ntwo", [{"text": "one"}, {"text": ""}, {"text": "two"}]),
        ("a.txt", b"\xef\xbb\xbfone\r\ntwo\r\n", [{"text": "one"}, {"text": "two"}]),
        ("a.txt", b"", []),
        ("a.txt", "a\u2028b\x0bc\td\n".encode(), [{"text": "a\u2028b\x0bc\td"}]),
        (
            "a.tsv",
            b'text\tlabel\nsay "hi\t1\n"x"\t0\n',
            [{"text": 'say "hi', "label": "1"}, {"text": '"x"', "label": "0"}],
        ),
        ("a.tsv", b"\xef\xbb\xbftext\tb\r\na\t\r\n\r\n", [{"text": "a", "b": ""}]),
        (
            "a.csv",
            b'text,b\n"one, two",1\n"a ""b""\nc",2\n',
            [{"text": "one, two", "b": "1"}, {"text": 'a "b"\nc', "b": "2"}],
        ),
        ("a.csv", b"text\na\n\nb\n", [{"text": "a"}, {"text": ""}, {"text": "b"}]),
        ("a.jsonl", b'{"text": "a", "words": ["b"]}\n\n{"c": 1}\n', [{"text": "a", "words": ["b"]}, {"c": 1}]),
    ],
)
def test_formats(tmp_path: pathlib.Path, name: str, content: bytes, expected: list[dict]) -> None:
    assert [row.cells for row in stream_rows(write(tmp_path, name, content))] == expected


def test_rows_know_their_lines(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path, "a.csv", b'text\n"a\nb"\nc\n')
    assert [row.source for row in stream_rows(path)] == [f"{path}:2", f"{path}:4"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"one\n\xff\xfe\n", r"a\.txt:2: not UTF-8 at byte 0 of the line"),
        ("a.txt", b"\xff\xfeo\x00", r"a\.txt: is UTF-16, must be UTF-8"),
        ("a.tsv", b"text\tlabel\na\n", r"a\.tsv:2: must have 2 cells between tabs \(text, label\), got 1"),
        ("a.tsv", b"text\tlabel\n\na\tb\n", r"a\.tsv:2: must have 2 cells between tabs \(text, label\), got 0"),
        ("a.tsv", b"text\ttext\n", r"a\.tsv:1: two columns have the name 'text'"),
        ("a.tsv", b"text\na\tb\n", r"a\.tsv:2: must have one cell \(text\), got 2"),
        ("a.csv", b'text\na\n"b\nc\n', r"a\.csv:3: a quote \(\"\) that is never closed"),
        ("a.jsonl", b'{"a": 1}\n{"a": }\n', r"a\.jsonl:2:7: not valid JSON"),
        ("a.jsonl", b"[1]\n", r"a\.jsonl:1: must hold a JSON object, got list"),
    ],
)
def test_bad_lines_are_named(tmp_path: pathlib.Path, name: str, content: bytes, message: str) -> None:
    path = write(tmp_path, name, content)
    with pytest.raises(ValueError, match=message):
        list(stream_rows(path))


def test_a_cell_of_200_000_characters(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path, "a.csv", b'text,b\n"' + b"x" * 200_000 + b'",1\n')
    assert [len(row.text("text")) for row in stream_rows(path)] == [200_000]


def test_the_format_may_be_named(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path, "a.txt", b'{"text": "a"}\n')
    assert [row.cells for row in stream_rows(path, "jsonl")] == [{"text": "a"}]
    assert [format_of(name) for name in ("a.TSV", "b.csv", "c.json", "d", "-")] == [
        "tsv",
        "csv",
        "jsonl",
        "lines",
        "lines",
    ]
    with pytest.raises(ValueError, match="format must be one of lines, tsv, csv, jsonl, got 'xml'"):
        list(stream_rows(path, "xml"))


def test_rows_come_before_the_end_of_a_pipe(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    may_go_on = threading.Event()

    def feed() -> None:
        with open(path, "wb", buffering=0) as stream:
            stream.write(b"one\ntwo\n")
            may_go_on.wait(30)
            stream.write(b"three\n")

    thread = threading.Thread(target=feed)
    thread.start()
    rows = chunks(stream_rows(str(path)), 2)
    assert [row.text("text") for row in next(rows)] == ["one", "two"]
    may_go_on.set()
    assert [row.text("text") for row in next(rows)] == ["three"]
    thread.join()


def test_standard_input() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from albert_tf.inference.row_streams import stream_rows\n"
        "print([(row.source, row.cells) for row in stream_rows('-', 'tsv')])"
    )
    done = subprocess.run([sys.executable, "-c", code], input=b"text\nOne \xc3\xa9\n", capture_output=True)
    assert done.stdout.decode() == "[('standard input:2', {'text': 'One é'})]\n", done.stderr.decode()
