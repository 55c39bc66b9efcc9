"""Warnings of flags of reading that do not fit the text, and no warnings where they do."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from pipelines import files, reading_advice
from pipelines.readers import ReaderSettings
from tests.pipelines.conftest import make_documents, write_corpus

DOCUMENTS = make_documents(30, seed=5)
PROSE = "\n\n".join(textwrap.fill(" ".join(document), 60) for document in DOCUMENTS)


def advise(path: Path, **settings: Any) -> list[str]:
    return list(reading_advice.advise(files.find_files([str(path)]), ReaderSettings(**settings)))


def test_wrapped_prose_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "prose.txt").write_text(PROSE)
    (advice,) = advise(tmp_path)
    assert advice.startswith(f"{tmp_path}/prose.txt: only ")
    assert "% of its lines end a sentence" in advice
    assert advice.endswith("for prose with wrapped lines pass --input_format=paragraphs")
    assert advise(tmp_path, input_format="paragraphs") == []


@pytest.mark.parametrize(
    "lines",
    [
        PROSE.splitlines()[:19],  # too few to tell
        [sentence for document in DOCUMENTS for sentence in document],
        [f"({sentence})\u201d" for document in DOCUMENTS for sentence in document],
        [f"entry {number} of a list without ends" for number in range(40)],
        ["今天天气很好。", "我们去公园吧！", "好不好？"] * 9,
    ],
)
def test_other_text_is_left_alone(lines: list[str], tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n".join(lines))
    assert advise(tmp_path) == []


def test_json_lines_read_as_something_else(tmp_path: Path) -> None:
    (tmp_path / "a.JSONL.gz").write_bytes(b"no gzip file: that is told when it is read")
    write_corpus(tmp_path / "b.txt", DOCUMENTS)
    assert advise(tmp_path) == []
    (advice,) = advise(tmp_path, input_format="files")
    assert advice == (
        f"{tmp_path}/a.JSONL.gz is named as JSON lines are, but read as --input_format=files; leave the flag out if it "
        "holds JSON lines"
    )


@pytest.mark.parametrize(
    ("language", "is_english"),
    [
        *((code, False) for code in ("en", "EN-gb", "de", "ja", "hi", "gl", "ta", "uk", "fi")),
        *((code, True) for code in ("qq", "sv", "tr", "zh")),
    ],
)
def test_a_language_without_rules_is_named(language: str, is_english: bool, tmp_path: Path) -> None:
    write_corpus(tmp_path / "a.txt", DOCUMENTS)
    assert advise(tmp_path, language=language) == []  # nothing is split
    expected = (
        f"--language={language}: the splitter has no rules of this language and takes those of English; the "
        "punctuation of every script ends a sentence"
    )
    assert advise(tmp_path, language=language, input_format="paragraphs") == ([expected] if is_english else [])
