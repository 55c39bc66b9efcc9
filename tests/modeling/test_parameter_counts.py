"""Counts from a configuration equal those of the model that is built from it."""

from __future__ import annotations

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.modeling.models import AlbertPretrainingModel
from albert_tf.modeling.parameter_counts import count_parameters
from albert_tf.training import footprint
from albert_tf.training.optimizers import Lamb
from tests.modeling.small_models import SHARING_CASES, make_config


@pytest.mark.parametrize("case", SHARING_CASES)
def test_equal_the_built_model(case: str) -> None:
    config = make_config(**SHARING_CASES[case])
    model = AlbertPretrainingModel(config)
    built = dict.fromkeys(count_parameters(config), 0)
    for name, weight in model.named_weights().items():
        parts = [part for part in built if part in name.split("/") or name.startswith(f"encoder/{part}/")]
        built[parts[0] if len(parts) == 1 else name.split("/")[-2]] += int(weight.value.shape.num_elements())
    assert count_parameters(config) == built


def test_footprint_of_base() -> None:
    config = AlbertConfig.named("base")
    rows = footprint.rows(config, bytes_per_weight=4, num_replicas=3, has_average=True)
    assert rows[0] == ("parameters", "11,813,810", "89,780,402", "7.6")
    assert [row[0] for row in rows[1:]] == [
        "weights",
        "optimizer: two moments of each weight",
        "moving average of the weights",
        "summed over 3 devices in each step",
    ]
    assert [row[1] for row in rows[1:]] == ["47.3 MB", "94.5 MB", "47.3 MB", "47.3 MB"]
    assert 89_780_402 - 11_813_810 == 11 * 7_087_872  # eleven more blocks


def test_optimizer_bytes_are_those_of_its_slots() -> None:
    config = make_config()
    model = AlbertPretrainingModel(config)
    optimizer = Lamb(0.1)
    optimizer.build(list(model.named_weights().values()))
    size = sum(slot.numpy().nbytes for slot in (*optimizer.m, *optimizer.v))
    rows = footprint.rows(config, bytes_per_weight=4, num_replicas=1, has_average=False)
    assert rows[2][:2] == ("optimizer: two moments of each weight", f"{size:,} bytes")
    assert rows[3][0] == "to be summed over devices in each step, were there several"
