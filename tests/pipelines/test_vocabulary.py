"""Tokenizer training: ids, settings, counts, determinism, messages; as a function and as a door."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from albert_tf.tokenizer import AlbertTokenizer, TokenizerConfig
from pipelines.vocabulary import VocabularySettings, train_vocabulary
from tests.pipelines.conftest import make_documents, write_corpus

LINES = [sentence for document in make_documents(40, seed=9) for sentence in document]


def train(lines: list[str], **changes: int) -> tuple[AlbertTokenizer, dict[str, int]]:
    settings = VocabularySettings(**({"vocab_size": 150, "num_threads": 1} | changes))
    trained, counts = train_vocabulary(lines, settings, TokenizerConfig())
    return trained, dict(counts)


def run_door(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pipelines.train_tokenizer", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_ids_are_those_of_the_published_vocabularies() -> None:
    trained, counts = train(LINES)
    pieces = [trained.id_to_piece(i) for i in range(13)]
    assert pieces == [
        "<pad>",
        "<unk>",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "(",
        ")",
        '"',
        "-",
        ".",
        "\u2013",
        "\u00a3",
        "\u20ac",
    ]
    assert (trained.pad_id, trained.unk_id, trained.cls_id, trained.sep_id, trained.mask_id) == (0, 1, 2, 3, 4)
    assert trained.special_ids == frozenset(range(5))
    assert trained.vocab_size == 150
    size = sum(len(line) for line in LINES)
    assert counts == {"lines read": len(LINES), "bytes read": size, "lines used": len(LINES), "bytes used": size}
    for line in LINES[:20]:
        ids = trained.encode(line)
        assert trained.unk_id not in ids
        assert trained.decode(ids).replace(" ", "") == line.lower().replace(" ", "")
    assert {"(", ")", ".", "-"} <= set(trained.tokenize("an.bel(cor)-dis"))


def test_text_is_normalised_before_training() -> None:
    trained, _ = train([line.upper().replace("A", "\u00c1") for line in LINES])
    plain, _ = train([line.lower() for line in LINES])
    assert trained.model_proto == plain.model_proto


def test_same_lines_same_bytes() -> None:
    assert train(LINES, num_threads=2)[0].model_proto == train(LINES, num_threads=2)[0].model_proto


def test_dropped_lines_are_counted_by_reason() -> None:
    long = "an bel " * 30
    _, counts = train([*LINES, long, "", "\u0301", "an\x00bel", long, "\u2585"], max_sentence_length=200)
    assert max(map(len, LINES)) <= 200 < len(long.strip())
    assert counts["lines read"] == len(LINES) + 6
    assert counts["lines used"] == len(LINES)
    assert counts["dropped: too long"] == 2
    assert counts["dropped: empty"] == 2
    assert counts["dropped: reserved character"] == 2


def test_of_more_text_than_fits_an_even_sample_is_used() -> None:
    lines = LINES * 60
    trained, counts = train(lines, sample_megabytes=1)
    assert counts["bytes read"] == sum(map(len, lines)) > 1_050_000
    assert counts["lines read"] == len(lines) == counts["lines used"] + counts["dropped: not sampled"]
    assert 999_000 < counts["bytes used"] <= 1_000_000
    assert train(lines, sample_megabytes=1)[0].model_proto == trained.model_proto


def test_a_vocabulary_too_big_or_too_small_for_the_text_is_explained() -> None:
    with pytest.raises(ValueError, match=r"vocab_size must be at most \d+ for this text of [\d,]+ bytes, got 90000"):
        train(LINES, vocab_size=90_000)
    with pytest.raises(ValueError, match=r"vocab_size must be at least \d+, since .* got 20; raise it"):
        train(LINES, vocab_size=20)


def test_no_text_and_a_failing_source_are_reported() -> None:
    with pytest.raises(ValueError, match=r"no line of text to train on \(the input is empty"):
        train([])
    long = VocabularySettings(vocab_size=40, max_sentence_length=10)
    with pytest.raises(
        ValueError, match=r"train on \(too long 1\); lines must have at most 10 bytes .*_format=paragraphs"
    ):
        train_vocabulary(["one line of more than ten bytes"], long, TokenizerConfig())
    with pytest.raises(ValueError, match=r"no line of text to train on \(empty 2\)"):
        train(["", " "])

    def failing() -> Iterator[str]:
        yield from LINES
        raise ValueError("a.txt: byte 7: not valid UTF-8")

    with pytest.raises(ValueError, match=r"a\.txt: byte 7"):
        train(failing())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vocab_size": 13}, r"vocab_size must be in \[14, 10000000\], got 13"),
        ({"character_coverage": 0.0}, r"character_coverage must be in \[0.98, 1.0\], got 0.0"),
        ({"max_sentence_length": 0}, r"max_sentence_length must be in \[10, 1073741824\], got 0"),
        ({"sample_megabytes": 0}, r"sample_megabytes must be in \[1, 2000\], got 0"),
        (
            {"max_sentence_length": 1_000_001, "sample_megabytes": 1},
            "max_sentence_length must be at most sample_megabytes, 1000000 bytes, got 1000001",
        ),
        ({"num_threads": 0}, r"num_threads must be in \[1, 1024\], got 0"),
    ],
)
def test_settings_out_of_range_are_refused(change: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        VocabularySettings(**change)


def test_door_writes_a_tokenizer_that_loads(tmp_path: Path) -> None:
    write_corpus(tmp_path / "a b.txt", make_documents(40, seed=9))
    output = tmp_path / "new" / "tokenizer"
    done = run_door(f"--input={tmp_path}/a*.txt", f"--output_dir={output}", "--vocab_size=150", "--nolower_case")
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in output.iterdir()) == ["spiece.model", "tokenizer_config.json"]
    config = TokenizerConfig.from_json((output / "tokenizer_config.json").read_text())
    assert config == TokenizerConfig(lower_case=False)
    loaded = AlbertTokenizer((output / "spiece.model").read_bytes(), config=config)
    assert loaded.vocab_size == 150
    assert f"{len(LINES):,}" in done.stdout
    # SentencePiece's own log, some twenty lines, stays away.
    assert "trainer_interface" not in done.stderr
    assert len(done.stderr.splitlines()) <= 3


@pytest.mark.parametrize(
    ("name", "content", "arguments", "code", "message"),
    [
        ("a.txt", b"", [], 1, "a.txt: no line of text to train on (the input is empty)"),
        ("a.txt", b"an bel\n\nan\xffbel", [], 1, "a.txt: line 3, byte 10: not valid UTF-8 (0xff: invalid start byte)"),
        ("b.txt", b"an", [], 1, "a.txt: no such file"),
        ("a.txt", b"an bel cor", ["--vocab_size=90"], 1, "vocab_size must be at"),
        ("a.txt", b"an bel cor", ["--vocab_size=9"], 2, "vocab_size must be in [14, 10000000], got 9"),
        ("a.txt", b"an", ["--vocab_size=2000000000"], 2, "vocab_size must be in [14, 10000000], got 2000000000"),
        ("a.txt", b"an", ["--num_threads=9999"], 2, "num_threads must be in [1, 1024], got 9999"),
        ("a.txt", b"an", ["--output_dir=/dev/null/a"], 1, "/dev/null"),
        (
            "made/x",
            b"an",
            ["--input={folder}/made/x", "--output_dir={folder}/made/x/y"],
            1,
            "made/x: is a file, a folder was expected",
        ),
        ("a.txt", b"an bel cor", ["--vocab=90"], 2, "unknown flag --vocab"),
        ("made/.x", b"an", ["--input={folder}/made"], 1, "made: a folder without files"),
        ("made/x", b"an", ["--input={folder}/made/x", "--output_dir={folder}/made"], 1, "has content already"),
    ],
)
def test_bad_input_gives_one_line_and_no_output(
    tmp_path: Path, name: str, content: bytes, arguments: list[str], code: int, message: str
) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(content)
    before = sorted(tmp_path.rglob("*"))
    given = [argument.format(folder=tmp_path) for argument in arguments]
    done = run_door(f"--input={tmp_path}/a.txt", f"--output_dir={tmp_path}/out", *given)
    assert done.returncode == code
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("pipelines.train_tokenizer: error: ")
    assert message in line
    assert sorted(tmp_path.rglob("*")) == before
