"""Documents: what tells them apart, and the seed of everything that is drawn for one."""

from __future__ import annotations

import hashlib


def document_digest(document: list[str]) -> bytes:
    """bytes [16]: equal for equal documents, whatever file they stand in."""
    return hashlib.blake2b("\n".join(document).encode("utf-8"), digest_size=16).digest()


def document_seed(digest: bytes, *, seed: int, copy: int) -> int:
    """Seed, below 2**128, of everything drawn for one copy of one document.

    It depends on nothing else, so that files, their order, workers and runner change no draw.

    Args:
      digest: of the document.
      seed: of the run.
      copy: counts the copies made of the document, from 0.
    """
    words = b"".join(value.to_bytes(8, "little", signed=True) for value in (seed, 0, copy))
    return int.from_bytes(hashlib.blake2b(digest + words, digest_size=16).digest(), "little")
