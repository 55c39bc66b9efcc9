"""The preparation of text inside the SentencePiece file: any client then gives the tokenizer's ids."""

from __future__ import annotations

import json
import pathlib
import random
import unicodedata

import pytest
import sentencepiece

from albert_tf import normalizer
from albert_tf.tokenizer import AlbertTokenizer, TokenizerConfig, normalize_text
from pipelines import vocabulary
from tests.pipelines.conftest import make_documents

CONFIGS = [
    TokenizerConfig(strip_accents=strip, lower_case=lower)
    for strip, lower in ((True, True), (True, False), (False, True))
]
# Everything that is composed, decomposed or shown in several widths: Hangul letters and syllables, kana, Indic vowels.
COMPOSING = [
    *map(chr, range(0x1100, 0x1200)),
    *map(chr, range(0x3131, 0x318F)),
    *map(chr, range(0xAC00, 0xAC40)),
    *map(chr, range(0xFF61, 0xFFDD)),
    *map(chr, range(0x3041, 0x30FF)),
    *map(chr, range(0x09BE, 0x09D8)),
    *map(chr, range(0x0300, 0x0340)),
    *"aAeEoOuUß ﬁ\u00a0\u2009\u200b\u00ad",
]


def baked(tokenizer: AlbertTokenizer, config: TokenizerConfig) -> sentencepiece.SentencePieceProcessor:
    return sentencepiece.SentencePieceProcessor(model_proto=normalizer.bake_normalizer(tokenizer.model_proto, config))


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: f"strip={c.strip_accents},lower={c.lower_case}")
def test_every_character_and_sequences(tokenizer: AlbertTokenizer, config: TokenizerConfig) -> None:
    plain = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model_proto)
    client = baked(tokenizer, config)

    def different(texts: list[str]) -> list[str]:
        expected = plain.normalize([normalize_text(text, config) for text in texts])
        return [text for text, a, b in zip(texts, expected, client.normalize(texts), strict=True) if a != b]

    codes = (code for code in range(1, 0x110000) if unicodedata.category(chr(code)) not in ("Cs", "Co", "Cn"))
    texts = [f"ab {chr(code)}c{chr(code)}" for code in codes]
    # A final sigma alone depends on what stands around it: the Greek letter, and with NFKD its variants.
    kept = TokenizerConfig(strip_accents=config.strip_accents, lower_case=False)
    assert different(texts) == [t for t in texts if config.lower_case and normalize_text(t, kept).endswith("Σ")]

    generator = random.Random(5)
    sequences = ["".join(generator.choices(COMPOSING, k=9)) for _ in range(4000)]
    found = different(sequences)
    # A mark between two letters that compose: there are many in these texts, and hardly any elsewhere.
    assert len(found) < 0.01 * len(sequences)
    assert found == [text for text in found if any(unicodedata.combining(character) for character in text)]


def test_ids_pieces_and_tokenizer_stay(tokenizer: AlbertTokenizer) -> None:
    content = normalizer.bake_normalizer(tokenizer.model_proto, tokenizer.config)
    assert content != tokenizer.model_proto
    assert normalizer.bake_normalizer(content, tokenizer.config) == content
    ours = AlbertTokenizer(content, config=tokenizer.config)
    sentences = [sentence for document in make_documents(20, seed=9) for sentence in document]
    assert [ours.id_to_piece(i) for i in range(211)] == [tokenizer.id_to_piece(i) for i in range(211)]
    assert ours.encode_batch(sentences) == tokenizer.encode_batch(sentences)
    client = sentencepiece.SentencePieceProcessor(model_proto=content)
    without_commas = [sentence for sentence in sentences if "," not in sentence]
    assert len(without_commas) > 50
    assert client.encode(without_commas) == tokenizer.encode_batch(without_commas)
    assert any(word[0].isupper() for word in without_commas)


def test_not_a_model() -> None:
    with pytest.raises(ValueError, match=r"not a SentencePiece model, or a damaged one \(9 bytes\)"):
        normalizer.bake_normalizer(b"\x0bno model", TokenizerConfig())


def test_published_vocabulary(reference_data: pathlib.Path) -> None:
    """Equal ids on all golden texts and 2,000 lines of the corpora, wherever the digit-comma rule does not act."""
    tokenizer = AlbertTokenizer((reference_data / "data" / "albert_en_30k.model").read_bytes())
    client = baked(tokenizer, tokenizer.config)
    golden = json.loads((reference_data / "golden" / "features" / "tokenization_en.json").read_text())
    texts = [entry["text"] for entry in golden]
    lines = [
        line
        for path in sorted((reference_data / "data" / "corpora").glob("*.txt"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    texts += random.Random(3).sample(lines, 2000)
    rule = tokenizer.digit_comma_table()
    compared = different = ruled = 0
    for text in texts:
        ids = client.encode(text)
        if not rule.keys().isdisjoint(ids):
            ruled += 1
            ids = [part for i in ids for part in rule.get(i, (i,))]
        compared += 1
        different += ids != tokenizer.encode(text)
    print(f"{compared} texts, {ruled} with the digit-comma rule, {different} different")
    assert compared >= 2200
    assert different == 0


def test_trained_vocabulary_with_capitals(tmp_path: pathlib.Path) -> None:
    config = TokenizerConfig(lower_case=False)
    lines = [sentence for document in make_documents(60, seed=3) for sentence in document]
    settings = vocabulary.VocabularySettings(vocab_size=211, num_threads=1)
    tokenizer, _ = vocabulary.train_vocabulary(lines, settings, config)
    text = "Ánbel COR\u00a0 Dis"
    assert baked(tokenizer, config).encode(text) == tokenizer.encode(text) != tokenizer.encode(text.lower())
