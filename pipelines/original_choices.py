"""What the original ALBERT's `create_pretraining_data.py` chooses in another way (--original_compatible).

* The short target length is drawn once for a document, so that a document of many examples has them all short.
* A chunk of one sentence gets, as its second segment, text of another document, and the label of exchanged segments:
  the topic alone then gives the label away, and more than half of the labels are 1.
* What is too long is cut at random ends instead of being carried over to the next example.
* At most 20 predictions, whatever the length, and their number rounded to the nearest.

It is for comparison. Not restated: masks from a generator without a seed, random replacements by special pieces, words
and n-grams that run across [SEP], documents that go on from one file to the next. Text of other documents comes from
the examples of the same shard, since no worker has seen all documents.
"""

from __future__ import annotations

import numpy as np

from albert_tf.features import SentenceObjective
from albert_tf.tokenizer_base import truncate_pair
from pipelines import draws
from pipelines.segments import Segments
from pipelines.sentences import TokenizedDocument


def cut_document(
    document: TokenizedDocument,
    *,
    room: int,
    short_seq_prob: float,
    objective: SentenceObjective,
    generator: np.random.Generator,
) -> Segments:
    """Cuts a document into pairs of segments as the original's `create_instances_from_document`; they may be too long.

    Args:
      document: its ids with word and sentence starts.
      room: tokens that a chunk aims at.
      short_seq_prob: probability that the whole document aims at a length drawn evenly from [2, room] instead.
      objective: "sop", or "nsp" for the original's `random_next_sentence`: every other example then gets its second
        segment from another document, and the sentences it had are used again.
      generator: source of every draw.
    """
    is_short = generator.random() < short_seq_prob
    target = int(generator.integers(2, room, endpoint=True)) if is_short else room
    bounds = [*document.sentence_starts.tolist(), len(document.ids)]  # of sentences
    last = len(bounds) - 1
    spans: list[tuple[int, int, int]] = []
    wanted: list[int] = []
    first = 0  # sentence with which the chunk begins
    while first < last:
        end = first + 1
        while end < last and bounds[end] - bounds[first] < target:
            end += 1
        middle = end if end == first + 1 else int(generator.integers(first + 1, end))
        if middle == end or (objective == "nsp" and generator.random() < 0.5):
            # The original takes at least one sentence, however long A is already.
            wanted.append(max(1, target - (bounds[middle] - bounds[first])))
            spans.append((bounds[first], bounds[middle], bounds[middle]))
            first = middle
        else:
            wanted.append(0)
            spans.append((bounds[first], bounds[middle], bounds[end]))
            first = end
    return Segments(
        spans=np.array(spans, dtype=np.int64).reshape(-1, 3),
        wanted=np.array(wanted, dtype=np.int64),
        tokens_single_word=0,
        words_cut=0,
        short_targets=len(spans) if target < room else 0,
    )


def truncate(first: int, second: int, room: int, key: int) -> tuple[slice, slice]:
    """What is kept of two segments of these lengths so that both fit: the original's `truncate_seq_pair`.

    The longer one loses a token at a time, at a tie the second, from its front or its back at random.

    Args:
      first, second: tokens of the segments in the order of the row.
      room: most tokens of both.
      key: of the example.
    """
    kept = truncate_pair(first, second, room)
    parts = []
    for number, (length, left) in enumerate(zip((first, second), kept, strict=True)):
        lost = length - left
        places = np.arange(lost) + number * first
        front = int(np.count_nonzero(draws.uniform(np.array([key], dtype=np.uint64), draws.TRUNCATION, places) < 0.5))
        parts.append(slice(front, front + left))
    return parts[0], parts[1]
