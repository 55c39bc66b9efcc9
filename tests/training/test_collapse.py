"""What counts as a collapse, and what does not."""

from __future__ import annotations

import numpy as np
import pytest

from albert_tf.training import collapse

LABELS = np.array([0, 1, 2, 1, 0, 1], np.int32)
GOOD = np.eye(3)[LABELS] * 4.0


def test_a_model_that_tells_labels_apart_has_not_collapsed() -> None:
    assert collapse.notice("classifier", GOOD, LABELS) is None


def test_one_label_for_everything() -> None:
    logits = np.tile([0.0, 0.5, 0.0], (6, 1))
    found = collapse.notice("classifier", logits, LABELS)
    assert found is not None
    assert found.startswith("it predicts one label only (number 1) for all 6; its loss, ")
    found = collapse.notice("classifier", logits, LABELS, names=("a", "b", "c"))
    assert found is not None
    assert found.startswith("it predicts one label only ('b') for all 6")
    # Sure and right where there is only one label: nothing can be told.
    assert collapse.notice("classifier", logits, np.ones(6, np.int32)) is None


def test_a_loss_at_chance() -> None:
    wrong = np.roll(GOOD, 1, axis=0)
    found = collapse.notice("classifier", wrong, LABELS)
    assert found is not None
    assert "is no better than that of the labels' frequencies, 1.011" in found


def test_tokens() -> None:
    logits, labels = [GOOD[:2], GOOD[2:]], [LABELS[:2], LABELS[2:]]
    assert collapse.notice("token_classifier", logits, labels) is None
    same = [np.tile([1.0, 0.0, 0.0], (len(part), 1)) for part in labels]
    assert "one label only (number 0) for all 5" in str(
        collapse.notice("token_classifier", same, [np.array([-1, 1]), labels[1]])
    )


def test_sets_of_labels() -> None:
    labels = np.array([[1, 0], [0, 1], [1, 1]], np.float32)
    assert collapse.notice("classifier", labels - 0.5, labels, is_multi_label=True) is None
    same = np.tile([0.7, -0.2], (3, 1))
    message = "it predicts the same 1 labels for all 3 texts"
    assert collapse.notice("classifier", same, labels, is_multi_label=True) == message


@pytest.mark.parametrize(("spread", "is_noticed"), [(1e-3, True), (0.5, False)])
def test_numbers(spread: float, is_noticed: bool) -> None:
    labels = np.array([0.0, 1.0, 2.0, 3.0])
    found = collapse.notice("regression", 1.5 + spread * labels, labels)
    assert (found is not None) == is_noticed
    if found is not None:
        assert found == "it predicts nearly the same number, 1.5, for all 4 texts"
