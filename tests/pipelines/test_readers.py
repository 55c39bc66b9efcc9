"""Files to documents: every format, and every fault with its byte."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from pipelines.readers import BadInput, InputError, ReaderSettings, read_documents, split_sentences


def read(content: bytes, form: Any = "sentences", **settings: Any) -> list[list[str]]:
    reading = ReaderSettings(input_format=form, **settings)
    return list(read_documents(io.BytesIO(content), "corpus/a.txt", reading))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"\n \n\t\n", []),
        (b"a b\nc\n\nd\n", [["a b", "c"], ["d"]]),
        (b"\n\na\n\n\n\nb", [["a"], ["b"]]),
        (b"a\r\nb\r\n\r\nc\r\n", [["a", "b"], ["c"]]),
        ("\ufeffa\n\u3000\nb\u2028c\u00a0\n".encode(), [["a"], ["b\u2028c"]]),
        ("\ufeff\n\na\n".encode(), [["a"]]),
    ],
)
def test_blank_lines_and_the_end_of_the_file_end_documents(content: bytes, expected: list[list[str]]) -> None:
    assert read(content) == expected


PROSE = b'Dr. Smith went home. He was\ntired, i.e. he slept.\n\n"Why?" she asked. It was 3.50 p.m. then.\n'


def test_paragraphs_are_documents_of_sentences() -> None:
    assert read(PROSE, "paragraphs") == [
        ["Dr. Smith went home.", "He was tired, i.e. he slept."],
        ['"Why?" she asked.', "It was 3.50 p.m. then."],
    ]


def test_a_file_is_a_document() -> None:
    (document,) = read(PROSE, "files")
    assert document == [
        "Dr. Smith went home.",
        "He was tired, i.e. he slept.",
        '"Why?" she asked.',
        "It was 3.50 p.m. then.",
    ]
    assert read(b" \n\n", "files") == []


def test_json_lines() -> None:
    rows = [
        {"id": 7, "text": "One is here. Two\tis there.\nThree.", "title": "x"},
        {"text": " \n"},
        {"text": "Four\u00e9."},
    ]
    content = "\n\n".join(json.dumps(row) for row in rows).encode() + b"\r\n"
    assert read(content, "jsonl") == [["One is here.", "Two\tis there.", "Three."], ["Four\u00e9."]]
    assert read(b'{"body": "It is. She was."}', "jsonl", text_key="body") == [["It is.", "She was."]]


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("zh", "今天天气很好。我们去公园吧！好不好？", ["今天天气很好。", "我们去公园吧！", "好不好？"]),
        ("ja", "これはペンです。それは本です。", ["これはペンです。", "それは本です。"]),
        ("hi", "यह एक किताब है। वह एक कलम है।", ["यह एक किताब है।", "वह एक कलम है।"]),
        ("ar", "هل هذا كتاب؟ نعم، هذا كتاب.", ["هل هذا كتاب؟", "نعم، هذا كتاب."]),
        ("de", "Das ist z. B. gut. Er kam am 3. Mai.", ["Das ist z. B. gut.", "Er kam am 3. Mai."]),
        ("en", "No end", ["No end"]),
        ("en", "  ", []),
    ],
)
def test_sentences_of_many_languages(language: str, text: str, expected: list[str]) -> None:
    assert split_sentences(text, language) == expected


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("a/b.txt", "sentences"),
        ("b.JSONL", "jsonl"),
        ("b.json.gz", "jsonl"),
        ("b.ndjson.zst", "jsonl"),
        ("json", "sentences"),
    ],
)
def test_format_follows_the_name(path: str, form: str) -> None:
    assert ReaderSettings().format_of(path) == form
    assert ReaderSettings(input_format="files").format_of(path) == "files"


@pytest.mark.parametrize("form", ["sentences", "paragraphs", "files"])
@pytest.mark.parametrize(
    ("content", "position", "reason"),
    [
        (b"ab\n\ncd\xff\n", 6, r"not valid UTF-8 \(0xff"),
        (b"\xef\xbb\xbfab\xc3(", 5, r"not valid UTF-8 \(0xc3"),
        ("\u00e9\n".encode() * 7 + b"\xe2\x82", 21, r"not valid UTF-8 \(0xe2"),
        (b"abc\xed\xa0\x80d", 3, r"not valid UTF-8 \(0xed"),  # a lone surrogate
        (b"\xef\xbb\xbfab\n\nc\0d\n", 8, "a NUL byte"),
        ("a b\n".encode("utf-16"), 0, r"not valid UTF-8 \(0xff"),
        ("a b\n".encode("utf-16-le"), 1, "a NUL byte"),
    ],
)
def test_faults_of_text_are_named_by_file_and_byte(form: str, content: bytes, position: int, reason: str) -> None:
    line = 1 + content[:position].count(b"\n")
    with pytest.raises(InputError, match=rf"^corpus/a\.txt: line {line}, byte {position}: {reason}"):
        read(content, form)


@pytest.mark.parametrize(
    ("line", "position", "reason"),
    [
        (b'{"text": "a"', 12 + 6, "not valid JSON: Expecting ',' delimiter"),
        ('{"é": 1, x}'.encode(), 6 + 10, "not valid JSON"),
        (b"[1, 2]", 6, "holds an array, no object"),
        (b"7", 6, "holds a number, no object"),
        (b'{"body": "a"}', 6, "the object has no key 'text'"),
        (b'{"text": ["a"]}', 6, "'text' holds no text"),
        (b'{"text": null}', 6, "'text' holds no text"),
        (rb'{"text": "ab\ud800c"}', 6, "a lone surrogate at character 2 of 'text'"),
        (rb'{"text": "ab\u0000c"}', 6, "a NUL character in 'text'"),
        (b"[" * 100_000, 6, "JSON nested too deep"),
        (b'{"text": "a\xff"}', 6 + 11, r"not valid UTF-8"),
    ],
)
def test_faults_of_json_are_named_by_file_and_byte(line: bytes, position: int, reason: str) -> None:
    with pytest.raises(InputError, match=f"^corpus/a\\.txt: line 4, byte {position}: {reason}"):
        read(b"\n  \n \n" + line + b"\n", "jsonl")


@pytest.mark.parametrize(
    ("form", "content", "expected", "line", "byte"),
    [
        ("sentences", b"a\nb\n\nc\nd\xff\ne\n\nf\n", [["a", "b"], ["f"]], 5, 8),
        ("paragraphs", b"a b\n\nc\0\n\nd e\n", [["a b"], ["d e"]], 3, 6),
        ("files", b"a\n\nb\xff\n", [], 3, 4),
        ("jsonl", b'{"text": "a"}\n{\n{"text": "b"}\n', [["a"], ["b"]], 2, 15),
    ],
)
def test_documents_with_a_fault_are_left_out(
    form: Any, content: bytes, expected: list[list[str]], line: int, byte: int
) -> None:
    faults: list[BadInput] = []
    reading = ReaderSettings(input_format=form, on_bad_input="skip")
    assert list(read_documents(io.BytesIO(content), "a.txt", reading, note=faults.append)) == expected
    ((*found, reason),) = faults
    assert found == ["a.txt", line, byte]
    assert reason


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"input_format": "xml"}, "input_format must be one of auto, sentences, paragraphs, files, jsonl, got 'xml'"),
        ({"on_bad_input": "warn"}, "on_bad_input must be one of fail, skip, got 'warn'"),
        ({"language": "e1"}, "language must be a code such as en or zh, got 'e1'"),
        ({"language": "english"}, "language must be a code such as en or zh, got 'english'"),
        ({"language": ""}, "language must be a code"),
        ({"text_key": ""}, "text_key must not be empty"),
    ],
)
def test_settings_are_checked(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ReaderSettings(**change)
