"""What `predict` runs, rows without padding in batches of like length, against the original's numbers.

Tolerance: as in test_head_values.
"""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

from albert_tf.head_config import HeadConfig
from albert_tf.model_directory import assign_weights
from albert_tf.modeling.model_runner import ModelRunner
from albert_tf.modeling.models import make_model
from tests.golden.test_head_values import Arrays, close, load

pytestmark = pytest.mark.golden


def run(runner: ModelRunner, arrays: Arrays) -> np.ndarray:
    """Logits of the golden rows, in their order, each cut at its last token."""
    lengths = arrays["input_mask"].sum(axis=1)
    assert len(set(lengths.tolist())) > 1
    rows = [
        {name: arrays[name][row, :length] for name in ("input_ids", "segment_ids")}
        for row, length in enumerate(lengths)
    ]
    found = dict(runner.run(rows))
    return np.stack([found[row]["logits"] for row in range(len(rows))])


@pytest.mark.parametrize("batch_size", [1, 2, 32])
def test_classifier(reference_data: pathlib.Path, batch_size: int) -> None:
    model, arrays = load(reference_data / "golden" / "tf1_classifier_3", HeadConfig(head="classifier", num_labels=3))
    close(run(ModelRunner(model, batch_size=batch_size), arrays), arrays["logits"])


@pytest.mark.parametrize("number", range(3))
def test_regression_is_one_row_of_a_classifier(reference_data: pathlib.Path, number: int) -> None:
    """The original computes a number as it does the logit of one class."""
    classifier, arrays = load(
        reference_data / "golden" / "tf1_classifier_3", HeadConfig(head="classifier", num_labels=3)
    )
    model = make_model(classifier.config, HeadConfig(head="regression"))
    weights = {
        name.replace("classifier/", "regression/"): weight.numpy()
        for name, weight in classifier.named_weights().items()
    }
    for name in [name for name in weights if name.startswith("regression/")]:
        weights[name] = weights[name][..., number : number + 1]
    assign_weights(model.named_weights(), weights, source="the classifier")
    close(run(ModelRunner(model), arrays), arrays["logits"][:, number])
