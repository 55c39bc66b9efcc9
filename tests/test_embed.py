"""The door embed: vectors in both forms, cosines, search, and mistakes."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pytest

from albert_tf import door, embed
from albert_tf.head_config import HeadConfig
from albert_tf.inference.embedding import Embedder
from tests import doors
from tests.inference.conftest import MAX_SEQ_LENGTH, loaded_model, save

HEAD = HeadConfig(head="encoder", pooler=False)
TEXTS = ("The value of a name.", "A name of the module.", "In 2010, they came back.", "A name of the module.")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return save(tmp_path_factory.mktemp("embed") / "model", HEAD)


@pytest.fixture(scope="module")
def expected() -> np.ndarray:
    loaded = loaded_model(HEAD)
    return Embedder(loaded.model, loaded.tokenizer, max_seq_length=MAX_SEQ_LENGTH).vectors(TEXTS)


@pytest.fixture
def texts(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "texts.csv"
    path.write_text("name,text\n" + "".join(f"n{n},{json.dumps(text)}\n" for n, text in enumerate(TEXTS)))
    return path


def lines(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[dict]:
    doors.run(embed, *arguments)
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_vectors(
    model: pathlib.Path,
    texts: pathlib.Path,
    tmp_path: pathlib.Path,
    expected: np.ndarray,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = lines(capsys, f"--model={model}", *(f"--text={text}" for text in TEXTS))
    assert [(one["id"], one["text"]) for one in found] == [(str(n + 1), text) for n, text in enumerate(TEXTS)]
    np.testing.assert_allclose([one["vector"] for one in found], expected, atol=2e-5)  # sums in another order
    found = lines(capsys, f"--model={model}", f"--input={texts}", "--id_column=name", "--read_ahead=3")
    assert [list(one) for one in found] == [["id", "vector"]] * 4
    assert [one["id"] for one in found] == ["n0", "n1", "n2", "n3"]
    np.testing.assert_allclose([one["vector"] for one in found], expected, atol=2e-5)
    doors.run(embed, f"--model={model}", f"--input={texts}", f"--output={tmp_path}/a.npy", "--read_ahead=3")
    np.testing.assert_allclose(np.load(tmp_path / "a.npy"), expected, atol=2e-5)


def test_cosine_of_two_texts(model: pathlib.Path, expected: np.ndarray, capsys: pytest.CaptureFixture[str]) -> None:
    found = lines(
        capsys, f"--model={model}", f"--text={TEXTS[0]}", f"--text_b={TEXTS[2]}", "--text=a b", "--text_b=a b"
    )
    one, other = (expected[n] / np.linalg.norm(expected[n]) for n in (0, 2))
    assert list(found[0]) == ["id", "text", "text_b", "cosine"]
    assert [one["cosine"] for one in found] == pytest.approx([float(one @ other), 1.0], abs=1e-5)


def test_search(
    model: pathlib.Path, texts: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "queries.txt").write_text(f"{TEXTS[1]}\n{TEXTS[2]}\n")
    found = lines(
        capsys,
        f"--model={model}",
        f"--query={tmp_path}/queries.txt",
        f"--input={texts}",
        "--id_column=name",
        "--top_k=2",
        "--read_ahead=3",
    )
    assert [(one["query"], one["text"]) for one in found] == [
        ("queries.txt:1", TEXTS[1]),
        ("queries.txt:2", TEXTS[2]),
    ]
    assert [match["id"] for match in found[0]["matches"]] == ["n1", "n3"]
    assert found[1]["matches"][0]["text"] == TEXTS[2]
    assert found[1]["matches"][0]["cosine"] == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give one of --text and --input"),
        (["--text=a", "--query=b"], "--query searches --input; give both"),
        (["--input=b", "--output=./b"], "--output=./b is the file that is read, b, and would take its place"),
        (["--input=-", "--query=b", "--output=b"], "--output=b is the file that is read"),
        (["--input=-", "--query=-"], "--query and --input cannot both be standard input"),
        (["--text=a", "--text_b=b", "--output=a.npy"], "is for vectors; similarities are written as JSON lines"),
        (["--text=a", "--max_seq_length=71"], r"max_seq_length must be in \[3, 70\], got 71"),
    ],
)
def test_flags_that_do_not_go_together(
    model: pathlib.Path, arguments: list[str], message: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b").write_text("a\n")
    with pytest.raises(door.UsageError, match=message):
        doors.run(embed, f"--model={model}", *arguments)


def test_a_missing_column_is_named(model: pathlib.Path, texts: pathlib.Path) -> None:
    with pytest.raises(ValueError, match=r"texts\.csv:2: no column 'body'; columns: 'name', 'text'"):
        doors.run(embed, f"--model={model}", f"--input={texts}", "--text_column=body")


def test_text_that_is_no_unicode_is_named(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    path, queries = tmp_path / "a.jsonl", tmp_path / "queries.txt"
    path.write_text('{"text": "a"}\n{"text": "b \\ud800"}\n')
    queries.write_text("a\n")
    for arguments in (
        [f"--input={path}"],
        [f"--input={path}", f"--query={queries}"],
        [f"--input={queries}", f"--query={path}"],
    ):
        with pytest.raises(ValueError, match=r"a\.jsonl:2: text must be valid Unicode, got a lone surrogate"):
            doors.run(embed, f"--model={model}", *arguments)
    with pytest.raises(ValueError, match="--text:1: text must be valid Unicode"):
        doors.run(embed, f"--model={model}", "--text=a", "--text_b=\udcff")
