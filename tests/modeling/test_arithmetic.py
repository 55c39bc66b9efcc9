"""The arithmetic of a step: against a count by hand, and against the compiler's own of steps without loops."""

from __future__ import annotations

from typing import Any

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.modeling.arithmetic import step_operations
from tests.data import toy


def test_against_a_count_by_hand() -> None:
    sizes: Any = {"batch_size": 3, "max_seq_length": 7, "max_predictions_per_seq": 5}
    # toy.CONFIG: V 61, E 6, H 10, L 2, I 14.
    attention = 4 * 2 * 21 * 10 * 10 + 2 * 2 * 3 * 7 * 7 * 10
    feed_forward = 2 * 21 * 10 * 14 + 2 * 21 * 14 * 10
    layers = 2 * (attention + feed_forward)
    heads = 2 * 15 * 10 * 6 + 2 * 15 * 6 * 61 + 2 * 3 * 10 * 10 + 2 * 3 * 10 * 2
    forward = 2 * 21 * 6 * 10 + layers + heads
    assert step_operations(toy.CONFIG, **sizes) == 3 * forward
    assert step_operations(toy.CONFIG, **sizes, remat=True) == 3 * forward + layers


def test_words_alone() -> None:
    """The words' matrix in the place of the projection; the masked-LM head goes from H to H, to E, to all words."""
    sizes: Any = {"batch_size": 3, "max_seq_length": 7, "max_predictions_per_seq": 5}
    config = toy.CONFIG.replace(embedding_factorization="words")
    assert step_operations(config, **sizes) - step_operations(toy.CONFIG, **sizes) == 3 * 2 * 15 * 10 * 10
    square = toy.CONFIG.replace(embedding_factorization="words", embedding_size=10)
    plain = toy.CONFIG.replace(embedding_size=10)
    assert plain.embedding_projection is False
    assert step_operations(square, **sizes) - step_operations(plain, **sizes) == 3 * 2 * (21 + 15) * 10 * 10


@pytest.mark.parametrize(
    ("size", "batch_size", "length", "predictions", "counted"),
    [("base", 32, 128, 20, 2180717084672), ("large", 16, 512, 77, 16249070288896)],
)
def test_against_the_compiler(size: str, batch_size: int, length: int, predictions: int, counted: int) -> None:
    found = step_operations(
        AlbertConfig.named(size),
        batch_size=batch_size,
        max_seq_length=length,
        max_predictions_per_seq=predictions,
    )
    # The compiler counts all that is no matrix product, too: sums, softmax, LayerNorm, the update.
    assert 0.98 * counted < found < counted
