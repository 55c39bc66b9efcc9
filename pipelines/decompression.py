"""Decompression: chunks of a file, decompressed as its name's ending says.

A file that is cut off is an error here. Beam's own files end quietly where it was cut, and all text behind is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import IO, Any

from pipelines.readers import InputError

_CHUNK_BYTES = 1 << 20
_COMPRESSED_CHUNK_BYTES = 1 << 16  # a thousand times as much may come out of it


def read_chunks(stream: IO[bytes], path: str) -> Iterator[bytes]:
    """Content of the file in pieces; none is empty.

    Args:
      stream: the file as it is on disk.
      path: its name, which tells how it is compressed.

    Raises:
      InputError: if it is not compressed so, is damaged, or ends before its compressed data does.
    """
    found = _decompressor(path)
    if found is None:
        while chunk := stream.read(_CHUNK_BYTES):
            yield chunk
        return
    kind, make, errors = found
    current: Any = None
    while data := stream.read(_COMPRESSED_CHUNK_BYTES):
        while data:
            if current is None:
                if not (data := data.lstrip(b"\0")):  # padding, as on tapes
                    break
                current = make()  # a file may hold several streams, one after the other
            try:
                content = current.decompress(data)
            except errors as error:
                raise InputError(
                    f"{path}: not a {kind} file, or a damaged one ({error}); copy it again, or name it by what it is"
                ) from None
            data = b""
            if current.eof:
                data, current = current.unused_data, None
            if content:
                yield content
    if current is not None:
        raise InputError(f"{path}: cut off, its {kind} data goes on behind the end of the file; copy it again")


def _decompressor(path: str) -> tuple[str, Callable[[], Any], tuple[type[Exception], ...]] | None:
    """Name of the format, what makes a decompressor, and its errors; None for a file that is not compressed.

    All decompressors have `decompress`, `eof` and `unused_data`. They are imported when they are needed.
    """
    name = path.lower()
    if name.endswith((".gz", ".deflate")):
        import zlib

        bits, kind = (zlib.MAX_WBITS | 16, "gzip") if name.endswith(".gz") else (zlib.MAX_WBITS, "deflate")
        return kind, lambda: zlib.decompressobj(bits), (zlib.error,)
    if name.endswith(".bz2"):
        import bz2

        return "bzip2", bz2.BZ2Decompressor, (OSError, ValueError)
    if name.endswith(".xz"):
        import lzma

        return "xz", lzma.LZMADecompressor, (lzma.LZMAError,)
    if name.endswith((".zst", ".zstd")):
        import zstandard

        return "zstd", lambda: zstandard.ZstdDecompressor().decompressobj(), (zstandard.ZstdError,)
    return None
