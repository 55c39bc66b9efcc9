"""The training step as StableHLO, the text that a TPU's compiler takes, and what in it no TPU could run.

Lowering needs no TPU: the step is traced as `strategy.run` traces it on each replica, and written out instead of run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from albert_tf import features
from albert_tf.config import AlbertConfig
from albert_tf.data.batches import EPOCH, EXAMPLE
from albert_tf.modeling.encoder import Form
from albert_tf.training.building import build_pretraining_trainer
from albert_tf.training.loop import Trainer
from albert_tf.training.settings import PretrainingSettings

# Any rate and number of steps will do: they are constants of the step and change none of its shapes.
_RATE, _STEPS = 0.001, 1000

# Shapes that are known while the step runs only, and operations that make such.
_DYNAMIC = re.compile(
    r"tensor<(?:\d+x)*\?[^>]*>|\bset_dimension_size\b|\b(?:stablehlo|mhlo)\.(?:real_)?dynamic_"
    r"(?:broadcast_in_dim|conv|gather|iota|pad|reshape|slice)\b(?=.*\btensor<(?:\d+x)*\?)"
)
# Operations that leave the device, and calls of the host's functions. Targets of these names are the compiler's own.
_HOST = re.compile(
    r"\b(?:stablehlo|mhlo)\.(?:infeed|outfeed|send|recv)\b|\bcustom_call\s+@(?!mhlo\.|chlo\.|Sharding\b)[\w.$]+"
)


def make_trainer(config: AlbertConfig, *, form: Form = "unrolled", **settings: Any) -> Trainer:
    """A trainer of a new model on one device, in the form that a TPU takes.

    Args:
      config: shape of the model.
      form: of the forward pass.
      **settings: of `PretrainingSettings`: dtype, optimizer, remat and so on.
    """
    made = PretrainingSettings(
        config=config, data_dir="", output_dir="", num_train_steps=_STEPS, learning_rate=_RATE, **settings
    )
    # The default strategy: a replica context of one, without entering a scope, which the lowering would not see.
    return build_pretraining_trainer(made, tf.distribute.get_strategy(), form=form)


def example_batch(*, batch_size: int, max_seq_length: int, max_predictions_per_seq: int) -> dict[str, tf.Tensor]:
    """A batch of zeros with the features of the data pipeline: int32 [B, S], [B, P] and [B], and so on."""
    whole, predictions = (batch_size, max_seq_length), (batch_size, max_predictions_per_seq)
    return {
        features.INPUT_IDS: tf.zeros(whole, tf.int32),
        features.INPUT_MASK: tf.zeros(whole, tf.int32),
        features.SEGMENT_IDS: tf.zeros(whole, tf.int32),
        features.MASKED_LM_POSITIONS: tf.zeros(predictions, tf.int32),
        features.MASKED_LM_IDS: tf.zeros(predictions, tf.int32),
        features.MASKED_LM_WEIGHTS: tf.zeros(predictions, tf.float32),
        features.SENTENCE_ORDER_LABEL: tf.zeros(batch_size, tf.int32),
        EXAMPLE: tf.zeros(batch_size, tf.int64),
        EPOCH: tf.zeros(batch_size, tf.int64),
    }


def lower(trainer: Trainer, batch: Mapping[str, tf.Tensor]) -> str:
    """StableHLO of `trainer.replica_step`, the function handed to `strategy.run`.

    Args:
      trainer: on one device.
      batch: tensors with values, of one replica: shapes count, values do not.

    Raises:
      ValueError: if the step holds what cannot be lowered, such as a Python function or a shape that depends on data.
    """
    function = tf.function(trainer.replica_step, jit_compile=True, autograph=False)
    try:
        return str(function.experimental_get_compiler_ir(batch)(stage="stablehlo"))
    except (tf.errors.OpError, ValueError, TypeError) as error:
        reason = next(iter(str(getattr(error, "message", "") or error).strip().splitlines()), type(error).__name__)
        raise ValueError(f"the step cannot be lowered for a TPU: {reason}") from error


def obstacles(text: str) -> list[str]:
    """What in the StableHLO `text` a TPU could not run: dynamic shapes and calls of the host, each once."""
    found = [match[0] for pattern in (_DYNAMIC, _HOST) for match in pattern.finditer(text)]
    return list(dict.fromkeys(" ".join(item.split()) for item in found))
