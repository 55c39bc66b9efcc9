"""Batches of rows in memory: their order is a pure function of the step, and lengths meet."""

from __future__ import annotations

import collections
import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import randomness
from albert_tf.modeling.encoder import ENCODER_INPUTS
from albert_tf.tasks.features import EncodedExamples
from albert_tf.training.example_batches import ExampleOrder, training_batches
from tests.training import task_rows

COUNT, BATCH = 67, 4


@pytest.fixture(scope="module")
def rows() -> EncodedExamples:
    return task_rows.make_rows("classifier", COUNT)


def make_order(rows: EncodedExamples, **changes: bool) -> ExampleOrder:
    return ExampleOrder(lengths=rows.lengths, batch_size=BATCH, seed=3, **changes)


def taken(order: ExampleOrder, step: int, count: int) -> list[tuple[list[int], list[int]]]:
    return [(r.numpy().tolist(), e.numpy().tolist()) for r, e in order.steps(step).take(count)]


def restated(order: ExampleOrder, step: int) -> tuple[list[int], list[int]]:
    """Rows and epochs of a step, in NumPy."""
    count, size = len(order.lengths), order.pool * order.batch_size
    pool = step // order.pool
    pairs = []
    for position in range(pool * size, (pool + 1) * size):
        epoch, place = divmod(position, count)
        draws = randomness.mix_numpy(order.seed, epoch, 201, np.arange(count))
        pairs.append((int(np.argsort(draws, kind="stable")[place]), epoch))
    by_length = np.argsort([order.lengths[row] for row, _ in pairs], kind="stable")
    if order.pool == 1:
        by_length = np.arange(size)
    turns = np.argsort(randomness.mix_numpy(order.seed, pool, 202, np.arange(order.pool)), kind="stable")
    chosen = np.sort(by_length.reshape(order.pool, -1)[turns[step % order.pool]])
    return [pairs[i][0] for i in chosen], [pairs[i][1] for i in chosen]


@pytest.mark.parametrize("buckets", [True, False])
def test_the_order_is_a_pure_function_of_the_step(rows: EncodedExamples, buckets: bool) -> None:
    order = make_order(rows, bucket_by_length=buckets)
    assert order.pool == (4 if buckets else 1)
    steps = taken(order, 0, 40)
    assert steps == [restated(order, step) for step in range(40)]
    for begin in (1, 4, 17, 39):
        assert taken(order, begin, 2) == [restated(order, begin), restated(order, begin + 1)]
    # Each row once an epoch, and as often as any other in the end.
    seen = collections.Counter((row, epoch) for step in steps for row, epoch in zip(*step, strict=True))
    assert set(seen.values()) == {1}
    assert {row for row, epoch in seen if epoch == 0} == set(range(COUNT))


def test_rows_of_like_length_meet(rows: EncodedExamples) -> None:
    def padding(buckets: bool) -> int:
        batches = taken(make_order(rows, bucket_by_length=buckets), 0, 64)
        lengths = [rows.lengths[step] for step, _ in batches]
        return int(sum((values.max() - values).sum() for values in lengths))

    assert padding(True) < 0.5 * padding(False)


def test_a_small_set_is_no_pool_of_many_epochs() -> None:
    few = task_rows.make_rows("classifier", 9)
    order = make_order(few)
    assert order.pool == 1
    assert max(collections.Counter(taken(order, 0, 1)[0][0]).values()) == 1


@pytest.mark.parametrize(("head", "is_multi_label"), task_rows.KINDS)
@pytest.mark.parametrize("seq_length", [None, 23])
def test_batches_hold_the_rows(head, is_multi_label: bool, seq_length: int | None) -> None:
    rows = task_rows.make_rows(head, 20, is_multi_label=is_multi_label)
    assert rows.labels is not None
    batches = training_batches(rows, make_order(rows), step=3, seq_length=seq_length)
    for name, spec in batches.element_spec.items():
        assert spec.shape[0] == BATCH, name
        assert name not in ENCODER_INPUTS or spec.shape.as_list() == [BATCH, seq_length], name
    for batch in batches.take(3).as_numpy_iterator():
        chosen = batch["example"]
        length = seq_length or max(rows.lengths[chosen])
        assert batch["input_ids"].shape == (BATCH, length)
        for place, row in enumerate(chosen):
            size = rows.lengths[row]
            np.testing.assert_array_equal(batch["input_ids"][place, :size], rows.input_ids[row])
            np.testing.assert_array_equal(batch["segment_ids"][place, :size], rows.segment_ids[row])
            np.testing.assert_array_equal(batch["input_mask"][place], np.arange(length) < size)
            labels = batch["labels"][place]
            if head == "token_classifier":
                assert (labels[size:] == -1).all()
                labels = labels[:size]
            np.testing.assert_array_equal(labels, rows.labels[row])
        assert not batch["input_ids"][batch["input_mask"] == 0].any()


def test_replicas_and_workers_share_a_step(rows: EncodedExamples) -> None:
    order = make_order(rows)
    whole = [batch["example"] for batch in training_batches(rows, order, step=5).take(2).as_numpy_iterator()]
    parts = [
        [
            batch["example"]
            for batch in training_batches(rows, order, step=5, num_pipelines=2, pipeline=pipeline, num_replicas=2)
            .take(4)
            .as_numpy_iterator()
        ]
        for pipeline in range(2)
    ]
    for step, expected in enumerate(whole):
        shares = [part for worker in parts for part in worker[2 * step : 2 * step + 2]]
        assert [len(share) for share in shares] == [1] * 4
        np.testing.assert_array_equal(np.concatenate(shares), expected)


def test_what_cannot_be_trained_on(rows: EncodedExamples) -> None:
    few = rows.select(np.arange(3))
    with pytest.raises(ValueError, match="train_batch_size must be at most the number of examples, 3, got 4"):
        training_batches(few, make_order(few), step=0)
    with pytest.raises(ValueError, match="training needs examples with labels"):
        training_batches(dataclasses.replace(rows, labels=None), make_order(rows), step=0)


def test_no_python_runs_between_two_steps(rows: EncodedExamples) -> None:
    graph = tf.function(lambda: training_batches(rows, make_order(rows), step=1)).get_concrete_function().graph
    functions = graph.as_graph_def().library.function
    operations = {node.op for function in functions for node in function.node_def}
    assert "GatherV2" in operations
    assert not {name for name in operations if "PyFunc" in name}
