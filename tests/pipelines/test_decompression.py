"""Compressed files: whole, of several streams, cut off, damaged, or of another kind than their name says."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from pipelines import blocks, files
from pipelines.readers import InputError

TEXT = b"".join(b"line %d of %d\n" % (n, n * n) for n in range(20_000)) + b"no end"
ZSTD = zstandard.ZstdCompressor(write_checksum=True)  # as the program zstd has it
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": ZSTD.compress,
    ".zstd": ZSTD.compress,
    ".xz": lzma.compress,
    ".deflate": zlib.compress,
}
NAMES = {".gz": "gzip", ".bz2": "bzip2", ".zst": "zstd", ".zstd": "zstd", ".xz": "xz", ".deflate": "deflate"}


def read(path: Path, content: bytes) -> bytes:
    path.write_bytes(content)
    return b"".join(files.read_lines(str(path)))


@pytest.mark.parametrize("ending", COMPRESS)
def test_whole_files(ending: str, tmp_path: Path) -> None:
    content = COMPRESS[ending](TEXT)
    path = tmp_path / f"A.TXT{ending.upper()}"
    assert read(path, content) == TEXT
    assert read(path, content + content) == TEXT + TEXT
    assert read(path, content + bytes(512)) == TEXT
    assert read(path, b"") == b""


@pytest.mark.parametrize("ending", COMPRESS)
def test_a_file_that_is_cut_off_is_refused(ending: str, tmp_path: Path) -> None:
    content = COMPRESS[ending](TEXT)
    for length in (3, len(content) // 2, len(content) - 1):
        with pytest.raises(InputError, match=rf"a\.txt{ending}: cut off, its {NAMES[ending]} data goes on behind the"):
            read(tmp_path / f"a.txt{ending}", content[:length])


@pytest.mark.parametrize("ending", COMPRESS)
def test_other_and_damaged_files_are_refused(ending: str, tmp_path: Path) -> None:
    content = bytearray(COMPRESS[ending](TEXT))
    content[len(content) // 2] ^= 16
    for wrong in (b"Plain text is this.\n" * 9, bytes(content)):
        with pytest.raises(InputError, match=rf"a\.txt{ending}: not a {NAMES[ending]} file, or a damaged one \("):
            read(tmp_path / f"a.txt{ending}", wrong)


def test_lines_across_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.decompression._CHUNK_BYTES", 7)
    content = b"\n\na\nlonger than a chunk, and longer than two\r\n1234567\n\nend"
    (tmp_path / "a").write_bytes(content)
    assert list(files.read_lines(str(tmp_path / "a"))) == content.splitlines(keepends=True)


def test_a_line_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "LONGEST_DOCUMENT", 1 << 20)
    (tmp_path / "a").write_bytes(b"short\n" + b"x" * (1 << 21))
    with pytest.raises(InputError, match=r"/a: line 2 is longer than 1 MB; text with line ends is expected"):
        list(files.read_lines(str(tmp_path / "a")))
