"""Masking for static records: whole words, in n-grams, 15 % of the positions.

Like the original (`create_masked_lm_predictions`): n-grams of 1 to 3 whole words, p(n) proportional to 1/n (the ALBERT
paper, section 4.1), each selected token shown as [MASK] (80 %), itself (10 %) or a random piece (10 %). Unlike there
the number of predictions is rounded up or down at random, so that their mean share is exact; n-grams stay within a
segment; a drawn length keeps its share, since another place is sought where one is taken; random pieces are never
special.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from pipelines import draws

MASK_SHARE, KEEP_SHARE = 0.8, 0.1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Masks:
    """Chosen predictions of B rows.

    Attributes:
      input_ids: int32 [B, S], what the model sees.
      positions: int32 [B, P], ascending; 0 where unused.
      label_ids: int32 [B, P], the ids that stood at these positions; 0 where unused.
      weights: float32 [B, P], 1 where used.
      ngram_lengths: int64 [max_ngram + 1], how often each length was drawn and placed (before the last n-gram of a row
        is cut to fit).
    """

    input_ids: np.ndarray
    positions: np.ndarray
    label_ids: np.ndarray
    weights: np.ndarray
    ngram_lengths: np.ndarray


def choose_masks(
    input_ids: np.ndarray,
    token_boundary: np.ndarray,
    maskable: np.ndarray,
    *,
    real_lengths: np.ndarray,
    masked_lm_prob: float,
    max_predictions_per_seq: int,
    max_ngram: int,
    mask_id: int,
    replacement_ids: np.ndarray,
    keys: np.ndarray,
    budget_is_drawn: bool = True,
) -> Masks:
    """Selects and replaces tokens of B rows.

    Args:
      input_ids: int32 [B, S].
      token_boundary: bool [B, S], True where a word starts.
      maskable: bool [B, S], True at tokens that may be selected; a False position ends a word and an n-gram.
      real_lengths: int64 [B], positions that are not padding.
      masked_lm_prob: share of these to select, in (0, 1).
      max_predictions_per_seq: P, an upper bound.
      max_ngram: longest n-gram in words.
      mask_id: id of [MASK].
      replacement_ids: int32 [...], ids that a random replacement is drawn from.
      keys: uint64 [B], from which all that is drawn for a row follows.
      budget_is_drawn: whether a row's number of predictions is rounded up or down at random, so that the mean share is
        exact; otherwise to the nearest, as in the original.
    """
    B, S = input_ids.shape
    P = max_predictions_per_seq
    budgets = real_lengths * masked_lm_prob
    budgets = np.floor(budgets + draws.uniform(keys, draws.BUDGET)) if budget_is_drawn else np.rint(budgets)
    budgets = np.clip(budgets, 1, P).astype(np.int64).tolist()
    shares = np.cumsum(1.0 / np.arange(1, max_ngram + 1))
    drawn_shares = draws.uniform(keys[:, np.newaxis], draws.NGRAM, np.arange(P))
    drawn = (np.searchsorted(shares / shares[-1], drawn_shares, side="right") + 1).tolist()

    # Words of all rows, flat: they start at `starts` and end at the next start or position that is not maskable.
    boundaries = np.flatnonzero((token_boundary | ~maskable).ravel())
    is_word = maskable.ravel()[boundaries]
    ends = np.append(boundaries[1:], B * S)[is_word]
    starts = boundaries[is_word]
    row_limits = np.searchsorted(starts, np.arange(B + 1) * S).tolist()
    # Evenly distributed orders of each row's words: sort by row, then by random bits.
    order = np.lexsort((draws.bits(keys[starts // S], draws.ORDER, starts % S), starts // S)).tolist()
    start_list, end_list = starts.tolist(), ends.tolist()

    ngram_lengths = np.zeros(max_ngram + 1, dtype=np.int64)
    rows: list[int] = []
    flat: list[int] = []
    for row in range(B):
        places = order[row_limits[row] : row_limits[row + 1]]
        chosen = _choose_words(places, start_list, end_list, drawn[row], budgets[row], ngram_lengths)
        flat.extend(chosen)
        rows.append(len(chosen))
    return _replace(
        input_ids,
        np.array(flat, dtype=np.int64),
        np.array(rows, dtype=np.int64),
        P,
        mask_id=mask_id,
        replacement_ids=replacement_ids,
        keys=keys,
        ngram_lengths=ngram_lengths,
    )


def _choose_words(
    places: list[int],
    starts: list[int],
    ends: list[int],
    drawn: list[int],
    budget: int,
    ngram_lengths: np.ndarray,
) -> list[int]:
    """Flat positions, ascending, of the tokens selected in one row; at most `budget`.

    A plain loop: each choice depends on those before it, and a row has about ten.

    Args:
      places: the row's words in random order.
      starts, ends: flat positions of all words.
      drawn: n-gram lengths to use, in this order.
      budget: tokens to select.
      ngram_lengths: counters to add to.
    """
    covered: set[int] = set()
    last = max(places, default=-1)
    left = budget
    for n in drawn:
        if left <= 0:
            break
        size = n
        word = _find_place(places, starts, ends, covered, size, last)
        while word < 0 and size > 1:
            size -= 1
            word = _find_place(places, starts, ends, covered, size, last)
        if word < 0:
            break
        if size == n:
            ngram_lengths[n] += 1
        while size and ends[word + size - 1] - starts[word] > left:
            size -= 1
        if not size:  # a long word, and little left: any word that fits will do
            word = next((w for w in places if w not in covered and ends[w] - starts[w] <= left), -1)
            if word < 0:
                break
            size = 1
        covered.update(range(word, word + size))
        left -= ends[word + size - 1] - starts[word]
    return [position for word in sorted(covered) for position in range(starts[word], ends[word])]


def _find_place(places: list[int], starts: list[int], ends: list[int], covered: set[int], size: int, last: int) -> int:
    """First word in `places` where `size` adjacent words of one segment are free, or -1."""
    for word in places:
        if word in covered or word + size - 1 > last:
            continue
        for following in range(word + 1, word + size):
            if following in covered or starts[following] != ends[following - 1]:
                break
        else:
            return word
    return -1


def _replace(
    input_ids: np.ndarray,
    flat: np.ndarray,
    counts: np.ndarray,
    P: int,
    *,
    mask_id: int,
    replacement_ids: np.ndarray,
    keys: np.ndarray,
    ngram_lengths: np.ndarray,
) -> Masks:
    """Masks from the flat positions selected; `counts` int64 [B] says how many belong to each row."""
    B, S = input_ids.shape
    used = np.arange(P)[np.newaxis, :] < counts[:, np.newaxis]
    labels = input_ids.reshape(-1)[flat]
    keys = np.repeat(keys, counts)
    fate = draws.uniform(keys, draws.FATE, flat % S)
    # With 64 bits for a few ten thousand ids, the remainder favours none by as much as 1e-14.
    random_ids = replacement_ids[draws.bits(keys, draws.REPLACEMENT, flat % S) % np.uint64(len(replacement_ids))]
    shown = np.where(fate < MASK_SHARE, mask_id, np.where(fate < MASK_SHARE + KEEP_SHARE, labels, random_ids))
    masked = input_ids.copy()
    masked.reshape(-1)[flat] = shown
    positions = np.zeros((B, P), dtype=np.int32)
    positions[used] = flat % S
    label_ids = np.zeros((B, P), dtype=np.int32)
    label_ids[used] = labels
    return Masks(
        input_ids=masked,
        positions=positions,
        label_ids=label_ids,
        weights=used.astype(np.float32),
        ngram_lengths=ngram_lengths,
    )
