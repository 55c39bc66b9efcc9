"""JSON files of ours: one object each; what is wrong with one is said with file, line and column."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, Self


class _TwiceError(ValueError):
    """An object with two equal keys; the message says which."""


def parse_object(content: str | bytes, *, source: str, has_keys_once: bool = False) -> dict[str, Any]:
    """The JSON object that `content` holds.

    Args:
      content: text, or UTF-8.
      source: path, for errors.
      has_keys_once: whether an object with two equal keys is refused; else the last one counts.

    Raises:
      ValueError: if the content is not UTF-8, not JSON, or another value than an object.
    """
    hook = _with_keys_once if has_keys_once else None
    try:
        values = json.loads(content if isinstance(content, str) else content.decode("utf-8"), object_pairs_hook=hook)
    except _TwiceError as error:
        raise ValueError(f"{source}: {error}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{source}: not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"{source}:{error.lineno}:{error.colno}: not valid JSON: {error.msg}") from error
    except RecursionError as error:
        raise ValueError(f"{source}: not valid JSON: nested too deep") from error
    except ValueError as error:  # Python's limit of digits
        raise ValueError(f"{source}: not valid JSON: a number of thousands of digits") from error
    if not isinstance(values, dict):
        raise ValueError(f"{source}: must hold a JSON object, got {type(values).__name__}")
    return values


def _with_keys_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _TwiceError(f"two values have the key {next(key for key in keys if keys.count(key) > 1)!r}")
    return found


@dataclasses.dataclass(frozen=True, kw_only=True)
class JsonConfig:
    """Base of the frozen dataclasses that are stored as JSON files: in and out, unknown keys refused by name."""

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Config from a mapping.

        Raises:
          ValueError: for an unknown key or a value that the class refuses.
        """
        fields = [field.name for field in dataclasses.fields(cls)]
        unknown = [key for key in values if key not in fields]
        if unknown:
            raise ValueError(f"unknown key {unknown[0]!r}; known keys: {', '.join(sorted(fields))}")
        return cls(**values)

    @classmethod
    def from_json(cls, content: str | bytes, *, source: str = "configuration") -> Self:
        """Config from the content of a JSON file; `source`, its path, is named in errors.

        Raises:
          ValueError: if the content is not a JSON object with known keys and valid values.
        """
        values = parse_object(content, source=source)
        try:
            return cls.from_dict(values)
        except ValueError as error:
            raise ValueError(f"{source}: {error}") from error

    def to_dict(self) -> dict[str, Any]:
        """All fields, ready for JSON."""
        return dataclasses.asdict(self)

    def to_json(self) -> str:
        """Text of the JSON file, ending with a newline."""
        return json.dumps(self.to_dict(), indent=2) + "\n"

    def replace(self, **changes: Any) -> Self:
        """Copy with some fields changed."""
        return self.from_dict({**self.to_dict(), **changes})
