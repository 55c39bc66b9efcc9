"""AlbertTokenizer against the original's pieces and ids, and its own rules on a small trained vocabulary."""

from __future__ import annotations

import io
import json
import pickle
import random
import unicodedata
from pathlib import Path

import pytest
import sentencepiece

from albert_tf.tokenizer import AlbertTokenizer, TokenizerConfig, normalize_text
from albert_tf.tokenizer_base import truncate_pair

TEXT = "the cat sat on a mat while 2010, 300, dogs ran past (very) old walls - again and again. zebra's"
WORDS = TEXT.split(" ")


def train_model(*, control: str = "[CLS],[SEP],[MASK]", pad_id: int = 0) -> bytes:
    """SentencePiece model of 60 pieces over a few English words."""
    generator = random.Random(5)
    lines = [" ".join(generator.choice(WORDS) for _ in range(9)) for _ in range(150)]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        vocab_size=60,
        hard_vocab_limit=False,
        pad_id=pad_id,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        control_symbols=control.split(","),
        minloglevel=2,
    )
    return model.getvalue()


@pytest.fixture(scope="module")
def small_model() -> bytes:
    return train_model()


@pytest.fixture(scope="module")
def english(reference_data: Path) -> AlbertTokenizer:
    return AlbertTokenizer((reference_data / "data" / "albert_en_30k.model").read_bytes())


def test_all_golden_texts_give_the_originals_pieces_and_ids(english: AlbertTokenizer, reference_data: Path) -> None:
    golden = json.loads((reference_data / "golden" / "features" / "tokenization_en.json").read_text("utf-8"))
    assert len(golden) == 272
    assert {row["lower"] for row in golden} == {True}
    for row in golden:
        assert english.tokenize(row["text"]) == row["pieces"]
        assert english.encode(row["text"]) == row["ids"]
    assert english.encode_batch([row["text"] for row in golden]) == [row["ids"] for row in golden]


def test_golden_sentence_pairs_give_the_originals_features(english: AlbertTokenizer, reference_data: Path) -> None:
    golden = json.loads((reference_data / "golden" / "features" / "classification_features.json").read_text("utf-8"))
    assert len(golden["examples"]) == 40
    for row in golden["examples"]:
        ids_a, ids_b = english.encode_batch([row["text_a"], row["text_b"]])
        ids, mask, segments = english.encode_pair(ids_a, ids_b, golden["max_seq_length"])
        assert (ids, mask, segments) == (row["input_ids"], row["input_mask"], row["segment_ids"])


def test_special_ids_of_the_published_vocabulary(english: AlbertTokenizer) -> None:
    ids = (english.pad_id, english.unk_id, english.cls_id, english.sep_id, english.mask_id)
    assert ids == (0, 1, 2, 3, 4)
    assert english.special_ids == frozenset(range(5))
    assert english.vocab_size == 30000
    assert english.encode("[MASK] [CLS] <pad>").count(english.mask_id) == 0
    assert not english.special_ids & set(english.encode("[MASK] [CLS] [SEP] (a)"))


def test_digit_comma_table_replaces_what_the_rule_cuts(english: AlbertTokenizer) -> None:
    table = english.digit_comma_table()
    assert len(table) == 141
    piece = english.piece_to_id("\u25812010,")
    assert [english.id_to_piece(i) for i in table[piece]] == ["\u25812010", ","]
    whole = AlbertTokenizer(english.model_proto, config=TokenizerConfig(split_digit_comma=False))
    text = "In May 2010, after 18, 24, and 30, they left."
    expanded = [part for i in whole.encode(text) for part in table.get(i, [i])]
    assert expanded == english.encode(text)
    assert piece in whole.encode(text)
    assert whole.digit_comma_table() == {}


@pytest.mark.parametrize(
    ("text", "config", "expected"),
    [
        ("  A\tB\u00a0C\r\n", TokenizerConfig(), "a b c"),
        ("Fals\u00e9 \ufb01ne \u00bd", TokenizerConfig(), "false fine 1\u20442"),
        ("Fals\u00e9", TokenizerConfig(strip_accents=False), "fals\u00e9"),
        ("\u00c9tat", TokenizerConfig(lower_case=False), "Etat"),
        ("\u0130\u0307", TokenizerConfig(), "i"),
        ("", TokenizerConfig(), ""),
    ],
)
def test_normalisation(text: str, config: TokenizerConfig, expected: str) -> None:
    assert normalize_text(text, config) == expected


def test_normalisation_equals_the_plain_rule_on_every_character() -> None:
    characters = [chr(code) for code in range(0x30000) if not 0xD800 <= code < 0xE000]
    for start in range(0, len(characters), 311):
        text = "x".join(characters[start : start + 311])
        decomposed = unicodedata.normalize("NFKD", " ".join(text.split()))
        plain = "".join(c for c in decomposed if unicodedata.combining(c) == 0).lower()
        assert normalize_text(text, TokenizerConfig()) == plain


