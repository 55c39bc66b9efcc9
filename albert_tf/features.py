"""The record contract: which features a pretraining record holds, by name, dtype and length.

The pipeline writes records by this contract, `albert_tf.data` reads them by it, and `dataset.json` names it, so that a
shard made by other settings is refused by name instead of trained on. This module imports no TensorFlow and opens no
file.

Two forms exist:

* *static*: the original ALBERT's `tf.Example` features, masks already chosen (one choice for all epochs);
* *dynamic*: the ids of both segments in document order and where words start. The order of the segments and the masks
  are drawn while training, afresh in every epoch.

Both depend on the sentence objective: for `nsp` dynamic records hold a label too, and for `none` there is one segment.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

RECORD_CONTRACT_VERSION = 2

# What the model is called with.
INPUT_IDS = "input_ids"
INPUT_MASK = "input_mask"
SEGMENT_IDS = "segment_ids"
MASKED_LM_POSITIONS = "masked_lm_positions"
P_MASK = "p_mask"  # SQuAD 2.0: 1 where no answer may start or end
START_POSITIONS = "start_positions"  # SQuAD 2.0, in training: where the answer starts

# What the losses need besides.
MASKED_LM_IDS = "masked_lm_ids"
MASKED_LM_WEIGHTS = "masked_lm_weights"
SENTENCE_ORDER_LABEL = "sentence_order_label"  # 1 = the two segments are exchanged; nsp: the second is a stranger

# Names that exist on disk only.
NEXT_SENTENCE_LABELS = "next_sentence_labels"  # the original's name of the sentence order label
TOKEN_BOUNDARY = "token_boundary"  # 1 where a word starts
SEGMENT_TOKENS = "segment_tokens"  # ids of segment A, then of segment B, without special tokens
SEGMENT_LENGTHS = "segment_lengths"  # tokens in A, tokens in B
WORD_STARTS = "word_starts"  # 1 where a word starts, aligned with segment_tokens

# Far beyond what anybody uses: a slip of the finger must not ask for all the memory there is.
LONGEST_SEQUENCE, LONGEST_NGRAM = 1 << 16, 64

Masking = Literal["static", "dynamic"]

# What is learned beside masked words: sentence order (Lan et al. 2020), next sentence (Devlin et al. 2019), nothing.
SentenceObjective = Literal["sop", "nsp", "none"]
SENTENCE_OBJECTIVES: tuple[SentenceObjective, ...] = ("sop", "nsp", "none")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Feature:
    """One feature of a record: `dtype` is `int64` or `float32`; `length` None means "as many as there are"."""

    name: str
    dtype: Literal["int64", "float32"]
    length: int | None


def max_predictions(max_seq_length: int, masked_lm_prob: float = 0.15) -> int:
    """Predictions per sequence [P] that `masked_lm_prob` of a full sequence needs, rounded up.

    The share is one of all real positions, [CLS] and [SEP] counted, as in the original: 20 for 128 tokens.

    Raises:
      ValueError: for a length without room for two segments, or a share outside (0, 1).
    """
    if max_seq_length < 5:
        raise ValueError(f"max_seq_length must be at least 5 ([CLS] a [SEP] b [SEP]), got {max_seq_length}")
    if not 0.0 < masked_lm_prob < 1.0:
        raise ValueError(f"masked_lm_prob must be in (0, 1), got {masked_lm_prob}")
    # 1e-9 keeps 0.15 * 140 = 21.000000000000004 from becoming 22.
    return max(1, math.ceil(max_seq_length * masked_lm_prob - 1e-9))


def segment_room(max_seq_length: int, objective: SentenceObjective) -> int:
    """Most tokens of a sequence, without [CLS] and the [SEP] behind each segment."""
    return max_seq_length - (2 if objective == "none" else 3)


def record_features(
    masking: Masking, objective: SentenceObjective, max_seq_length: int, max_predictions_per_seq: int
) -> tuple[Feature, ...]:
    """Features of a record of either form, in the order they are written."""
    if masking == "static":
        return static_features(max_seq_length, max_predictions_per_seq)
    return dynamic_features(objective)


def static_features(max_seq_length: int, max_predictions_per_seq: int) -> tuple[Feature, ...]:
    """Features of a static record, as the original's `create_pretraining_data.py` writes them."""
    s, p = max_seq_length, max_predictions_per_seq
    return (
        Feature(name=INPUT_IDS, dtype="int64", length=s),
        Feature(name=INPUT_MASK, dtype="int64", length=s),
        Feature(name=SEGMENT_IDS, dtype="int64", length=s),
        Feature(name=TOKEN_BOUNDARY, dtype="int64", length=s),
        Feature(name=MASKED_LM_POSITIONS, dtype="int64", length=p),
        Feature(name=MASKED_LM_IDS, dtype="int64", length=p),
        Feature(name=MASKED_LM_WEIGHTS, dtype="float32", length=p),
        Feature(name=NEXT_SENTENCE_LABELS, dtype="int64", length=1),
    )


def dynamic_features(objective: SentenceObjective) -> tuple[Feature, ...]:
    """Features of a dynamic record: both segments in document order, unmasked, without special tokens.

    With the objective `nsp` a label tells whether the second one is of another document; with `none` it is empty.
    """
    common = (
        Feature(name=SEGMENT_TOKENS, dtype="int64", length=None),
        Feature(name=WORD_STARTS, dtype="int64", length=None),
        Feature(name=SEGMENT_LENGTHS, dtype="int64", length=2),
    )
    return (*common, Feature(name=NEXT_SENTENCE_LABELS, dtype="int64", length=1)) if objective == "nsp" else common
