from __future__ import annotations

import dataclasses
import json
import pathlib

import numpy as np
import pytest

from albert_tf.tasks.features import EncodedExamples, encode
from albert_tf.tasks.making import make_task
from albert_tf.tasks.task import Example
from albert_tf.tokenizer import AlbertTokenizer
from tests import wordpiece_toys
from tests.tasks.toy import CLASSIFICATION, MULTI_LABEL, PAIRS, REGRESSION, TAGGING, example

TOKENIZER = wordpiece_toys.tokenizer()


def pieces(encoded: EncodedExamples, row: int) -> list[str]:
    return [TOKENIZER.id_to_piece(int(i)) for i in encoded.input_ids[row]]


@pytest.fixture(scope="module")
def golden(reference_data: pathlib.Path) -> dict:
    return json.loads((reference_data / "golden/features/classification_features.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def published(reference_data: pathlib.Path) -> AlbertTokenizer:
    return AlbertTokenizer((reference_data / "data/albert_en_30k.model").read_bytes())


def test_pairs_equal_the_original_to_the_last_id(golden: dict, published: AlbertTokenizer) -> None:
    length = golden["max_seq_length"]
    examples = [
        Example(id=str(i), source=f"x:{i}", texts=(row["text_a"], row["text_b"]), label=row["label"])
        for i, row in enumerate(golden["examples"])
    ]
    encoded = encode(examples, PAIRS, published, max_seq_length=length)
    assert len(encoded) == 40
    for i, row in enumerate(golden["examples"]):
        real = sum(row["input_mask"])
        assert row["input_mask"] == [1] * real + [0] * (length - real)
        assert encoded.input_ids[i].tolist() + [0] * (length - real) == row["input_ids"]
        assert encoded.segment_ids[i].tolist() + [0] * (length - real) == row["segment_ids"]
        assert encoded.labels[i] == row["label_id"]  # type: ignore[index]
    assert max(encoded.lengths) == length  # some were cut
    assert encoded.input_ids[0].dtype == encoded.segment_ids[0].dtype == encoded.labels.dtype == np.int32  # type: ignore[union-attr]


def test_texts_one_by_one_equal_encode_pair(golden: dict, published: AlbertTokenizer) -> None:
    texts = [row["text_a"] for row in golden["examples"]]
    encoded = encode([example(text) for text in texts], CLASSIFICATION, published, max_seq_length=17)
    assert encoded.labels is None
    for i, text in enumerate(texts):
        ids, mask, segments = published.encode_pair(published.encode(text), None, 17)
        assert encoded.input_ids[i].tolist() == ids[: sum(mask)]
        assert encoded.segment_ids[i].tolist() == segments[: sum(mask)]


def test_a_second_text_without_pieces_is_left_away() -> None:
    encoded = encode([example("a big dog", "")], PAIRS, TOKENIZER, max_seq_length=9)
    alone = encode([example("a big dog")], CLASSIFICATION, TOKENIZER, max_seq_length=9)
    assert encoded.input_ids[0].tolist() == alone.input_ids[0].tolist()
    assert encoded.segment_ids[0].tolist() == [0] * len(alone.input_ids[0])


def test_an_empty_text_is_cls_and_sep() -> None:
    encoded = encode([example("")], CLASSIFICATION, TOKENIZER, max_seq_length=9)
    assert pieces(encoded, 0) == ["[CLS]", "[SEP]"]
    assert pieces(encode([example("", "dog")], PAIRS, TOKENIZER, max_seq_length=9), 0)[:2] == ["[CLS]", "[SEP]"]


def test_labels_of_each_kind() -> None:
    def labels(task, *values):
        texts = ("dog",) * task.num_texts
        return encode([example(*texts, label=value) for value in values], task, TOKENIZER, max_seq_length=7).labels

    found = labels(CLASSIFICATION, "good", "bad")
    assert (found.tolist(), found.dtype) == ([2, 0], np.int32)
    found = labels(REGRESSION, 1.25, -3.0)
    assert (found.tolist(), found.dtype) == ([1.25, -3.0], np.float32)
    found = labels(MULTI_LABEL, ("good", "bad"), ())
    assert (found.tolist(), found.dtype) == ([[1, 0, 1], [0, 0, 0]], np.float32)


def test_labels_of_words_stand_on_first_pieces() -> None:
    words = ("xylophone", "dog", "\u0301", "zq")  # the third has no piece: an accent, which is dropped
    encoded = encode([example(*words, label=("B-X", "I-X", "O", "B-X"))], TAGGING, TOKENIZER, max_seq_length=40)
    word_of, labels = encoded.word_of[0], encoded.labels[0]  # type: ignore[index]
    assert [int(w) for w in word_of if w >= 0] == [0, 1, 2, 3]
    assert [int(label) for label in labels if label >= 0] == [0, 1, 2, 0]
    assert ((word_of >= 0) == (labels >= 0)).all()
    assert word_of[0] == word_of[-1] == -1
    for word, place in enumerate(np.flatnonzero(word_of >= 0)):
        own = TOKENIZER.encode(words[word]) or [TOKENIZER.unk_id]
        assert encoded.input_ids[0][place : place + len(own)].tolist() == own
    assert encoded.input_ids[0][np.flatnonzero(word_of == 2)[0]] == TOKENIZER.unk_id


def test_words_without_labels_have_their_places() -> None:
    encoded = encode([example("big", "dog"), example()], TAGGING, TOKENIZER, max_seq_length=9)
    assert encoded.labels is None
    assert [int(w) for w in encoded.word_of[0] if w >= 0] == [0, 1]  # type: ignore[index]
    assert encoded.word_of[1].tolist() == [-1, -1]  # type: ignore[index]


def test_windows_hold_all_of_a_text_and_its_label() -> None:
    text = " ".join(["big", "dog", "a"] * 7)
    ids = TOKENIZER.encode(text)
    encoded = encode(
        [example("dog", label="bad"), example(text, label="good")],
        CLASSIFICATION,
        TOKENIZER,
        max_seq_length=9,
        stride=4,
    )
    assert encoded.example_of.tolist() == [0] + [1] * (len(encoded) - 1)
    assert encoded.labels.tolist() == [0] + [2] * (len(encoded) - 1)  # type: ignore[union-attr]
    for row, window in enumerate(encoded.input_ids[1:]):
        assert window[1:-1].tolist() == ids[4 * row : 4 * row + 7]
    assert 4 * (len(encoded) - 2) + 7 >= len(ids)


def test_windows_of_a_pair_keep_the_shorter_text() -> None:
    long = " ".join(["big", "dog", "a"] * 7)
    for texts in ((long, "dog"), ("dog", long)):
        encoded = encode([example(*texts)], PAIRS, TOKENIZER, max_seq_length=12, stride=5)
        assert len(encoded) > 2
        short = TOKENIZER.encode("dog")
        for ids, segments in zip(encoded.input_ids, encoded.segment_ids, strict=True):
            parts = ids[segments == 0][1:-1].tolist(), ids[segments == 1][:-1].tolist()
            assert parts[texts.index("dog")] == short
            assert len(ids) <= 12


def test_a_text_of_100_000_words() -> None:
    text = "big dog " * 50_000
    encoded = encode([example(text)], CLASSIFICATION, TOKENIZER, max_seq_length=16)
    assert [len(row) for row in encoded.input_ids] == [16]
    encoded = encode([example(text)], CLASSIFICATION, TOKENIZER, max_seq_length=512, stride=256)
    assert sum(256 for _ in encoded.input_ids) >= len(TOKENIZER.encode(text)) - 256


def test_cut_texts_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="absl")
    long = "big dog " * 9
    for task, examples in (
        (CLASSIFICATION, [example("dog"), example(long)]),
        (PAIRS, [example("dog", long), example("dog", "dog")]),
        (TAGGING, [example("dog"), example(*long.split())]),
    ):
        caplog.clear()
        encode(examples, task, TOKENIZER, max_seq_length=9, stride=3)
        assert caplog.text == ""
        encode(examples, task, TOKENIZER, max_seq_length=9)
        assert "1 of 2 examples are cut to 9 tokens; a stride reads all of them" in caplog.text


@pytest.mark.parametrize("task", [CLASSIFICATION, PAIRS, TAGGING, REGRESSION, MULTI_LABEL])
def test_no_examples(task) -> None:
    assert len(encode([], task, TOKENIZER, max_seq_length=9)) == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_seq_length": 4}, "max_seq_length must be at least 5, got 4"),
        ({"max_seq_length": 9, "stride": 0}, r"stride must be in \[1, 7\] for max_seq_length 9, got 0"),
        ({"max_seq_length": 9, "stride": 8}, r"stride must be in \[1, 7\]"),
    ],
)
def test_wrong_lengths(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        encode([example("dog")], CLASSIFICATION, TOKENIZER, **changes)


@pytest.mark.parametrize(
    ("task", "examples", "message"),
    [
        (CLASSIFICATION, [example("a", label="ugly", number=3)], "a.tsv:3: label must be one of 'bad', 'fair', 'good'"),
        (CLASSIFICATION, [example("a", label="bad"), example("a", number=2)], "a.tsv:2: has no label, others have"),
        (CLASSIFICATION, [example("a", "b")], "a.tsv:1: must have 1 texts for classification, got 2"),
        (CLASSIFICATION, [example("a"), example("b\ud800", number=5)], "a.tsv:5: text must be valid Unicode"),
        (TAGGING, [example("a", "b", label=("O",))], "a.tsv:1: must have one label for each of its 2 words"),
        (TAGGING, [example("a", label=("B-Y",))], "a.tsv:1: label must be one of"),
    ],
)
def test_wrong_examples(task, examples, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        encode(examples, task, TOKENIZER, max_seq_length=9)


def test_rows_can_be_selected_and_must_agree() -> None:
    encoded = encode(
        [example(text, label="bad") for text in ("a", "big dog", "dog")], CLASSIFICATION, TOKENIZER, max_seq_length=9
    )
    chosen = encoded.select([2, 0])
    assert [ids.tolist() for ids in chosen.input_ids] == [encoded.input_ids[2].tolist(), encoded.input_ids[0].tolist()]
    assert chosen.example_of.tolist() == [2, 0]
    with pytest.raises(ValueError, match="as many rows as input_ids"):
        dataclasses.replace(encoded, example_of=np.zeros(2, np.int32))


def test_from_the_file_to_the_original_ids(
    golden: dict, published: AlbertTokenizer, reference_data: pathlib.Path
) -> None:
    task = make_task("mrpc", str(reference_data / "data/labelled"))
    by_texts = {example.texts: example for split in task.splits() for example in task.read(split)}
    examples = [by_texts[row["text_a"], row["text_b"]] for row in golden["examples"]]
    encoded = encode(examples, task, published, max_seq_length=golden["max_seq_length"])
    for i, row in enumerate(golden["examples"]):
        assert encoded.input_ids[i].tolist() == row["input_ids"][: sum(row["input_mask"])]
    assert encoded.labels.tolist() == [row["label_id"] for row in golden["examples"]]  # type: ignore[union-attr]
