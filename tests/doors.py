"""Doors in the tests' process, where many meet: flags are made, read and taken away; TensorFlow is loaded once."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

from absl import flags


def load(name: str) -> Any:
    """A door that defines its flags when it is imported, without them."""
    with without_new_flags():
        return importlib.import_module(name)


@contextlib.contextmanager
def without_new_flags() -> Iterator[None]:
    """Takes the flags that are defined in the block away again."""
    before = set(flags.FLAGS)
    try:
        yield
    finally:
        for name in set(flags.FLAGS) - before:
            delattr(flags.FLAGS, name)


@contextlib.contextmanager
def parsed(module: Any, *arguments: object) -> Iterator[Any]:
    """The flags of a door that defines them in `_define_flags`, with the values that the arguments give."""
    with without_new_flags():
        module._define_flags()
        try:
            flags.FLAGS(["door", *map(str, arguments)])
            yield flags.FLAGS
        finally:
            flags.FLAGS.unparse_flags()


def run(module: Any, *arguments: object) -> None:
    """Runs a door; its errors come out as they are raised."""
    with parsed(module, *arguments):
        module.main()
