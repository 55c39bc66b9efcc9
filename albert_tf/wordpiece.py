"""WordPieceTokenizer: text to pieces to ids and back, as BERT does it, with the vocabulary of a `vocab.txt`.

The Chinese ALBERT checkpoints have one. Steps and their order are those of BERT's `tokenization.py`: control characters
are dropped, spaces put round ideographs, the text split at white space; in each word letters are lowered and accents
dropped, punctuation is split off; each word is cut into the longest pieces that the vocabulary has, from the left.
Before letters are lowered, words are composed (NFC), as later releases do, so that é is one letter in every text.

This module imports no TensorFlow and opens no file: it takes bytes and text.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
import reprlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from albert_tf.json_object import JsonConfig
from albert_tf.scripts import is_ideograph, is_wide_punctuation
from albert_tf.tokenizer_base import BoundedCache, Tokenizer, check_unicode
from albert_tf.words import CLEANED, SPACED, normalize_word, split_punctuation

PAD_PIECE, UNK_PIECE = "[PAD]", "[UNK]"
CONTINUATION = "##"  # begins a piece that goes on with a word
MAX_WORD_LENGTH = 200  # characters; a longer word is unknown

_UNUSED = re.compile(r"\[unused\d+\]")  # room that BERT's vocabularies leave for pieces to come
_LONGEST_PIECE = 256  # bytes without "##", the most that the tokenizer of exported models takes
_CLOSING = frozenset(",.;:!?)]}%")


@dataclasses.dataclass(frozen=True, kw_only=True)
class WordPieceConfig(JsonConfig):
    """How text is prepared for a WordPiece vocabulary. Checks itself when made and never changes.

    Attributes:
      lower_case: lower all letters and drop accents (what "uncased" models and the published Chinese ones need).
    """

    lower_case: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.lower_case, bool):
            raise ValueError(f"lower_case must be true or false, got {self.lower_case!r}")


class _CutWord(NamedTuple):
    """A word between spaces in ids, and the characters of each after normalisation."""

    ids: tuple[int, ...]
    lengths: tuple[int, ...]


class WordPieceTokenizer(Tokenizer):
    """Text to pieces to ids and back, with a WordPiece vocabulary.

    Args:
      vocabulary: content of a `vocab.txt`: UTF-8, one piece a line, the first line is id 0.
      config: how text is prepared; by default as for the published Chinese models.

    Attributes:
      config: as given.
      Others as in `Tokenizer`: the special pieces `[PAD]`, `[UNK]`, `[CLS]`, `[SEP]` and `[MASK]` may stand on any
        line; text can never give them, nor `[unused1]` and its like.

    Raises:
      ValueError: naming the line, if the content is empty or not UTF-8, a line is empty or stands twice, or a special
        piece is missing.
    """

    vocabulary_file = "vocab.txt"
    config: WordPieceConfig

    def __init__(self, vocabulary: bytes, *, config: WordPieceConfig | None = None):
        self._vocabulary = bytes(vocabulary)
        self.config = config or WordPieceConfig()
        pieces = parse_vocabulary(self._vocabulary)
        self._set_pieces(
            pieces,
            pad=PAD_PIECE,
            unk=UNK_PIECE,
            silent=(i for i, piece in enumerate(pieces) if _UNUSED.fullmatch(piece)),
            advice="take the vocab.txt of a BERT or ALBERT model",
        )
        self._longest = max(map(len, pieces))
        self._cache = BoundedCache[_CutWord]()
        self._lengths = BoundedCache[int]()

    def __reduce__(self) -> tuple[Any, ...]:
        # A Beam worker reads the lines anew; the cache does not travel.
        return _restore, (self._vocabulary, self.config)

    @property
    def vocabulary(self) -> bytes:
        return self._vocabulary

    def normalize(self, text: str) -> str:
        """Text as the vocabulary sees it: words, ideographs and punctuation with single spaces between them."""
        words = text.translate(SPACED).split()
        return " ".join(
            part for word in words for part in split_punctuation(normalize_word(word, self.config.lower_case))
        )

    def tokenize(self, text: str) -> list[str]:
        """Pieces of `text`. A word that the vocabulary cannot make is one `[UNK]`.

        Raises:
          ValueError: for text that cannot be written as UTF-8 (a lone surrogate).
        """
        return [self._pieces[i] for i in self.encode(text)]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self._encode(text) for text in texts]

    def encode_words(self, words: Sequence[str]) -> tuple[list[int], list[bool]]:
        text = "".join(words)
        check_unicode(text)
        ids: list[int] = []
        begins: list[int] = []  # counted in characters of the normalised text, spaces aside
        starts: list[bool] = []
        at = 0
        for stretch in text.translate(CLEANED).split():
            first = len(ids)
            for cut in map(self._cut, stretch.translate(SPACED).split()):
                ids += cut.ids
                for length in cut.lengths:
                    begins.append(at)
                    at += length
            starts += [number == first for number in range(first, len(ids))]
        begins.append(at)
        boundaries = list(itertools.accumulate(map(self._length, words)))
        if boundaries[-1:] != [at]:
            # Composed across a boundary: only the text before each tells where it is.
            boundaries = [self._length("".join(words[:count])) for count in range(1, len(words))]
        number = 0
        for boundary in boundaries:
            while number < len(ids) and begins[number + 1] <= boundary:
                number += 1
            if number < len(ids):
                starts[number] = True
        return ids, starts

    def _length(self, word: str) -> int:
        """Characters of a word after normalisation, spaces aside."""
        length = self._lengths.get(word)
        if length is None:
            length = self._lengths[word] = sum(sum(self._cut(part).lengths) for part in word.translate(SPACED).split())
        return length

    def decode(self, ids: Iterable[int]) -> str:
        """Text of `ids`. Special tokens give nothing; the vocabulary keeps no spaces, so they are put by guess.

        Raises:
          ValueError: for an id that is not in the vocabulary.
        """
        return "".join(self.shown_piece(i) for i in ids if self._checked_id(i) not in self.special_ids).strip()

    def shown_piece(self, token_id: int) -> str:
        piece = self.id_to_piece(token_id)
        if piece.startswith(CONTINUATION) and piece != CONTINUATION:
            return piece.removeprefix(CONTINUATION)
        has_space = not (is_ideograph(piece[0]) or is_wide_punctuation(piece[0]) or piece in _CLOSING)
        return f" {piece}" if has_space else piece

    def word_start_table(self, as_original: bool = False) -> list[bool]:
        """bool [V]: for each id of the vocabulary whether a word starts at it: all but pieces with "##".

        An ideograph is a word of its own. The original has no rule for this kind of vocabulary, so `as_original`
        changes nothing.
        """
        return [not piece.startswith(CONTINUATION) for piece in self._pieces]

    def _encode(self, text: str) -> list[int]:
        check_unicode(text)
        ids: list[int] = []
        known = self._cache.get
        for word in text.translate(SPACED).split():
            ids += (known(word) or self._cut(word)).ids
        return ids

    def _cut(self, word: str) -> _CutWord:
        """A word between spaces, cut; few words make most of a text, so that results are kept."""
        found = self._cache.get(word)
        if found is None:
            pieces: list[tuple[int, int]] = []
            for part in split_punctuation(normalize_word(word, self.config.lower_case)):
                pieces += self._pieces_of(part)
            found = _CutWord(tuple(token_id for token_id, _ in pieces), tuple(length for _, length in pieces))
            self._cache[word] = found
        return found

    def _pieces_of(self, word: str) -> list[tuple[int, int]]:
        """(id, characters) of the longest pieces from the left; the unknown one if the rest has none."""
        unknown = [(self.unk_id, len(word))]
        if len(word) > MAX_WORD_LENGTH:
            return unknown
        found = []
        begin = 0
        while begin < len(word):
            match = self._longest_piece(word, begin)
            if match is None:
                return unknown
            found.append((match[0], match[1] - begin))
            begin = match[1]
        return found

    def _longest_piece(self, word: str, begin: int) -> tuple[int, int] | None:
        """Id and end of the longest piece of the word that begins there."""
        prefix = CONTINUATION if begin else ""
        for end in range(min(len(word), begin + self._longest), begin, -1):
            token_id = self._ids.get(prefix + word[begin:end])
            if token_id is not None:
                return token_id, end
        return None


def parse_vocabulary(content: bytes) -> list[str]:
    """Pieces of a `vocab.txt`, by id.

    Raises:
      ValueError: naming the line, if it is empty, not UTF-8 or too long, stands twice, or holds a NUL character.
    """
    if not content.strip():
        raise ValueError("line 1: the file is empty; one piece a line is expected")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"line {line}: not valid UTF-8 at byte {error.start}; convert the file to UTF-8") from None
    # At line feeds alone: some vocabularies hold a piece that other functions take for the end of a line.
    pieces = [line.removesuffix("\r") for line in text.removeprefix("\ufeff").removesuffix("\n").split("\n")]
    first: dict[str, int] = {}
    for number, piece in enumerate(pieces, start=1):
        if not piece:
            raise ValueError(f"line {number}: is empty; each line is one piece, and its number less one is its id")
        if piece in first:
            raise ValueError(
                f"line {number}: {piece!r} stands on line {first[piece]} already; in a vocabulary each piece has one id"
            )
        if "\0" in piece or len(piece.removeprefix(CONTINUATION).encode()) > _LONGEST_PIECE:
            raise ValueError(
                f"line {number}: a piece must have at most {_LONGEST_PIECE} bytes and no NUL character, as exported "
                f"models need it, got {reprlib.repr(piece)}"
            )
        first[piece] = number
    return pieces


def _restore(vocabulary: bytes, config: WordPieceConfig) -> WordPieceTokenizer:
    return WordPieceTokenizer(vocabulary, config=config)
