"""Sentence vectors beside the encoder called on each text alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from albert_tf.head_config import HeadConfig
from albert_tf.inference.embedding import Embedder
from albert_tf.modeling.encoder import ENCODER_INPUTS
from albert_tf.tokenizer import AlbertTokenizer
from tests.inference.conftest import loaded_model

TEXTS = ("The value of a name.", "", "A name.", "The names of the module are found. " * 12, "In 2010, they came back.")


@pytest.mark.parametrize("pooling", ["cls", "mean"])
@pytest.mark.parametrize("head", [HeadConfig(head="encoder", pooler=False), HeadConfig(head="regression")])
def test_vectors_are_those_of_each_text_alone(tokenizer: AlbertTokenizer, head: HeadConfig, pooling: Any) -> None:
    model = loaded_model(head).model
    embedder = Embedder(model, tokenizer, pooling=pooling, max_seq_length=40, batch_size=2)
    found = embedder.vectors(TEXTS)
    assert found.shape == (len(TEXTS), embedder.width)
    assert found.dtype == np.float32
    in_order = Embedder(model, tokenizer, pooling=pooling, max_seq_length=40, batch_size=2, sort_by_length=False)
    np.testing.assert_allclose(in_order.vectors(TEXTS), found, atol=2e-5)  # sums in another order
    for text, vector in zip(TEXTS, found, strict=True):
        values = tokenizer.encode_pair(tokenizer.encode(text), None, 40)
        inputs = {name: np.array([value], np.int32) for name, value in zip(ENCODER_INPUTS, values, strict=True)}
        tokens = model.encoder(inputs)["sequence_output"].numpy()[0, : sum(values[1])]
        np.testing.assert_allclose(vector, tokens[0] if pooling == "cls" else tokens.mean(0), atol=2e-5)


def test_no_text_has_no_vector(tokenizer: AlbertTokenizer) -> None:
    embedder = Embedder(loaded_model(HeadConfig(head="regression")).model, tokenizer)
    assert embedder.vectors([]).shape == (0, 48)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pooling": "max"}, "pooling must be one of cls, mean, got 'max'"),
        ({"max_seq_length": 71}, r"max_seq_length must be in \[3, 70\], got 71"),
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
    ],
)
def test_refusals(tokenizer: AlbertTokenizer, settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Embedder(loaded_model(HeadConfig(head="regression")).model, tokenizer, **settings)
