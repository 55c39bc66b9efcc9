"""Losses of the tasks against NumPy, and denominators that neither micro-batches nor missing labels change."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.head_config import Head
from albert_tf.modeling.encoder import Form
from albert_tf.modeling.models import make_model
from albert_tf.training import optimizers
from albert_tf.training.example_batches import ExampleOrder, training_batches
from albert_tf.training.finetuning_objectives import LABELS, make_objective
from albert_tf.training.loop import Trainer
from tests.training import task_rows

GENERATOR = np.random.default_rng(4)
LOGITS = GENERATOR.standard_normal((5, 3)).astype(np.float32)


def cross_entropies(logits: np.ndarray) -> np.ndarray:
    """Negative log probabilities in float64."""
    exact = logits.astype(np.float64)
    result: np.ndarray = np.log(np.exp(exact).sum(-1, keepdims=True)) - exact
    return result


def test_one_label() -> None:
    labels = np.array([2, 0, 1, 1, 0], np.int32)
    found = make_objective("classifier").figures(LOGITS, labels)
    expected = cross_entropies(LOGITS)[np.arange(5), labels].mean()
    assert found == pytest.approx({"loss": expected, "accuracy": (LOGITS.argmax(-1) == labels).mean()}, rel=1e-6)


def test_several_labels() -> None:
    labels = GENERATOR.integers(0, 2, (5, 3)).astype(np.float32)
    found = make_objective("classifier", is_multi_label=True).figures(LOGITS, labels)
    right = 1 / (1 + np.exp(-LOGITS.astype(np.float64) * (2 * labels - 1)))
    assert found == pytest.approx({"loss": -np.log(right).mean(), "accuracy": (right > 0.5).mean()}, rel=1e-6)


def test_a_number() -> None:
    labels = np.array([1.5, -2.0, 0.25, 3.0, 0.0], np.float32)
    found = make_objective("regression").figures(LOGITS[:, 0], labels)
    assert found == pytest.approx({"loss": np.mean((LOGITS[:, 0] - labels) ** 2)}, rel=1e-6)


def test_labels_of_tokens_count_where_there_are_some() -> None:
    logits = [LOGITS[:2], LOGITS[2:]]
    labels = [np.array([-1, 1], np.int32), np.array([0, -1, 2], np.int32)]
    found = make_objective("token_classifier").figures(logits, labels)
    places, wanted = [1, 2, 4], [1, 0, 2]
    expected = cross_entropies(LOGITS)[places, wanted].mean()
    right = (LOGITS.argmax(-1)[places] == wanted).mean()
    assert found == pytest.approx({"loss": expected, "accuracy": right}, rel=1e-6)


def test_a_batch_without_any_label_has_no_loss() -> None:
    objective = make_objective("token_classifier")
    batch = {LABELS: tf.fill([2, 3], -1)}
    loss, _ = objective.loss_and_shares({"logits": tf.ones([2, 3, 4])}, batch, objective.denominators(batch))
    assert float(loss) == 0.0


def test_heads_that_no_task_trains() -> None:
    with pytest.raises(ValueError, match="head must be classifier, regression or token_classifier, got 'span'"):
        make_objective("span")


def steps(
    head: Head, is_multi_label: bool, pieces: int, *, form: Form = "packed", seq_length: int | None = None
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """What three steps report and leave, in float64 and so many micro-batches."""
    rows = task_rows.make_rows(head, 20, is_multi_label=is_multi_label)
    model = make_model(task_rows.CONFIG, task_rows.make_head(head), seed=5, dtype="float64")
    optimizer = optimizers.AdamWeightDecay(0.01)
    optimizer.build(list(model.named_weights().values()))
    objective = make_objective(head, is_multi_label=is_multi_label)
    trainer = Trainer(
        model, optimizer, tf.distribute.get_strategy(), objective, clip_norm=0.01, micro_batches=pieces, form=form
    )
    order = ExampleOrder(lengths=rows.lengths, batch_size=6, seed=1)
    reported, _, _ = trainer.run(iter(training_batches(rows, order, step=0, seq_length=seq_length)), 3)
    return reported, {name: weight.numpy() for name, weight in model.named_weights().items()}


@pytest.mark.slow
@pytest.mark.parametrize(("head", "is_multi_label"), task_rows.KINDS)
def test_micro_batches_equal_one_batch(head: Head, is_multi_label: bool) -> None:
    keras.config.set_floatx("float64")
    (whole, expected), (pieced, found) = (steps(head, is_multi_label, pieces) for pieces in (1, 3))
    assert (whole[:, -1] > 0.01).all()  # each step was clipped
    np.testing.assert_allclose(pieced, whole, rtol=0, atol=1e-9)
    for name, value in expected.items():
        # float64 rounds at 1e-16; AdamW divides by the root of tiny second moments, which enlarges that
        np.testing.assert_allclose(found[name], value, rtol=0, atol=1e-9, err_msg=name)
    start = make_model(task_rows.CONFIG, task_rows.make_head(head), seed=5, dtype="float64").named_weights()
    pooler = expected["encoder/pooler/kernel"]
    is_still = np.array_equal(pooler, start["encoder/pooler/kernel"].numpy())
    assert is_still == (head == "token_classifier")  # which does not read it


@pytest.mark.slow
@pytest.mark.parametrize(("head", "is_multi_label"), [task_rows.KINDS[0], task_rows.KINDS[3]])
def test_leaving_the_padding_out_changes_nothing(head: Head, is_multi_label: bool) -> None:
    keras.config.set_floatx("float64")
    short, expected = steps(head, is_multi_label, 1)
    padded, found = steps(head, is_multi_label, 1, form="unrolled", seq_length=23)
    np.testing.assert_allclose(padded, short, rtol=0, atol=1e-9)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=0, atol=1e-9, err_msg=name)
