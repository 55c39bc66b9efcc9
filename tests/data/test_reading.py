"""Order of examples, batches of both forms, and damaged data."""

from __future__ import annotations

import itertools
import json
import pathlib
import re
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data import batches
from albert_tf.data.manifest import DataDirectory, read_data_directory
from albert_tf.data.reading import Order
from tests.data import toy

S, P = 23, 4
COUNTS = (5, 11, 3, 7, 2)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    vocab_size = toy.tokenizer().vocab_size
    shards = [toy.random_rows(n, max_seq_length=S, vocab_size=vocab_size, seed=n) for n in COUNTS]
    path = tmp_path_factory.mktemp("data")
    return toy.write_directory(path, shards, max_seq_length=S, max_predictions_per_seq=P)


def _copy(directory: pathlib.Path, tmp_path: pathlib.Path, **changes: Any) -> pathlib.Path:
    target = tmp_path / "data"
    target.mkdir()
    for file in directory.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    values = json.loads((target / "dataset.json").read_text())
    (target / "dataset.json").write_text(json.dumps({**values, **changes}))
    return target


def _take(data: DataDirectory, count: int, *, step: int = 0, batch_size: int = 4, **pipelines: int) -> list[dict]:
    dataset = batches.training_batches(
        Order(data=data, seed=9, group_size=2), step=step, batch_size=batch_size, **pipelines
    )
    return [{name: value.numpy() for name, value in batch.items()} for batch in dataset.take(count)]


def test_every_epoch_holds_every_example_once_in_another_order(directory: pathlib.Path) -> None:
    order = Order(data=read_data_directory(directory), seed=9, group_size=2)
    sequence = list(itertools.islice(order.sequence(0), 3 * 28))
    epochs = [sequence[i * 28 : (i + 1) * 28] for i in range(3)]
    for number, epoch in enumerate(epochs):
        assert {e for e, _ in epoch} == {number}
        assert sorted(n for _, n in epoch) == list(range(28))
    assert len({tuple(n for _, n in epoch) for epoch in epochs}) == 3
    assert list(itertools.islice(order.sequence(61), 9)) == sequence[61:70]
    other = Order(data=order.data, seed=10, group_size=2)
    assert list(itertools.islice(other.sequence(0), 28)) != epochs[0]


def test_records_follow_the_computed_order_across_an_epochs_end(directory: pathlib.Path) -> None:
    data = read_data_directory(directory)
    found = _take(data, 15)
    expected = list(itertools.islice(Order(data=data, seed=9, group_size=2).sequence(0), 60))
    got = [pair for b in found for pair in zip(b["epoch"].tolist(), b["example"].tolist(), strict=True)]
    assert got == expected
    assert {e for e, _ in got} == {0, 1, 2}


def test_a_later_step_gives_the_same_batches(directory: pathlib.Path) -> None:
    data = read_data_directory(directory)
    whole = _take(data, 15)
    for step in (6, 13):  # inside a group and in a later epoch
        for batch, expected in zip(_take(data, 2, step=step), whole[step:], strict=False):
            assert batch.keys() == expected.keys()
            for name in batch:
                np.testing.assert_array_equal(batch[name], expected[name], err_msg=f"step {step}, {name}")


def test_pipelines_and_replicas_share_a_step(directory: pathlib.Path) -> None:
    data = read_data_directory(directory)
    whole = _take(data, 5, batch_size=12)
    parts = [
        _take(data, 10, batch_size=12, num_pipelines=2, pipeline=pipeline, num_replicas=2) for pipeline in range(2)
    ]
    for step, expected in enumerate(whole):
        pieces = [parts[0][2 * step], parts[0][2 * step + 1], parts[1][2 * step], parts[1][2 * step + 1]]
        for name, values in expected.items():
            np.testing.assert_array_equal(np.concatenate([p[name] for p in pieces]), values, err_msg=name)


def test_shapes_are_static(directory: pathlib.Path) -> None:
    data = read_data_directory(directory)
    dataset = batches.training_batches(Order(data=data, seed=9), step=0, batch_size=3)
    shapes = {name: tuple(spec.shape) for name, spec in dataset.element_spec.items()}
    assert shapes["input_ids"] == shapes["input_mask"] == shapes["segment_ids"] == (3, S)
    assert shapes["masked_lm_positions"] == shapes["masked_lm_ids"] == shapes["masked_lm_weights"] == (3, P)
    assert shapes["sentence_order_label"] == shapes["example"] == (3,)


