"""Sentences that repeat others: near-duplicates within a text, and held-out sentences in the training text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from demo.cleaning import word_keys

LEAK_WORDS = 5  # a held-out sentence of this many words or more must not occur in the training text
_SHINGLE = 4
_NEAR_DUPLICATE = 0.7

Document = list[str]


class NearDuplicates:
    """Sentences seen so far; says whether another one is new.

    A sentence repeats another if its letters are the same, or if at least seven tenths of its runs of four words
    occurred before, wherever that was.
    """

    def __init__(self) -> None:
        self._sentences: set[tuple[str, ...]] = set()
        self._shingles: set[tuple[str, ...]] = set()

    def add(self, sentence: str) -> bool:
        """True and remembered if `sentence` is new; False if it repeats what was seen."""
        words = word_keys(sentence)
        if words in self._sentences:
            return False
        shingles = [words[start : start + _SHINGLE] for start in range(max(1, len(words) - _SHINGLE + 1))]
        if sum(shingle in self._shingles for shingle in shingles) >= _NEAR_DUPLICATE * len(shingles):
            return False
        self._sentences.add(words)
        self._shingles.update(shingles)
        return True


def without_near_duplicates(documents: Iterable[Document], seen: NearDuplicates) -> Iterator[Document]:
    """Documents with new sentences only; one with less than two sentences left has no order and is dropped."""
    for document in documents:
        kept = [sentence for sentence in document if seen.add(sentence)]
        if len(kept) >= 2:
            yield kept


class HeldOutSentences:
    """Held-out sentences of `LEAK_WORDS` words or more, to be looked for in running text."""

    def __init__(self, documents: Iterable[Document]) -> None:
        self._by_start: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
        for document in documents:
            for sentence in document:
                words = word_keys(sentence)
                if len(words) >= LEAK_WORDS:
                    self._by_start.setdefault(words[:LEAK_WORDS], []).append(words)

    def found_in(self, document: Document) -> set[int]:
        """Indices of the sentences of `document` that a held-out sentence covers, wholly or in part."""
        words: list[str] = []
        owner: list[int] = []
        for index, sentence in enumerate(document):
            keys = word_keys(sentence)
            words += keys
            owner += [index] * len(keys)
        found: set[int] = set()
        for start in range(len(words) - LEAK_WORDS + 1):
            for candidate in self._by_start.get(tuple(words[start : start + LEAK_WORDS]), ()):
                end = start + len(candidate)
                if tuple(words[start:end]) == candidate:
                    found.update(owner[start:end])
        return found


def without_held_out(documents: Iterable[Document], held_out: HeldOutSentences) -> tuple[list[Document], int]:
    """Documents without the sentences that a held-out sentence occurs in, and the number of those."""
    kept = []
    removed = 0
    for document in documents:
        # What is left moves together and may then spell a held-out sentence across two of its own: look again.
        while found := held_out.found_in(document):
            removed += len(found)
            document = [sentence for index, sentence in enumerate(document) if index not in found]
        if len(document) >= 2:
            kept.append(document)
    return kept, removed
