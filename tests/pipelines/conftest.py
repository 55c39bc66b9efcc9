"""A small English-like corpus and a vocabulary trained on it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from albert_tf.tokenizer import AlbertTokenizer, TokenizerConfig
from pipelines import vocabulary

SYLLABLES = ["an", "bel", "cor", "dis", "en", "fer", "gra", "hol", "in", "jun", "kel", "lo", "mar", "nor", "op", "per"]


def make_documents(count: int, *, seed: int) -> list[list[str]]:
    """Documents of 1 to 15 sentences of 2 to 20 words, with capitals, numbers and punctuation."""
    generator = random.Random(seed)
    words = ["".join(generator.choices(SYLLABLES, k=generator.randint(1, 4))) for _ in range(300)]
    result = []
    for _ in range(count):
        document = []
        for _ in range(generator.randint(1, 15)):
            chosen = generator.choices(words, weights=range(300, 0, -1), k=generator.randint(2, 20))
            if generator.random() < 0.3:
                chosen.insert(generator.randrange(len(chosen)), f"{generator.randint(2, 2031)},")
            document.append(" ".join(chosen).capitalize() + generator.choice(".!?"))
        result.append(document)
    return result


def write_corpus(path: Path, documents: list[list[str]]) -> Path:
    """One sentence a line, a blank line between documents."""
    path.write_text("\n\n".join("\n".join(document) for document in documents) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def tokenizer() -> AlbertTokenizer:
    """Vocabulary of 211 pieces, so that most words have several."""
    lines = [sentence for document in make_documents(60, seed=3) for sentence in document]
    settings = vocabulary.VocabularySettings(vocab_size=211, num_threads=1)
    trained, _ = vocabulary.train_vocabulary(lines, settings, TokenizerConfig())
    return trained


@pytest.fixture
def tokenizer_folder(tmp_path: Path, tokenizer: AlbertTokenizer) -> Path:
    """The tokenizer as the doors read it."""
    folder = tmp_path / "tokenizer"
    folder.mkdir()
    (folder / "spiece.model").write_bytes(tokenizer.model_proto)
    (folder / "tokenizer_config.json").write_text(tokenizer.config.to_json())
    return folder
