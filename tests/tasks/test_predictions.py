from __future__ import annotations

import numpy as np
import pytest

from albert_tf.tasks.features import encode
from albert_tf.tasks.predictions import Prediction, predict, sigmoid, softmax
from tests import wordpiece_toys
from tests.tasks.toy import CLASSIFICATION, MULTI_LABEL, REGRESSION, TAGGING, example

TOKENIZER = wordpiece_toys.tokenizer()
LONG = " ".join(["big", "dog", "a"] * 5)


def probabilities_of(prediction: Prediction) -> np.ndarray:
    assert prediction.probabilities is not None
    return prediction.probabilities


def test_a_class_has_the_highest_probability() -> None:
    examples = [example("dog"), example("big dog")]
    encoded = encode(examples, CLASSIFICATION, TOKENIZER, max_seq_length=9)
    first, second = predict(np.array([[0.0, 1.0, -1.0], [5.0, 1.0, 0.0]]), encoded, examples, CLASSIFICATION)
    assert (first.label, second.label) == ("fair", "bad")
    powers = np.exp([0.0, 1.0, -1.0])
    np.testing.assert_allclose(probabilities_of(first), powers / powers.sum(), atol=1e-6)


def test_windows_of_a_text_share_one_prediction() -> None:
    examples = [example("dog"), example(LONG), example("a")]
    encoded = encode(examples, CLASSIFICATION, TOKENIZER, max_seq_length=9, stride=4)
    logits = np.random.default_rng(3).normal(size=(len(encoded), 3)).astype(np.float32)
    predictions = predict(logits, encoded, examples, CLASSIFICATION)
    assert len(encoded) > 4
    assert len(predictions) == 3
    rows = np.flatnonzero(encoded.example_of == 1)
    np.testing.assert_allclose(probabilities_of(predictions[1]), softmax(logits[rows]).mean(0), atol=1e-6)
    np.testing.assert_array_equal(probabilities_of(predictions[2]), softmax(logits[-1]))


def test_several_labels_count_from_one_half_on() -> None:
    examples = [example("dog"), example("a")]
    encoded = encode(examples, MULTI_LABEL, TOKENIZER, max_seq_length=9)
    first, second = predict(np.array([[0.1, -0.1, 3.0], [-1, -2, -3]]), encoded, examples, MULTI_LABEL)
    assert (first.label, second.label) == (("bad", "good"), ())
    np.testing.assert_allclose(probabilities_of(first), 1 / (1 + np.exp(np.array([-0.1, 0.1, -3.0]))), atol=1e-6)


@pytest.mark.parametrize("shape", [(2,), (2, 1)])
def test_regression(shape: tuple[int, ...]) -> None:
    examples = [example("dog"), example("a")]
    encoded = encode(examples, REGRESSION, TOKENIZER, max_seq_length=9)
    first, second = predict(np.array([1.5, -2.0], np.float32).reshape(shape), encoded, examples, REGRESSION)
    assert (first.label, second.label, first.probabilities) == (1.5, -2.0, None)


def test_words_take_the_label_of_their_first_piece(caplog: pytest.LogCaptureFixture) -> None:
    words = LONG.split()
    examples = [example("dog", "xylophone", "a"), example(*words), example()]
    for stride in (None, 3):
        encoded = encode(examples, TAGGING, TOKENIZER, max_seq_length=9, stride=stride)
        assert encoded.word_of is not None
        # the logits say: word 0 is B-X, word 1 I-X, word 2 O, word 3 B-X ...; other pieces something else
        logits = [
            np.eye(3, dtype=np.float32)[np.where(row >= 0, row % 3, (row + 2) % 3)] * 9 for row in encoded.word_of
        ]
        seen = len(words) if stride else int(encoded.word_of[1].max()) + 1
        assert seen > 0
        assert (seen == len(words)) == (stride is not None)
        first, second, third = predict(logits, encoded, examples, TAGGING)
        expected = tuple(("B-X", "I-X", "O")[i % 3] for i in range(len(words)))
        assert first.label == expected[:3]
        assert second.label == expected[:seen] + ("O",) * (len(words) - seen)
        assert second.probabilities is not None
        assert np.isnan(second.probabilities).any(-1).tolist() == [False] * seen + [True] * (len(words) - seen)
        assert third.label == ()
    assert "words were cut off and have no prediction; a stride reads all of a text" in caplog.text


def test_extreme_logits() -> None:
    with np.errstate(all="raise"):
        assert sigmoid(np.array([-1e4, 0.0, 1e4])).tolist() == [0.0, 0.5, 1.0]
        assert softmax(np.array([80.0, 0.0])).sum() == 1.0


@pytest.mark.parametrize(
    ("logits", "message"),
    [
        (np.zeros((2, 3)), "logits must have 1 rows, as many as the examples have, got 2"),
        (np.zeros((1, 2)), "logits must be of 3 labels, got 2"),
    ],
)
def test_logits_that_do_not_fit(logits: np.ndarray, message: str) -> None:
    examples = [example("dog")]
    encoded = encode(examples, CLASSIFICATION, TOKENIZER, max_seq_length=9)
    with pytest.raises(ValueError, match=message):
        predict(logits, encoded, examples, CLASSIFICATION)
