"""SavedModels of classifiers, regression, tagging and choices answer as `albert_tf.inference` does, odd texts too."""

from __future__ import annotations

import json
import pathlib
import shlex
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.head_config import HeadConfig
from albert_tf.tasks.task_config import TaskConfig
from export.artifacts import SIGNATURES_FILE
from export.run_saved_model import example_question
from export.served_answers import ServedModel
from tests.conftest import ROOT
from tests.export.served_heads import LABELS, LENGTH, LONG, TEXTS, Case

# Sums in another order: other rows share a batch.
TOLERANCE = 1e-5
PAIRS = [{"text": one, "text_b": other} for one, other in zip(TEXTS, [*TEXTS[3:], *TEXTS[:3]], strict=True)]


def make(tmp_path_factory: pytest.TempPathFactory, *arguments, **settings) -> Case:
    return Case(tmp_path_factory.mktemp("served"), *arguments, **settings)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Of one text, as its task says."""
    task = TaskConfig(task="classification", options={"labels": LABELS}, max_seq_length=LENGTH)
    return make(tmp_path_factory, HeadConfig(head="classifier", labels=LABELS), task, version=3)


@pytest.fixture(scope="module")
def windowed(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Of pairs with several labels, in windows."""
    options = {"labels": LABELS, "multi_label": True}
    task = TaskConfig(task="pair_classification", options=options, max_seq_length=40, stride=11)
    return make(tmp_path_factory, HeadConfig(head="classifier", labels=LABELS), task)


