"""Text that a segmenter cut: its separators leave the text, and masks cover the words that they showed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from albert_tf import features
from albert_tf.tokenizer_base import Tokenizer
from albert_tf.wordpiece import WordPieceTokenizer
from pipelines import dataset, word_marks
from pipelines.audit import inspection
from pipelines.dataset import read_dataset
from pipelines.examples import ExampleSettings
from pipelines.readers import ReaderSettings, read_documents
from pipelines.sentences import tokenize_document, word_start_rule
from tests import segmented, wordpiece_toys
from tests.conftest import ROOT
from tests.pipelines import building
from tests.pipelines.conftest import write_corpus

MARK = word_marks.MARK
DOCUMENTS = segmented.documents(40, seed=9)


def wordpiece() -> WordPieceTokenizer:
    pieces = wordpiece_toys.make_vocabulary([s.replace("|", "") for s in segmented.SENTENCES])
    return WordPieceTokenizer(wordpiece_toys.to_bytes(pieces))


TOKENIZERS: dict[str, Tokenizer] = {"sentencepiece": segmented.tokenizer(), "wordpiece": wordpiece()}


@pytest.mark.parametrize(
    ("sentence", "separator", "expected"),
    [
        ("管理|网络", "|", f"管理{MARK}网络"),
        ("the| cat|sat", "|", f"the{MARK} cat{MARK}sat"),
        ("管理\u200b网络", "\u200b", f"管理{MARK}网络"),
        ("管理 网络", "|", "管理 网络"),
        # A separator that is white space stays between words of scripts with spaces.
        ("管理 网络 。", " ", f"管理{MARK}网络{MARK}。"),
        ("the cat", " ", "the cat"),
        ("使用 Debian GNU 系统", " ", f"使用{MARK}Debian GNU{MARK}系统"),
        ("第 12  章", " ", f"第{MARK}12{MARK}章"),
        ("Debian ， ok", " ", f"Debian{MARK}，{MARK}ok"),
        ("서울 에서", " ", "서울 에서"),
        ("管理\u3000网络 a", "\u3000", f"管理{MARK}网络 a"),
    ],
)
def test_marks_of_a_sentence(sentence: str, separator: str, expected: str) -> None:
    marked = word_marks.mark_words(sentence, separator)
    assert marked == expected
    assert word_marks.without_marks(marked) == "".join(word_marks.words(marked)) == expected.replace(MARK, "")


def read(content: str, **settings: Any) -> list[list[str]]:
    return list(read_documents([content.encode()], "a.txt", ReaderSettings(**settings)))


def test_readers_mark_in_every_format() -> None:
    assert read("管理|网络\n", word_separator="|") == [[f"管理{MARK}网络"]]
    assert read("管理|网络\n") == [["管理|网络"]]
    assert read("|\n", word_separator="|") == []  # nothing but separators
    text = "管理|网络|。|安装|系统|。"
    expected = [[f"管理{MARK}网络{MARK}。{MARK}", f"安装{MARK}系统{MARK}。"]]
    marked = read(text, word_separator="|", input_format="paragraphs", language="zh")
    assert [[s.strip(MARK) for s in document] for document in marked] == [[s.strip(MARK) for s in expected[0]]]
    line = json.dumps({"text": "管理|网络"})
    assert read(line, word_separator="|", input_format="jsonl") == [[f"管理{MARK}网络"]]


def test_the_mark_itself_is_no_text() -> None:
    with pytest.raises(
        ValueError, match=r"a\.txt: line 1, byte 3: U\+FDD0, a noncharacter, which no text has; remove it"
    ):
        read("管\ufdd0理\n")
    with pytest.raises(ValueError, match=r"a\.txt: line 1, byte 0: U\+FDD0, a noncharacter, in 'text'; remove it"):
        read(json.dumps({"text": "管\ufdd0理"}), input_format="jsonl")


@pytest.mark.parametrize("separator", ["", "\ud800", "||", "a", "7", "中", "\u0301", "\u2581", "\n", "\0"])
def test_unfit_separators_are_refused(separator: str) -> None:
    with pytest.raises(ValueError, match=r"word_separator must be one character that is no letter, .* or U\+2581"):
        ReaderSettings(word_separator=separator)


@pytest.mark.parametrize("name", TOKENIZERS)
def test_sentences_with_and_without_marks_in_one_document(name: str) -> None:
    tokenizer = TOKENIZERS[name]
    rule = word_start_rule(tokenizer)
    marked = [s.replace("|", MARK) for s in segmented.SENTENCES]
    plain = [s.replace("|", "") for s in segmented.SENTENCES]
    mixed = [marked[0], plain[1], MARK, "\u200b", marked[2], plain[2], marked[3]]
    document = tokenize_document(mixed, tokenizer, rule)
    rows = [tokenizer.encode(s.replace(MARK, "")) for s in mixed]
    assert document.ids.tolist() == [i for row in rows for i in row]
    kept = [(s, row) for s, row in zip(mixed, rows, strict=True) if row]
    assert len(document.sentence_starts) == len(kept)
    assert document.empty_sentences == len(mixed) - len(kept)
    for (sentence, row), begin in zip(kept, document.sentence_starts.tolist(), strict=True):
        starts = document.word_starts[begin : begin + len(row)].tolist()
        if MARK in sentence:
            assert starts == tokenizer.encode_words(sentence.split(MARK))[1]
            assert sum(starts) <= sentence.count(MARK) + 1 + sentence.count(" ")
        else:
            assert starts[1:] == tokenizer.word_starts(row)[1:]
    found = [tokenize_document(sentences, tokenizer, rule).ids.tolist() for sentences in (plain, marked)]
    assert found[0] == found[1]


def test_the_originals_rule_still_takes_given_words() -> None:
    tokenizer = TOKENIZERS["sentencepiece"]
    original = word_start_rule(tokenizer, as_original=True)
    sentences = ["1990年代", f"1990{MARK}年代"]
    document = tokenize_document(sentences, tokenizer, original)
    second = int(document.sentence_starts[1])
    first = document.word_starts[:second].tolist()
    assert first == [True] + [original.starts[i] for i in document.ids[1:second]]
    assert all(first)  # digits and ideographs each start a word there
    assert document.word_starts[second:].tolist() == tokenizer.encode_words(["1990", "年代"])[1]


@pytest.fixture(scope="module", params=TOKENIZERS)
def data(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Tokenizer]:
    """Static records of the marked documents, and the tokenizer."""
    folder = tmp_path_factory.mktemp("marked")
    corpus = write_corpus(folder / "corpus.txt", DOCUMENTS)
    tokenizer = TOKENIZERS[request.param]
    building.build(
        folder / "data", [corpus], tokenizer, reading=ReaderSettings(word_separator="|"), masking="static",
        max_seq_length=67, dupe_factor=3,
    )  # fmt: skip
    return folder / "data", tokenizer


def test_masks_cover_the_words_of_the_text(data: tuple[Path, Tokenizer]) -> None:
    folder, tokenizer = data
    assert json.loads((folder / "dataset.json").read_text())["settings"]["word_separator"] == "|"
    told = [tokenizer.encode_words(sentence.split("|")) for sentence in segmented.SENTENCES]
    long_words = several = 0
    for example in building.read_examples(folder):
        real = sum(example[features.INPUT_MASK])
        ids = np.array(example[features.INPUT_IDS])[:real]
        used = np.array(example[features.MASKED_LM_WEIGHTS]) > 0
        positions = np.array(example[features.MASKED_LM_POSITIONS])[used]
        ids[positions] = np.array(example[features.MASKED_LM_IDS])[used]
        boundary = np.array(example[features.TOKEN_BOUNDARY])[:real]
        masked = np.zeros(real, dtype=bool)
        masked[positions] = True
        # Whole sentences inside a segment have the words that were given.
        for row, starts in told:
            for begin in range(real - len(row)):
                if ids[begin : begin + len(row)].tolist() == row:
                    assert boundary[begin : begin + len(row)].tolist() == [int(start) for start in starts]
                    several += 1
        inside = np.flatnonzero(boundary == 0)
        assert (masked[inside] == masked[inside - 1]).all(), "a word is masked in part"
        long_words += int(masked[inside].sum())
    assert long_words > 50
    assert several > 50


def test_inspection_finds_no_fault(data: tuple[Path, Tokenizer]) -> None:
    assert inspection.inspect(read_dataset(str(data[0]))).faults == []


@pytest.mark.parametrize("name", TOKENIZERS)
def test_records_hold_the_ids_of_the_text_without_separators(name: str, tmp_path: Path) -> None:
    tokenizer = TOKENIZERS[name]
    plain = [[s.replace("|", "") for s in document] for document in DOCUMENTS]
    corpora = {"marked": DOCUMENTS, "plain": plain}
    pieces = {}
    for kind, documents in corpora.items():
        corpus = write_corpus(tmp_path / f"{kind}.txt", documents)
        reading = ReaderSettings(word_separator="|" if kind == "marked" else None)
        building.build(tmp_path / kind, [corpus], tokenizer, reading=reading)
        pieces[kind] = np.load(tmp_path / kind / "piece_counts.npy").tolist()
    assert pieces["marked"] == pieces["plain"]
    assert sum(pieces["plain"]) > 1000


def test_directories_of_other_separators_are_told_apart() -> None:
    tokenizer, settings = TOKENIZERS["wordpiece"], ExampleSettings(max_seq_length=59)
    without = dataset.describe_settings(settings, ReaderSettings(), tokenizer)
    marked = dataset.describe_settings(settings, ReaderSettings(word_separator="|"), tokenizer)
    with pytest.raises(ValueError, match=r"d: made with settings\.word_separator = None, asked for '\|'; name another"):
        dataset.check_same_settings(dataset.to_json(without), marked, "d")
    # One from before there was the setting has none.
    del without["settings"]["word_separator"]
    dataset.check_same_settings(
        dataset.to_json(without), dataset.describe_settings(settings, ReaderSettings(), tokenizer), "d"
    )


def door(module: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", f"pipelines.{module}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=cwd, env=environment)


def test_the_doors_take_the_separator(tmp_path: Path) -> None:
    plain = [[s.replace("|", "") for s in document] for document in DOCUMENTS]
    write_corpus(tmp_path / "marked.txt", [[s.replace("|", "\u200b") for s in document] for document in DOCUMENTS])
    write_corpus(tmp_path / "plain.txt", plain)
    size = "--vocab_size=155"
    marked = door(
        "train_tokenizer", "--input=marked.txt", "--output_dir=one", size, "--word_separator=U+200B", cwd=tmp_path
    )
    assert marked.returncode == 0, marked.stderr
    assert "--word_separator=U+200B --tokenizer=one" in marked.stdout
    assert door("train_tokenizer", "--input=plain.txt", "--output_dir=two", size, cwd=tmp_path).returncode == 0
    assert (tmp_path / "one" / "spiece.model").read_bytes() == (tmp_path / "two" / "spiece.model").read_bytes()
    built = door(
        "build_pretraining_data", "--input=marked.txt", "--tokenizer=one", "--output_dir=data", "--max_seq_length=59",
        "--word_separator=\u200b", cwd=tmp_path,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    assert json.loads((tmp_path / "data" / "dataset.json").read_text())["settings"]["word_separator"] == "\u200b"
    refused = door(
        "build_pretraining_data", "--input=marked.txt", "--tokenizer=one", "--output_dir=no", "--word_separator=ab",
        cwd=tmp_path,
    )  # fmt: skip
    assert refused.returncode == 2
    assert "word_separator must be one character" in refused.stderr
