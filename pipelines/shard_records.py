"""Records of a shard: its packed pairs, sorted, to serialised examples and counts.

What depends on more than one document happens here, and the masks of static records, so that pairs travel unmasked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from albert_tf import features
from albert_tf.tokenizer_base import Tokenizer
from pipelines import draws, masking, original_choices, records, rows, strangers
from pipelines.example_settings import ExampleSettings
from pipelines.pairs import Pairs, flat_ranges, unpack, unpack_headers

_BATCH_POSITIONS = 1 << 17  # of all rows that are made together; some 20 MB of arrays
_MOST_BATCH = 1024


class RecordMaker:
    """Makes the records of one shard, and counts.

    Args:
      settings: see there.
      tokenizer: gives the special ids.

    Attributes:
      counts: of the records made so far.
      piece_counts: int64 [V], occurrences of each id in their segments.
    """

    def __init__(self, settings: ExampleSettings, tokenizer: Tokenizer):
        self._settings = settings
        self._tokenizer = tokenizer
        self._features = settings.features()
        allowed = sorted(set(range(tokenizer.vocab_size)) - tokenizer.special_ids)
        self._replacement_ids = np.array(allowed, dtype=np.int32)
        self.counts: Counter[str] = Counter()
        self.piece_counts = np.zeros(tokenizer.vocab_size, dtype=np.int64)

    def make(self, items: Sequence[bytes]) -> Iterator[list[bytes]]:
        """Serialised records of a shard's packed pairs, in their order, one batch after the other."""
        seconds = self._seconds(items)
        size = max(1, min(_MOST_BATCH, _BATCH_POSITIONS // self._settings.max_seq_length))
        for begin in range(0, len(items), size):
            chosen = slice(begin, begin + size)
            pairs = unpack(items[chosen])
            are_strangers = np.zeros(len(pairs), dtype=bool)
            if seconds is not None:
                others = unpack([items[partner] for partner in seconds.partners[chosen].tolist()])
                are_strangers = seconds.are_strangers[chosen]
                pairs = self._join(pairs, others, seconds.starts[chosen], seconds.lengths[chosen], are_strangers)
            yield self._records(pairs, are_strangers)

    def _seconds(self, items: Sequence[bytes]) -> strangers.Seconds | None:
        """Where second segments come from; None if each pair has its own."""
        if not items:
            return None
        if self._settings.original_compatible:
            return strangers.as_original(unpack_headers(items))
        if self._settings.sentence_objective == "nsp":
            return strangers.exchange(unpack_headers(items))
        return None

    def _join(
        self, pairs: Pairs, others: Pairs, starts: np.ndarray, lengths: np.ndarray, are_strangers: np.ndarray
    ) -> Pairs:
        """Pairs of the first segments of `pairs` and parts of `others`, cut to fit into a sequence.

        Args:
          pairs: B pairs.
          others: B pairs that hold the second segments.
          starts, lengths: int64 [B], where in the texts of `others` they are.
          are_strangers: bool [B], whether it is another pair.
        """
        ids = np.concatenate([pairs.ids, others.ids])
        word_starts = np.concatenate([pairs.word_starts, others.word_starts])
        begins = np.stack([pairs.begins, len(pairs.ids) + others.begins + starts], axis=1)  # [B, 2]
        sizes = np.stack([pairs.lengths[:, 0], lengths], axis=1)
        before = sizes.copy()
        for row in np.flatnonzero(sizes.sum(axis=1) > self._settings.room).tolist():
            if self._settings.original_compatible:
                swapped = bool(self._swapped(pairs.keys[row : row + 1], are_strangers[row : row + 1])[0])
                self._truncate(row, begins, sizes, swapped=swapped, key=int(pairs.keys[row]))
            else:
                sizes[row, 1] = _whole_words(word_starts[begins[row, 1] :], self._settings.room - int(sizes[row, 0]))
        lost = before - sizes
        if self._settings.original_compatible:
            self.counts["tokens_repeated"] += int(sizes[are_strangers, 1].sum())
            lost[are_strangers, 1] = 0  # it was a copy
        self.counts["tokens_truncated"] += int(lost.sum())
        places = flat_ranges(begins.ravel(), sizes.ravel())
        return Pairs(
            ids=ids[places],
            word_starts=word_starts[places],
            lengths=sizes,
            keys=pairs.keys,
            documents=pairs.documents,
            wanted=pairs.wanted,
        ).with_starts()

    def _truncate(self, row: int, begins: np.ndarray, sizes: np.ndarray, *, swapped: bool, key: int) -> None:
        """Cuts one row's segments as the original does, in place."""
        order = [1, 0] if swapped else [0, 1]
        first, second = sizes[row, order].tolist()
        kept = original_choices.truncate(first, second, self._settings.room, key)
        for segment, part in zip(order, kept, strict=True):
            begins[row, segment] += part.start
            sizes[row, segment] = part.stop - part.start

    def _swapped(self, keys: np.ndarray, are_strangers: np.ndarray) -> np.ndarray:
        """bool [B], where the second segment comes first."""
        if self._settings.sentence_objective != "sop":
            return np.zeros(len(keys), dtype=bool)
        return (draws.uniform(keys, draws.SWAP) < 0.5) & ~are_strangers

    def _records(self, pairs: Pairs, are_strangers: np.ndarray) -> list[bytes]:
        self.counts.update(examples=len(pairs), tokens_out=len(pairs.ids))
        self.piece_counts += np.bincount(pairs.ids, minlength=len(self.piece_counts))
        if are_strangers.any():
            self.counts["examples_with_stranger"] += int(are_strangers.sum())
        columns: dict[str, records.Column]
        if self._settings.masking == "static":
            columns = dict(self._static_columns(pairs, are_strangers))
        else:
            sizes = pairs.sizes
            columns = {
                features.SEGMENT_TOKENS: (pairs.ids, sizes),
                features.WORD_STARTS: (pairs.word_starts, sizes),
                features.SEGMENT_LENGTHS: pairs.lengths,
                features.NEXT_SENTENCE_LABELS: are_strangers[:, np.newaxis],
            }
        return records.serialize_examples(self._features, columns)

    def _static_columns(self, pairs: Pairs, are_strangers: np.ndarray) -> dict[str, np.ndarray]:
        settings, tokenizer = self._settings, self._tokenizer
        swapped = self._swapped(pairs.keys, are_strangers)
        laid = rows.lay_out(
            pairs,
            swapped,
            max_seq_length=settings.max_seq_length,
            cls_id=tokenizer.cls_id,
            sep_id=tokenizer.sep_id,
            pad_id=tokenizer.pad_id,
        )
        masks = masking.choose_masks(
            laid.input_ids,
            laid.token_boundary,
            laid.maskable,
            real_lengths=laid.real_lengths,
            masked_lm_prob=settings.masked_lm_prob,
            max_predictions_per_seq=settings.predictions,
            max_ngram=settings.max_ngram,
            mask_id=tokenizer.mask_id,
            replacement_ids=self._replacement_ids,
            keys=pairs.keys,
            budget_is_drawn=not settings.original_compatible,
        )
        if settings.sentence_objective == "sop":
            self.counts["examples_swapped"] += int(swapped.sum())
        self.counts.update(
            positions_real=int(laid.real_lengths.sum()),
            positions_masked=int(masks.weights.sum()),
            **{f"ngrams_of_{n}": int(count) for n, count in enumerate(masks.ngram_lengths) if n},
        )
        return {
            features.INPUT_IDS: masks.input_ids,
            features.INPUT_MASK: laid.input_mask,
            features.SEGMENT_IDS: laid.segment_ids,
            features.TOKEN_BOUNDARY: laid.token_boundary,
            features.MASKED_LM_POSITIONS: masks.positions,
            features.MASKED_LM_IDS: masks.label_ids,
            features.MASKED_LM_WEIGHTS: masks.weights,
            features.NEXT_SENTENCE_LABELS: (swapped | are_strangers)[:, np.newaxis],
        }


def _whole_words(word_starts: np.ndarray, room: int) -> int:
    """Tokens, at most `room`, up to the last word that ends within; all of `room` if the first word is longer."""
    starts = np.flatnonzero(word_starts[1 : room + 1]) + 1
    return int(starts[-1]) if len(starts) else room
