"""Words that the text itself tells: ids stay, and words start at the given places, for both kinds of vocabulary."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from albert_tf.tokenizer import AlbertTokenizer, TokenizerConfig
from albert_tf.tokenizer_base import Tokenizer
from albert_tf.wordpiece import WordPieceConfig, WordPieceTokenizer
from tests import segmented, wordpiece_toys
from tests.test_tokenizer import train_model
from tests.test_wordpiece import ODD_TEXTS


def wordpiece(lower_case: bool = True) -> WordPieceTokenizer:
    """Vocabulary of the Chinese sentences and the toys'."""
    texts = [*(s.replace("|", "") for s in segmented.SENTENCES), *wordpiece_toys.SENTENCES, *ODD_TEXTS]
    pieces = wordpiece_toys.make_vocabulary(texts, lower_case=lower_case)
    return WordPieceTokenizer(wordpiece_toys.to_bytes(pieces), config=WordPieceConfig(lower_case=lower_case))


TOKENIZERS: dict[str, Tokenizer] = {
    "sentencepiece": segmented.tokenizer(),
    "english": AlbertTokenizer(train_model()),
    "accents": AlbertTokenizer(train_model(), config=TokenizerConfig(strip_accents=False)),
    "wordpiece": wordpiece(),
    "cased": wordpiece(lower_case=False),
}


def random_words(text: str, generator: random.Random) -> list[str]:
    """The text cut at random places."""
    cuts = sorted(generator.randint(0, len(text)) for _ in range(generator.randint(0, 9)))
    return [text[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@pytest.mark.parametrize("name", TOKENIZERS)
def test_ids_are_those_of_the_text(name: str) -> None:
    tokenizer = TOKENIZERS[name]
    generator = random.Random(11)
    odd = ("2010, 300, dogs ½ﬁ ² ½,½ \u0301a １２３，", "the 2010,cat  sat\u3000on 300,a mat", "  a  ", " ", "ώ2010,")
    for text in [*(s.replace("|", "") for s in segmented.SENTENCES), *wordpiece_toys.SENTENCES, *ODD_TEXTS, *odd]:
        for _ in range(20):
            ids, starts = tokenizer.encode_words(random_words(text, generator))
            assert ids == tokenizer.encode(text)
            assert len(starts) == len(ids)
            assert starts[:1] == [True] * bool(ids)


def expected_starts(pieces: Sequence[str], lengths: Sequence[int], words: Sequence[str]) -> list[bool]:
    """Word starts told by walking over the text's characters, where normalisation changes no length.

    Args:
      pieces: in order.
      lengths: characters of the text that each takes, spaces aside.
      words: the text in words.
    """
    begins = []  # for each character but spaces whether a word begins at it
    for word in words:
        for part in word.split():
            begins += [True] + [False] * (len(part) - 1)
    found, at = [], 0
    for piece, length in zip(pieces, lengths, strict=True):
        found.append(any(begins[at : at + length]) if length else piece == "\u2581")
        at += length
    assert at == len(begins)
    # A boundary mark of its own takes the start from the piece behind it.
    for number in range(1, len(found)):
        if pieces[number - 1] == "\u2581":
            found[number] = False
    return found


@pytest.mark.parametrize("name", ["sentencepiece", "wordpiece"])
def test_words_start_where_the_text_says(name: str) -> None:
    tokenizer = TOKENIZERS[name]
    seen = 0
    for sentence in segmented.SENTENCES:
        words = sentence.split("|")
        text = "".join(words)
        ids, starts = tokenizer.encode_words(words)
        pieces = tokenizer.tokenize(text)
        if tokenizer.unk_id in ids and name == "wordpiece":
            continue
        lengths = [len(piece.removeprefix("##").replace("\u2581", "")) for piece in pieces]
        assert starts == expected_starts(pieces, lengths, words)
        seen += 1
    assert seen > 3


def shown(tokenizer: Tokenizer, words: list[str]) -> str:
    """Pieces of the text, "/" before those that start a word and "+" before the others."""
    ids, starts = tokenizer.encode_words(words)
    pieces = tokenizer.tokenize("".join(words))
    assert len(ids) == len(pieces)
    return "".join("+/"[start] + piece for piece, start in zip(pieces, starts, strict=True))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        # One piece can hold the end of a word and the beginning of the next; it starts a word.
        (["在", "安装", "系统", "时"], "/\u2581+在/安装系统/时"),
        (["操作系统", "的", "内核"], "/\u2581+操作系统/的/内+核"),
        # In such a sentence all scripts go on, and punctuation too.
        (["软件包1990", "年代"], "/\u2581+软件包+1+9+9+0/年+代"),
        (["软件包。", "的"], "/\u2581+软件包+。/的"),
        # A space is a boundary, with or without a mark at it.
        (["管理员 ", "的", " 系统"], "/\u2581+管理员/\u2581+的/\u2581+系统"),
        (["管理员 的 系统"], "/\u2581+管理员/\u2581+的/\u2581+系统"),
        (["", "", "的", "", "个人", ""], "/\u2581+的/个+人"),
    ],
)
def test_words_of_chinese(words: list[str], expected: str) -> None:
    assert shown(TOKENIZERS["sentencepiece"], words) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["the", "cat"], "/\u2581the/c+at"),
        (["th", "ecat"], "/\u2581the+c+at"),  # inside a piece that starts a word anyway
        (["cat 2010,", "300,"], "/\u2581c+at/\u25812010+,/300+,"),
        (["cat 20", "10,300,"], "/\u2581c+at/\u258120/10+,+300+,"),
        (["cat 2010", ",300,"], "/\u2581c+at/\u25812010/,+300+,"),
        # What normalisation makes longer or shorter: a ligature of three letters, an accent of its own.
        (["a\ufb03", "a"], "/\u2581a+f+f+i/a"),
        (["a", "\ufb03a"], "/\u2581a/f+f+i+a"),
        (["go\u0301\u0301\u0301", "h"], "/\u2581g+o/h"),
        (["g", "o\u0301\u0301\u0301h"], "/\u2581g/o+h"),
    ],
)
def test_words_of_normalised_text(words: list[str], expected: str) -> None:
    tokenizer = TOKENIZERS["english"]
    found = shown(tokenizer, words)
    # The small vocabulary may know "at" or not: what counts is where the slashes are.
    letters = [c for c in found if c not in "+\u2581"]
    assert letters == [c for c in expected if c not in "+\u2581"]


