"""JSON files of ours: one object each; what is wrong with one is said with file, line and column."""

from __future__ import annotations

import json
from typing import Any


def parse_object(content: str | bytes, *, source: str) -> dict[str, Any]:
    """The JSON object that `content` holds; `source`, a path, is named in errors.

    Raises:
      ValueError: if the content is not UTF-8, not JSON, or another value than an object.
    """
    try:
        values = json.loads(content if isinstance(content, str) else content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"{source}: not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"{source}:{error.lineno}:{error.colno}: not valid JSON: {error.msg}") from error
    if not isinstance(values, dict):
        raise ValueError(f"{source}: must hold a JSON object, got {type(values).__name__}")
    return values
