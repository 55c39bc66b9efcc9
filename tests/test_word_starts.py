"""Word starts by script and by the original's rule, on hand-made pieces and on the published English vocabulary."""

from __future__ import annotations

import io
import re
import unicodedata
from pathlib import Path

import pytest
import sentencepiece

from albert_tf.scripts import is_ideograph, is_wide_punctuation, is_written_without_spaces
from albert_tf.tokenizer import AlbertTokenizer, TokenizerConfig, normalize_text
from albert_tf.word_starts import is_word_start, is_word_start_as_original

# Piece, what the rule by script says, what the original says.
PIECES = [
    ("\u2581dog", True, True),
    ("dog", False, False),
    ("Dog", False, False),
    ("'", True, True),
    ("'s", True, True),
    ("<s>", True, True),
    (",", True, True),
    (".com", False, False),
    ("...", False, False),
    ("[SEP]", True, True),
    # digits
    ("7", False, True),
    ("90", False, True),
    ("a7", False, True),
    ("000,", False, True),
    ("\u2581" + "19", True, True),
    ("\u0663\u0664", False, True),  # Arabic digits
    # scripts with spaces
    ("вод", False, True),
    ("ét", False, True),
    ("ß", False, True),
    ("λόγος", False, True),
    ("ית", False, True),
    ("ات", False, True),
    ("\u200cها", False, True),  # behind a joiner, as in Persian
    ("에서", False, True),
    ("\u1100\u1161", False, True),  # Hangul in letters, as NFKD leaves it
    ("ियों", False, True),
    ("ական", False, True),
    ("-вод", False, True),
    ("\u0301", False, True),
    # scripts without spaces
    ("中", True, True),
    ("中文", True, True),
    ("ます", True, True),
    ("タカナ", True, True),
    ("々", True, True),
    ("ㄅㄆ", True, True),
    ("\ua000", True, True),
    ("ไทย", True, True),
    ("ລາວ", True, True),
    ("ខ្មែរ", True, True),
    ("မြန်", True, True),
    ("བོད", True, True),
    ("\U00020000", True, True),
    ("ี่", False, True),  # a Thai vowel and tone mark, which belong to the letter before them
    ("1月", True, True),
    # punctuation and symbols
    ("€", True, True),
    ("—", True, True),
    ("。", True, True),
    ("”", True, True),
    ("»,", True, True),
    ("’s", True, True),
    ("\U0001f600", True, True),
    ("\u200b", True, True),  # stands between words
]


@pytest.mark.parametrize(("piece", "expected", "original"), PIECES)
def test_rules(piece: str, expected: bool, original: bool) -> None:
    assert is_word_start(piece) is expected
    assert is_word_start_as_original(piece) is original


@pytest.fixture(scope="module")
def english(reference_data: Path) -> AlbertTokenizer:
    return AlbertTokenizer((reference_data / "data" / "albert_en_30k.model").read_bytes())


def test_only_pieces_with_digits_change_in_the_published_vocabulary(english: AlbertTokenizer) -> None:
    new, original = english.word_start_table(), english.word_start_table(as_original=True)
    changed = [english.id_to_piece(i) for i in range(30000) if new[i] != original[i]]
    assert len(changed) == 906
    assert [piece for piece in changed if not re.fullmatch(r"[^\u2581<][!-~]*", piece)] == []
    assert all(any(c.isdigit() for c in piece) for piece in changed)
    assert sum(original) - sum(new) == 906  # they go on with a word now
    assert new[:5] == original[:5] == [True] * 5


def test_word_starts_of_english_text(english: AlbertTokenizer) -> None:
    text = "Unfathomable kleptomania, isn't it: 3000km (1990-95) of 中文!"
    pieces = english.tokenize(text)
    starts = english.word_starts(english.encode(text))
    assert len(pieces) == len(starts)
    words: list[str] = []
    for piece, start in zip(pieces, starts, strict=True):
        if start:
            words.append("")
        words[-1] += piece.replace("\u2581", "")
    assert [word for word in words if word] == [
        "unfathomable", "kleptomania", ",", "isn", "'t", "it", ":", "3000km", "(1990", "-95", ")", "of", "中文", "!"
    ]  # fmt: skip
    assert all(english.word_starts(sorted(english.special_ids)))


