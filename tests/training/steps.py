"""Single training steps on made-up batches, without a data directory. All sizes differ from each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.data.batches import EPOCH, EXAMPLE
from albert_tf.modeling.models import AlbertPretrainingModel
from albert_tf.training import optimizers, schedules
from albert_tf.training.loop import Trainer
from albert_tf.training.objectives import PretrainingObjective
from tests.data import toy

CONFIG = toy.CONFIG
BATCH, SEQUENCE, PREDICTIONS = 12, 17, 3


def make_batch(seed: int = 1, *, dtype: str = "float32") -> dict[str, tf.Tensor]:
    """Random rows of 3 to 17 tokens; some rows have fewer predictions than others."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(3, SEQUENCE + 1, BATCH)
    mask = (np.arange(SEQUENCE) < lengths[:, None]).astype(np.int32)
    used = np.arange(PREDICTIONS) < generator.integers(1, PREDICTIONS + 1, BATCH)[:, None]
    values: dict[str, Any] = {
        "input_ids": generator.integers(5, CONFIG.vocab_size, mask.shape).astype(np.int32) * mask,
        "input_mask": mask,
        "segment_ids": ((np.arange(SEQUENCE) >= 2) & (mask > 0)).astype(np.int32),
        "masked_lm_positions": generator.integers(0, 3, used.shape).astype(np.int32),
        "masked_lm_ids": generator.integers(5, CONFIG.vocab_size, used.shape).astype(np.int32),
        "masked_lm_weights": used.astype(dtype),
        "sentence_order_label": generator.integers(0, 2, BATCH).astype(np.int32),
        EXAMPLE: np.arange(BATCH) + 100 * seed,
        EPOCH: np.zeros(BATCH, np.int64),
    }
    return {name: tf.constant(value) for name, value in values.items()}


def make_trainer(
    config: AlbertConfig = CONFIG,
    *,
    dtype: str = "float32",
    optimizer_class: type = optimizers.Lamb,
    learning_rate: float = 0.02,
    **options: Any,
) -> Trainer:
    """A trainer on one device. `options` are those of `Trainer`; a callable one is made from the model's weights."""
    model = AlbertPretrainingModel(config, seed=5, dtype=dtype)
    optimizer = optimizer_class(schedules.WarmupPolynomialDecay(learning_rate, 19, 2))
    optimizer.build(list(model.named_weights().values()))
    made = {name: value(model.named_weights()) if callable(value) else value for name, value in options.items()}
    objective = PretrainingObjective()
    return Trainer(model, optimizer, tf.distribute.get_strategy(), objective, clip_norm=0.3, **made)


def train(trainer: Trainer, batches: list[dict[str, tf.Tensor]]) -> np.ndarray:
    """Makes a step with each batch; what they reported, float [steps, len(metrics)]."""
    dataset = tf.data.Dataset.from_generator(
        lambda: iter(batches),
        output_signature={name: tf.TensorSpec(value.shape, value.dtype) for name, value in batches[0].items()},
    )
    return trainer.run(iter(dataset), len(batches))[0]


def weights_of(trainer: Trainer) -> dict[str, np.ndarray]:
    """Present values of the weights by name."""
    return {name: weight.numpy() for name, weight in trainer.model.named_weights().items()}