def test_a_character_that_becomes_several_pieces_starts_a_word_once() -> None:
    # Without accents stripped the three letters come out of SentencePiece's own normalisation.
    assert [c for c in shown(TOKENIZERS["accents"], ["a", "\ufb03", "a"]) if c not in "+\u2581"] == list("/a/ffi/a")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["操作", "系统", "的"], "/操+作/系+统/的"),
        (["reinstall", "s the"], "/reinstall/s/the"),
        (["users", "'", "na", "ïve"], "/users/'/naive"),
        (["使用", "Debian ", "系统"], "/使+用/debian/系+统"),
        (["Debian1", "2"], "/debian1/2"),
    ],
)
def test_words_of_wordpiece(words: list[str], expected: str) -> None:
    found = shown(TOKENIZERS["wordpiece"], words).replace("##", "")
    assert found.replace("+", "") == expected.replace("+", "")


def test_composition_across_a_boundary_of_a_cased_vocabulary() -> None:
    pieces = [*wordpiece_toys.SPECIAL, "\u00e9", "##a", "##b", "c"]
    tokenizer = WordPieceTokenizer(wordpiece_toys.to_bytes(pieces), config=WordPieceConfig(lower_case=False))
    # One letter of both parts; the boundary is behind it, and those after it stay where they are.
    ids, starts = tokenizer.encode_words(["e", "\u0301a", "b c"])
    assert [tokenizer.id_to_piece(i) for i in ids] == ["\u00e9", "##a", "##b", "c"]
    assert starts == [True, True, True, True]
    assert tokenizer.encode_words(["e\u0301a", "b c"])[1] == [True, False, True, True]


def test_published_vocabulary(reference_data: Path) -> None:
    tokenizer = AlbertTokenizer((reference_data / "data" / "albert_en_30k.model").read_bytes())
    golden = json.loads((reference_data / "golden" / "features" / "tokenization_en.json").read_text("utf-8"))
    generator = random.Random(5)
    for row in golden:
        words = random_words(row["text"], generator)
        ids, starts = tokenizer.encode_words(words)
        assert ids == row["ids"]
        if ids:
            spaces = [piece.startswith("\u2581") for piece in row["pieces"]]
            assert all(start or not space for start, space in zip(starts, spaces, strict=True))
    assert tokenizer.encode_words(["un", "fathom", "able"])[1] == [True, True, False, True]


def test_lone_surrogates_are_refused() -> None:
    for tokenizer in TOKENIZERS.values():
        with pytest.raises(ValueError, match="lone surrogate at character 2"):
            tokenizer.encode_words(["ab", "\ud800"])
