"""WordPieceTokenizer against a plain restatement of BERT's and against tensorflow-text, and what it refuses."""

from __future__ import annotations

import json
import pickle
import random
import unicodedata
from pathlib import Path

import pytest

from albert_tf.wordpiece import WordPieceConfig, WordPieceTokenizer, parse_vocabulary
from albert_tf.words import is_punctuation
from tests import wordpiece_toys
from tests.reference import wordpiece

ODD_TEXTS = (
    "",
    " \t\r\n\u00a0\u3000",
    "a\x00b\ufffdc\x07d \u200be\u00adf\u200d g\x0bh\x85i\u2028j\u2029k\x1cl",
    "naïve NAÏVE nai\u0308ve Å \u212b \u212a ẞ İI \ufb01 ½ ϔ \u0345",
    "ΟΔΟΣ ΣΊΣΥΦΟΣ Σ中ΑΣ",
    "[MASK] [CLS][SEP] [unused1] ##ing a##b #",
    "\u4e2d\u3400\U00020000\U0002f800\uf900々〇か\u3099한국어 \u1112\u1161\u11ab",
    "“quotes”—dash…、。！？（）「」·\u037e\u1fef$+<=>^`|~€©°",
    "\U0001f600\ufe0f \u0301\u0301 \u202eabc\u202c \ufeff",
    "don't can't x.y.z 1,024 3.14 a/b_c",
    "l" * 200 + " " + "l" * 201 + " 中" + "l" * 199,
)


def random_texts(count: int, *, seed: int) -> list[str]:
    """Texts of characters from all over Unicode, most of them from blocks that matter here."""
    generator = random.Random(seed)
    blocks = [(0, 0x250), (0x300, 0x370), (0x370, 0x530), (0x1E00, 0x2100), (0x3000, 0x3100), (0x4E00, 0x4F00)]
    blocks += [(0xAC00, 0xAD00), (0xFF00, 0xFFEF), (0x1F600, 0x1F650), (0, 0xD800), (0xE000, 0x20000)]
    texts = []
    for _ in range(count):
        begin, end = generator.choice(blocks)
        texts.append("".join(chr(generator.randrange(begin, end)) for _ in range(generator.randrange(1, 40))))
    return texts


@pytest.mark.parametrize("lower_case", [True, False])
def test_pieces_equal_the_plain_restatement(lower_case: bool) -> None:
    texts = [*wordpiece_toys.SENTENCES, *ODD_TEXTS, *random_texts(1500, seed=3)]
    # A vocabulary of all these texts, or nearly everything would be unknown.
    pieces = wordpiece_toys.make_vocabulary(texts, lower_case=lower_case)
    tokenizer = WordPieceTokenizer(wordpiece_toys.to_bytes(pieces), config=WordPieceConfig(lower_case=lower_case))
    expected = [wordpiece.tokenize(text, set(pieces), lower_case=lower_case) for text in texts]
    assert [tokenizer.tokenize(text) for text in texts] == expected
    ids = [[pieces.index(piece) for piece in row] for row in expected]
    assert tokenizer.encode_batch(texts) == ids
    assert [tokenizer.encode(text) for text in texts] == ids
    unknown = sum(row.count(tokenizer.unk_id) for row in ids)
    assert 0.01 < unknown / sum(map(len, ids)) < 0.6
    for text in texts[:40]:
        words = wordpiece.split_words(wordpiece.space_ideographs(wordpiece.clean(text)), lower_case=lower_case)
        assert tokenizer.normalize(text) == " ".join(words)


def test_every_character_equals_the_plain_restatement() -> None:
    characters = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    texts = ["a".join(characters[at : at + 503]) for at in range(0, 0x30000, 503)]
    tokenizer = wordpiece_toys.tokenizer()
    for text in texts:
        expected = wordpiece.split_words(wordpiece.space_ideographs(wordpiece.clean(text)), lower_case=True)
        assert tokenizer.normalize(text).split(" ") == expected


@pytest.fixture(scope="module")
def real_texts(reference_data: Path) -> list[str]:
    """Chinese prose with some English, and 272 English texts of all kinds."""
    lines = (reference_data / "data" / "corpora" / "chinese.txt").read_text(encoding="utf-8").split("\n")
    golden = json.loads((reference_data / "golden" / "features" / "tokenization_en.json").read_text("utf-8"))
    return [line for line in lines if line.strip()] + [row["text"] for row in golden]