@pytest.fixture(scope="module")
def unknown_task(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """A classifier whose labels have no names and whose task nothing says; padding computed."""
    return make(tmp_path_factory, HeadConfig(head="classifier", num_labels=4), padding="computed")


@pytest.fixture(scope="module")
def regression(tmp_path_factory: pytest.TempPathFactory) -> Case:
    task = TaskConfig(task="regression", max_seq_length=LENGTH, stride=20)
    return make(tmp_path_factory, HeadConfig(head="regression"), task)


@pytest.fixture(scope="module")
def tagging(tmp_path_factory: pytest.TempPathFactory) -> Case:
    task = TaskConfig(task="tagging", options={"labels": ("B-X", "I-X", "O")}, max_seq_length=LENGTH)
    return make(tmp_path_factory, HeadConfig(head="token_classifier", labels=("B-X", "I-X", "O")), task)


@pytest.fixture(scope="module")
def windowed_tagging(tmp_path_factory: pytest.TempPathFactory) -> Case:
    task = TaskConfig(task="tagging", options={"labels": ("one", "other")}, max_seq_length=30, stride=7)
    return make(tmp_path_factory, HeadConfig(head="token_classifier", labels=("one", "other")), task)


@pytest.fixture(scope="module")
def choice(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return make(tmp_path_factory, HeadConfig(head="multiple_choice"))


def test_a_label(classifier: Case) -> None:
    found = classifier.call("serving_default", text=TEXTS)
    expected = classifier.expected([{"text": text} for text in TEXTS])
    assert classifier.report.text_folder.endswith("text/3")
    assert sorted(found) == ["label_names", "labels", "logits", "probability", "scores"]
    assert [label.decode() for label in found["labels"]] == [one["label"] for one in expected]
    np.testing.assert_allclose(found["probability"], [one["probability"] for one in expected], atol=TOLERANCE)
    scores = [list(one["probabilities"].values()) for one in expected]
    np.testing.assert_allclose(found["scores"], scores, atol=TOLERANCE)
    assert [[name.decode() for name in row] for row in found["label_names"]] == [list(LABELS)] * len(TEXTS)
    powers = np.exp(found["logits"])
    np.testing.assert_allclose(found["scores"], powers / powers.sum(-1, keepdims=True), atol=TOLERANCE)


def test_several_labels_of_pairs_in_windows(windowed: Case) -> None:
    found = windowed.call("serving_default", **{name: [row[name] for row in PAIRS] for name in ("text", "text_b")})
    expected = windowed.expected(PAIRS)
    assert "logits" not in found  # several windows have several
    scores = [list(one["probabilities"].values()) for one in expected]
    np.testing.assert_allclose(found["scores"], scores, atol=TOLERANCE)
    chosen = [sorted(LABELS[i] for i in np.flatnonzero(row)) for row in found["is_label"]]
    assert chosen == [list(one["labels"]) for one in expected]
    np.testing.assert_array_equal(found["probability"], found["scores"].max(-1))
    described = json.loads((pathlib.Path(windowed.report.text_folder) / SIGNATURES_FILE).read_text())
    assert {name: described[name] for name in ("head", "task", "labels", "multi_label", "num_texts", "stride")} == {
        "head": "classifier",
        "task": "pair_classification",
        "labels": list(LABELS),
        "multi_label": True,
        "num_texts": 2,
        "stride": 11,
    }


def test_where_nothing_says_the_task_one_text_and_two_may_be_given(unknown_task: Case) -> None:
    alone = unknown_task.call("serving_default", text=TEXTS)
    expected = unknown_task.expected([{"text": text} for text in TEXTS])
    assert [label.decode() for label in alone["labels"]] == [one["label"] for one in expected]
    assert {label.decode() for label in alone["label_names"][0]} == set("0123")
    together = unknown_task.call("pair", **{name: [row[name] for row in PAIRS] for name in ("text", "text_b")})
    scores = [list(one["probabilities"].values()) for one in unknown_task.expected(PAIRS)]
    np.testing.assert_allclose(together["scores"], scores, atol=TOLERANCE)


def test_a_number(regression: Case) -> None:
    found = regression.call("serving_default", text=TEXTS)
    assert list(found) == ["value"]
    expected = [one["value"] for one in regression.expected([{"text": text} for text in TEXTS])]
    np.testing.assert_allclose(found["value"], expected, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("name", ["tagging", "windowed_tagging"])
def test_labels_of_words(name: str, request) -> None:
    case: Case = request.getfixturevalue(name)
    found = case.call("serving_default", text=TEXTS)
    expected = case.expected([{"text": text} for text in TEXTS])
    cut = 0
    for row, (text, one) in enumerate(zip(TEXTS, expected, strict=True)):
        count = len(one["words"])
        assert found["num_words"][row] == count
        assert [word.decode() for word in found["words"][row]] == [
            *one["words"],
            *[""] * (found["words"].shape[1] - count),
        ]
        assert [label.decode() for label in found["labels"][row, :count]] == list(one["labels"])
        probabilities = [0.0 if value is None else value for value in one["probabilities"]]
        np.testing.assert_allclose(found["probability"][row, :count], probabilities, atol=TOLERANCE)
        cut += one["probabilities"].count(None)
        places = zip(found["starts"][row, :count], found["ends"][row, :count], strict=True)
        assert [text[begin:end] for begin, end in places] == list(one["words"])
        for output, fill in (("starts", -1), ("ends", -1), ("probability", 0.0), ("labels", b"")):
            assert (found[output][row, count:] == fill).all()
    assert (cut > 0) == (name == "tagging")


def test_words_may_be_given(tagging: Case) -> None:
    words = [["New", "York City", "", "café"], ["", "", "", ""], ["x", "", "", ""]]
    found = tagging.call("words", words=words)
    expected = tagging.expected([{"words": words[0]}, {"words": []}, {"words": ["x"]}])
    assert found["num_words"].tolist() == [4, 0, 1]
    for row, one in enumerate(expected):
        count = len(one["words"])
        assert [label.decode() for label in found["labels"][row, :count]] == list(one["labels"])
        np.testing.assert_allclose(found["probability"][row, :count], one["probabilities"], atol=TOLERANCE)


def without_id(answers: list[dict]) -> dict:
    """The answer to the only question."""
    (answer,) = answers
    return {name: list(value) if isinstance(value, tuple) else value for name, value in answer.items() if name != "id"}


def assert_alike(found: dict, expected: dict) -> None:
    """The same answers, numbers within what another order of sums gives."""
    assert list(found) == list(expected)
    for name, value in expected.items():
        if name in ("probability", "value", "probabilities"):
            assert found[name] == pytest.approx(value, abs=TOLERANCE)
        else:
            assert found[name] == value


def test_asked_one_by_one_they_answer_in_the_form_of_predict(
    classifier: Case, windowed: Case, regression: Case, tagging: Case
) -> None:
    for case in (classifier, regression, tagging):
        found = ServedModel(case.report.text_folder).ask(LONG)
        assert found.pop("text") == LONG
        assert_alike(found, without_id(case.expected([{"text": LONG}])))
    found = ServedModel(windowed.report.text_folder).ask(LONG, "A name.")
    assert (found.pop("text"), found.pop("text_b")) == (LONG, "A name.")
    assert_alike(found, without_id(windowed.expected([{"text": LONG, "text_b": "A name."}])))


def test_questions_that_a_model_does_not_take(classifier: Case, windowed: Case, choice: Case) -> None:
    with pytest.raises(ValueError, match="text_b is for models of two texts, this one takes one"):
        ServedModel(classifier.report.text_folder).ask("a", "b")
    with pytest.raises(ValueError, match="choices are for models that choose"):
        ServedModel(classifier.report.text_folder).ask("a", choices=["b", "c"])
    with pytest.raises(ValueError, match="this model takes two texts"):
        ServedModel(windowed.report.text_folder).ask("a")
    with pytest.raises(ValueError, match="choices must be at least 2 for a model that chooses, got 1"):
        ServedModel(choice.report.text_folder).ask("a", choices=["b"])
    with pytest.raises(ValueError, match="text must be valid Unicode"):
        ServedModel(classifier.report.text_folder).ask("\ud800")
    with pytest.raises(ValueError, match="has no signature 'tokenize'; give the folder 'text' of an export"):
        ServedModel(classifier.report.ids_folder)


@pytest.mark.slow
def test_the_door_asks_what_the_export_names(classifier: Case) -> None:
    command = [sys.executable, "-m", "export.run_saved_model", f"--saved_model={classifier.report.text_folder}"]
    command += [*shlex.split(example_question("classifier", 1)), "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer.pop("text") == "A sentence."
    assert_alike(answer, without_id(classifier.expected([{"text": "A sentence."}])))


def test_computed_padding_compiles_with_xla(unknown_task: Case) -> None:
    function = unknown_task.ids.signatures["serving_default"]
    generator = np.random.default_rng(5)
    mask = (np.arange(12) < np.array([[12], [5], [1]])).astype(np.int32)
    ids = generator.integers(5, 400, (3, 12)).astype(np.int32) * mask
    given = {"input_ids": ids, "input_mask": mask, "segment_ids": np.zeros_like(ids)}
    inputs = {name: tf.constant(value) for name, value in given.items()}

    @tf.function(jit_compile=True, autograph=False)
    def compiled(**named: tf.Tensor) -> dict[str, tf.Tensor]:
        return function(**named)

    expected = unknown_task.loaded.model(given)["logits"]
    np.testing.assert_allclose(compiled(**inputs)["logits"], expected, rtol=1e-4, atol=TOLERANCE)
    np.testing.assert_allclose(function(**inputs)["logits"], expected, rtol=1e-4, atol=TOLERANCE)


def test_a_choice(choice: Case) -> None:
    rows = [
        {"context": "The value of a name is found.", "question": "What is found?", "choices": ["a name", "the value"]},
        {"context": LONG, "question": "Which?", "choices": ["names " * 100, ""]},
        {"context": "", "question": "", "choices": ["", "modules " * 200]},
        {"context": "A name.", "question": LONG, "choices": list(TEXTS[7:9])},
    ]
    found = choice.call("serving_default", **{name: [row[name] for row in rows] for name in rows[0]})
    for row, (question, one) in enumerate(zip(rows, choice.expected(rows), strict=True)):
        assert found["choice"][row] == one["choice"]
        assert found["text"][row].decode() == one["text"] == question["choices"][one["choice"]]
        np.testing.assert_allclose(found["probabilities"][row], one["probabilities"], atol=TOLERANCE)
        np.testing.assert_allclose(found["probability"][row], one["probability"], atol=TOLERANCE)
    first: dict[str, Any] = rows[0]
    asked = ServedModel(choice.report.text_folder).ask(first["context"], first["question"], choices=first["choices"])
    assert {name: asked.pop(name) for name in first} == first
    assert_alike(asked, without_id(choice.expected(rows[:1])))
