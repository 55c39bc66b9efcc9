"""Examples: one document in, serialised records and counts out. Joins the steps of the other modules."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from albert_tf import features
from albert_tf.tokenizer_base import Tokenizer
from pipelines import documents, masking, records, segments, sentences

_MOST_COPIES = 1000


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExampleSettings:
    """What decides the bytes of the records, beside text and tokenizer. Checks itself when made and never changes.

    Attributes:
      max_seq_length: S, tokens.
      masking: "dynamic" (masks and order drawn while training) or "static" (the original's records).
      num_shards: files to write.
      seed: of every draw, in [0, 2**62).
      short_seq_prob: share of examples that aim at a shorter length, in [0, 1].
      masked_lm_prob: share of the real positions to predict, in (0, 1).
      max_predictions_per_seq: P; by default what `masked_lm_prob` of S positions needs.
      max_ngram: longest n-gram to mask, in words.
      dupe_factor: copies of the corpus with other segments and masks; static records only.
    """

    max_seq_length: int = 512
    masking: features.Masking = "dynamic"
    num_shards: int = 8
    seed: int = 7
    short_seq_prob: float = 0.1
    masked_lm_prob: float = 0.15
    max_predictions_per_seq: int | None = None
    max_ngram: int = 3
    dupe_factor: int = 1

    def __post_init__(self) -> None:
        needed = features.max_predictions(self.max_seq_length, self.masked_lm_prob)
        if self.max_predictions_per_seq is None:
            object.__setattr__(self, "max_predictions_per_seq", needed)
        if self.masking not in ("dynamic", "static"):
            raise ValueError(f"masking must be dynamic or static, got {self.masking!r}")
        if self.max_seq_length > features.LONGEST_SEQUENCE:
            raise ValueError(f"max_seq_length must be at most {features.LONGEST_SEQUENCE}, got {self.max_seq_length}")
        limits = {
            "num_shards": 99_999,
            "max_predictions_per_seq": self.max_seq_length,
            "max_ngram": features.LONGEST_NGRAM,
            "dupe_factor": _MOST_COPIES,
        }
        for name, most in limits.items():
            if not 1 <= getattr(self, name) <= most:
                raise ValueError(f"{name} must be in [1, {most}], got {getattr(self, name)}")
        if not 0 <= self.seed < 2**62:
            raise ValueError(f"seed must be in [0, 2**62), got {self.seed}")
        if not 0.0 <= self.short_seq_prob <= 1.0:
            raise ValueError(f"short_seq_prob must be in [0, 1], got {self.short_seq_prob}")
        if self.dupe_factor > 1 and self.masking == "dynamic":
            raise ValueError(
                f"dupe_factor must be 1 with masking=dynamic, got {self.dupe_factor}; each epoch draws new masks anyway"
            )

    @property
    def predictions(self) -> int:
        """P, as a number."""
        return self.max_predictions_per_seq or 0

    def features(self) -> tuple[features.Feature, ...]:
        """Features of the records, in the order they are written."""
        if self.masking == "static":
            return features.static_features(self.max_seq_length, self.predictions)
        return features.dynamic_features()

    def to_dict(self) -> dict[str, Any]:
        """All fields, ready for JSON."""
        return dataclasses.asdict(self)


class Record(NamedTuple):
    """A serialised example, its shard, and the random key that orders it there, bytes [8]."""

    shard: int
    key: bytes
    payload: bytes


class ExampleBuilder:
    """Turns documents into records, and counts.

    Args:
      settings: see there.
      tokenizer: gives ids and word starts.
      finished_shards: shards that are there already; their records are counted, but not made.

    Attributes:
      counts: what was read, written and left out, summed over all documents so far (and over copies).
      piece_counts: int64 [V], occurrences of each id in the examples' segments.
    """

    def __init__(self, settings: ExampleSettings, tokenizer: Tokenizer, *, finished_shards: Collection[int] = ()):
        self._settings = settings
        self._finished = np.zeros(settings.num_shards, dtype=bool)
        self._finished[list(finished_shards)] = True
        self._tokenizer = tokenizer
        self._features = settings.features()
        self._word_start_rule = sentences.word_start_rule(tokenizer)
        allowed = sorted(set(range(tokenizer.vocab_size)) - tokenizer.special_ids)
        self._replacement_ids = np.array(allowed, dtype=np.int32)
        self.counts: Counter[str] = Counter()
        self.piece_counts = np.zeros(tokenizer.vocab_size, dtype=np.int64)

    def count_duplicate(self, document: Sequence[str]) -> None:
        """Counts a document that is left out, since one with the same sentences was built."""
        self.counts.update(duplicate_documents=1, duplicate_sentences=len(document))

    def build(self, document: Sequence[str], digest: bytes) -> list[Record]:
        """Records of every copy of one document.

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
        built: list[Record] = []
        for copy in range(settings.dupe_factor):
            seed = documents.document_seed(digest, seed=settings.seed, copy=copy)
            built += self._build_copy(tokenized, np.random.Generator(np.random.Philox(key=seed)))
        return built

    def _build_copy(self, document: sentences.TokenizedDocument, generator: np.random.Generator) -> list[Record]:
        settings = self._settings
        cut = segments.cut_document(
            document,
            room=settings.max_seq_length - 3,
            short_seq_prob=settings.short_seq_prob,
            generator=generator,
        )
        spans = cut.spans
        kept = int((spans[:, 2] - spans[:, 0]).sum())
        self.counts.update(
            examples=len(spans),
            tokens_out=kept,
            tokens_single_word=cut.tokens_single_word,
            words_cut=cut.words_cut,
        )
        if not len(spans):
            return []
        ids = _gather(document.ids, spans)
        self.piece_counts += np.bincount(ids, minlength=len(self.piece_counts))
        keys = generator.integers(0, 2**64, size=len(spans), dtype=np.uint64)
        shards = (keys % np.uint64(settings.num_shards)).astype(np.int64)
        wanted = ~self._finished[shards]
        if settings.masking == "static":
            # Drawn for all, so that the draws do not depend on what is there already.
            drawn = self._static_columns(document, spans, generator)
            columns: dict[str, records.Column] = {name: column[wanted] for name, column in drawn.items()}
        elif wanted.any():
            left = spans[wanted]
            columns = _dynamic_columns(document, left, ids if wanted.all() else _gather(document.ids, left))
        if not wanted.any():
            return []
        payloads = records.serialize_examples(self._features, columns)
        packed_keys = keys[wanted].astype(">u8").tobytes()
        return [
            Record(shard, packed_keys[8 * i : 8 * i + 8], payload)
            for i, (shard, payload) in enumerate(zip(shards[wanted].tolist(), payloads, strict=True))
        ]

    def _static_columns(
        self, document: sentences.TokenizedDocument, spans: np.ndarray, generator: np.random.Generator
    ) -> dict[str, np.ndarray]:
        settings, tokenizer = self._settings, self._tokenizer
        swapped = generator.random(len(spans)) < 0.5
        packed = segments.pack_pairs(
            document,
            spans,
            swapped,
            max_seq_length=settings.max_seq_length,
            cls_id=tokenizer.cls_id,
            sep_id=tokenizer.sep_id,
            pad_id=tokenizer.pad_id,
        )
        real_lengths = packed.input_mask.sum(axis=1)
        masks = masking.choose_masks(
            packed.input_ids,
            packed.token_boundary,
            packed.maskable,
            real_lengths=real_lengths,
            masked_lm_prob=settings.masked_lm_prob,
            max_predictions_per_seq=settings.predictions,
            max_ngram=settings.max_ngram,
            mask_id=tokenizer.mask_id,
            replacement_ids=self._replacement_ids,
            generator=generator,
        )
        self.counts.update(
            examples_swapped=int(swapped.sum()),
            positions_real=int(real_lengths.sum()),
            positions_masked=int(masks.weights.sum()),
            **{f"ngrams_of_{n}": int(count) for n, count in enumerate(masks.ngram_lengths) if n},
        )
        return {
            features.INPUT_IDS: masks.input_ids,
            features.INPUT_MASK: packed.input_mask,
            features.SEGMENT_IDS: packed.segment_ids,
            features.TOKEN_BOUNDARY: packed.token_boundary,
            features.MASKED_LM_POSITIONS: masks.positions,
            features.MASKED_LM_IDS: masks.label_ids,
            features.MASKED_LM_WEIGHTS: masks.weights,
            features.NEXT_SENTENCE_LABELS: swapped[:, np.newaxis],
        }


def _gather(values: np.ndarray, spans: np.ndarray) -> np.ndarray:
    """The spans' values, one span after the other."""
    return np.concatenate([values[begin:end] for begin, _, end in spans.tolist()])


def _dynamic_columns(
    document: sentences.TokenizedDocument, spans: np.ndarray, ids: np.ndarray
) -> dict[str, records.Column]:
    begin, middle, end = spans.T
    # A segment's first token starts a word even where a word longer than the sequence was cut.
    starts = document.word_starts.copy()
    starts[begin] = True
    starts[middle] = True
    lengths = end - begin
    return {
        features.SEGMENT_TOKENS: (ids, lengths),
        features.WORD_STARTS: (_gather(starts, spans), lengths),
        features.SEGMENT_LENGTHS: np.stack([middle - begin, end - middle], axis=1),
    }
