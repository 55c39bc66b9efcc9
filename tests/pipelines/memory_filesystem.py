"""memory://...: a Beam file system in the memory of this process, which stands for gs:// and s3:// in tests."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from apache_beam.io import filesystem

_FILES: dict[str, bytes] = {}


def write(path: str, content: bytes) -> None:
    """Puts a file there."""
    _FILES[path] = content


class _Written(io.BytesIO):
    """A file that is being written; it is there when it is closed."""

    def __init__(self, path: str):
        super().__init__()
        self._path = path

    def close(self) -> None:
        if not self.closed:
            _FILES[self._path] = self.getvalue()
        super().close()


class MemoryFileSystem(filesystem.FileSystem):
    """What Beam asks of a file system. Beam finds it by its scheme."""

    @classmethod
    def scheme(cls) -> str:
        return "memory"

    def join(self, basepath: str, *paths: str) -> str:
        return "/".join([basepath.rstrip("/"), *paths])

    def split(self, path: str) -> tuple[str, str]:
        head, _, tail = path.rpartition("/")
        return head, tail

    def mkdirs(self, path: str) -> None:
        """Folders need no making."""

    def has_dirs(self) -> bool:
        return False

    def _list(self, dir_or_prefix: str) -> Iterator[filesystem.FileMetadata]:
        for path, content in _FILES.items():
            if path.startswith(dir_or_prefix):
                yield filesystem.FileMetadata(path, len(content))

    def create(self, path: str, mime_type: str = "", compression_type: Any = None) -> Any:
        return self._compressed(_Written(path), path, compression_type)

    def open(self, path: str, mime_type: str = "", compression_type: Any = "auto") -> Any:
        if path not in _FILES:
            raise OSError(2, "No such file or directory", path)
        return self._compressed(io.BytesIO(_FILES[path]), path, compression_type)

    def _compressed(self, stream: io.BytesIO, path: str, compression_type: Any) -> Any:
        kinds = filesystem.CompressionTypes
        kind = kinds.detect_compression_type(path) if compression_type in (None, kinds.AUTO) else compression_type
        return stream if kind == kinds.UNCOMPRESSED else filesystem.CompressedFile(stream, kind)

    def copy(self, source_file_names: list[str], destination_file_names: list[str]) -> None:
        for source, destination in zip(source_file_names, destination_file_names, strict=True):
            _FILES[destination] = _FILES[source]

    def rename(self, source_file_names: list[str], destination_file_names: list[str]) -> None:
        for source, destination in zip(source_file_names, destination_file_names, strict=True):
            _FILES[destination] = _FILES.pop(source)

    def exists(self, path: str) -> bool:
        return path in _FILES

    def size(self, path: str) -> int:
        return len(_FILES[path])

    def last_updated(self, path: str) -> float:
        return 0.0

    def checksum(self, path: str) -> str:
        return str(hash(_FILES[path]))

    def metadata(self, path: str) -> filesystem.FileMetadata:
        return filesystem.FileMetadata(path, self.size(path))

    def delete(self, paths: list[str]) -> None:
        for path in paths:
            del _FILES[path]
