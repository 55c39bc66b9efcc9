"""Text files to documents, and what their draws depend on."""

from __future__ import annotations

import io

import pytest

from pipelines.documents import InputError, document_digest, document_seed, read_documents


def read(content: bytes) -> list[list[str]]:
    return list(read_documents(io.BytesIO(content), "corpus/a.txt"))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"\n \n\t\n", []),
        (b"a b\nc\n\nd\n", [["a b", "c"], ["d"]]),
        (b"\n\na\n\n\n\nb", [["a"], ["b"]]),
        (b"a\r\nb\r\n\r\nc\r\n", [["a", "b"], ["c"]]),
        ("\ufeffa\n\u3000\nb\u2028c\u00a0\n".encode(), [["a"], ["b\u2028c"]]),
    ],
)
def test_blank_lines_and_the_end_of_the_file_end_documents(content: bytes, expected: list[list[str]]) -> None:
    assert read(content) == expected


@pytest.mark.parametrize(
    ("content", "position", "byte"),
    [
        (b"ab\n\ncd\xff\n", 6, "0xff"),
        (b"\xef\xbb\xbfab\xc3(", 5, "0xc3"),
        ("\u00e9\n".encode() * 7 + b"\xe2\x82", 21, "0xe2"),
    ],
)
def test_invalid_utf8_is_named_by_file_and_byte(content: bytes, position: int, byte: str) -> None:
    with pytest.raises(InputError, match=rf"^corpus/a\.txt: byte {position}: not valid UTF-8 \({byte}"):
        read(content)


def test_digest_depends_on_sentences_only() -> None:
    digest = document_digest(["a", "b"])
    assert len(digest) == 16
    assert digest == document_digest(read(b"\n  a \r\nb\n\nc")[0])
    assert len({document_digest(d) for d in (["a", "b"], ["a b"], ["b", "a"], ["ab"], ["a"])}) == 5


def test_each_argument_changes_the_seed() -> None:
    digest = document_digest(["a"])
    base = {"seed": 3, "occurrence": 0, "copy": 0}
    seeds = [document_seed(digest, **(base | change)) for change in ({}, {"seed": 4}, {"occurrence": 1}, {"copy": 1})]
    seeds.append(document_seed(document_digest(["b"]), **base))
    assert len(set(seeds)) == 5
    assert all(0 <= seed < 2**128 for seed in seeds)
    # Written down once: another value would change every data directory that exists.
    assert document_seed(digest, **base) == 0x8C20D065E9F07C4F6ACF65312FC5789C
