"""Settings of the tests that run other libraries. They are loaded inside fixtures and tests: `make test` lacks them."""

from __future__ import annotations

import os
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def hf() -> ModuleType:
    """The transformers library, silent and without a network."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    import torch
    import transformers

    torch.set_num_threads(2)
    transformers.logging.disable_progress_bar()
    return transformers