def test_evaluation_takes_each_example_once_with_the_same_masks(directory: pathlib.Path) -> None:
    data = read_data_directory(directory)
    found = list(batches.evaluation_batches(data, batch_size=6).as_numpy_iterator())
    weights = np.concatenate([b["example_weight"] for b in found])
    assert weights.tolist() == [1.0] * 28 + [0.0, 0.0]
    assert np.concatenate([b["example"] for b in found]).tolist() == list(range(30))
    assert not found[-1]["masked_lm_weights"][-2:].any()
    few = list(batches.evaluation_batches(data, batch_size=9, max_examples=7).as_numpy_iterator())
    assert [b["example_weight"].sum() for b in few] == [7.0]
    # rows 7 and 8 of the second only fill it up
    np.testing.assert_array_equal(np.concatenate([b["input_ids"] for b in found])[:7], few[0]["input_ids"][:7])


def test_static_records_come_as_they_are(tmp_path: pathlib.Path) -> None:
    generator = np.random.default_rng(4)
    rows = [
        {
            "input_ids": generator.integers(0, 61, S).tolist(),
            "input_mask": [1] * 20 + [0] * 3,
            "segment_ids": [0] * 9 + [1] * 11 + [0] * 3,
            "token_boundary": [1] * S,
            "masked_lm_positions": [2, 5, 0, 0],
            "masked_lm_ids": [7 + n, 8, 0, 0],
            "masked_lm_weights": [1.0, 1.0, 0.0, 0.0],
            "next_sentence_labels": [n % 2],
        }
        for n in range(6)
    ]
    path = toy.write_directory(
        tmp_path / "static", [rows[:2], rows[2:]], max_seq_length=S, max_predictions_per_seq=P, masking="static"
    )
    for batch in _take(read_data_directory(path), 3, batch_size=2):
        for index, number in enumerate(batch["example"]):
            assert batch["sentence_order_label"][index] == number % 2
            for name in ("input_ids", "input_mask", "segment_ids", "masked_lm_ids", "masked_lm_weights"):
                np.testing.assert_array_equal(batch[name][index], rows[number][name], err_msg=name)


