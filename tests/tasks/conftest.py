from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping

import pytest


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> Callable[[Mapping[str, str | bytes]], str]:
    """Writes files, content by name, and gives their folder."""

    def write(contents: Mapping[str, str | bytes]) -> str:
        for name, content in contents.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(tmp_path)

    return write
