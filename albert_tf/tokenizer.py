"""AlbertTokenizer: text to pieces to ids and back, with the original ALBERT's text normalisation.

Three steps, as the original's `tokenization.py` does them: white space becomes single spaces, compatibility characters
are decomposed (NFKD), accents dropped and letters lowered; SentencePiece cuts the text into pieces; a piece that ends
in a digit and a comma ("2010,") is cut again without the comma.

This module imports no TensorFlow and opens no file: it takes bytes and text.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

import sentencepiece

from albert_tf.json_object import JsonConfig

PAD_PIECE, UNK_PIECE, CLS_PIECE, SEP_PIECE, MASK_PIECE = "<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"
WORD_BOUNDARY = "\u2581"  # SentencePiece writes a space so

# What the original counts as part of an English word when it looks for word starts; see `is_word_start`.
_PUNCTUATION = frozenset('!"#$%&()*+,-./:;?@[\\]^_`{|}~')
_WORD_CHARACTERS = _PUNCTUATION | frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenizerConfig(JsonConfig):
    """How text is prepared for the SentencePiece model. Checks itself when made and never changes.

    Attributes:
      lower_case: lower all letters (the published English vocabularies need it).
      strip_accents: decompose compatibility characters (NFKD) and drop combining characters.
      split_digit_comma: cut pieces such as "2010," into number and comma, as the original does after segmentation.
    """

    lower_case: bool = True
    strip_accents: bool = True
    split_digit_comma: bool = True

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, bool):
                raise ValueError(f"{field.name} must be true or false, got {value!r}")


def normalize_text(text: str, config: TokenizerConfig) -> str:
    """Text as the SentencePiece model sees it: single spaces, accents and case as `config` says."""
    text = " ".join(text.split())
    if config.strip_accents and not text.isascii():
        text = unicodedata.normalize("NFKD", text)
        # A line has few distinct characters, so this is several times faster than asking for each one.
        for character in {c for c in set(text) if unicodedata.combining(c)}:
            text = text.replace(character, "")
    return text.lower() if config.lower_case else text


def is_word_start(piece: str) -> bool:
    """Whether a word starts at this piece, by the original's rule (`token_boundary` in its records).

    A piece goes on with a word if it has no word boundary mark and holds nothing but English letters and ASCII
    punctuation; a single punctuation mark stands for itself. Digits and other scripts always start a word.
    """
    if piece in (CLS_PIECE, SEP_PIECE, MASK_PIECE) or piece.startswith((WORD_BOUNDARY, "<")):
        return True
    return piece in _PUNCTUATION or not _WORD_CHARACTERS.issuperset(piece)


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


class AlbertTokenizer:
    """Text to pieces to ids and back, with a SentencePiece model.

    Args:
      model_proto: content of a SentencePiece model file (`spiece.model`).
      config: how text is prepared; by default as for the published English models.

    Attributes:
      model_proto: as given.
      config: as given.
      vocab_size: pieces in the vocabulary (V).
      pad_id, unk_id, cls_id, sep_id, mask_id: ids of `<pad>`, `<unk>`, `[CLS]`, `[SEP]` and `[MASK]`.
      special_ids: these five and every other id that text can never give (control and unused pieces).

    Raises:
      ValueError: if the bytes are no SentencePiece model or the vocabulary lacks one of the five special pieces.
    """

    def __init__(self, model_proto: bytes, *, config: TokenizerConfig | None = None):
        self.model_proto = bytes(model_proto)
        self.config = config or TokenizerConfig()
        self._processor = _load_processor(self.model_proto)
        self.vocab_size: int = self._processor.get_piece_size()
        self._pieces: list[str] = [self._processor.id_to_piece(i) for i in range(self.vocab_size)]
        self._ids = {piece: i for i, piece in enumerate(self._pieces)}
        missing = [p for p in (PAD_PIECE, UNK_PIECE, CLS_PIECE, SEP_PIECE, MASK_PIECE) if p not in self._ids]
        if missing:
            raise ValueError(
                f"the vocabulary of {self.vocab_size} pieces has no {', '.join(missing)}; "
                "ALBERT needs <pad>, <unk>, [CLS], [SEP] and [MASK]: train one with pipelines.train_tokenizer"
            )
        self.pad_id, self.unk_id = self._ids[PAD_PIECE], self._ids[UNK_PIECE]
        self.cls_id, self.sep_id, self.mask_id = self._ids[CLS_PIECE], self._ids[SEP_PIECE], self._ids[MASK_PIECE]
        silent = (i for i in range(self.vocab_size) if self._processor.is_control(i) or self._processor.is_unused(i))
        self.special_ids = frozenset((self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id, *silent))

    def __reduce__(self) -> tuple[Any, ...]:
        # A Beam worker gets the bytes and builds its own; the C++ object does not travel.
        return _restore, (self.model_proto, self.config)

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 of model and config, in hexadecimal: equal digests give equal ids for every text."""
        return hashlib.sha256(self.model_proto + self.config.to_json().encode()).hexdigest()

    @functools.cached_property
    def _digit_comma(self) -> dict[int, list[int]]:
        if not self.config.split_digit_comma:
            return {}
        return {
            i: [self.piece_to_id(part) for part in self._split_digit_comma(piece)]
            for i, piece in enumerate(self._pieces)
            if _ends_in_digit_comma(piece) and i not in self.special_ids
        }

    @functools.cached_property
    def _word_starts(self) -> list[bool]:
        return [is_word_start(piece) for piece in self._pieces]

    def normalize(self, text: str) -> str:
        """Text as the SentencePiece model sees it."""
        return normalize_text(text, self.config)

    def tokenize(self, text: str) -> list[str]:
        """Pieces of `text`. A stretch that the vocabulary does not know comes back as it stands in the text.

        Raises:
          ValueError: for text that cannot be written as UTF-8 (a lone surrogate).
        """
        return self._tokenize_normalized(self._checked(text))

    def encode(self, text: str) -> list[int]:
        """Ids of `text`, without special tokens; unknown stretches become `unk_id`.

        Text never gives a special id: "[MASK]" in a text is cut like any other.

        Raises:
          ValueError: for text that cannot be written as UTF-8 (a lone surrogate).
        """
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text, the same as `encode` gives, faster than one call each.

        Raises:
          ValueError: for text that cannot be written as UTF-8 (a lone surrogate).
        """
        normalized = [self._checked(text) for text in texts]
        # One thread: more would only take the cores of other workers.
        batch: list[list[int]] = self._processor.encode(normalized, out_type=int, num_threads=1)
        table = self._digit_comma
        for row, ids in enumerate(batch):
            if self.unk_id in ids and _holds_digit_comma(normalized[row]):
                # Whether an unknown stretch ends in a digit and a comma is seen in its text only.
                batch[row] = [self.piece_to_id(piece) for piece in self._tokenize_normalized(normalized[row])]
            elif not table.keys().isdisjoint(ids):
                batch[row] = [part for i in ids for part in table.get(i, (i,))]
        return batch

    def decode(self, ids: Iterable[int]) -> str:
        """Text of `ids`. Special tokens give nothing; what normalisation changed is not restored.

        Raises:
          ValueError: for an id that is not in the vocabulary.
        """
        return str(self._processor.decode_ids([self._checked_id(i) for i in ids]))

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
        """For each id whether a word starts there, by the original's rule; special tokens stand for themselves."""
        starts = self._word_starts
        return [starts[i] for i in ids]

    def word_start_table(self) -> list[bool]:
        """bool [V]: for each id of the vocabulary whether a word starts at it."""
        return list(self._word_starts)

    def digit_comma_table(self) -> dict[int, list[int]]:
        """Digit-comma rule as a static table: each id that the rule cuts and the ids that take its place."""
        return {i: list(parts) for i, parts in self._digit_comma.items()}

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

    def _checked(self, text: str) -> str:
        text = self.normalize(text)
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"text must be valid Unicode, got a lone surrogate at character {error.start}") from None
        return text

    def _checked_id(self, token_id: int) -> int:
        if not 0 <= token_id < self.vocab_size:
            raise ValueError(f"id must be in [0, {self.vocab_size}), got {token_id}")
        return int(token_id)

    def _tokenize_normalized(self, text: str) -> list[str]:
        pieces: list[str] = self._processor.encode(text, out_type=str)
        if not self.config.split_digit_comma:
            return pieces
        parts: list[str] = []
        for piece in pieces:
            parts.extend(self._split_digit_comma(piece) if _ends_in_digit_comma(piece) else (piece,))
        return parts

    def _split_digit_comma(self, piece: str) -> list[str]:
        # A piece from inside a word ("000,") gets a word boundary here that the text does not have. The original means
        # to take it away, but under Python 3 compares bytes with text and never does; we keep to what it does. None of
        # the published English vocabulary's pieces is of that kind.
        number: list[str] = self._processor.encode(piece[:-1].replace(WORD_BOUNDARY, ""), out_type=str)
        return [*number, piece[-1]]


def _ends_in_digit_comma(piece: str) -> bool:
    return len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit()


def _holds_digit_comma(text: str) -> bool:
    end = text.find(",", 1)
    while end > 0:
        if text[end - 1].isdigit():
            return True
        end = text.find(",", end + 1)
    return False


def _load_processor(model_proto: bytes) -> Any:
    # Empty bytes are a valid, empty message to SentencePiece, and a processor without a model crashes later.
    if model_proto:
        try:
            processor = sentencepiece.SentencePieceProcessor(model_proto=model_proto)
        except (RuntimeError, OSError):
            processor = None
        if processor is not None and processor.get_piece_size():
            return processor
    raise ValueError(f"not a SentencePiece model, or a damaged one ({len(model_proto)} bytes)")


def _restore(model_proto: bytes, config: TokenizerConfig) -> AlbertTokenizer:
    return AlbertTokenizer(model_proto, config=config)
