from __future__ import annotations

import json

import pytest

from albert_tf.tasks.making import TASKS, make_task, task_options
from albert_tf.tasks.text_tasks import Columns

TRAIN = "text\tlabel\nbig dog\tgood\nold dog\tbad\nno dog\tgood\n"


@pytest.mark.parametrize("name", ["train.tsv", "train.csv", "train.jsonl"])
def test_classification(folder, name: str) -> None:
    rows = [line.split("\t") for line in TRAIN.splitlines()]
    content = {
        "train.tsv": TRAIN,
        "train.csv": "".join(f'"{a}",{b}\n' for a, b in rows),
        "train.jsonl": "".join(json.dumps(dict(zip(rows[0], row, strict=True))) + "\n" for row in rows[1:]),
    }[name]
    task = make_task("classification", folder({name: content}))
    assert (task.labels, task.head, task.metrics[0], task.num_texts) == (("bad", "good"), "classifier", "accuracy", 1)
    assert task.splits() == ("train",)
    examples = task.read("train")
    assert [example.texts for example in examples] == [("big dog",), ("old dog",), ("no dog",)]
    assert [example.label for example in examples] == ["good", "bad", "good"]
    assert examples[0].id == f"{name}:{1 if name.endswith('jsonl') else 2}"


def test_named_columns_of_pairs_with_ids(folder) -> None:
    content = "key\tanswer\tquestion\tfits\n4\ta dog\twho?\tyes\n9\ta cat\twhat?\tno\n"
    task = make_task(
        "pair_classification",
        folder({"train.tsv": content, "dev.tsv": content, "dev_hard.tsv": content}),
        text_column="question",
        text_b_column="answer",
        label_column="fits",
        id_column="key",
    )
    assert task.splits() == ("train", "dev", "dev_hard")
    assert task.dev_splits == ("dev", "dev_hard")
    first, second = task.read("dev")
    assert (first.id, first.texts, first.label, second.id) == ("4", ("who?", "a dog"), "yes", "9")
    # the same task, without files, from its options, which are ready for JSON
    again = make_task("pair_classification", None, **json.loads(json.dumps(dict(task.options))))
    assert (again.labels, again.columns, again.options) == (task.labels, task.columns, task.options)  # type: ignore[attr-defined]


def test_regression_of_texts_and_pairs(folder) -> None:
    files = {"train.csv": "text,text_b,label\na,b,1.5\nc,d,-2\n"}
    task = make_task("regression", folder(files))
    assert (task.head, task.labels, task.metrics[0], task.num_texts) == ("regression", None, "pearson", 1)
    assert [example.label for example in task.read("train")] == [1.5, -2.0]
    pairs = make_task("regression", folder(files), text_b_column="text_b")
    assert pairs.read("train")[1].texts == ("c", "d")
    assert make_task("regression", None, **pairs.options).num_texts == 2


def test_multi_label(folder) -> None:
    files = {
        "train.tsv": "text\tlabel\na\tred|blue\nb\t\nc\t red | green\n",
        "dev.jsonl": "".join(
            json.dumps({"text": "a", "label": label}) + "\n" for label in (["blue", "blue"], [], "red|green")
        ),
    }
    task = make_task("classification", folder(files), multi_label=True, label_separator="|")
    assert (task.labels, task.is_multi_label, task.metrics[0]) == (("blue", "green", "red"), True, "micro_f1")
    assert [example.label for example in task.read("train")] == [("blue", "red"), (), ("green", "red")]
    assert [example.label for example in task.read("dev")] == [("blue",), (), ("green", "red")]
    again = make_task("classification", None, **task.options)
    assert (again.is_multi_label, again.labels) == (True, task.labels)


def test_a_file_without_a_header(folder) -> None:
    task = make_task("classification", folder({"train.tsv": "1\tdog\n0\tcat\n"}), columns=["label", "text"])
    assert [example.texts for example in task.read("train")] == [("dog",), ("cat",)]
    assert make_task("classification", None, **task.options).columns == task.columns  # type: ignore[attr-defined]


def test_labels_may_be_numbers_in_json_and_are_named(folder) -> None:
    task = make_task(
        "classification", folder({"train.jsonl": '{"text": "a", "label": 1}\n{"text": "b", "label": 0}\n'})
    )
    assert task.labels == ("0", "1")


def test_a_test_file_may_lack_the_label(folder) -> None:
    task = make_task("classification", folder({"train.tsv": TRAIN, "test.tsv": "text\nbig cat\n"}))
    assert [example.label for example in task.read("test")] == [None]
    pinned = make_task("classification", folder({"train.tsv": TRAIN}), labels=["good", "bad"])
    assert pinned.labels == ("good", "bad")  # in the order that was named


def test_empty_texts_are_kept_and_counted(folder, caplog: pytest.LogCaptureFixture) -> None:
    task = make_task("classification", folder({"train.tsv": TRAIN, "dev.tsv": "text\tlabel\n \tbad\na\tbad\n\tbad\n"}))
    assert [example.texts for example in task.read("dev")] == [(" ",), ("a",), ("",)]
    assert "dev.tsv: 2 of 3 examples have an empty text, the first at" in caplog.text
    assert caplog.text.strip().endswith("dev.tsv:2")


def test_a_text_of_100_000_words(folder) -> None:
    text = "word " * 100_000
    task = make_task("classification", folder({"train.csv": f'text,label\n"{text}",a\nx,b\n'}))
    assert task.read("train")[0].texts == (text,)


