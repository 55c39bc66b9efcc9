"""Documents: plain text files to lists of sentences.

One sentence a line, a blank line between documents; the end of a file ends its document.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class InputError(ValueError):
    """A fault in the input, with file and byte offset. Its message is found again in what a Beam worker reports."""


def read_documents(lines: Iterable[bytes], source: str) -> Iterator[list[str]]:
    """Documents, each a list of sentences without surrounding white space.

    Args:
      lines: lines of one file with their ends, as an open binary file gives them.
      source: name of the file, for errors.

    Raises:
      InputError: at the first byte that is not UTF-8.
    """
    document: list[str] = []
    offset = 0
    for line in lines:
        content = line.removeprefix(_BYTE_ORDER_MARK) if offset == 0 else line
        try:
            sentence = content.decode("utf-8").strip()
        except UnicodeDecodeError as error:
            position = offset + len(line) - len(content) + error.start
            raise InputError(
                f"{source}: byte {position}: not valid UTF-8 (0x{content[error.start]:02x}: {error.reason}); "
                "convert the file to UTF-8"
            ) from None
        offset += len(line)
        if sentence:
            document.append(sentence)
        elif document:
            yield document
            document = []
    if document:
        yield document


def document_digest(document: list[str]) -> bytes:
    """bytes [16]: equal for equal documents, whatever file they stand in."""
    return hashlib.blake2b("\n".join(document).encode("utf-8"), digest_size=16).digest()


def document_seed(digest: bytes, *, seed: int, occurrence: int, copy: int) -> int:
    """Seed, below 2**128, of everything drawn for one copy of one document.

    It depends on nothing else, so that files, their order, workers and runner change no draw.

    Args:
      digest: of the document.
      seed: of the run.
      occurrence: counts the documents of this digest, from 0, so that repeated documents draw differently.
      copy: counts the copies made of the document, from 0.
    """
    words = b"".join(value.to_bytes(8, "little", signed=True) for value in (seed, occurrence, copy))
    return int.from_bytes(hashlib.blake2b(digest + words, digest_size=16).digest(), "little")
