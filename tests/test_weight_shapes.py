"""The list of weights made from a configuration alone is the list of the built model's."""

from __future__ import annotations

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.head_config import HeadConfig
from albert_tf.modeling.models import make_model
from albert_tf.weight_shapes import weight_shapes
from tests.modeling.small_models import HEAD_CASES, SHARING_CASES, make_config


def _check(config: AlbertConfig, head: HeadConfig) -> None:
    built = make_model(config, head).named_weights()
    expected = {key: tuple(value.shape) for key, value in built.items()}
    assert list(weight_shapes(config, head).items()) == list(expected.items())


@pytest.mark.parametrize("name", SHARING_CASES)
def test_every_way_of_sharing(name: str) -> None:
    _check(make_config(**SHARING_CASES[name]), HeadConfig())


@pytest.mark.parametrize("name", HEAD_CASES)
def test_every_head(name: str) -> None:
    _check(make_config(), HEAD_CASES[name])
