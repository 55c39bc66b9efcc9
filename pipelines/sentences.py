"""Sentences to ids: one document as flat arrays with the places where words and sentences start."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from albert_tf.tokenizer_base import Tokenizer
from pipelines import word_marks


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


@dataclasses.dataclass(frozen=True, kw_only=True)
class WordStartRule:
    """Where words start among the ids of a sentence.

    Attributes:
      starts: bool [V], ids that start a word whatever stands before.
      ends: bool [V], ids behind which the `loose` ones start a word too.
      loose: bool [V].
    """

    starts: np.ndarray
    ends: np.ndarray
    loose: np.ndarray

    def apply(self, ids: np.ndarray) -> np.ndarray:
        """Where words start: int32 [T] -> bool [T]."""
        found: np.ndarray = self.starts[ids]
        found[1:] |= self.ends[ids[:-1]] & self.loose[ids[1:]]
        return found


def word_start_rule(tokenizer: Tokenizer, *, as_original: bool = False) -> WordStartRule:
    """The tokenizer's rule; with `as_original` the original's, which looks at single pieces and knows English only."""
    ends, loose = (np.array(table, dtype=bool) for table in tokenizer.word_context_tables())
    if as_original:
        ends = np.zeros_like(ends)
    return WordStartRule(starts=np.array(tokenizer.word_start_table(as_original), dtype=bool), ends=ends, loose=loose)


def tokenize_document(sentences: Sequence[str], tokenizer: Tokenizer, rule: WordStartRule) -> TokenizedDocument:
    """The document's sentences in ids.

    Args:
      sentences: text, one sentence each. Where one holds `word_marks.MARK`, its words start there and at spaces, and
        the text is what is left without the marks.
      tokenizer: gives the ids.
      rule: where words start in sentences without marks.
    """
    marked = {number: word_marks.words(s) for number, s in enumerate(sentences) if word_marks.MARK in s}
    told = {number: tokenizer.encode_words(words) for number, words in marked.items()}
    plain = iter(tokenizer.encode_batch([s for number, s in enumerate(sentences) if number not in told]))
    rows = [told[number][0] if number in told else next(plain) for number in range(len(sentences))]
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    begins = np.cumsum(lengths) - lengths
    ids = np.fromiter(itertools.chain.from_iterable(rows), dtype=np.int32)
    word_starts = rule.apply(ids)
    for number, (_, starts) in told.items():
        word_starts[begins[number] : begins[number] + lengths[number]] = starts
    sentence_starts = begins[lengths > 0]
    word_starts[sentence_starts] = True
    return TokenizedDocument(
        ids=ids,
        word_starts=word_starts,
        sentence_starts=sentence_starts,
        empty_sentences=len(sentences) - len(sentence_starts),
    )
