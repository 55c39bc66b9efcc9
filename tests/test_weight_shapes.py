"""The list of weights made from a configuration alone is the list of the built model's."""

from __future__ import annotations

import pytest

from albert_tf.head_config import HeadConfig
from albert_tf.modeling.models import AlbertPretrainingModel
from albert_tf.weight_shapes import weight_shapes
from tests.modeling.small_models import SHARING_CASES, make_config


@pytest.mark.parametrize("name", SHARING_CASES)
def test_names_and_shapes_equal_the_built_models(name: str) -> None:
    config = make_config(**SHARING_CASES[name])
    built = AlbertPretrainingModel(config).named_weights()
    assert weight_shapes(config, HeadConfig()) == {key: tuple(value.shape) for key, value in built.items()}
