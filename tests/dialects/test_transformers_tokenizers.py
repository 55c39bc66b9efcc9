"""Tokenizer files of transformers, in and out. `tests/peers` compares the ids with the library's own."""

from __future__ import annotations

import base64
import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.dialects.transformers.configuration import read_configuration
from albert_tf.dialects.transformers.tokenizers import check_tokenizer, read_tokenizer, tokenizer_files
from albert_tf.tokenizer import AlbertTokenizer, TokenizerConfig
from albert_tf.tokenizer_base import Tokenizer
from albert_tf.wordpiece import WordPieceConfig, WordPieceTokenizer
from tests import wordpiece_toys

Write = Callable[..., pathlib.Path]


@pytest.fixture
def spiece(reference_data: pathlib.Path) -> bytes:
    return (reference_data / "data" / "albert_en_30k.model").read_bytes()


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> Write:
    """Writes a folder: files by name, and `tokenizer_config.json` if any of its keys is given."""

    def write(files: dict[str, bytes], **settings: Any) -> pathlib.Path:
        for name, content in files.items():
            (tmp_path / name).write_bytes(content)
        if settings:
            (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
        return tmp_path

    return write


def read(folder: pathlib.Path, vocab_size: int = 30000, **config: Any) -> tuple[Tokenizer | None, str]:
    values = {"vocab_size": vocab_size, **config}
    tokenizer, notes = read_tokenizer(str(folder), read_configuration(values, source="config.json"))
    return tokenizer, " ".join(notes)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, TokenizerConfig()),
        ({"tokenizer_class": "AlbertTokenizer", "do_lower_case": False}, TokenizerConfig(lower_case=False)),
        ({"do_lower_case": True, "keep_accents": True}, TokenizerConfig(strip_accents=False)),
        ({"tokenizer_class": "AlbertTokenizerFast", "remove_space": True}, TokenizerConfig()),
        (
            {"tokenizer_class": "PreTrainedTokenizerFast", "split_digit_comma": False},
            TokenizerConfig(split_digit_comma=False),
        ),
    ],
)
def test_sentencepiece(settings: dict[str, Any], expected: TokenizerConfig, spiece: bytes, folder: Write) -> None:
    tokenizer, notes = read(folder({"spiece.model": spiece}, **settings))
    assert isinstance(tokenizer, AlbertTokenizer)
    assert (tokenizer.config, tokenizer.model_proto) == (expected, spiece)
    assert notes == ("" if settings else DEFAULTS)


DEFAULTS = "There is no tokenizer_config.json: text is prepared as the library does without one, in lower case."
VOCABULARY = wordpiece_toys.tokenizer().vocabulary
SIZE = wordpiece_toys.tokenizer().vocab_size


@pytest.mark.parametrize(
    ("settings", "lower_case"),
    [
        ({}, True),
        ({"do_lower_case": False}, False),
        ({"tokenizer_class": "BertTokenizer", "strip_accents": None, "tokenize_chinese_chars": True}, True),
        ({"tokenizer_class": "BertTokenizerFast", "do_lower_case": False, "strip_accents": False}, False),
    ],
)
def test_wordpiece(settings: dict[str, Any], lower_case: bool, folder: Write) -> None:
    tokenizer, notes = read(folder({"vocab.txt": VOCABULARY}, **settings), SIZE)
    assert isinstance(tokenizer, WordPieceTokenizer)
    assert (tokenizer.config, tokenizer.vocabulary) == (WordPieceConfig(lower_case=lower_case), VOCABULARY)
    assert notes == ("" if settings else DEFAULTS)


def test_the_class_chooses_between_two_vocabularies(spiece: bytes, folder: Write) -> None:
    files = {"vocab.txt": VOCABULARY, "spiece.model": spiece}
    tokenizer, notes = read(folder(files))
    assert isinstance(tokenizer, AlbertTokenizer)
    assert notes == f"spiece.model is the vocabulary; vocab.txt lies there, too. {DEFAULTS}"
    tokenizer, notes = read(folder(files), SIZE, tokenizer_class="BertTokenizer")  # in config.json
    assert isinstance(tokenizer, WordPieceTokenizer)
    assert "vocab.txt is the vocabulary" in notes


