"""Strangers: second segments that come from other documents of the same shard.

For next-sentence prediction (Devlin et al. 2019, section 3.1) half of the pairs exchange their second segments among
each other. So no token is lost or used twice, and the second segments of both labels are of one kind.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from pipelines import draws
from pipelines.pairs import Pairs

_TRIES = 10  # of the original, to find another document
_NEIGHBOURS = 500  # how far away a pair to change partners with is looked for


@dataclasses.dataclass(frozen=True, kw_only=True)
class Seconds:
    """Where the second segments of n pairs come from.

    Attributes:
      partners: int64 [n], the pair whose text it is; a pair's own number where it keeps its own.
      starts: int64 [n], its first token in that pair's text.
      lengths: int64 [n], its tokens.
      are_strangers: bool [n], True where it comes from another pair.
    """

    partners: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    are_strangers: np.ndarray


def exchange(pairs: Pairs) -> Seconds:
    """Second segments of next-sentence prediction: half of the pairs get one of another document.

    They are exchanged among pairs whose second segments are about as long, so that the new pairs fit into a sequence.

    Args:
      pairs: all of a shard, sorted; their tokens are not used.
    """
    lengths = pairs.lengths[:, 1]
    chosen = np.flatnonzero(draws.uniform(pairs.keys, draws.STRANGER) < 0.5)
    takers = chosen[np.argsort(lengths[chosen], kind="stable")]
    givers = takers
    while len(takers):
        givers = np.roll(takers, -1)
        _part(pairs.documents[takers], pairs.documents[givers], givers)
        is_other = pairs.documents[takers] != pairs.documents[givers]
        if is_other.all():
            break
        takers = takers[is_other]  # the rest, if nearly all is of one document, keeps its own
        givers = takers
    partners = np.arange(len(pairs))
    partners[takers] = givers
    are_strangers = np.zeros(len(pairs), dtype=bool)
    are_strangers[takers] = True
    return Seconds(
        partners=partners,
        starts=pairs.lengths[partners, 0],
        lengths=lengths[partners],
        are_strangers=are_strangers,
    )


def _part(taking: np.ndarray, giving: np.ndarray, givers: np.ndarray) -> None:
    """Changes `givers`, in place, so that no pair has its own document's, as far as its neighbours can help.

    Args:
      taking, giving: uint64 [m], documents of the pairs that take and of those that give, in the same order.
      givers: int64 [m], the pairs that give.
    """
    for row in np.flatnonzero(taking == giving).tolist():
        if taking[row] != giving[row]:
            continue  # helped as somebody's neighbour
        begin = max(0, row - _NEIGHBOURS)
        near = slice(begin, row + _NEIGHBOURS + 1)
        fits = np.flatnonzero((giving[near] != taking[row]) & (taking[near] != giving[row])) + begin
        if len(fits):
            other = int(fits[np.abs(fits - row).argmin()])
            for values in (giving, givers):
                values[[row, other]] = values[[other, row]]


def as_original(pairs: Pairs) -> Seconds:
    """Second segments for pairs that want one, of a random document, as the original takes them.

    Args:
      pairs: all of a shard, sorted; their tokens are not used.
    """
    partners = np.arange(len(pairs))
    starts, lengths = pairs.lengths[:, 0].copy(), pairs.lengths[:, 1].copy()
    takers = np.flatnonzero(pairs.wanted > 0)
    keys = pairs.keys[takers]
    tried = draws.bits(keys[:, np.newaxis], draws.PARTNER, np.arange(_TRIES)) % np.uint64(len(pairs))
    tried = tried.astype(np.int64)
    is_other = pairs.documents[tried] != pairs.documents[takers][:, np.newaxis]
    found = np.where(is_other.any(axis=1), is_other.argmax(axis=1), _TRIES - 1)
    given = tried[np.arange(len(takers)), found]
    length_a, length_b = pairs.lengths[given].T
    # It begins at either of the partner's segments, and goes on to the second one if that is needed.
    at_second = (draws.uniform(keys, draws.PARTNER, _TRIES) < 0.5) & (length_b > 0)
    both = length_a + np.where(length_a < pairs.wanted[takers], length_b, 0)
    partners[takers] = given
    starts[takers] = np.where(at_second, length_a, 0)
    lengths[takers] = np.where(at_second, length_b, both)
    return Seconds(partners=partners, starts=starts, lengths=lengths, are_strangers=pairs.wanted > 0)
