"""Runs a door in the tests' process: flags are made, read and taken away again; TensorFlow is loaded once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from absl import flags


@contextlib.contextmanager
def parsed(module: Any, *arguments: object) -> Iterator[Any]:
    """The flags of a door that defines them in `_define_flags`, with the values that the arguments give."""
    before = set(flags.FLAGS)
    module._define_flags()
    try:
        flags.FLAGS(["door", *map(str, arguments)])
        yield flags.FLAGS
    finally:
        for name in set(flags.FLAGS) - before:
            delattr(flags.FLAGS, name)
        flags.FLAGS.unparse_flags()


def run(module: Any, *arguments: object) -> None:
    """Runs a door; its errors come out as they are raised."""
    with parsed(module, *arguments):
        module.main()
