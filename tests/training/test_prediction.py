"""Logits of examples in memory: neither padding, nor order, nor batch size changes them."""

from __future__ import annotations

import numpy as np
import pytest

from albert_tf.head_config import Head
from albert_tf.modeling.model_runner import ModelRunner, pad_rows
from albert_tf.modeling.models import make_model
from albert_tf.training.prediction import predict_logits
from tests.modeling.small_models import randomize
from tests.training import task_rows

COUNT = 23


@pytest.mark.parametrize("head", ["classifier", "regression", "token_classifier"])
def test_logits_are_those_of_the_model_with_all_its_padding(head: Head) -> None:
    model = make_model(task_rows.CONFIG, task_rows.make_head(head))
    randomize(model.named_weights())
    rows = task_rows.make_rows(head, COUNT)
    pairs = zip(rows.input_ids, rows.segment_ids, strict=True)
    inputs = pad_rows([{"input_ids": ids, "segment_ids": segments} for ids, segments in pairs], least_length=23)
    expected = model(inputs)["logits"].numpy()
    if head == "token_classifier":
        expected = [value[:size] for value, size in zip(expected, rows.lengths, strict=True)]
    runners = [
        ModelRunner(model, batch_size=5),
        ModelRunner(model, batch_size=7, sort_by_length=False),
        ModelRunner(model, batch_size=9, form="unrolled", seq_length=22),
    ]
    found = [predict_logits(runner, rows) for runner in runners]
    for values in found:
        assert len(values) == COUNT
        for value, wanted in zip(values, expected, strict=True):
            assert value.shape == wanted.shape
            np.testing.assert_allclose(value, wanted, rtol=0, atol=2e-5)  # logits of size 10 in float32
