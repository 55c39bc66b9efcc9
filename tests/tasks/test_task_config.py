from __future__ import annotations

import json

import pytest

from albert_tf.tasks.making import make_task
from albert_tf.tasks.task_config import TaskConfig


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("sst-2", {}),
        ("mnli", {}),
        ("classification", {"labels": ("b", "a"), "multi_label": True, "label_separator": "|", "id_column": "i"}),
        ("regression", {"text_column": "one", "text_b_column": "two", "columns": ("one", "two", "label")}),
        ("tagging", {"labels": ("B-X", "I-X", "O"), "label_column": 2, "words_key": "tokens"}),
    ],
)
def test_a_task_comes_back_from_its_file(name: str, options: dict) -> None:
    task = make_task(name, None, **options)
    config = TaskConfig.of(task, max_seq_length=96, stride=48)
    again = TaskConfig.from_json(config.to_json())
    assert again.to_json() == config.to_json()
    assert again.make_task(None) == task


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"task": "sentiment"}, "f.json: task must be one of"),
        ({"task": 3}, "f.json: task must be a name, got 3"),
        ({"task": "sst-2", "options": ["a"]}, "options must be a JSON object"),
        ({"task": "sst-2", "options": {"labels": ["a", "b"]}}, "labels is no option of sst-2"),
        ({"task": "classification"}, "labels must be named where there is no training file"),
        ({"task": "sst-2", "max_seq_length": True}, "max_seq_length must be a whole number of at least 1, got True"),
        ({"task": "sst-2", "stride": 0}, "stride must be a whole number of at least 1, got 0"),
        ({"task": "sst-2", "seed": 0}, "unknown key 'seed'"),
    ],
)
def test_what_is_refused(values: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TaskConfig.from_json(json.dumps({"max_seq_length": 9, **values}), source="f.json")
