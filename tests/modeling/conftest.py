"""Fixtures of the model's tests."""

from __future__ import annotations

import pytest

from albert_tf.config import AlbertConfig
from tests.modeling.small_models import SHARING_CASES, make_config


@pytest.fixture(params=list(SHARING_CASES.values()), ids=list(SHARING_CASES))
def any_config(request: pytest.FixtureRequest) -> AlbertConfig:
    """A configuration of every way of sharing parameters."""
    return make_config(**request.param)
