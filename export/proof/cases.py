"""What an artefact and its source are both given: real texts of many lengths and scripts, and random ids that reach
every position, every segment and, where that takes no minutes, every row of the embedding table."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from albert_tf import features
from albert_tf.config import AlbertConfig
from albert_tf.tokenizer_base import Tokenizer
from export import parity
from export.proof.passages import LONG_PASSAGE, PASSAGES

Row = tuple[list[int], list[int], list[int]]

_ROWS = 32  # of a batch
_LONGEST_RANDOM = 128  # tokens; one row is as long as the model can take
# Floating-point operations that random rows may take in the source: seconds on a CPU.
_MOST_OPERATIONS = 5e11
_BATCH_TOKENS = 4096  # padding included


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reach:
    """What the cases have reached.

    Attributes:
      texts: real texts.
      rows: rows of ids, texts and pairs of texts among them.
      tokens: real tokens of all rows.
      shortest: tokens of the shortest row.
      longest: of the longest.
      vocabulary: distinct ids.
      segments: distinct segments.
    """

    texts: int
    rows: int
    tokens: int
    shortest: int
    longest: int
    vocabulary: int
    segments: int


def text_rows(tokenizer: Tokenizer, longest: int, segments: int) -> list[Row]:
    """Rows of the built-in passages, as the tokenizer lays them out: alone, every fifth also as a pair.

    Args:
      tokenizer: the model's tokenizer.
      longest: most tokens of a row.
      segments: the model's `type_vocab_size`; with 1 there are no pairs.
    """
    ids = [tokenizer.encode(text) or [tokenizer.unk_id] for text in (*PASSAGES, LONG_PASSAGE)]
    filled = ids[-1] * (longest // len(ids[-1]) + 1)
    rows = [tokenizer.encode_pair(row, None, longest) for row in (*ids, filled)]
    if segments > 1 and longest >= 5:
        rows += [tokenizer.encode_pair(one, other, longest) for one, other in zip(ids[::5], ids[1::5], strict=False)]
    return [*rows, ([ids[0][0]], [1], [0])]  # one token, not even [CLS]


def random_rows(config: AlbertConfig, longest: int, generator: np.random.Generator) -> list[Row]:
    """Rows of random ids and segments: one of `longest` tokens, then ragged ones until each id has come once.

    For large models they end earlier; see `Reach.vocabulary`.
    """
    per_token = 24 * config.num_hidden_layers * config.hidden_size**2
    budget = max(longest, int(_MOST_OPERATIONS / per_token))
    ids = generator.permutation(config.vocab_size)
    if len(ids) < longest:
        ids = np.concatenate([ids, generator.integers(0, config.vocab_size, longest - len(ids))])
    ids = ids[:budget]
    rows, place = [], 0
    while place < len(ids):
        length = int(generator.integers(1, min(longest, _LONGEST_RANDOM) + 1)) if place else longest
        row = ids[place : place + length]
        segments = generator.integers(0, config.type_vocab_size, len(row))
        rows.append((row.tolist(), [1] * len(row), segments.tolist()))
        place += length
    return rows


def make_batches(rows: Sequence[Row]) -> list[parity.Batch]:
    """Ragged batches of rows of similar length, for padding takes time; one holds the shortest and the longest row."""
    ordered = sorted(rows, key=lambda row: sum(row[1]))
    batches: list[parity.Batch] = []
    while ordered:
        longest = sum(ordered[-1][1])
        count = max(1, min(_ROWS, _BATCH_TOKENS // longest))
        if not batches and count > 1:
            ordered.append(ordered.pop(0))
        batches.append(parity.make_batch(ordered[-count:]))
        del ordered[-count:]
    return batches


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cases:
    """Batches, of which the first `text_batches` are of texts and the others of random ids, and what they reach."""

    batches: list[parity.Batch]
    text_batches: int
    reach: Reach


def make_cases(config: AlbertConfig, tokenizer: Tokenizer, *, seed: int = 0) -> Cases:
    """Cases for a model of shape `config`."""
    longest = config.max_position_embeddings
    of_texts = make_batches(text_rows(tokenizer, longest, config.type_vocab_size))
    batches = of_texts + make_batches(random_rows(config, longest, np.random.default_rng(seed)))
    masks = [batch[features.INPUT_MASK].astype(bool) for batch in batches]
    lengths = np.concatenate([mask.sum(axis=1) for mask in masks])

    def distinct(name: str) -> int:
        return len(np.unique(np.concatenate([batch[name][mask] for batch, mask in zip(batches, masks, strict=True)])))

    reach = Reach(
        texts=len(PASSAGES) + 1,
        rows=len(lengths),
        tokens=int(lengths.sum()),
        shortest=int(lengths.min()),
        longest=int(lengths.max()),
        vocabulary=distinct(features.INPUT_IDS),
        segments=distinct(features.SEGMENT_IDS),
    )
    return Cases(batches=batches, text_batches=len(of_texts), reach=reach)
