"""A model's logits for examples in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from albert_tf import features
from albert_tf.modeling.model_runner import ModelRunner

if TYPE_CHECKING:
    from albert_tf.tasks.features import EncodedExamples


def predict_logits(runner: ModelRunner, examples: EncodedExamples) -> np.ndarray | list[np.ndarray]:
    """Logits of all rows, in their order.

    Args:
      runner: of a model with a head that gives `logits`.
      examples: the rows, labels or not.

    Returns:
      float [n] (regression) or [n, C]; for a token classifier a list of float [T_i, C].
    """
    rows = [
        {features.INPUT_IDS: ids, features.SEGMENT_IDS: segments}
        for ids, segments in zip(examples.input_ids, examples.segment_ids, strict=True)
    ]
    found: list[Any] = [None] * len(rows)
    is_by_token = runner.model.HEAD == "token_classifier"
    for number, outputs in runner.run(rows):
        logits = outputs["logits"]
        found[number] = logits[: len(rows[number][features.INPUT_IDS])] if is_by_token else logits
    return found if is_by_token else np.stack(found)