@pytest.mark.parametrize(
    ("files", "settings", "words"),
    [
        ({"tokenizer.json": b"{}"}, {}, "tokenizer.json lies there without spiece.model or vocab.txt"),
        (
            {"vocab.txt": VOCABULARY},
            {"tokenizer_class": "BertJapaneseTokenizer"},
            "is a BertJapaneseTokenizer, which cuts",
        ),
        ({"vocab.txt": VOCABULARY}, {"tokenizer_class": "AlbertTokenizer"}, "is a AlbertTokenizer, but its vocabulary"),
        ({"vocab.txt": VOCABULARY}, {"strip_accents": False}, "strip_accents False beside do_lower_case True"),
        ({"vocab.txt": VOCABULARY}, {"tokenize_chinese_chars": False}, "tokenize_chinese_chars is false"),
        ({"vocab.txt": VOCABULARY}, {"do_lower_case": "yes"}, "do_lower_case must be true or false"),
        ({"vocab.txt": b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"}, {}, f"vocab.txt has 5 pieces, the model {SIZE}"),
    ],
)
def test_what_we_do_not_have_is_left_out(
    files: dict[str, bytes], settings: dict[str, Any], words: str, folder: Write
) -> None:
    tokenizer, notes = read(folder(files, **settings), SIZE)
    assert tokenizer is None
    assert words in notes
    assert "without" in notes


def test_remove_space_is_noted(spiece: bytes, folder: Write) -> None:
    tokenizer, notes = read(folder({"spiece.model": spiece}, remove_space=False))
    assert tokenizer is not None
    assert "remove_space is false" in notes


def test_no_tokenizer(folder: Write) -> None:
    assert read(folder({})) == (None, "No vocabulary lies beside the weights: the model comes without a tokenizer.")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("spiece.model", b"version https://git-lfs.github.com/spec/v1\n", r"spiece\.model: not a SentencePiece model"),
        ("vocab.txt", b"one\ntwo\n", r"vocab\.txt: the vocabulary of 2 pieces has no \[PAD\]"),
        ("tokenizer_config.json", b"[]", r"tokenizer_config\.json: must hold a JSON object"),
    ],
)
def test_damaged_files_are_named(name: str, content: bytes, message: str, folder: Write) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        read(folder({name: content}))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("lower_case", [True, False])
def test_wordpiece_comes_back(lower_case: bool, folder: Write) -> None:
    tokenizer = wordpiece_toys.tokenizer(lower_case)
    files = tokenizer_files(tokenizer, longest=64)
    assert files.keys() == {"vocab.txt", "tokenizer_config.json"}
    again, notes = read(folder(files), tokenizer.vocab_size)
    assert again is not None
    assert (again.digest, notes) == (tokenizer.digest, "")
    assert json.loads(files["tokenizer_config.json"])["tokenizer_class"] == "BertTokenizer"
    marked = WordPieceTokenizer(b"\xef\xbb\xbf" + VOCABULARY)
    assert tokenizer_files(marked, longest=64)["vocab.txt"] == VOCABULARY


@pytest.mark.parametrize(
    "config", [TokenizerConfig(), TokenizerConfig(lower_case=False, strip_accents=False, split_digit_comma=False)]
)
def test_sentencepiece_comes_back(config: TokenizerConfig, spiece: bytes, folder: Write) -> None:
    tokenizer = AlbertTokenizer(spiece, config=config)
    files = tokenizer_files(tokenizer, longest=64)
    assert files.keys() == {"spiece.model", "tokenizer_config.json", "tokenizer.json"}
    again, notes = read(folder(files))
    assert again is not None
    assert (again.digest, notes) == (tokenizer.digest, "")
    settings = json.loads(files["tokenizer_config.json"])
    assert (settings["model_max_length"], settings["mask_token"], settings["unk_token"]) == (64, "[MASK]", "<unk>")


def test_fast_tokenizer_holds_the_model(spiece: bytes) -> None:
    tokenizer = AlbertTokenizer(spiece)
    values = json.loads(tokenizer_files(tokenizer, longest=64)["tokenizer.json"])
    pieces, scores = zip(*values["model"]["vocab"], strict=True)
    assert list(pieces) == [tokenizer.id_to_piece(i) for i in range(tokenizer.vocab_size)]
    assert {tokenizer.id_to_piece(i) for i in tokenizer.digit_comma_table()} == {
        piece for piece, score in zip(pieces, scores, strict=True) if score < -90
    }
    kinds = [part["type"] for part in values["normalizer"]["normalizers"]]
    assert kinds == ["NFKD", "Replace", "Lowercase", "Precompiled", "Replace"]
    # The table of characters, byte for byte, is a part of the model's file.
    charsmap = base64.b64decode(values["normalizer"]["normalizers"][3]["precompiled_charsmap"])
    assert len(charsmap) > 1000
    assert charsmap in spiece


def test_a_tokenizer_of_another_model_is_refused() -> None:
    tokenizer = wordpiece_toys.tokenizer()
    with pytest.raises(ValueError, match=rf"the tokenizer has {SIZE} pieces, the model was made for 30000"):
        check_tokenizer(tokenizer, AlbertConfig().vocab_size)
