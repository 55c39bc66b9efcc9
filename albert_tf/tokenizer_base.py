"""Tokenizer: what all tokenizers share, whatever cuts the text; and how two texts become one sequence."""

from __future__ import annotations

import abc
import functools
import hashlib
from collections.abc import Iterable, Sequence
from typing import ClassVar, TypeVar

from albert_tf.json_object import JsonConfig

CLS_PIECE, SEP_PIECE, MASK_PIECE = "[CLS]", "[SEP]", "[MASK]"

_Value = TypeVar("_Value")
_MOST_CACHED = 1 << 18  # words


def truncate_pair(length_a: int, length_b: int, room: int) -> tuple[int, int]:
    """Tokens to keep of two sequences so that both fit into `room`: the longer one gives, at a tie the second.

    The same as the original's loop that takes one token at a time from the end of the longer sequence.

    Raises:
      ValueError: if `room` is negative.
    """
    if room < 0:
        raise ValueError(f"room must be at least 0 tokens, got {room}")
    excess = length_a + length_b - room
    if excess <= 0:
        return length_a, length_b
    first = min(excess, abs(length_a - length_b))
    if length_a > length_b:
        length_a -= first
    else:
        length_b -= first
    excess -= first
    return length_a - excess // 2, length_b - (excess - excess // 2)


