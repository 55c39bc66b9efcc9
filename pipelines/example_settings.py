"""ExampleSettings: what decides the bytes of the records, beside text and tokenizer."""

from __future__ import annotations

import dataclasses
from typing import Any

from albert_tf import features

_MOST_COPIES = 1000
_ORIGINAL_PREDICTIONS = 20


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExampleSettings:
    """What decides the bytes of the records, beside text and tokenizer. Checks itself when made and never changes.

    Attributes:
      max_seq_length: S, tokens.
      sentence_objective: what is learned beside masked words. "sop": whether two adjacent segments are exchanged (Lan
        et al. 2020, section 3.1); "nsp": whether the second one is of another document (Devlin et al. 2019, section
        3.1); "none": nothing, and an example is one segment.
      masking: "dynamic" (masks and order drawn while training) or "static" (the original's records).
      num_shards: files to write.
      seed: of every draw, in [0, 2**62).
      short_seq_prob: share of examples that aim at a shorter length, in [0, 1].
      masked_lm_prob: share of the real positions to predict, in (0, 1).
      max_predictions_per_seq: P; by default what `masked_lm_prob` of S positions needs, or the original's 20.
      max_ngram: longest n-gram to mask, in words.
      dupe_factor: copies of the corpus with other segments and masks; static records only.
      original_compatible: whether segments and budgets are chosen as the original does (`original_choices`), for
        comparison; static records only.
    """

    max_seq_length: int = 512
    sentence_objective: features.SentenceObjective = "sop"
    masking: features.Masking = "dynamic"
    num_shards: int = 8
    seed: int = 7
    short_seq_prob: float = 0.1
    masked_lm_prob: float = 0.15
    max_predictions_per_seq: int | None = None
    max_ngram: int = 3
    dupe_factor: int = 1
    original_compatible: bool = False

    def __post_init__(self) -> None:
        needed = features.max_predictions(self.max_seq_length, self.masked_lm_prob)
        if self.max_predictions_per_seq is None:
            most = min(_ORIGINAL_PREDICTIONS, self.max_seq_length) if self.original_compatible else needed
            object.__setattr__(self, "max_predictions_per_seq", most)
        if self.masking not in ("dynamic", "static"):
            raise ValueError(f"masking must be dynamic or static, got {self.masking!r}")
        if self.sentence_objective not in features.SENTENCE_OBJECTIVES:
            known = ", ".join(features.SENTENCE_OBJECTIVES)
            raise ValueError(f"sentence_objective must be one of {known}, got {self.sentence_objective!r}")
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
        if self.original_compatible and self.masking == "dynamic":
            raise ValueError("original_compatible needs masking=static, as the original has no other, got dynamic")
        if self.original_compatible and self.sentence_objective == "none":
            raise ValueError("original_compatible needs sentence_objective sop or nsp: the original has no other")

    @property
    def predictions(self) -> int:
        """P, as a number."""
        return self.max_predictions_per_seq or 0

    @property
    def room(self) -> int:
        """Most tokens of a sequence, without [CLS] and [SEP]s."""
        return features.segment_room(self.max_seq_length, self.sentence_objective)

    def features(self) -> tuple[features.Feature, ...]:
        """Features of the records, in the order they are written."""
        return features.record_features(self.masking, self.sentence_objective, self.max_seq_length, self.predictions)

    def to_dict(self) -> dict[str, Any]:
        """All fields, ready for JSON."""
        return dataclasses.asdict(self)
