"""Small models and ragged batches. All sizes differ from each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.head_config import HeadConfig

SEQ_LENGTH, PREDICTIONS = 13, 4
# A full row, a row of one token, one with holes (its first position is a token), one without tokens, one ragged.
MASK_ROWS = ("1111111111111", "1000000000000", "1101101110000", "0000000000000", "1111111000000")


def make_config(**changes) -> AlbertConfig:
    fields = {
        "vocab_size": 97,
        "embedding_size": 8,
        "hidden_size": 24,
        "num_hidden_layers": 4,
        "num_attention_heads": 3,
        "intermediate_size": 40,
        "max_position_embeddings": 17,
        "initializer_range": 0.3,  # wide, so that attention is far from uniform and an error shows
    }
    return AlbertConfig(**{**fields, **changes})


def make_batch(seed: int = 5, rows: tuple[str, ...] = MASK_ROWS) -> dict[str, np.ndarray]:
    """Random ids with the masks of `rows`; masked positions are real tokens where a row has any."""
    generator = np.random.default_rng(seed)
    mask = np.array([[int(c) for c in row] for row in rows], np.int32)
    positions = [generator.choice(np.flatnonzero(row) if row.any() else [0], PREDICTIONS) for row in mask]
    return {
        "input_ids": generator.integers(0, 97, mask.shape).astype(np.int32),
        "input_mask": mask,
        "segment_ids": generator.integers(0, 2, mask.shape).astype(np.int32),
        "masked_lm_positions": np.array(positions, np.int32),
    }


def batch_for(head: str, seed: int = 5, rows: tuple[str, ...] = MASK_ROWS) -> dict[str, np.ndarray]:
    """`make_batch` with what the head takes besides; three texts for each choice, rotated."""
    batch = make_batch(seed, rows)
    if head not in ("pretraining", "masked_lm"):
        del batch["masked_lm_positions"]
    if head == "conditional_span":
        # The padding, and some of the tokens.
        tokens = np.random.default_rng(seed).integers(0, 3, batch["input_mask"].shape) > 0
        batch["p_mask"] = 1 - batch["input_mask"] * tokens.astype(np.int32)
    if head == "multiple_choice":
        return {key: np.stack([np.roll(value, shift, 0) for shift in (0, 1, 3)], 1) for key, value in batch.items()}
    return batch


def randomize(named_weights, seed: int = 11) -> dict[str, np.ndarray]:
    """Gives every weight, biases and LayerNorm included, a random value, and returns the values by name."""
    generator = np.random.default_rng(seed)
    for name, variable in named_weights.items():
        centre = 1.0 if name.endswith("/gamma") else 0.0
        variable.assign(centre + 0.3 * generator.standard_normal(tuple(variable.shape)))
    return {name: variable.numpy().astype(np.float64) for name, variable in named_weights.items()}


SHARING_CASES: dict[str, dict[str, Any]] = {
    "all": {},
    "attention": {"parameter_sharing": "attention"},
    "ffn": {"parameter_sharing": "ffn"},
    "none": {"parameter_sharing": "none"},
    "two_groups": {"num_hidden_groups": 2},
    "three_groups_of_four_layers": {"num_hidden_groups": 3},
    "inner_blocks": {"inner_group_num": 2},
    "groups_attention": {"num_hidden_groups": 2, "inner_group_num": 2, "parameter_sharing": "attention"},
    "no_projection": {"embedding_size": 24},
    "forced_projection": {"embedding_size": 24, "embedding_projection": True},
    "words_alone": {"embedding_factorization": "words"},
    "words_alone_two_groups": {"embedding_factorization": "words", "num_hidden_groups": 2},
    "words_alone_square": {"embedding_factorization": "words", "embedding_size": 24},
}

HEAD_CASES: dict[str, HeadConfig] = {
    "pretraining": HeadConfig(),
    "masked_lm": HeadConfig(head="masked_lm"),
    "masked_lm_without_pooler": HeadConfig(head="masked_lm", pooler=False),
    "encoder": HeadConfig(head="encoder"),
    "encoder_without_pooler": HeadConfig(head="encoder", pooler=False),
    "classifier": HeadConfig(head="classifier", num_labels=5, dropout_prob=0.2),
    "regression": HeadConfig(head="regression"),
    "multiple_choice": HeadConfig(head="multiple_choice", dropout_prob=0.3),
    "token_classifier": HeadConfig(head="token_classifier", labels=("O", "B", "I")),
    "span": HeadConfig(head="span"),
    "span_without_pooler": HeadConfig(head="span", pooler=False),
    "conditional_span": HeadConfig(head="conditional_span", start_n_top=4, end_n_top=2),
}
