"""Names of the tensors in a PyTorch file's value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from albert_tf.weight_files.torch_tensors import View

WRAPPERS = ("state_dict", "model_state_dict", "model")
_MAX_DEPTH = 16
_MAX_VALUES = 1_000_000
_MAX_NAME = 1000  # characters


def name_tensors(path: str, root: Any) -> dict[str, View]:
    """Every tensor in the value of a file, by name.

    A state dict maps names to tensors. A training program's checkpoint has one under a key of `WRAPPERS`, beside the
    optimizer's state: then the names are those of the state dict, and other tensors are named by their whole way,
    with slashes, such as "optimizer/state/0/exp_avg".

    Raises:
      ValueError: if there are no tensors, or which of two state dicts is meant is open.
    """
    if not isinstance(root, dict):
        kind = "one tensor" if isinstance(root, View) else f"a {type(root).__name__}"
        raise ValueError(f"{path}: holds {kind}; expected a mapping of names to tensors: save the model's state_dict()")
    wrapper = _find_wrapper(path, root)
    tensors: dict[str, View] = {}
    for way, view in _walk(path, root):
        name = "/".join(way[1:] if wrapper is not None and way[0] == wrapper else way)
        if name in tensors:
            raise ValueError(f"{path}: holds two tensors named {name!r}")
        tensors[name] = view
    if not tensors:
        raise ValueError(f"{path}: holds no tensors; expected a model's state_dict()")
    return tensors


def _find_wrapper(path: str, root: dict) -> str | None:
    """The key under which a checkpoint has its model's tensors; None if they are at the top."""
    if any(isinstance(value, View) for value in root.values()):
        return None
    found = [
        key
        for key in WRAPPERS
        if isinstance(root.get(key), dict) and any(isinstance(value, View) for value in root[key].values())
    ]
    if len(found) > 1:
        raise ValueError(f"{path}: holds tensors under {' and '.join(map(repr, found))}; save the state_dict() meant")
    return found[0] if found else None


def _walk(path: str, root: dict) -> Iterator[tuple[tuple[str, ...], View]]:
    """Each tensor with the keys on the way to it, in the file's order."""
    open_ways: list[tuple[tuple[str, ...], Any]] = [((), root)]
    seen = 0
    while open_ways:
        way, value = open_ways.pop()
        if isinstance(value, View):
            yield way, value
            continue
        seen += 1 + len(value)
        if seen > _MAX_VALUES or len(way) > _MAX_DEPTH:
            break
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        if isinstance(value, dict) and any(isinstance(key, str) and len(key) > _MAX_NAME for key in value):
            raise ValueError(f"{path}: a name in it has more than {_MAX_NAME} characters; it is not opened")
        open_ways += [
            ((*way, str(key)), inner)
            for key, inner in reversed(list(pairs))
            if isinstance(inner, (View, dict, list, tuple))
        ]
    else:
        return
    raise ValueError(f"{path}: its values are nested deeper, or are more, than those of any weights; it is not opened")