@pytest.fixture(scope="module")
def real_pieces(real_texts: list[str]) -> list[str]:
    return wordpiece_toys.make_vocabulary(real_texts, words=4000, endings=1500)


def test_real_texts_equal_the_plain_restatement(real_texts: list[str], real_pieces: list[str]) -> None:
    tokenizer = WordPieceTokenizer(wordpiece_toys.to_bytes(real_pieces))
    known = set(real_pieces)
    chosen = real_texts[::5] + real_texts[-272:]
    assert len(chosen) > 2400
    for text in chosen:
        assert tokenizer.tokenize(text) == wordpiece.tokenize(text, known, lower_case=True), text


def test_real_texts_equal_tensorflow_text(real_texts: list[str], real_pieces: list[str], tmp_path: Path) -> None:
    tf = pytest.importorskip("tensorflow")
    tf_text = pytest.importorskip("tensorflow_text")
    vocabulary = wordpiece_toys.to_bytes(real_pieces)
    (tmp_path / "vocab.txt").write_bytes(vocabulary)
    peer = tf_text.BertTokenizer(
        str(tmp_path / "vocab.txt"), lower_case=True, token_out_type=tf.int64, max_bytes_per_word=200
    )
    tokenizer = WordPieceTokenizer(vocabulary)
    # It does not lower letters as BERT does, but folds case with NFKC, which turns wide commas into others; so texts go
    # in folded already.
    folded = [unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()) for text in real_texts]
    found = tokenizer.encode_batch(folded)
    expected = peer.tokenize(tf.constant(folded)).merge_dims(-2, -1).to_list()
    different = [text for text, ours, theirs in zip(folded, found, expected, strict=True) if ours != theirs]
    assert len(folded) == 11391
    assert sum(map(len, found)) > 300_000
    assert different == []


def test_word_starts() -> None:
    tokenizer = wordpiece_toys.tokenizer()
    text = "使用 Debian 系统, reinstalls 1,024"
    pieces = tokenizer.tokenize(text)
    starts = tokenizer.word_starts(tokenizer.encode(text))
    words: list[str] = []
    for piece, start in zip(pieces, starts, strict=True):
        words += [""] * start
        words[-1] += piece.removeprefix("##")
    assert words == ["使", "用", "debian", "系", "统", ",", "reinstalls", "1", ",", "024"]
    assert len(pieces) > len(words)
    table = tokenizer.word_start_table()
    assert table == tokenizer.word_start_table(as_original=True)
    assert table == [not tokenizer.id_to_piece(i).startswith("##") for i in range(tokenizer.vocab_size)]


def test_special_ids_are_found_by_name_and_text_never_gives_them() -> None:
    tokenizer = wordpiece_toys.tokenizer()
    names = [tokenizer.id_to_piece(i) for i in sorted(tokenizer.special_ids)]
    assert sorted(names) == sorted(wordpiece_toys.SPECIAL)
    ids = (tokenizer.pad_id, tokenizer.unk_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id)
    assert [tokenizer.id_to_piece(i) for i in ids] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert ids[:4] == (0, 2, 3, 4)
    assert ids[4] > 50
    for name in wordpiece_toys.SPECIAL:
        assert tokenizer.piece_to_id(name) == tokenizer.unk_id
        assert not (tokenizer.special_ids - {tokenizer.unk_id}) & set(tokenizer.encode(f"a {name} {name}"))
    assert tokenizer.piece_to_id("系") == tokenizer.encode("系")[0]


def test_decoded_text() -> None:
    tokenizer = wordpiece_toys.tokenizer()
    ids = tokenizer.encode("使用 Debian 12 系统, Installing。")
    assert tokenizer.decode([tokenizer.cls_id, *ids, tokenizer.sep_id]) == "使用 debian 12系统, installing。"
    assert tokenizer.shown_piece(tokenizer.mask_id) == " [MASK]"
    with pytest.raises(ValueError, match=rf"id must be in \[0, {tokenizer.vocab_size}\), got -1"):
        tokenizer.decode([-1])


