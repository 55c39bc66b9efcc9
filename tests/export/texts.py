"""Real texts for the export tests: the corpora where they are present, else English that comes with Python."""

from __future__ import annotations

import importlib
import io
import random
import re
from typing import Any

import numpy as np
import sentencepiece
import tensorflow as tf

from albert_tf.tokenizer import AlbertTokenizer
from export.artifacts import ENCODER_INPUTS
from export.parity import Batch, make_batch
from tests.conftest import REFERENCE_DATA, has_reference_data

ODD_TEXTS = (
    "",
    " ",
    "\u00a0no-break\u3000and wide\u2009spaces\x1f",
    "ΟΔΟΣ ΣΑΣ ΑΣ.Σ ΣΣ\u0301 A\u00adΣ",  # the small sigma has another form at the end of a word
    "İstanbul Iıi \u1e9e straße",
    "ﬁne ½ ² \u2126 \u212b ŉ Ǆ",
    "가각힣 각 e\u0301\u0323 o\u0308\u0304 \u0345ᾳ",
    "\ufeffmark a\u200bb a\u200db 👩\u200d👩\u200d👧 ☃5,☃",
    "[MASK] [CLS]<pad><unk></s>",
    "2010, 1,000,000, 12, ², ٣, ३, in 1987,",
    "\x00 a\x00b a \x00 b",
    "\\1 \\0 \\ $1",
    "\U0001ccd6\U0001ccf9 \U0001e030 \U00010570 \u2c2f",  # ICU and Python are of different Unicode versions here
    "中文 日本語 हिन्दी العربية",
    "supercalifragilistic" * 9,
)


def built_in_english() -> list[str]:
    """Sentences of the language reference that Python carries, some 400 KB."""
    topics = importlib.import_module("pydoc_data.topics").topics
    paragraphs = [" ".join(p.split()) for text in topics.values() for p in text.split("\n\n")]
    return [p for p in paragraphs if re.match(r"[A-Z].{40,}\.$", p)]


def train_tokenizer() -> AlbertTokenizer:
    """Vocabulary of about 500 pieces, with some that the digit-comma rule cuts."""
    generator = random.Random(7)
    lines = built_in_english()[:600]
    years = [f"In {generator.choice((1987, 2010, 12, 300))}, they came back." for _ in range(300)]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines + years),
        model_writer=model,
        vocab_size=500,
        hard_vocab_limit=False,
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        control_symbols=["[CLS]", "[SEP]", "[MASK]"],
        user_defined_symbols=["(", ")", '"', "-", "."],
        num_threads=1,
        minloglevel=2,
    )
    return AlbertTokenizer(model.getvalue())


def real_batches(tokenizer: AlbertTokenizer, *, longest: int, count: int = 20) -> list[Batch]:
    """`count` real texts of 3 to `longest` tokens, every third a pair, in batches of a short and a long one."""
    if has_reference_data():
        path = REFERENCE_DATA / "data" / "corpora" / "Middlemarch_145.txt"
        text = path.read_text(encoding="utf-8")[50_000:150_000]
    else:
        text = " ".join(built_in_english())[:100_000]
    words = text.split()
    lengths = np.geomspace(3, longest, count).round().astype(int)
    assert len(set(lengths)) > count - 3
    rows = []
    place = 0
    for number, length in enumerate(lengths):
        ids = tokenizer.encode(" ".join(words[place : place + length]))  # one piece a word at least
        place += length
        if number % 3 == 2 and length >= 5:
            rows.append(tokenizer.encode_pair(ids, tokenizer.encode(" ".join(words[place : place + length])), length))
            place += length
        else:
            rows.append(tokenizer.encode_pair(ids, None, length))
        assert sum(rows[-1][1]) == length
    return [make_batch([rows[number], rows[-1 - number]], predictions=2) for number in range(count // 2)]


def ids_outputs(signatures: Any, batch: Batch) -> dict[str, np.ndarray]:
    """Every output of an ids-only SavedModel."""
    inputs = {name: tf.constant(value) for name, value in batch.items()}
    encoder_inputs = {name: inputs[name] for name in ENCODER_INPUTS}
    outputs = {
        **signatures["serving_default"](**encoder_inputs),
        **signatures["masked_lm"](**inputs),
        **signatures["sentence_order"](**encoder_inputs),
    }
    return {name: value.numpy() for name, value in outputs.items()}