def character_tokenizer(text: str, config: TokenizerConfig) -> AlbertTokenizer:
    """Vocabulary of the single characters of `text`, each a piece."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([normalize_text(text, config)] * 20), model_writer=model, model_type="char",
        vocab_size=400, hard_vocab_limit=False, character_coverage=1.0, pad_id=0, unk_id=1, bos_id=-1, eos_id=-1,
        control_symbols=["[CLS]", "[SEP]", "[MASK]"], normalization_rule_name="identity", minloglevel=2,
    )  # fmt: skip
    return AlbertTokenizer(model.getvalue(), config=config)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("перевод книги", ["перевод", "книги"]),
        ("l été 1990", ["l", "ete", "1990"]),
        ("서울에서 만나", ["서울에서", "만나"]),
        ("中文字", ["中", "文", "字"]),
        # No mark stands before a foreign word in Chinese.
        ("使用Debian12系统", ["使", "用", "Debian12", "系", "统"]),
        ("在1990年", ["在", "1990", "年"]),
        ("ที่ดี", ["ท", "ด"]),  # the vowels' and tones' marks belong to their letters
    ],
)
def test_words_of_sentences(text: str, words: list[str]) -> None:
    tokenizer = character_tokenizer(text, TokenizerConfig(lower_case=False))
    ids = tokenizer.encode(text)
    starts = tokenizer.word_starts(ids)
    found: list[str] = []
    for token_id, start in zip(ids, starts, strict=True):
        piece = tokenizer.id_to_piece(token_id)
        if start and found != [""]:  # a boundary mark of its own and what follows it
            found.append("")
        found[-1] += piece.replace("\u2581", "")
    found = [unicodedata.normalize("NFC", word) for word in found if word]
    if words[0] == "ท":
        assert [word[0] for word in found] == words
        assert "".join(found) == unicodedata.normalize("NFC", tokenizer.normalize(text))
    else:
        assert found == words


def test_ranges_by_the_names_of_the_characters() -> None:
    # The names say the script; letters only, since blocks also hold what all scripts use.
    spaced = [
        "LATIN",
        "ARABIC",
        "ARMENIAN",
        "BENGALI",
        "CHEROKEE",
        "CYRILLIC",
        "DEVANAGARI",
        "ETHIOPIC",
        "GEORGIAN",
        "GREEK",
        "HANGUL",
        "HEBREW",
        "MONGOLIAN",
        "TAMIL",
        "TELUGU",
    ]
    unspaced = [
        "BOPOMOFO",
        "CJK_COMPATIBILITY_IDEOGRAPH",
        "CJK_UNIFIED",
        "HALFWIDTH_KATAKANA",
        "HIRAGANA",
        "JAVANESE",
        "KATAKANA",
        "KHMER",
        "LAO",
        "MYANMAR",
        "NEW_TAI_LUE",
        "NUSHU",
        "TAI_LE",
        "TAI_THAM",
        "TAI_VIET",
        "TANGUT",
        "THAI",
        "TIBETAN",
        "YI_SYLLABLE",
    ]
    counted = dict.fromkeys((*spaced, *unspaced), 0)
    for code in range(0x110000):
        character = chr(code)
        if not unicodedata.category(character).startswith("L"):
            continue
        name = unicodedata.name(character, "").replace(" ", "_")
        for script in unspaced:
            if name.startswith(script):
                assert is_written_without_spaces(character), (hex(code), name)
                counted[script] += 1
        for script in spaced:
            if name.startswith(script):
                assert not is_written_without_spaces(character), (hex(code), name)
                counted[script] += 1
    assert min(counted.values()) > 20
    assert [c for c in "中\u3400\uf900\U0002f800ー々〇か한a，。" if is_ideograph(c)] == list("中\u3400\uf900\U0002f800")
    assert [c for c in "，。、「」！？（中a,.-한" if is_wide_punctuation(c)] == list("，。、「」！？（")
