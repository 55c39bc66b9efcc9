"""Labels, numbers and tags beside the model called on each text alone; with and without a task."""

from __future__ import annotations

import numpy as np
import pytest

from albert_tf.head_config import HeadConfig
from albert_tf.inference.answers import make_answerer
from albert_tf.inference.text_answers import TextAnswerer
from albert_tf.modeling.encoder import ENCODER_INPUTS
from albert_tf.tasks.task_config import TaskConfig
from albert_tf.tokenizer import AlbertTokenizer
from tests.inference.conftest import MAX_SEQ_LENGTH, ask, loaded_model, make

CLASSIFIER = HeadConfig(head="classifier", labels=("bad", "fair", "good"))
REGRESSION = HeadConfig(head="regression")
TAGGING = HeadConfig(head="token_classifier", labels=("O", "B-X"))
TEXTS = (
    "The value of the object is returned.",
    "",
    "A name.",
    "An exception is raised when a name is not found in the module, and then again. " * 9,  # is cut
    "In 2010, they came back.",
)
# Sums in another order, where texts share a batch.
TOLERANCE = 1e-5


def logits_alone(head: HeadConfig, tokenizer: AlbertTokenizer, *texts: str) -> np.ndarray:
    ids = [tokenizer.encode(text) for text in texts]
    second = ids[1] if len(ids) == 2 else None
    values = tokenizer.encode_pair(ids[0], second, MAX_SEQ_LENGTH)
    inputs = {name: np.array([value], np.int32) for name, value in zip(ENCODER_INPUTS, values, strict=True)}
    return loaded_model(head).model.forward(inputs)["logits"].numpy()[0]


def test_a_label_has_the_probability_of_its_text_alone(tokenizer: AlbertTokenizer) -> None:
    found = ask(make(CLASSIFIER), [{"text": text} for text in TEXTS])
    assert [one["id"] for one in found] == list("01234")
    for text, one in zip(TEXTS, found, strict=True):
        logits = logits_alone(CLASSIFIER, tokenizer, text)
        expected = np.exp(logits) / np.exp(logits).sum()
        assert list(one["probabilities"]) == ["bad", "fair", "good"]
        assert list(one["probabilities"].values()) == pytest.approx(expected.tolist(), abs=TOLERANCE)
        assert one["label"] == CLASSIFIER.labels[int(expected.argmax())]  # type: ignore[index]
        assert one["probability"] == max(one["probabilities"].values())


def test_batches_change_no_answer() -> None:
    rows = [{"text": text} for text in TEXTS]
    answers = [ask(make(CLASSIFIER, **how), rows) for how in ({}, {"sort_by_length": False}, {"batch_size": 1})]
    for other in answers[1:]:
        for one, two in zip(answers[0], other, strict=True):
            assert (one["id"], one["label"]) == (two["id"], two["label"])
            assert one["probabilities"] == pytest.approx(two["probabilities"], abs=TOLERANCE)


def test_pairs_where_nothing_says_the_task(tokenizer: AlbertTokenizer) -> None:
    rows = [{"text": text, "text_b": "It was a name."} for text in TEXTS]
    found = ask(make(REGRESSION), rows)
    expected = [float(logits_alone(REGRESSION, tokenizer, *row.values())) for row in rows]
    assert [one["value"] for one in found] == pytest.approx(expected, abs=TOLERANCE)
    with pytest.raises(ValueError, match=r"a:1: must have 2 texts for regression, got 1"):
        ask(make(REGRESSION), [rows[0], {"text": "alone"}])


def test_labels_without_names_are_numbers() -> None:
    head = HeadConfig(head="classifier", num_labels=2)
    assert list(ask(make(head), [{"text": "a"}])[0]["probabilities"]) == ["0", "1"]


def test_several_labels() -> None:
    config = TaskConfig(
        task="classification",
        options={"labels": CLASSIFIER.labels, "multi_label": True},
        max_seq_length=MAX_SEQ_LENGTH,
    )
    for one in ask(make(CLASSIFIER, task_config=config), [{"text": text} for text in TEXTS]):
        assert one["labels"] == tuple(sorted(name for name, p in one["probabilities"].items() if p >= 0.5))
        assert sum(one["probabilities"].values()) != pytest.approx(1.0, abs=1e-3)


