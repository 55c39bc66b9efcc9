"""Layouts of GLUE's files. Facts come from public sources:

* google-research/albert, classifier_utils.py: folder of each task, names of the files of each split, position of texts,
  label and id, which files have a header line, labels and their order, and that QQP's short rows are left out;
  run_classifier.py: which metric chooses the best checkpoint.
* tensorflow/datasets, tensorflow_datasets/text/glue.py: names of the columns with texts and labels; CoLA's train and
  dev files are the only ones without a header line.
* nyu-mll/GLUE-baselines, download_glue_data.py: folders, MRPC's header lines of train, dev and test, MRPC's original
  files, and where the diagnostic set lies.
"""

from __future__ import annotations

import pathlib

import pytest

from albert_tf.tasks.glue import GLUE_TASKS
from albert_tf.tasks.making import make_task

TWO, THREE = ("entailment", "not_entailment"), ("contradiction", "entailment", "neutral")
PARSES = ["sentence1_binary_parse", "sentence2_binary_parse", "sentence1_parse", "sentence2_parse"]
MNLI_HEADER = ["index", "promptID", "pairID", "genre", *PARSES, "sentence1", "sentence2"]
MNLI_ROW = ["7", "1", "1n", "fiction", "( a )", "( b )", "(ROOT a)", "(ROOT b)", "A dog.", "No dog."]
STSB_HEADER = ["index", "genre", "filename", "year", "old_index", "source1", "source2", "sentence1", "sentence2"]
QQP_HEADER = ["id", "qid1", "qid2", "question1", "question2", "is_duplicate"]
STSB_ROW = ["7", "main", "MSRvid", "2012test", "0001", "none", "none", "A dog.", "No dog."]
PAIR, PAIR_ROW = ["index", "sentence1", "sentence2"], ["7", "A dog.", "No dog."]
PAIR_HEADER = [*PAIR, "label"]
MRPC_IDS = ["#1 ID", "#2 ID", "#1 String", "#2 String"]


def lines(*rows: list[str]) -> str:
    return "".join("\t".join(row) + "\n" for row in rows)


