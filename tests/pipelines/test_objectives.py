"""Sentence objectives and the original's choices, through the whole pipeline, mapped back to the text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from albert_tf import features
from albert_tf.tokenizer import AlbertTokenizer
from pipelines.audit import inspection, report
from pipelines.dataset import read_dataset
from pipelines.example_settings import ExampleSettings
from tests.pipelines import building
from tests.pipelines.conftest import make_documents, write_corpus

S = 61
DOCUMENTS = make_documents(90, seed=5)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus") / "all.txt", DOCUMENTS)


@pytest.fixture(scope="module")
def texts(tokenizer: AlbertTokenizer) -> list[list[int]]:
    """Ids of each document."""
    return [[i for sentence in document for i in tokenizer.encode(sentence)] for document in DOCUMENTS]


def segments_of(example: dict[str, list[Any]]) -> tuple[list[int], list[int], int]:
    """Both segments in the order of the record, masks undone, and the label; the second may be empty."""
    if features.SEGMENT_TOKENS in example:
        length = example[features.SEGMENT_LENGTHS][0]
        tokens = example[features.SEGMENT_TOKENS]
        return tokens[:length], tokens[length:], example.get(features.NEXT_SENTENCE_LABELS, [0])[0]
    ids = np.array(example[features.INPUT_IDS])
    used = np.array(example[features.MASKED_LM_WEIGHTS]) > 0
    ids[np.array(example[features.MASKED_LM_POSITIONS])[used]] = np.array(example[features.MASKED_LM_IDS])[used]
    real, second = sum(example[features.INPUT_MASK]), sum(example[features.SEGMENT_IDS])
    first = ids[1 : real - second - 1].tolist()
    return first, ids[real - second : real - 1].tolist(), example[features.NEXT_SENTENCE_LABELS][0]


def stands_in(texts: list[list[int]], ids: list[int]) -> bool:
    return any(ids == text[at : at + len(ids)] for text in texts for at in range(len(text) - len(ids) + 1))


def check_audit(output: Path) -> None:
    """The audit finds nothing wrong, and shows examples."""
    found = inspection.inspect(read_dataset(str(output)), show=3)
    assert found.faults == []
    assert report.failed(found) == []
    assert len(report.shown_examples(found)) == 3


@pytest.mark.parametrize("masking", ["dynamic", "static"])
def test_next_sentence_pairs(
    masking: str, tmp_path: Path, corpus: Path, texts: list[list[int]], tokenizer: AlbertTokenizer
) -> None:
    dataset = building.build(tmp_path / "data", [corpus], tokenizer, masking=masking, sentence_objective="nsp")
    examples = [segments_of(example) for example in building.read_examples(tmp_path / "data")]
    strangers = 0
    for first, second, label in examples:
        assert min(len(first), len(second)) >= 1
        assert len(first) + len(second) <= S - 3
        assert stands_in(texts, first)
        assert stands_in(texts, second)
        if label:
            strangers += 1
        else:
            assert stands_in(texts, first + second)
    told = sum(label and not stands_in(texts, first + second) for first, second, label in examples)
    assert told > 0.95 * strangers  # a short second segment may stand in the same document by chance
    assert abs(strangers / len(examples) - 0.5) < 4 * 0.5 / len(examples) ** 0.5
    counts = dataset["counts"]
    assert counts["examples_with_stranger"] == strangers
    assert counts["tokens_in"] == counts["tokens_out"] + sum(counts["tokens_dropped"].values())
    assert counts["tokens_out"] >= 0.97 * counts["tokens_in"]
    # Every token is in one place: what is not there was cut off, and counted.
    ids = np.bincount([i for first, second, _ in examples for i in first + second], minlength=211)
    of_texts = np.bincount([i for text in texts for i in text], minlength=211)
    assert (ids <= of_texts).all()
    assert (of_texts - ids).sum() == sum(counts["tokens_dropped"].values())
    check_audit(tmp_path / "data")


@pytest.mark.parametrize("masking", ["dynamic", "static"])
def test_examples_of_one_segment(
    masking: str, tmp_path: Path, corpus: Path, texts: list[list[int]], tokenizer: AlbertTokenizer
) -> None:
    dataset = building.build(tmp_path / "data", [corpus], tokenizer, masking=masking, sentence_objective="none")
    records = building.read_examples(tmp_path / "data")
    examples = [segments_of(example) for example in records]
    assert max(len(first) for first, _, _ in examples) == S - 2
    for first, second, label in examples:
        assert (second, label) == ([], 0)
        assert stands_in(texts, first)
    assert sorted(i for first, _, _ in examples for i in first) == sorted(i for text in texts for i in text)
    assert dataset["counts"]["tokens_out"] == dataset["counts"]["tokens_in"]
    if masking == "static":
        for record, (first, _, _) in zip(records, examples, strict=True):
            assert record[features.INPUT_IDS][len(first) + 1 : len(first) + 2] == [tokenizer.sep_id]
            assert sum(record[features.INPUT_MASK]) == len(first) + 2
            assert not any(record[features.SEGMENT_IDS])
    check_audit(tmp_path / "data")


@pytest.mark.parametrize("objective", ["sop", "nsp"])
def test_choices_of_the_original(
    objective: str, tmp_path: Path, corpus: Path, texts: list[list[int]], tokenizer: AlbertTokenizer
) -> None:
    dataset = building.build(
        tmp_path / "data",
        [corpus],
        tokenizer,
        masking="static",
        sentence_objective=objective,
        original_compatible=True,
        short_seq_prob=0.0,
    )
    assert dataset["max_predictions_per_seq"] == 20
    records = building.read_examples(tmp_path / "data")
    counts = dataset["counts"]
    strangers = swapped = full = exact = 0
    for record in records:
        first, second, label = segments_of(record)
        assert stands_in(texts, first)
        assert stands_in(texts, second)
        assert len(first) + len(second) <= S - 3
        full += len(first) + len(second) == S - 3
        real = sum(record[features.INPUT_MASK])
        left = max(1, round(0.15 * real)) - sum(record[features.MASKED_LM_WEIGHTS])
        assert left >= 0  # some where no word is short enough
        exact += left == 0
        if label:
            is_swapped = objective == "sop" and stands_in(texts, second + first)
            swapped += is_swapped
            strangers += not is_swapped
    # A pair cut inside is not adjacent any more; exchanged ones are counted as strangers here, a few in a hundred.
    assert strangers + swapped == counts["examples_with_stranger"] + counts.get("examples_swapped", 0)
    assert full > 0.5 * len(records)
    assert exact > 0.8 * len(records)
    dropped = counts["tokens_dropped"]["truncated"]
    assert dropped > 0.03 * counts["tokens_in"]
    assert counts["tokens_in"] + counts["tokens_repeated"] == counts["tokens_out"] + dropped
    assert counts["tokens_dropped"]["single_word"] == 0
    if objective == "nsp":
        # One half of those of several sentences, and all of one sentence.
        assert 0.45 < counts["examples_with_stranger"] / len(records) < 0.75
        assert "examples_swapped" not in counts
    check_audit(tmp_path / "data")


def test_too_few_documents_for_next_sentences_are_told(tmp_path: Path, tokenizer_folder: Path) -> None:
    one = [sentence for document in DOCUMENTS for sentence in document]
    corpus = write_corpus(tmp_path / "one.txt", [one, DOCUMENTS[0]])
    arguments = [f"--input={corpus}", f"--tokenizer={tokenizer_folder}", f"--output_dir={tmp_path / 'data'}"]
    done = building.run(*arguments, f"--max_seq_length={S}", "--sentence_objective=nsp")
    assert done.returncode == 0
    assert "examples have a second segment of another document, where half should; nsp needs many" in done.stderr


def test_what_goes_together() -> None:
    with pytest.raises(ValueError, match="sentence_objective must be one of sop, nsp, none, got 'nop'"):
        ExampleSettings(sentence_objective="nop")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="original_compatible needs masking=static"):
        ExampleSettings(original_compatible=True)
    with pytest.raises(ValueError, match="original_compatible needs sentence_objective sop or nsp"):
        ExampleSettings(original_compatible=True, masking="static", sentence_objective="none")
    assert ExampleSettings(max_seq_length=128, masking="static", original_compatible=True).predictions == 20
    assert ExampleSettings(max_seq_length=12, masking="static", original_compatible=True).predictions == 12
    assert ExampleSettings(max_seq_length=512).predictions == 77


def test_order_of_the_text_changes_no_byte_of_exchanged_pairs(
    tmp_path: Path, corpus: Path, tokenizer: AlbertTokenizer
) -> None:
    turned = write_corpus(tmp_path / "turned.txt", DOCUMENTS[::-1])
    for name, source in (("one", corpus), ("two", turned)):
        building.build(tmp_path / name, [source], tokenizer, masking="static", sentence_objective="nsp")
    assert building.content(tmp_path / "one") == building.content(tmp_path / "two")
