from __future__ import annotations

import json
import pathlib

import pytest

from albert_tf.tasks.making import make_task
from albert_tf.tasks.tagging import name_entities

CONLL = """-DOCSTART- -X- O O

EU NNP B-NP B-ORG
rejects VBZ B-VP O

Peter NNP B-NP B-PER
Blackburn NNP I-NP I-PER
"""
JSON = """{"words": ["EU", "rejects"], "labels": ["B-ORG", "O"]}
{"words": ["Peter", "Blackburn"], "labels": ["B-PER", "I-PER"]}
"""


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("train.conll", CONLL),
        ("train.txt", CONLL.replace("\n", "\r\n")),
        ("train.tsv", "\ufeff" + CONLL.replace(" ", "\t").rstrip()),
        ("train.jsonl", JSON),
    ],
)
def test_columns_and_json_lines_give_the_same(folder, name: str, content: str) -> None:
    task = make_task("tagging", folder({name: content}))
    assert (task.labels, task.head, task.metrics[0]) == (
        ("B-ORG", "B-PER", "I-PER", "O"),
        "token_classifier",
        "entity_f1",
    )
    first, second = task.read("train")
    assert (first.texts, first.label) == (("EU", "rejects"), ("B-ORG", "O"))
    assert (second.texts, second.label) == (("Peter", "Blackburn"), ("B-PER", "I-PER"))
    lines = (1, 2) if name.endswith("jsonl") else (3, 6)
    assert [example.id for example in (first, second)] == [f"{name}:{line}" for line in lines]
    assert first.source == str(pathlib.Path(task.data_dir or "", name)) + f":{lines[0]}"
    again = make_task("tagging", None, **json.loads(json.dumps(dict(task.options))))
    assert (again.labels, again.metrics) == (task.labels, task.metrics)


def test_other_columns_and_keys(folder) -> None:
    task = make_task("tagging", folder({"train.conll": CONLL}), label_column=1)
    assert (task.labels, task.metrics[0]) == (("NNP", "VBZ"), "accuracy")
    assert make_task("tagging", None, **task.options).label_column == 1  # type: ignore[attr-defined]


def test_other_keys(folder) -> None:
    files = {"train.jsonl": '{"tokens": ["a", "b"], "tags": ["X", "Y"]}'}
    task = make_task("tagging", folder(files), words_key="tokens", labels_key="tags")
    assert (task.labels, task.read("train")[0].texts) == (("X", "Y"), ("a", "b"))


def test_a_test_file_may_lack_labels(folder) -> None:
    task = make_task("tagging", folder({"train.conll": CONLL, "test.conll": "Peter\nsleeps\n"}))
    (example,) = task.read("test")
    assert (example.texts, example.label) == (("Peter", "sleeps"), None)


def test_a_test_file_of_json_lines_may_lack_labels(folder) -> None:
    task = make_task("tagging", folder({"test.jsonl": '{"words": ["a"]}'}), labels=("N", "V"))
    assert [example.label for example in task.read("test")] == [None]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("dev.conll", "EU B-ORG\nrejects\n", r"dev\.conll:2: must have 2 columns like the lines before, got 1"),
        ("dev.conll", "EU\nrejects\n", r"dev\.conll:1: must have a word and a label, got one column"),
        (
            "dev.conll",
            "EU B-LOC\n",
            r"dev\.conll:1: label must be one of 'B-ORG', 'B-PER', 'I-PER', 'O', as in training",
        ),
        ("test.conll", "EU B-LOC\n", r"test\.conll:1: label must be one of"),
        ("dev.tsv", "EU\tO\n\tO\n", r"dev\.tsv:2: column 0 \(word_column\) is empty"),
        (
            "dev.jsonl",
            '{"words": ["a", "b"], "labels": ["O"]}',
            r"dev\.jsonl:1: labels must be 2, one for each word, got 1",
        ),
        ("dev.jsonl", '{"words": "a b", "labels": ["O"]}', r"dev\.jsonl:1: words must be a list of texts"),
        ("dev.jsonl", '{"words": ["a"]}', r"dev\.jsonl:1: no column 'labels'; columns: 'words'"),
        ("dev.jsonl", '{"words": ["a"], "labels": ["X"]}', r"dev\.jsonl:1: label must be one of"),
        ("dev.jsonl", '{"words": ["a"], "labels": ["\\ud800"]}', r"dev\.jsonl:1: labels: text must be valid Unicode"),
        ("dev.conll", "-DOCSTART- O\n\n", r"dev\.conll: holds no example"),
    ],
)
def test_bad_files(folder, name: str, content: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_task("tagging", folder({"train.conll": CONLL, name: content})).read(name.partition(".")[0])


def test_a_column_that_is_not_there(folder) -> None:
    with pytest.raises(ValueError, match=r"train\.conll:3: has no column 4 \(label_column\), it has 4"):
        make_task("tagging", folder({"train.conll": CONLL}), label_column=4)


def test_which_labels_name_entities() -> None:
    assert name_entities(("B-X", "I-X", "O"))
    assert name_entities(("S-X", "E-X", "B-X", "I-X", "O"))
    assert not name_entities(("NN", "O"))
    assert not name_entities(("B-X", "I-X"))


def test_any_file_can_be_streamed_without_labels(folder) -> None:
    root = folder({"more.conll": "Peter\nsleeps\n", "labelled.conll": CONLL, "more.jsonl": '{"words": ["a"]}'})
    task = make_task("tagging", None, labels=("N", "V"))
    for name, count in (("more.conll", 1), ("labelled.conll", 2), ("more.jsonl", 1)):
        assert [example.label for example in task.stream(f"{root}/{name}", is_labelled=False)] == [None] * count