def test_columns_of_the_caller() -> None:
    answerer = make(REGRESSION, columns=("premise", "claim"))
    same = make(REGRESSION)
    assert ask(answerer, [{"premise": "a name", "claim": "b"}]) == ask(same, [{"text": "a name", "text_b": "b"}])
    with pytest.raises(ValueError, match="a:0: no column 'premise'; columns: 'text'"):
        ask(answerer, [{"text": "a"}])


def test_a_task_of_pairs_needs_both_texts() -> None:
    config = TaskConfig(task="mrpc", max_seq_length=32)
    answerer = make(HeadConfig(head="classifier", labels=("0", "1")), task_config=config)
    assert answerer.max_seq_length == 32
    with pytest.raises(ValueError, match="a:0: mrpc takes two texts, and there is no 'text_b'"):
        ask(answerer, [{"text": "a"}])


def test_windows_over_a_long_text() -> None:
    config = TaskConfig(
        task="classification", options={"labels": CLASSIFIER.labels}, max_seq_length=MAX_SEQ_LENGTH, stride=20
    )
    cut, windowed = (ask(make(CLASSIFIER, task_config=c), [{"text": TEXTS[3]}])[0] for c in (None, config))
    assert cut["probabilities"] != pytest.approx(windowed["probabilities"], abs=1e-4)
    assert sum(windowed["probabilities"].values()) == pytest.approx(1.0, abs=1e-5)


def test_tags_of_words(tokenizer: AlbertTokenizer) -> None:
    found = ask(make(TAGGING), [{"text": "The value  of\tnames"}, {"words": ["one word", "two"]}, {"text": " "}])
    assert [one["words"] for one in found] == [("The", "value", "of", "names"), ("one word", "two"), ()]
    for one in found:
        assert len(one["labels"]) == len(one["probabilities"]) == len(one["words"])
        assert set(one["labels"]) <= {"O", "B-X"}
    first_pieces, at = [], 1
    for word in found[0]["words"]:
        first_pieces.append(at)
        at += len(tokenizer.encode(word))
    logits = logits_alone(TAGGING, tokenizer, "The value of names")[first_pieces]
    probabilities = np.exp(logits).max(-1) / np.exp(logits).sum(-1)
    assert found[0]["probabilities"] == pytest.approx(probabilities.tolist(), abs=TOLERANCE)
    assert [("O", "B-X").index(label) for label in found[0]["labels"]] == logits.argmax(-1).tolist()


def test_words_behind_the_cut_have_no_probability() -> None:
    found = ask(make(TAGGING, max_seq_length=5), [{"text": "The value of the names of the names"}])[0]
    assert found["probabilities"][0] is not None
    assert (found["labels"][-1], found["probabilities"][-1]) == ("O", None)


def test_words_must_be_a_list() -> None:
    with pytest.raises(ValueError, match="a:0: words must be a list of texts"):
        ask(make(TAGGING), [{"words": "one two"}])


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"was fine-tuned on sts-b by its task_config.json, which does not fit its head"
    ):
        make(CLASSIFIER, task_config=TaskConfig(task="sts-b", max_seq_length=32))
    with pytest.raises(ValueError, match=r"max_seq_length must be in \[5, 70\], the positions of a_model, got 71"):
        make(CLASSIFIER, max_seq_length=71)
    with pytest.raises(ValueError, match="a:0: text must be valid Unicode"):
        ask(make(CLASSIFIER), [{"text": "a \ud800"}])
    with pytest.raises(ValueError, match=r"a_model: has no head that could answer; albert_tf\.embed gives the vectors"):
        make(HeadConfig(head="encoder"))


def test_nothing_asked_is_nothing_answered() -> None:
    answerer = make(CLASSIFIER)
    assert isinstance(answerer, TextAnswerer)
    assert answerer.answer([]) == []
    assert make_answerer(answerer.loaded, answerer.runner, answerer.settings).answer([]) == []
