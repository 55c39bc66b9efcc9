"""Small data directories, written without the pipeline."""

from __future__ import annotations

import functools
import hashlib
import io
import json
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import sentencepiece
import tensorflow as tf

from albert_tf import features
from albert_tf.config import AlbertConfig
from albert_tf.tokenizer import AlbertTokenizer

# The smallest model for its vocabulary; no two sizes are equal, but for the heads and layers.
CONFIG = AlbertConfig(
    vocab_size=61,
    embedding_size=6,
    hidden_size=10,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=14,
    max_position_embeddings=23,
)

SYLLABLES = ("ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu")


@functools.cache
def tokenizer(vocab_size: int = 61) -> AlbertTokenizer:
    """Trained on made-up words."""
    generator = np.random.default_rng(3)
    words = ["".join(generator.choice(SYLLABLES, size=generator.integers(1, 4))) for _ in range(60)]
    sentences = [" ".join(generator.choice(words, size=9)) for _ in range(400)]
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences), model_writer=written, vocab_size=vocab_size, pad_id=0, unk_id=1, bos_id=-1,
        eos_id=-1, control_symbols=["[CLS]", "[SEP]", "[MASK]"], minloglevel=2,
    )  # fmt: skip
    return AlbertTokenizer(written.getvalue())


def random_rows(
    count: int, *, max_seq_length: int, vocab_size: int, seed: int, sentence_objective: str = "sop"
) -> list[dict[str, list[int]]]:
    """Dynamic records: both segments' tokens, word starts, lengths; for "nsp" a label."""
    generator = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        total = int(generator.integers(2, max_seq_length - 2))
        first = total if sentence_objective == "none" else int(generator.integers(1, total))
        rows.append(
            {
                features.SEGMENT_TOKENS: generator.integers(5, vocab_size, total).tolist(),
                features.WORD_STARTS: (generator.random(total) < 0.6).astype(int).tolist(),
                features.SEGMENT_LENGTHS: [first, total - first],
            }
        )
        if sentence_objective == "nsp":
            rows[-1][features.NEXT_SENTENCE_LABELS] = [int(generator.integers(2))]
    return rows


def serialize(row: dict[str, Any]) -> bytes:
    """A row as tf.train.Example."""

    def feature(values: Sequence[Any]) -> tf.train.Feature:
        if any(isinstance(value, float) for value in values):
            return tf.train.Feature(float_list=tf.train.FloatList(value=values))
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

    example = tf.train.Example(features=tf.train.Features(feature={k: feature(v) for k, v in row.items()}))
    content: bytes = example.SerializeToString()
    return content


def write_directory(
    path: pathlib.Path,
    shards: Sequence[Sequence[dict[str, Any]]],
    *,
    max_seq_length: int,
    max_predictions_per_seq: int,
    masking: str = "dynamic",
    sentence_objective: str = "sop",
    vocabulary: AlbertTokenizer | None = None,
) -> pathlib.Path:
    """Data directory `path` with these shards."""
    vocabulary = vocabulary or tokenizer()
    path.mkdir(parents=True, exist_ok=True)
    entries = []
    for index, rows in enumerate(shards):
        file = path / f"pretrain-{index:05d}-of-{len(shards):05d}.tfrecord"
        with tf.io.TFRecordWriter(str(file)) as writer:
            for row in rows:
                writer.write(serialize(row))
        content = file.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        entries.append({"file": file.name, "examples": len(rows), "bytes": len(content), "sha256": digest})
    (path / "spiece.model").write_bytes(vocabulary.model_proto)
    (path / "tokenizer_config.json").write_text(vocabulary.config.to_json())
    values = {
        "format": "albert_tf pretraining data",
        "contract_version": features.RECORD_CONTRACT_VERSION,
        "masking": masking,
        "sentence_objective": sentence_objective,
        "max_seq_length": max_seq_length,
        "max_predictions_per_seq": max_predictions_per_seq,
        "masked_lm_prob": 0.15,
        "max_ngram": 3,
        "vocab_size": vocabulary.vocab_size,
        "tokenizer": {"file": "spiece.model", "config": "tokenizer_config.json", "digest": vocabulary.digest},
        "special_ids": {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4},
        "excluded_replacement_ids": sorted(vocabulary.special_ids),
        "seed": 7,
        "settings": {},
        "counts": {"examples": sum(len(rows) for rows in shards)},
        "piece_counts": {"file": "piece_counts.npy", "sha256": ""},
        "shards": entries,
    }
    (path / "dataset.json").write_text(json.dumps(values, indent=2))
    return path
