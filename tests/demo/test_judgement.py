"""Permuted contexts and the verdict, on hand-made batches."""

from __future__ import annotations

import types

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.modeling.models import AlbertPretrainingModel
from demo import judgement

MASK = 4


def make_batch() -> dict[str, tf.Tensor]:
    """B=4, S=7, P=2. Row 0 shows one [MASK] and one piece, row 2 a [MASK] at the place of that; row 3 only fills up."""
    int32 = {
        "input_ids": [[2, 10, 4, 3, 12, 3, 0], [2, 4, 3, 4, 3, 0, 0], [2, 20, 21, 3, 4, 4, 3], [2, 8, 3, 9, 3, 0, 0]],
        "input_mask": [[1] * 6 + [0], [1] * 5 + [0] * 2, [1] * 7, [1] * 5 + [0] * 2],
        "segment_ids": [[0] * 4 + [1, 1, 0], [0, 0, 0, 1, 1, 0, 0], [0] * 4 + [1] * 3, [0, 0, 0, 1, 1, 0, 0]],
        "masked_lm_positions": [[2, 4], [1, 3], [4, 5], [1, 0]],
        "masked_lm_ids": [[5, 12], [6, 5], [22, 7], [8, 0]],
        "sentence_order_label": [1, 0, 0, 1],
    }
    float32 = {"masked_lm_weights": [[1, 1], [1, 1], [1, 1], [0, 0]], "example_weight": [1, 1, 1, 0]}
    return {name: tf.constant(value, tf.int32) for name, value in int32.items()} | {
        name: tf.constant(value, tf.float32) for name, value in float32.items()
    }


def test_permuted_contexts_come_from_other_rows_and_keep_the_masks() -> None:
    batch = make_batch()
    permuted = judgement.permute_contexts(batch, MASK)
    assert permuted["input_ids"].numpy().tolist() == [
        [2, 20, 4, 3, 4, 4, 3],
        [2, 4, 3, 4, 3, 0, 0],
        [2, 10, 4, 3, 4, 4, 0],
        [2, 4, 3, 4, 3, 0, 0],
    ]
    assert permuted["segment_ids"].numpy().tolist() == [
        [0, 0, 0, 0, 1, 1, 1],
        [0, 0, 0, 1, 1, 0, 0],
        [0, 0, 0, 0, 1, 1, 0],
        [0, 0, 0, 1, 1, 0, 0],
    ]
    # Position 5 of row 2 is a [MASK] that stays, so it counts although the other row has its padding behind it.
    assert permuted["input_mask"].numpy().tolist() == [[1] * 7, [1] * 5 + [0] * 2, [1] * 6 + [0], [1] * 5 + [0] * 2]
    assert permuted["masked_lm_weights"].numpy().tolist() == [[1, 0], [1, 1], [1, 1], [0, 0]]
    for name in ("masked_lm_positions", "masked_lm_ids", "sentence_order_label"):
        np.testing.assert_array_equal(permuted[name], batch[name])


def test_permuted_evaluator_scores_the_same_positions_with_other_contexts() -> None:
    config = AlbertConfig(
        vocab_size=23,
        embedding_size=3,
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=10,
        max_position_embeddings=9,
        initializer_range=0.5,  # wide, so that contexts matter
    )
    model = AlbertPretrainingModel(config, seed=3)
    data = types.SimpleNamespace(num_examples=4, special_ids={"mask": MASK})
    evaluators = [
        kind(model, tf.distribute.get_strategy(), data, np.arange(23), batch_size=4)  # type: ignore[arg-type]
        for kind in (judgement.Evaluator, judgement.PermutedEvaluator)
    ]
    batch = make_batch()
    own, permuted = (evaluator.replica_sums(batch)["mask"].numpy() for evaluator in evaluators)
    changed = evaluators[0].replica_sums(judgement.permute_contexts(batch, MASK))["mask"].numpy()
    # The same computation on the same numbers.
    np.testing.assert_array_equal(permuted, changed)
    assert own[0] == permuted[0] == 5  # positions that show [MASK] and count
    assert own[3] == permuted[3]  # what the frequencies cost there
    assert abs(own[1] - permuted[1]) > 0.01


def figures(**changes: float) -> dict[str, float]:
    """What `Evaluator.run` returns, as far as it is used."""
    return {
        "positions_at_mask": 12_000,
        "masked_lm_loss_at_mask": 5.5,
        "context_free_loss_at_mask": 6.2,
        "gain_over_context_free_at_mask": 0.7,
        "gain_over_context_free_at_mask_error": 0.02,
        "masked_lm_accuracy_at_mask": 0.2,
        "context_free_accuracy_at_mask": 0.07,
        "sentence_order_accuracy": 0.8,
        "sentence_order_majority": 0.51,
        **changes,
    }


PERMUTED = {
    "masked_lm_loss_at_mask": 6.6,
    "gain_over_context_free_at_mask": -0.4,
    "gain_over_context_free_at_mask_error": 0.03,
}


def test_judgement_compares_own_and_permuted_figures() -> None:
    found = judgement.Judgement.of(figures(), figures(**PERMUTED))
    assert (found.positions, found.loss, found.bound, found.permuted) == (12_000, 5.5, 6.2, 6.6)
    assert found.below_permuted == pytest.approx(1.1)
    assert found.below_permuted_error == pytest.approx(0.05)
    assert found.learned
    with pytest.raises(ValueError, match="positions of own, 12000, got 11999"):
        judgement.Judgement.of(figures(), figures(positions_at_mask=11_999))


@pytest.mark.parametrize(
    ("own", "permuted", "learned"),
    [
        ({}, {}, True),
        ({"positions_at_mask": 9_999}, {"positions_at_mask": 9_999}, False),
        ({"gain_over_context_free_at_mask": 0.09}, {}, False),
        ({"gain_over_context_free_at_mask_error": 0.15}, {}, False),
        ({}, {"gain_over_context_free_at_mask": 0.61}, False),
        ({}, {"gain_over_context_free_at_mask_error": 0.21}, False),
    ],
)
def test_learned_needs_distance_and_certainty(own: dict[str, float], permuted: dict[str, float], learned: bool) -> None:
    found = judgement.Judgement.of(figures(**own), figures(**{**PERMUTED, **permuted}))
    assert found.learned is learned
