"""Ids of transformers' tokenizers, loaded from what we write, against ours."""

from __future__ import annotations

import json
import pathlib
from types import ModuleType

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.dialects.transformers.configuration import write_configuration
from albert_tf.dialects.transformers.tokenizers import tokenizer_files
from albert_tf.head_config import HeadConfig
from albert_tf.tokenizer import AlbertTokenizer, TokenizerConfig
from albert_tf.tokenizer_base import Tokenizer
from albert_tf.wordpiece import WordPieceConfig, WordPieceTokenizer
from tests import wordpiece_toys

pytestmark = [pytest.mark.peers, pytest.mark.slow]

ODD = (
    "``quoted'' don''t",
    "In 2010, and 3,000, x1,",
    "नमस्ते दुनिया",
    "ภาษาไทย",
    "한국어 텍스트",
    "ＦＵＬＬ ｗｉｄｔｈ １２,",
    "e\u0301te\u0301 \u00c5ngstr\u00f6m",
    "a\tb\nc\u3000d\u00a0e",
    "\u200bzero\u200dwidth",
    "𝔘𝔫𝔦 ①② ²³",
    "",
)


@pytest.fixture(scope="module")
def texts(reference_data: pathlib.Path) -> list[str]:
    """Some two thousand lines, English and Chinese, and odd ones."""
    golden = json.loads((reference_data / "golden" / "features" / "tokenization_en.json").read_text(encoding="utf-8"))
    found = [*ODD, *(entry["text"] for entry in golden)]
    for path in sorted((reference_data / "data" / "corpora").glob("*.txt")):
        found += path.read_text(encoding="utf-8").splitlines()[:250]
    # There, a special piece in a text is that piece; here it is cut like any other.
    special = ("[CLS]", "[SEP]", "[MASK]", "<pad>", "<unk>", "[PAD]", "[UNK]")
    found = [text for text in found if not any(piece in text for piece in special)]
    assert len(found) > 1000
    return found


def write(tokenizer: Tokenizer, folder: pathlib.Path) -> pathlib.Path:
    for name, content in tokenizer_files(tokenizer, longest=77).items():
        (folder / name).write_bytes(content)
    config = AlbertConfig(vocab_size=tokenizer.vocab_size)
    (folder / "config.json").write_text(
        write_configuration(config, HeadConfig(), dtype="float32", tokenizer=tokenizer), encoding="utf-8"
    )
    return folder


def assert_same_ids(theirs: object, ours: Tokenizer, texts: list[str]) -> None:
    found = theirs(texts, add_special_tokens=False)["input_ids"]  # type: ignore[operator]
    different = [text for text, ids in zip(texts, found, strict=True) if ours.encode(text) != ids]
    assert different == []


def assert_same_frame(theirs: object, ours: Tokenizer) -> None:
    """A pair of texts in one sequence, and the special ids."""
    pair = theirs("a quiet house", "the sea", padding="max_length", max_length=15)  # type: ignore[operator]
    ids, mask, segments = ours.encode_pair(ours.encode("a quiet house"), ours.encode("the sea"), 15)
    assert (pair["input_ids"], pair["attention_mask"], pair["token_type_ids"]) == (ids, mask, segments)
    names = ("pad", "unk", "cls", "sep", "mask")
    assert [getattr(theirs, f"{name}_token_id") for name in names] == [getattr(ours, f"{name}_id") for name in names]
    assert theirs.model_max_length == 77  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "config",
    [
        TokenizerConfig(),
        TokenizerConfig(lower_case=False),
        TokenizerConfig(strip_accents=False),
        TokenizerConfig(split_digit_comma=False),
    ],
    ids=["as published", "cased", "accents", "no split"],
)
def test_sentencepiece(
    config: TokenizerConfig, texts: list[str], hf: ModuleType, reference_data: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    ours = AlbertTokenizer((reference_data / "data" / "albert_en_30k.model").read_bytes(), config=config)
    folder = write(ours, tmp_path)
    theirs = hf.AutoTokenizer.from_pretrained(folder)
    assert_same_ids(theirs, ours, texts)
    assert_same_frame(theirs, ours)
    # Named outright, it is their own class, which takes two apostrophes for a quotation mark.
    plain = [text for text in texts if "''" not in text and "``" not in text and text.isascii()]
    assert_same_ids(hf.AlbertTokenizer.from_pretrained(folder), ours, plain)


@pytest.mark.parametrize("lower_case", [True, False])
def test_wordpiece(lower_case: bool, texts: list[str], hf: ModuleType, tmp_path: pathlib.Path) -> None:
    pieces = wordpiece_toys.make_vocabulary(texts, lower_case=lower_case, words=2000, endings=1500)
    ours = WordPieceTokenizer(wordpiece_toys.to_bytes(pieces), config=WordPieceConfig(lower_case=lower_case))
    theirs = hf.AutoTokenizer.from_pretrained(write(ours, tmp_path))
    assert type(theirs).__name__ == "BertTokenizer"
    # Theirs has one small sigma, no word of more than 100 characters, and does not compose letters.
    alike = [text for text in texts if "Σ" not in text and "\u0301" not in text]
    assert len(alike) > 1000
    assert_same_ids(theirs, ours, alike)
    assert_same_frame(theirs, ours)
