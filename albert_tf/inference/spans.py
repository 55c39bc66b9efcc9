"""Questions about a text as windows over it, and the best answers out of what a model says of each window (SQuAD).

A window is `[CLS] question [SEP] part of the text [SEP]`, as the original's `squad_utils.py` makes it. Windows overlap;
an answer counts only from the window that shows most around its first token.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from albert_tf import features
from albert_tf.tasks.windows import text_windows
from albert_tf.tokenizer_base import Tokenizer

MAX_QUERY_LENGTH = 64  # tokens
MAX_ANSWER_LENGTH = 30  # tokens
STRIDE = 128  # tokens
SIZE_WEIGHT = 0.01  # of a token more in a window, beside one more around a token


@dataclasses.dataclass(frozen=True)
class SpanWindow:
    """A window over a text, and the model's inputs for it.

    Attributes:
      inputs: `input_ids`, `segment_ids` and `p_mask` (1 where no answer may start or end), int32 [T] each.
      offset: place of the text's first token in the row.
      tokens: the text's tokens that it shows.
      counts: bool, for each of them whether this window shows most around it.
    """

    inputs: Mapping[str, np.ndarray]
    offset: int
    tokens: slice
    counts: np.ndarray


@dataclasses.dataclass(frozen=True, order=True)
class Span:
    """An answer: the better one is greater. Tokens `first` to `last` of the text, both counted."""

    score: float
    first: int
    last: int


def span_windows(
    question: Sequence[int],
    text: Sequence[int],
    tokenizer: Tokenizer,
    *,
    max_seq_length: int,
    stride: int = STRIDE,
    max_query_length: int = MAX_QUERY_LENGTH,
) -> list[SpanWindow]:
    """Windows of at most `max_seq_length` tokens over the ids of a text, `stride` tokens apart.

    Raises:
      ValueError: if the question leaves no room for the text.
    """
    start = [tokenizer.cls_id, *question[:max_query_length], tokenizer.sep_id]
    room = max_seq_length - len(start) - 1
    if room < 1:
        raise ValueError(f"a question of {len(start) - 2} tokens leaves no room for the text in {max_seq_length}")
    cuts = text_windows(len(text), room, min(stride, room))
    best = _showing_most(len(text), cuts)
    windows = []
    for number, cut in enumerate(cuts):
        shown = text[cut]
        p_mask = np.ones(len(start) + len(shown) + 1, np.int32)
        p_mask[0] = p_mask[len(start) : -1] = 0
        segments = np.zeros_like(p_mask)
        segments[len(start) :] = 1
        inputs = {
            features.INPUT_IDS: np.array([*start, *shown, tokenizer.sep_id], np.int32),
            features.SEGMENT_IDS: segments,
            features.P_MASK: p_mask,
        }
        windows.append(SpanWindow(inputs, len(start), cut, best[cut] == number))
    return windows


def independent_spans(
    window: SpanWindow, start_logits: np.ndarray, end_logits: np.ndarray, max_answer_length: int, count: int
) -> list[Span]:
    """The `count` best answers in a window where start and end are judged each for itself (SQuAD 1.1).

    Args:
      window: what the model was given.
      start_logits: float [S], S at least the window's length.
      end_logits: float [S].
      max_answer_length: most tokens of an answer.
      count: most answers.
    """
    length = window.tokens.stop - window.tokens.start
    if not length:
        return []
    starts = np.where(window.counts, start_logits[window.offset :][:length], -np.inf)
    ends = np.pad(end_logits[window.offset :][:length], (0, max_answer_length - 1), constant_values=-np.inf)
    reach = min(max_answer_length, length)
    scores = starts[:, np.newaxis] + np.lib.stride_tricks.sliding_window_view(ends, max_answer_length)[:, :reach]
    best = np.argsort(-scores, axis=None, kind="stable")[:count]
    found = []
    for first, more in zip(*np.unravel_index(best, scores.shape), strict=True):
        if np.isfinite(scores[first, more]):
            begin = window.tokens.start + int(first)
            found.append(Span(float(scores[first, more]), begin, begin + int(more)))
    return found


def conditional_spans(window: SpanWindow, outputs: Mapping[str, np.ndarray], max_answer_length: int) -> list[Span]:
    """Answers in a window whose ends depend on their starts (SQuAD 2.0), those that can be ones.

    Args:
      window: what the model was given.
      outputs: of `ConditionalSpanHead`, of one row: `start_top_index` [K], `end_top_index` [K*J] and so on.
      max_answer_length: most tokens of an answer.
    """
    length = window.tokens.stop - window.tokens.start
    starts = outputs["start_top_index"] - window.offset
    ends = outputs["end_top_index"].reshape(len(starts), -1) - window.offset
    scores = outputs["start_top_log_probs"][:, np.newaxis] + outputs["end_top_log_probs"].reshape(ends.shape)
    found = []
    for k, first in enumerate(starts.tolist()):
        if 0 <= first < length and window.counts[first]:
            for j, last in enumerate(ends[k].tolist()):
                if first <= last < min(length, first + max_answer_length):
                    begin = window.tokens.start
                    found.append(Span(float(scores[k, j]), begin + first, begin + last))
    return found


def _showing_most(length: int, cuts: Sequence[slice]) -> np.ndarray:
    """int [length]: for each token the window that shows most around it, on its poorer side; of equal ones the longer.

    As in the original: least of the tokens on both sides, plus a hundredth of the window's length.
    """
    best, most = np.zeros(length, np.int64), np.full(length, -np.inf)
    for number, cut in enumerate(cuts):
        size = cut.stop - cut.start
        places = np.arange(size)
        around = np.minimum(places, size - 1 - places) + SIZE_WEIGHT * size
        better = around > most[cut]
        best[cut] = np.where(better, number, best[cut])
        most[cut] = np.where(better, around, most[cut])
    return best


def best_spans(spans: Sequence[Span], count: int) -> Iterator[Span]:
    """The `count` best answers of all windows, best first, each once."""
    seen: set[tuple[int, int]] = set()
    for span in sorted(spans, key=lambda span: (-span.score, span.first, span.last)):
        if (span.first, span.last) not in seen and len(seen) < count:
            seen.add((span.first, span.last))
            yield span
