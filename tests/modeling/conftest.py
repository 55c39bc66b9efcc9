"""Fixtures of the model's tests."""

from __future__ import annotations

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.head_config import HeadConfig
from tests.modeling.small_models import HEAD_CASES, SHARING_CASES, make_config


@pytest.fixture(params=list(SHARING_CASES.values()), ids=list(SHARING_CASES))
def any_config(request: pytest.FixtureRequest) -> AlbertConfig:
    """A configuration of every way of sharing parameters."""
    return make_config(**request.param)


@pytest.fixture(params=list(HEAD_CASES.values()), ids=list(HEAD_CASES))
def any_head(request: pytest.FixtureRequest) -> HeadConfig:
    """A configuration of every head."""
    return request.param