@pytest.mark.parametrize(
    ("files", "options", "split", "message"),
    [
        ({}, {}, "dev", r"no file for the split 'dev' \(dev\.tsv, .*\.json\); there are train"),
        ({"dev.tsv": "text\tscore\na\t1\n"}, {}, "dev", r"dev\.tsv:2: no column 'label'; columns: 'text', 'score'"),
        ({"dev.tsv": "sentence\tlabel\na\tbad\n"}, {}, "dev", r"dev\.tsv:2: no column 'text'"),
        (
            {"dev.jsonl": '{"text": "a", "label": "bad"}\n{"text": "a"}\n'},
            {},
            "dev",
            r"dev\.jsonl:2: no column 'label'",
        ),
        (
            {"dev.tsv": "text\tlabel\na\tugly\n"},
            {},
            "dev",
            r"dev\.tsv:2: label must be one of 'bad', 'good', as in training",
        ),
        ({"test.tsv": "text\tlabel\na\tugly\n"}, {}, "test", r"test\.tsv:2: label must be one of 'bad', 'good'"),
        (
            {"dev.tsv": "text\tlabel\na\t\n"},
            {},
            "dev",
            r"dev\.tsv:2: label must be a name, text or a whole number, got ''",
        ),
        ({"dev.tsv": "text\tlabel\n"}, {}, "dev", r"dev\.tsv: holds no example"),
        ({"dev.tsv": ""}, {}, "dev", r"dev\.tsv: holds no example"),
        ({"dev.csv": "text,label\na,bad\n", "dev.tsv": ""}, {}, "dev", r"dev has two files, dev\.csv and dev\.tsv"),
        (
            {"dev.tsv": "i\ttext\tlabel\n1\ta\tbad\n1\tb\tbad\n"},
            {"id_column": "i"},
            "dev",
            "3: id '1' stands already in dev.tsv:2",
        ),
        ({"dev.jsonl": '{"text": "a", "label": ["bad"]}\n'}, {}, "dev", "holds a list, one label was expected"),
        ({"dev.jsonl": '{"text": ["a"], "label": "bad"}\n'}, {}, "dev", "text must be text, got"),
    ],
)
def test_bad_files(folder, files: dict, options: dict, split: str, message: str) -> None:
    train = "".join(f"{number or 'i'}\t{line}\n" for number, line in enumerate(TRAIN.splitlines()))
    with pytest.raises(ValueError, match=message):
        make_task("classification", folder({"train.tsv": train, **files}), **options).read(split)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("sentiment", {}, "task must be one of cola, sst-2, .*tagging, got 'sentiment'"),
        ("sst-2", {"labels": ("a", "b")}, "labels is no option of sst-2, which takes none"),
        (
            "classification",
            {"separator": ","},
            "separator is no option of classification, which takes labels, multi_label",
        ),
        ("regression", {"labels": ("a", "b")}, "labels is no option of regression"),
        ("classification", {"labels": ("a",)}, "classification: labels must be at least 2 that differ, got a"),
        ("classification", {"labels": ("a", "a")}, "labels must be at least 2 that differ, got a, a"),
        ("classification", {"labels": "ab"}, "labels must be a list of names, got 'ab'"),
        ("classification", {"labels": (1, 2)}, r"labels must be a list of names, got \(1, 2\)"),
        ("classification", {"labels": ("a", "b"), "multi_label": 1}, "multi_label must be true or false, got 1"),
        ("classification", {"labels": ("a", "b"), "id_column": 3}, "id_column must be text, got 3"),
        ("tagging", {"labels": ("a", "b"), "label_column": "tag"}, "label_column must be a whole number, got 'tag'"),
        ("tagging", {"labels": ("a", "b"), "words_key": 1}, "words_key must be text, got 1"),
        ("classification", {}, r"labels must be named where there is no training file .*\(no folder is given\)"),
        ("classification", {"labels": ("a", "b"), "text_b_column": "b"}, "text_b_column is for pair_classification"),
        (
            "classification",
            {"labels": ("a", "b"), "text_column": "label"},
            "must be columns that differ, got 'label', 'label'",
        ),
        (
            "classification",
            {"labels": ("a", "b"), "label_separator": ""},
            "label_separator must be at least one character",
        ),
        ("classification", {"labels": ("a", "b"), "columns": ("a", "a")}, "columns must differ, got a, a"),
        ("classification", {"labels": ("a", "b"), "columns": ("a",)}, "columns must hold 'text', got a"),
    ],
)
def test_wrong_options(name: str, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_task(name, None, **options)


def test_options_of_each_task() -> None:
    assert set(task_options("Classification")) == {"labels", "multi_label", *Columns.__dataclass_fields__}
    assert "labels" not in task_options("regression")
    assert task_options("tagging") == ("labels", "word_column", "label_column", "words_key", "labels_key")
    assert task_options("sst2") == ()
    assert len(TASKS) == 14


def test_any_file_can_be_streamed_with_labels_or_without(folder) -> None:
    root = folder({"train.tsv": TRAIN, "more.csv": "label,text\nugly,a\nbad,b\n"})
    task = make_task("classification", root)
    stream = task.stream(f"{root}/more.csv", is_labelled=False)
    assert [(example.texts, example.label) for example in stream] == [(("a",), None), (("b",), None)]
    with pytest.raises(
        ValueError, match=r"more\.csv:2: label must be one of 'bad', 'good', as in training, got 'ugly'"
    ):
        list(task.stream(f"{root}/more.csv", is_labelled=None))
    first = next(task.stream(f"{root}/train.tsv", is_labelled=True))  # the rest of the file is not read
    assert first.label == "good"


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("", "holds no example"),
        ("text\tlabel\n", "holds no example"),
        ("text\tlabel\na\tgood\nb\tgood\n", "labels must be at least 2 that differ, got good"),
    ],
)
def test_a_training_file_with_too_few_labels(folder, content: str, shown: str) -> None:
    with pytest.raises(ValueError, match=rf"train\.tsv: {shown}"):
        make_task("classification", folder({"train.tsv": content}))