def test_a_cut_shard_is_refused_with_file_and_record(directory: pathlib.Path, tmp_path: pathlib.Path) -> None:
    path = _copy(directory, tmp_path)
    shard = path / "pretrain-00001-of-00005.tfrecord"
    content = shard.read_bytes()
    shard.write_bytes(content[: len(content) // 2])
    message = (
        r"pretrain-00001-of-00005\.tfrecord: has \d+ bytes, dataset.json says \d+; cut off in record 5, which starts"
    )
    with pytest.raises(ValueError, match=message):
        read_data_directory(path)


def test_a_shard_with_records_missing_is_refused(directory: pathlib.Path, tmp_path: pathlib.Path) -> None:
    path = _copy(directory, tmp_path)
    (path / "pretrain-00003-of-00005.tfrecord").write_bytes((path / "pretrain-00002-of-00005.tfrecord").read_bytes())
    with pytest.raises(ValueError, match=r"pretrain-00003.*holds 3 records, dataset.json says 7"):
        read_data_directory(path)


def _error(path: pathlib.Path) -> ValueError:
    data = read_data_directory(path)
    with pytest.raises(tf.errors.OpError) as caught:
        _take(data, 14)
    explained = batches.explain(caught.value, data)
    assert explained is not None
    return explained


def test_damaged_bytes_are_located(directory: pathlib.Path, tmp_path: pathlib.Path) -> None:
    path = _copy(directory, tmp_path)
    shard = path / "pretrain-00004-of-00005.tfrecord"
    content = bytearray(shard.read_bytes())
    content[-7] ^= 1
    shard.write_bytes(content)
    message = str(_error(path))
    assert message.startswith(f"{shard}: record 1 at byte ")
    assert "checksum" in message


def test_wrong_counts_are_named(directory: pathlib.Path, tmp_path: pathlib.Path) -> None:
    entries = json.loads((directory / "dataset.json").read_text())["shards"]
    entries[1]["examples"] = 10
    path = _copy(directory, tmp_path, shards=entries)
    expected = f"{path}/pretrain-00001-of-00005.tfrecord must hold 10 records as dataset.json says, got 11"
    assert str(_error(path)) == expected


def test_records_that_do_not_fit_are_located(directory: pathlib.Path, tmp_path: pathlib.Path) -> None:
    path = _copy(directory, tmp_path, max_seq_length=S - 2)
    message = str(_error(path))
    assert "lengths or ids do not fit" in message
    found = re.match(rf"{path}/pretrain-0000(\d)-of-00005.tfrecord, record (\d+): ", message)
    assert found is not None
    count = COUNTS[int(found[1])]
    rows = toy.random_rows(count, max_seq_length=S, vocab_size=61, seed=count)
    assert sum(rows[int(found[2])]["segment_lengths"]) > S - 5


def test_records_of_the_other_form_are_refused(directory: pathlib.Path, tmp_path: pathlib.Path) -> None:
    assert "a record does not hold what dataset.json says" in str(_error(_copy(directory, tmp_path, masking="static")))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"contract_version": 99}, "contract_version must be 2, got 99"),
        ({"format": "other"}, "format must be \"albert_tf pretraining data\", got 'other'"),
        ({"masking": "none"}, "masking must be static or dynamic, got 'none'"),
        ({"sentence_objective": "nop"}, "sentence_objective must be sop, nsp or none, got 'nop'"),
        ({"special_ids": {"pad": 0}}, "missing key 'unk'"),
        ({"max_ngram": "many"}, "max_ngram must be a whole number in [1, 64], got 'many'"),
        ({"max_ngram": 1_000_000}, "max_ngram must be a whole number in [1, 64], got 1000000"),
        ({"max_ngram": float("inf")}, "max_ngram must be a whole number in [1, 64], got inf"),
        ({"max_seq_length": "32"}, "max_seq_length must be a whole number in [5, 65536], got '32'"),
        ({"max_seq_length": True}, "max_seq_length must be a whole number in [5, 65536], got True"),
        ({"max_predictions_per_seq": 0}, f"max_predictions_per_seq must be a whole number in [1, {S}], got 0"),
        ({"max_predictions_per_seq": S + 1}, f"max_predictions_per_seq must be a whole number in [1, {S}]"),
        ({"masked_lm_prob": float("nan")}, "masked_lm_prob must be a number in (0, 1), got nan"),
        ({"masked_lm_prob": 2.0}, "masked_lm_prob must be a number in (0, 1), got 2.0"),
        ({"vocab_size": -4}, "vocab_size must be a whole number in [6, 2147483647], got -4"),
        (
            {"special_ids": {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 61}},
            "mask must be a whole number in [0, 60]",
        ),
        ({"special_ids": 7}, "special_ids must be an object, got 7"),
        ({"excluded_replacement_ids": [10**9]}, "excluded_replacement_ids must be ids in [0, 61), got [1000000000]"),
        ({"excluded_replacement_ids": list(range(61))}, "excluded_replacement_ids must leave an id to replace with"),
        ({"contract_version": True}, "contract_version must be 2, got True"),
        ({"tokenizer": {"digest": 7}}, "digest must be a text, got 7"),
        ({"shards": {"a": 1}}, "shards must be a list of objects"),
        (
            {"shards": [{"file": "../a", "examples": 1, "bytes": 1}]},
            "file must be a name in the data directory, got '../a'",
        ),
        ({"shards": [{"file": "a", "examples": -5, "bytes": 1}]}, "examples must be a whole number in [0, "),
        ({"shards": []}, "holds no example"),
    ],
)
def test_a_wrong_manifest_is_refused(
    directory: pathlib.Path, tmp_path: pathlib.Path, changes: dict, message: str
) -> None:
    with pytest.raises(ValueError, match=r"dataset\.json: ") as caught:
        read_data_directory(_copy(directory, tmp_path, **changes))
    assert message in str(caught.value)


def test_missing_directory() -> None:
    with pytest.raises(FileNotFoundError, match="no such folder; a data directory is wanted"):
        read_data_directory("/nowhere/at/all")


def test_other_tokenizer_is_refused(directory: pathlib.Path, tmp_path: pathlib.Path) -> None:
    data = read_data_directory(directory)
    tokenizer = {"file": "spiece.model", "config": "tokenizer_config.json", "digest": "f" * 64}
    other = read_data_directory(_copy(directory, tmp_path, tokenizer=tokenizer))
    with pytest.raises(ValueError, match=r"dataset\.json: made with another tokenizer than .*; build it anew$"):
        data.check_fits(other)
