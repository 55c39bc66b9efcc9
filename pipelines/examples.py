"""Examples: one document in, packed pairs of segments and counts out. `shard_records` makes records of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

import numpy as np

from albert_tf.tokenizer_base import Tokenizer
from pipelines import documents, original_choices, pairs, segments, sentences
from pipelines.example_settings import ExampleSettings


class ExampleBuilder:
    """Turns documents into pairs of segments, and counts.

    Args:
      settings: see there.
      tokenizer: gives ids and word starts.
      finished_shards: shards that are there already; their pairs are counted, but not made.

    Attributes:
      counts: what was read and left out, summed over all documents so far (and over copies).
    """

    def __init__(self, settings: ExampleSettings, tokenizer: Tokenizer, *, finished_shards: Collection[int] = ()):
        self._settings = settings
        self._finished = np.zeros(settings.num_shards, dtype=bool)
        self._finished[list(finished_shards)] = True
        self._tokenizer = tokenizer
        self._word_start_rule = sentences.word_start_rule(tokenizer, as_original=settings.original_compatible)
        self.counts: Counter[str] = Counter()

    def count_duplicate(self, document: Sequence[str]) -> None:
        """Counts a document that is left out, since one with the same sentences was built."""
        self.counts.update(duplicate_documents=1, duplicate_sentences=len(document))

    def build(self, document: Sequence[str], digest: bytes) -> Iterator[tuple[int, bytes]]:
        """(shard, packed pair) of every copy of one document.

        Args:
          document: its sentences.
          digest: `documents.document_digest` of it.
        """
        settings = self._settings
        tokenized = sentences.tokenize_document(document, self._tokenizer, self._word_start_rule)
        unknown = int(np.count_nonzero(tokenized.ids == self._tokenizer.unk_id))
        self.counts.update(
            documents=1,
            sentences=len(document),
            empty_sentences=tokenized.empty_sentences,
            tokens_in=len(tokenized.ids) * settings.dupe_factor,
            tokens_unknown=unknown * settings.dupe_factor,
        )
        for copy in range(settings.dupe_factor):
            seed = documents.document_seed(digest, seed=settings.seed, copy=copy)
            yield from self._build_copy(tokenized, digest, np.random.Generator(np.random.Philox(key=seed)))

    def _build_copy(
        self, document: sentences.TokenizedDocument, digest: bytes, generator: np.random.Generator
    ) -> Iterator[tuple[int, bytes]]:
        settings = self._settings
        if settings.original_compatible:
            cut = original_choices.cut_document(
                document,
                room=settings.room,
                short_seq_prob=settings.short_seq_prob,
                objective=settings.sentence_objective,
                generator=generator,
            )
        else:
            cut = segments.cut_document(
                document,
                room=settings.room,
                short_seq_prob=settings.short_seq_prob,
                generator=generator,
                in_pairs=settings.sentence_objective != "none",
            )
        self.counts.update(
            tokens_single_word=cut.tokens_single_word, words_cut=cut.words_cut, examples_short=cut.short_targets
        )
        keys = generator.integers(0, 2**64, size=len(cut.spans), dtype=np.uint64)
        shards = (keys % np.uint64(settings.num_shards)).astype(np.int64)
        left = ~self._finished[shards]
        if left.any():
            packed = pairs.pack(_gather(document, cut, keys, digest, left))
            yield from zip(shards[left].tolist(), packed, strict=True)


def _gather(
    document: sentences.TokenizedDocument, cut: segments.Segments, keys: np.ndarray, digest: bytes, left: np.ndarray
) -> pairs.Pairs:
    """The segments of `cut` where `left` is true."""
    begin, middle, end = cut.spans[left].T
    places = pairs.flat_ranges(begin, end - begin)
    return pairs.Pairs(
        ids=document.ids[places],
        word_starts=document.word_starts[places],
        lengths=np.stack([middle - begin, end - middle], axis=1),
        keys=keys[left],
        documents=np.full(len(begin), int.from_bytes(digest[:8], "little"), dtype=np.uint64),
        wanted=cut.wanted[left],
    ).with_starts()