# task, split, file below the GLUE folder, content, id of the first example, texts, label
CASES = [
    ("cola", "train", "CoLA/train.tsv", lines(["gj04", "1", "", "A dog."]), None, ("A dog.",), "1"),
    ("cola", "dev", "CoLA/dev.tsv", lines(["gj04", "0", "*", "A dog."]), None, ("A dog.",), "0"),
    ("cola", "test", "CoLA/test.tsv", lines(["index", "sentence"], ["7", "A dog."]), "7", ("A dog.",), None),
    ("sst-2", "dev", "SST-2/dev.tsv", lines(["sentence", "label"], ["a dog ", "1"]), None, ("a dog ",), "1"),
    ("sst-2", "test", "SST-2/test.tsv", lines(["index", "sentence"], ["7", "a dog"]), "7", ("a dog",), None),
    (
        "mrpc",
        "train",
        "MRPC/train.tsv",
        lines(["Quality", *MRPC_IDS], ["1", "5", "6", "A", "B"]),
        None,
        ("A", "B"),
        "1",
    ),
    ("mrpc", "test", "MRPC/test.tsv", lines(["index", *MRPC_IDS], ["7", "5", "6", "A", "B"]), "7", ("A", "B"), None),
    (
        "sts-b",
        "dev",
        "STS-B/dev.tsv",
        lines([*STSB_HEADER, "score"], [*STSB_ROW, "3.8"]),
        "7",
        ("A dog.", "No dog."),
        3.8,
    ),
    ("sts-b", "test", "STS-B/test.tsv", lines(STSB_HEADER, STSB_ROW), "7", ("A dog.", "No dog."), None),
    (
        "qqp",
        "train",
        "QQP/train.tsv",
        lines(QQP_HEADER, ["9", "1", "2", "Why?", "How?", "0"]),
        "9",
        ("Why?", "How?"),
        "0",
    ),
    (
        "qqp",
        "test",
        "QQP/test.tsv",
        lines(["id", "question1", "question2"], ["9", "Why?", "How?"]),
        "9",
        ("Why?", "How?"),
        None,
    ),
    (
        "mnli",
        "train",
        "MNLI/train.tsv",
        lines([*MNLI_HEADER, "label1", "gold_label"], [*MNLI_ROW, "neutral", "entailment"]),
        "7",
        ("A dog.", "No dog."),
        "entailment",
    ),
    (
        "mnli",
        "dev_mismatched",
        "MNLI/dev_mismatched.tsv",
        lines(
            [*MNLI_HEADER, *(f"label{i}" for i in range(1, 6)), "gold_label"], [*MNLI_ROW, *["neutral"] * 5, "neutral"]
        ),
        "7",
        ("A dog.", "No dog."),
        "neutral",
    ),
    ("mnli", "test_matched", "MNLI/test_matched.tsv", lines(MNLI_HEADER, MNLI_ROW), "7", ("A dog.", "No dog."), None),
    (
        "qnli",
        "dev",
        "QNLI/dev.tsv",
        lines(["index", "question", "sentence", "label"], ["7", "Who?", "A dog.", "entailment"]),
        "7",
        ("Who?", "A dog."),
        "entailment",
    ),
    (
        "rte",
        "dev",
        "RTE/dev.tsv",
        lines([*PAIR, "label"], [*PAIR_ROW, "not_entailment"]),
        "7",
        ("A dog.", "No dog."),
        TWO[1],
    ),
    ("rte", "test", "RTE/test.tsv", lines(PAIR, PAIR_ROW), "7", ("A dog.", "No dog."), None),
    ("wnli", "train", "WNLI/train.tsv", lines([*PAIR, "label"], [*PAIR_ROW, "1"]), "7", ("A dog.", "No dog."), "1"),
    # as published for GLUE's diagnostic set: categories, domain, then texts and label under names of their own
    (
        "ax",
        "dev",
        "diagnostic/diagnostic-full.tsv",
        lines(
            [
                "Lexical Semantics",
                "Predicate-Argument Structure",
                "Logic",
                "Knowledge",
                "Domain",
                "Premise",
                "Hypothesis",
                "Label",
            ],
            ["", "", "Negation", "", "News", "A dog.", "No dog.", "contradiction"],
        ),
        None,
        ("A dog.", "No dog."),
        "contradiction",
    ),
    ("ax", "test", "diagnostic/diagnostic.tsv", lines(PAIR, PAIR_ROW), "7", ("A dog.", "No dog."), None),
]


@pytest.mark.parametrize(("name", "split", "path", "content", "identifier", "texts", "label"), CASES)
def test_layouts(folder, name, split, path, content, identifier, texts, label) -> None:
    root = folder({path: content})
    last_line = content.count("\n")
    task = make_task(name, root)
    (example,) = task.read(split)
    assert (example.texts, example.label) == (texts, label)
    assert example.source == f"{pathlib.Path(root, path)}:{last_line}"
    assert example.id == (identifier or f"{pathlib.Path(path).name}:{last_line}")
    assert (task.splits(), task.num_texts) == ((split,), len(texts))
    # the folder of the task itself does as well
    assert make_task(name, str(pathlib.Path(root, path).parent)).read(split) == [example]


def test_all_tasks_are_covered() -> None:
    assert {case[0] for case in CASES} == set(GLUE_TASKS)
    assert len(GLUE_TASKS) == 10


@pytest.mark.parametrize(
    ("name", "head", "labels", "best"),
    [
        ("CoLA", "classifier", ("0", "1"), "matthews"),
        ("sst2", "classifier", ("0", "1"), "accuracy"),
        ("MRPC", "classifier", ("0", "1"), "accuracy"),
        ("stsb", "regression", None, "pearson"),
        ("qqp", "classifier", ("0", "1"), "accuracy"),
        ("mnli", "classifier", THREE, "accuracy"),
        ("qnli", "classifier", TWO, "accuracy"),
        ("rte", "classifier", TWO, "accuracy"),
        ("wnli", "classifier", ("0", "1"), "accuracy"),
        ("ax", "classifier", THREE, "matthews"),
    ],
)
def test_heads_labels_and_metrics(name: str, head: str, labels, best: str) -> None:
    task = make_task(name, None)
    assert (task.head, task.labels, task.metrics[0], task.splits()) == (head, labels, best, ())