def test_pairs_are_those_of_every_tokenizer() -> None:
    tokenizer = wordpiece_toys.tokenizer()
    cls, sep, pad = tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id
    found = tokenizer.encode_pair([7, 8, 9], [10], 9)
    assert found == ([cls, 7, 8, 9, sep, 10, sep, pad, pad], [1] * 7 + [0] * 2, [0] * 5 + [1] * 2 + [0] * 2)


def test_pickled_tokenizer_is_the_same() -> None:
    tokenizer = wordpiece_toys.tokenizer(lower_case=False)
    text = wordpiece_toys.SENTENCES[4]
    restored = pickle.loads(pickle.dumps(tokenizer))
    assert (restored.digest, restored.config, restored.vocabulary) == (
        tokenizer.digest, tokenizer.config, tokenizer.vocabulary
    )  # fmt: skip
    assert restored.encode(text) == tokenizer.encode(text)
    assert WordPieceTokenizer(tokenizer.vocabulary).digest != tokenizer.digest


def test_case_and_accents_follow_the_setting() -> None:
    pieces = [*wordpiece_toys.SPECIAL, "Été", "ete", "e", "##te", "e\u0301te\u0301"]
    cased = WordPieceTokenizer(wordpiece_toys.to_bytes(pieces), config=WordPieceConfig(lower_case=False))
    uncased = WordPieceTokenizer(wordpiece_toys.to_bytes(pieces))
    assert cased.tokenize("Été E\u0301te\u0301 ete") == ["Été", "Été", "ete"]  # composed, whatever the text has
    assert uncased.tokenize("Été E\u0301te\u0301 ete") == ["ete"] * 3


def test_a_vocabulary_may_have_other_ends_of_lines_and_a_mark() -> None:
    pieces = ["[PAD]", "a", "\u2028", "\u0085x", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "##b"]
    for content in ("\n".join(pieces), "\n".join(pieces) + "\n", "\ufeff" + "\r\n".join(pieces) + "\r\n"):
        assert parse_vocabulary(content.encode()) == pieces


FIVE = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "line 1: the file is empty; one piece a line is expected"),
        (b" \n\n", "line 1: the file is empty"),
        (FIVE + b"a\nb\xe2\x82\n", "line 7: not valid UTF-8 at byte 34; convert the file to UTF-8"),
        ("[PAD]\n".encode("utf-16"), "line 1: not valid UTF-8 at byte 0"),
        (FIVE + b"a\nb\na\n", "line 8: 'a' stands on line 6 already; in a vocabulary each piece has one id"),
        (FIVE + b"a\n\nb\n", "line 7: is empty; each line is one piece"),
        (FIVE + b"a\n\n", "line 7: is empty"),
        (FIVE + b"a\n##\0\n", r"line 7: a piece must have at most 256 bytes and no NUL character, .* got '##.x00'"),
        (FIVE + "##\u4e2d".encode() + 85 * "\u4e2d".encode(), "line 6: a piece must have at most 256 bytes"),
        (b"[PAD]\n[UNK]\n[CLS]\na\n", r"of 4 pieces has no \[SEP\], \[MASK\]; ALBERT needs \[PAD\], .*vocab"),
    ],
)  # fmt: skip
def test_unfit_vocabularies_are_refused(content: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WordPieceTokenizer(content)


def test_lone_surrogates_are_refused() -> None:
    with pytest.raises(ValueError, match="lone surrogate at character 4"):
        wordpiece_toys.tokenizer().encode("the \ud800")


def test_config() -> None:
    assert WordPieceConfig.from_json(WordPieceConfig(lower_case=False).to_json()) == WordPieceConfig(lower_case=False)
    with pytest.raises(ValueError, match="x: unknown key 'strip_accents'; known keys: lower_case"):
        WordPieceConfig.from_json('{"strip_accents": true}', source="x")
    with pytest.raises(ValueError, match="lower_case must be true or false, got 1"):
        WordPieceConfig.from_json('{"lower_case": 1}')


def test_punctuation_is_what_unicode_and_ascii_say() -> None:
    for code in (*range(0xD800), *range(0xE000, 0x20000)):
        sign = code in (*range(33, 48), *range(58, 65), *range(91, 97), *range(123, 127))
        assert is_punctuation(chr(code)) == (sign or unicodedata.category(chr(code)).startswith("P"))
