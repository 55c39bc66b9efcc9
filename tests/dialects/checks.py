"""Checks that tests of every dialect make."""

from __future__ import annotations

import re

import numpy as np

from albert_tf.dialects.foreign_model import ForeignModel
from albert_tf.dialects.matching import match
from albert_tf.weight_shapes import weight_shapes


def assert_holds(model: ForeignModel, weights: dict[str, np.ndarray]) -> None:
    """The table is complete, every weight has the bits of `weights` both ways, and nothing is left without a reason."""
    shapes = weight_shapes(model.config, model.head)
    assert [entry.ours for entry in model.table] == list(shapes)
    for entry in model.table:
        theirs = model.weights.read(entry.theirs)
        assert model.weights.tensors[entry.theirs].shape == entry.transform.their_shape(shapes[entry.ours]), entry
        ours = entry.transform.to_ours(theirs)
        assert ours.shape == shapes[entry.ours], entry
        np.testing.assert_array_equal(ours, weights[entry.ours], err_msg=entry.ours)
        np.testing.assert_array_equal(entry.transform.to_theirs(ours), theirs, err_msg=entry.theirs)
    matched = match(model)
    assert {name: matched[name].tobytes() for name in shapes} == {name: weights[name].tobytes() for name in shapes}
    assert left_over(model) == []


def left_over(model: ForeignModel) -> list[str]:
    """Tensors that are neither in the table nor ignored."""
    used = {entry.theirs for entry in model.table}
    patterns = [re.compile(pattern) for pattern, _ in model.ignored]
    return [n for n in model.weights.tensors if n not in used and not any(p.fullmatch(n) for p in patterns)]