def test_mnli_has_two_dev_sets(folder) -> None:
    content = lines([*MNLI_HEADER, "gold_label"], [*MNLI_ROW, "neutral"])
    names = ("test_mismatched", "dev_mismatched", "train", "dev_matched", "test_matched")
    task = make_task("mnli", folder({f"MNLI/{name}.tsv": content for name in names}))
    assert task.splits() == ("train", "dev_matched", "dev_mismatched", "test_matched", "test_mismatched")
    assert task.dev_splits == ("dev_matched", "dev_mismatched")


def test_short_rows_of_qqp_are_left_out_and_counted(folder, caplog: pytest.LogCaptureFixture) -> None:
    rows = [["1", "1", "2", "Why?", "How?", "0"], ["2", "3", "4", "Who?"], ["3", "5", "6", "A?", "", "1"]]
    examples = make_task("qqp", folder({"train.tsv": lines(QQP_HEADER, *rows)})).read("train")
    assert [example.id for example in examples] == ["1", "3"]
    assert "1 rows with too few cells are left out, the first at" in caplog.text
    assert "1 of 2 examples have an empty text" in caplog.text


@pytest.mark.parametrize(
    ("name", "files", "split", "message"),
    [
        ("sst-2", {}, "dev", r": no dev\.tsv, neither there nor in SST-2"),
        ("sst-2", {"dev.tsv": "sentence\tlabel\n"}, "dev_matched", "split must be one of train, dev, test for sst-2"),
        ("sst-2", {"dev.tsv": "sentence\tlabel\n"}, "dev", r"dev\.tsv: holds no example"),
        ("sst-2", {"dev.tsv": "sentence\tscore\nx\t1\n"}, "dev", r"dev\.tsv:2: no column 'label'; columns: 'sentence'"),
        ("sst-2", {"dev.tsv": "text\tlabel\nx\t1\n"}, "dev", r"dev\.tsv:2: no column 'sentence'"),
        ("sst-2", {"dev.tsv": "sentence\tlabel\nx\t2\n"}, "dev", r"dev\.tsv:2: label must be one of '0', '1', as in"),
        (
            "rte",
            {"dev.tsv": lines(PAIR_HEADER, *[[*PAIR_ROW, TWO[0]]] * 2)},
            "dev",
            r"3: id '7' stands already in dev\.tsv:2",
        ),
        (
            "sts-b",
            {"dev.tsv": lines([*STSB_HEADER, "score"], [*STSB_ROW, "x"])},
            "dev",
            "score must be a number, got 'x'",
        ),
    ],
)
def test_bad_files(folder, name: str, files: dict, split: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_task(name, folder({"x": "", **files})).read(split)


def test_real_files(reference_data: pathlib.Path) -> None:
    root = str(reference_data / "data/labelled")
    sentiment = make_task("sst-2", root)
    dev = sentiment.read("dev")
    assert len(dev) == 872
    assert dev[0].texts == ("it 's a charming and often affecting journey . ",)
    assert {example.label for example in sentiment.read("train")} == {"0", "1"}
    grammar = make_task("cola", root)
    assert [len(grammar.read(split)) for split in ("train", "dev")] == [8551, 1043]
    assert grammar.read("train")[0].texts == (
        "Our friends won't buy this analysis, let alone the next one we propose.",
    )
    # a byte-order mark, line ends of Windows, quotes that open and never close, no header line
    paraphrases = make_task("mrpc", root)
    assert paraphrases.splits() == ("train", "test")
    train = paraphrases.read("train")
    assert (train[0].label, train[0].texts[0][:22]) == ("1", "Amrozi accused his bro")
    assert not any(text.endswith("\r") for example in train for text in example.texts)
    assert {example.label for example in paraphrases.read("test")} == {"0", "1"}