class Tokenizer(abc.ABC):
    """Text to pieces to ids and back.

    Attributes:
      vocabulary_file: name that the vocabulary's file has in every folder.
      config: how text is prepared.
      vocab_size: pieces in the vocabulary (V).
      pad_id, unk_id, cls_id, sep_id, mask_id: ids of the padding and unknown pieces, of `[CLS]`, `[SEP]` and `[MASK]`.
      special_ids: these five and every other id that text can never give.
    """

    vocabulary_file: ClassVar[str]
    config: JsonConfig
    vocab_size: int
    pad_id: int
    unk_id: int
    cls_id: int
    sep_id: int
    mask_id: int
    special_ids: frozenset[int]

    def _set_pieces(self, pieces: list[str], *, pad: str, unk: str, silent: Iterable[int], advice: str) -> None:
        """Sets all but the config: `pieces` by id, names of two special pieces, ids that text can never give.

        Raises:
          ValueError: if a special piece is missing; ends with `advice`.
        """
        self.vocab_size = len(pieces)
        self._pieces = pieces
        self._ids = {piece: i for i, piece in enumerate(pieces)}
        special = (pad, unk, CLS_PIECE, SEP_PIECE, MASK_PIECE)
        missing = [piece for piece in special if piece not in self._ids]
        if missing:
            raise ValueError(
                f"the vocabulary of {self.vocab_size} pieces has no {', '.join(missing)}; "
                f"ALBERT needs {', '.join(special[:-1])} and {special[-1]}: {advice}"
            )
        ids = [self._ids[piece] for piece in special]
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = ids
        self.special_ids = frozenset((*ids, *silent))

    @property
    @abc.abstractmethod
    def vocabulary(self) -> bytes:
        """Content of the vocabulary's file."""

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 of vocabulary and config, in hexadecimal: equal digests give equal ids for every text."""
        return hashlib.sha256(self.vocabulary + self.config.to_json().encode()).hexdigest()

    @abc.abstractmethod
    def normalize(self, text: str) -> str:
        """Text as the vocabulary sees it."""

    @abc.abstractmethod
    def tokenize(self, text: str) -> list[str]:
        """Pieces of `text`.

        Raises:
          ValueError: for text that cannot be written as UTF-8 (a lone surrogate).
        """

    def encode(self, text: str) -> list[int]:
        """Ids of `text`, without special tokens; unknown stretches become `unk_id`.

        Text never gives a special id: "[MASK]" in a text is cut like any other.

        Raises:
          ValueError: for text that cannot be written as UTF-8 (a lone surrogate).
        """
        return self.encode_batch([text])[0]

    @abc.abstractmethod
    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text, the same as `encode` gives, faster than one call each.

        Raises:
          ValueError: for text that cannot be written as UTF-8 (a lone surrogate).
        """

    @abc.abstractmethod
    def encode_words(self, words: Sequence[str]) -> tuple[list[int], list[bool]]:
        """Ids of a text whose words are known, and for each id whether a word starts there.

        A piece starts a word if it begins at a boundary or holds one inside; a space is a boundary too. All others go
        on with their word, whatever their script. The ids are those of `encode("".join(words))`.

        Args:
          words: the text, cut at the boundaries.

        Raises:
          ValueError: for text that cannot be written as UTF-8 (a lone surrogate).
        """

    @abc.abstractmethod
    def decode(self, ids: Iterable[int]) -> str:
        """Text of `ids`. Special tokens give nothing; what normalisation changed is not restored.

        Raises:
          ValueError: for an id that is not in the vocabulary.
        """

    @abc.abstractmethod
    def shown_piece(self, token_id: int) -> str:
        """A piece as it reads in a text, with the space that stands before it, if any.

        Raises:
          ValueError: for an id that is not in the vocabulary.
        """

    def id_to_piece(self, token_id: int) -> str:
        """Piece of an id.

        Raises:
          ValueError: for an id that is not in the vocabulary.
        """
        return self._pieces[self._checked_id(token_id)]

    def piece_to_id(self, piece: str) -> int:
        """Id of a piece that `tokenize` gave; `unk_id` for one that is not in the vocabulary.

        Special pieces are reached by `cls_id` and its like only, so that text cannot give them.
        """
        token_id = self._ids.get(piece, self.unk_id)
        return self.unk_id if token_id in self.special_ids else token_id

    def word_starts(self, ids: Iterable[int]) -> list[bool]:
        """For each id of a sentence whether a word starts there; special tokens stand for themselves."""
        starts, ends, loose = self._word_tables
        found = []
        behind_end = False
        for i in ids:
            found.append(starts[i] or (behind_end and loose[i]))
            behind_end = ends[i]
        return found

    @functools.cached_property
    def _word_tables(self) -> tuple[list[bool], list[bool], list[bool]]:
        return (self.word_start_table(), *self.word_context_tables())

    @abc.abstractmethod
    def word_start_table(self, as_original: bool = False) -> list[bool]:
        """bool [V]: for each id of the vocabulary whether a word starts at it, whatever stands before.

        Args:
          as_original: by the original's rule, which knows English only.
        """

    def word_context_tables(self) -> tuple[list[bool], list[bool]]:
        """Two of bool [V]: ids behind which words may start unmarked; ids that start one there.

        They add to `word_start_table`; not to the original's, which looks at single pieces.
        """
        none = [False] * self.vocab_size
        return none, none

    def encode_pair(
        self, ids_a: Sequence[int], ids_b: Sequence[int] | None, max_seq_length: int
    ) -> tuple[list[int], list[int], list[int]]:
        """`[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`, cut and padded to `max_seq_length` (S).

        Where both do not fit, the longer one loses its end first (`truncate_pair`), as in the original.

        Returns:
          input_ids, input_mask (1 = a token, 0 = padding) and segment_ids (1 = b and its [SEP]), each int [S].

        Raises:
          ValueError: if `max_seq_length` has no room for the special tokens and one token of each.
        """
        special, least = (2, 3) if ids_b is None else (3, 5)
        if max_seq_length < least:
            raise ValueError(f"max_seq_length must be at least {least}, got {max_seq_length}")
        keep_a, keep_b = truncate_pair(len(ids_a), len(ids_b or ()), max_seq_length - special)
        input_ids = [self.cls_id, *ids_a[:keep_a], self.sep_id]
        segment_ids = [0] * len(input_ids)
        if ids_b is not None:
            input_ids += [*ids_b[:keep_b], self.sep_id]
            segment_ids += [1] * (keep_b + 1)
        padding = max_seq_length - len(input_ids)
        input_mask = [1] * len(input_ids) + [0] * padding
        return input_ids + [self.pad_id] * padding, input_mask, segment_ids + [0] * padding

    def _checked_id(self, token_id: int) -> int:
        if not 0 <= token_id < self.vocab_size:
            raise ValueError(f"id must be in [0, {self.vocab_size}), got {token_id}")
        return int(token_id)


class BoundedCache(dict[str, _Value]):
    """What was found for words, which is kept until there are too many of them."""

    def __setitem__(self, word: str, value: _Value) -> None:
        if len(self) >= _MOST_CACHED:
            self.clear()
        super().__setitem__(word, value)


def check_unicode(text: str) -> None:
    """Refuses what no file in UTF-8 can hold.

    Raises:
      ValueError: for a lone surrogate.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"text must be valid Unicode, got a lone surrogate at character {error.start}") from None
