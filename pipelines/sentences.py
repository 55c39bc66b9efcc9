"""Sentences to ids: one document as flat arrays with the places where words and sentences start."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from albert_tf.tokenizer import AlbertTokenizer


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenizedDocument:
    """One document in ids.

    Attributes:
      ids: int32 [T], its sentences one after the other, without special tokens.
      word_starts: bool [T], True where a word starts; always True where a sentence starts.
      sentence_starts: int64 [sentences], positions where sentences start; the first is 0.
      empty_sentences: sentences that gave no token.
    """

    ids: np.ndarray
    word_starts: np.ndarray
    sentence_starts: np.ndarray
    empty_sentences: int


def tokenize_document(
    sentences: Sequence[str], tokenizer: AlbertTokenizer, starts_table: np.ndarray
) -> TokenizedDocument:
    """The document's sentences in ids.

    Args:
      sentences: text, one sentence each.
      tokenizer: gives the ids.
      starts_table: bool [V], True for ids that start a word (`tokenizer.word_start_table()`).
    """
    rows = [row for row in tokenizer.encode_batch(sentences) if row]
    ids = np.fromiter(itertools.chain.from_iterable(rows), dtype=np.int32)
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    sentence_starts = np.cumsum(lengths) - lengths
    word_starts = starts_table[ids]
    word_starts[sentence_starts] = True
    return TokenizedDocument(
        ids=ids,
        word_starts=word_starts,
        sentence_starts=sentence_starts,
        empty_sentences=len(sentences) - len(rows),
    )