def test_unknown_characters_become_unk_and_batches_equal_single_texts(small_model: bytes) -> None:
    tokenizer = AlbertTokenizer(small_model)
    texts = ["the cat", "\u03c9\u03bb the", "", "a 2010, \u03c9", "Again AND again.", "300, 300, dogs"]
    batch = tokenizer.encode_batch(texts)
    assert batch == [[tokenizer.piece_to_id(p) for p in tokenizer.tokenize(text)] for text in texts]
    assert batch == [tokenizer.encode(text) for text in texts]
    assert tokenizer.unk_id in batch[1]
    assert tokenizer.unk_id in batch[3]
    assert batch[2] == []
    assert tokenizer.decode(batch[0]) == "the cat"


def test_pickled_tokenizer_is_the_same(small_model: bytes) -> None:
    tokenizer = AlbertTokenizer(small_model, config=TokenizerConfig(lower_case=False))
    restored = pickle.loads(pickle.dumps(tokenizer))
    assert restored.digest == tokenizer.digest
    assert restored.config == tokenizer.config
    assert restored.encode("again and again") == tokenizer.encode("again and again")
    assert tokenizer.digest != AlbertTokenizer(small_model).digest


@pytest.mark.parametrize("content", [b"", b"no model", b"\x00" * 64])
def test_bytes_that_are_no_model_are_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=rf"not a SentencePiece model, or a damaged one \({len(content)} bytes\)"):
        AlbertTokenizer(content)


def test_cut_model_is_refused(small_model: bytes) -> None:
    with pytest.raises(ValueError, match="damaged"):
        AlbertTokenizer(small_model[:-7])


def test_vocabulary_without_mask_is_refused() -> None:
    with pytest.raises(ValueError, match=r"vocabulary of \d+ pieces has no \[MASK\]"):
        AlbertTokenizer(train_model(control="[CLS],[SEP]"))
    with pytest.raises(ValueError, match="has no <pad>"):
        AlbertTokenizer(train_model(pad_id=-1))


def test_text_and_ids_out_of_range_are_refused(small_model: bytes) -> None:
    tokenizer = AlbertTokenizer(small_model)
    with pytest.raises(ValueError, match="lone surrogate at character 4"):
        tokenizer.encode("the \ud800")
    for value in (-1, tokenizer.vocab_size):
        with pytest.raises(ValueError, match=rf"id must be in \[0, {tokenizer.vocab_size}\), got {value}"):
            tokenizer.id_to_piece(value)
        with pytest.raises(ValueError, match="id must be in"):
            tokenizer.decode([value])


def test_config_round_trip_and_refusals() -> None:
    config = TokenizerConfig(lower_case=False, split_digit_comma=False)
    assert TokenizerConfig.from_json(config.to_json()) == config
    assert config.to_json().endswith("}\n")
    with pytest.raises(ValueError, match=r"x/tokenizer_config\.json: unknown key 'lowercase'; known keys: lower_case"):
        TokenizerConfig.from_json('{"lowercase": true}', source="x/tokenizer_config.json")
    with pytest.raises(ValueError, match=r"x:1:2: not valid JSON"):
        TokenizerConfig.from_json("{", source="x")
    with pytest.raises(ValueError, match="must hold a JSON object, got list"):
        TokenizerConfig.from_json("[]")
    with pytest.raises(ValueError, match="lower_case must be true or false, got 'yes'"):
        TokenizerConfig.from_json('{"lower_case": "yes"}')


def test_truncation_equals_taking_one_token_at_a_time() -> None:
    for length_a in range(12):
        for length_b in range(12):
            for room in range(2, 25):
                a, b = length_a, length_b
                while a + b > room:
                    if a > b:
                        a -= 1
                    else:
                        b -= 1
                assert truncate_pair(length_a, length_b, room) == (a, b)


def test_encode_pair_pads_and_cuts(small_model: bytes) -> None:
    tokenizer = AlbertTokenizer(small_model)
    cls, sep = tokenizer.cls_id, tokenizer.sep_id
    assert tokenizer.encode_pair([7, 8], None, 6) == ([cls, 7, 8, sep, 0, 0], [1, 1, 1, 1, 0, 0], [0] * 6)
    ids, mask, segments = tokenizer.encode_pair([7, 8, 9], [10], 9)
    assert ids == [cls, 7, 8, 9, sep, 10, sep, 0, 0]
    assert mask == [1] * 7 + [0, 0]
    assert segments == [0, 0, 0, 0, 0, 1, 1, 0, 0]
    assert tokenizer.encode_pair([7, 8, 9], [10, 11], 7)[0] == [cls, 7, 8, sep, 10, 11, sep]
    assert tokenizer.encode_pair([7, 8, 9], None, 4)[0] == [cls, 7, 8, sep]
    with pytest.raises(ValueError, match="max_seq_length must be at least 5, got 4"):
        tokenizer.encode_pair([7], [8], 4)
