"""AlbertTokenizer: text to pieces to ids and back, with the original ALBERT's text normalisation.

Three steps, as the original's `tokenization.py` does them: white space becomes single spaces, compatibility characters
are decomposed (NFKD), accents dropped and letters lowered; SentencePiece cuts the text into pieces; a piece that ends
in a digit and a comma ("2010,") is cut again without the comma.

This module imports no TensorFlow and opens no file: it takes bytes and text.
"""

from __future__ import annotations

import dataclasses
import functools
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import sentencepiece

from albert_tf import word_starts
from albert_tf.json_object import JsonConfig
from albert_tf.tokenizer_base import CLS_PIECE, MASK_PIECE, SEP_PIECE, BoundedCache, Tokenizer, check_unicode
from albert_tf.word_starts import WORD_BOUNDARY

__all__ = [
    "CLS_PIECE",
    "MASK_PIECE",
    "PAD_PIECE",
    "SEP_PIECE",
    "UNK_PIECE",
    "WORD_BOUNDARY",
    "AlbertTokenizer",
    "TokenizerConfig",
    "normalize_text",
]

PAD_PIECE, UNK_PIECE = "<pad>", "<unk>"


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


class AlbertTokenizer(Tokenizer):
    """Text to pieces to ids and back, with a SentencePiece model.

    Args:
      model_proto: content of a SentencePiece model file (`spiece.model`).
      config: how text is prepared; by default as for the published English models.

    Attributes:
      model_proto: as given.
      config: as given.
      Others as in `Tokenizer`; text can never give the control and unused pieces.

    Raises:
      ValueError: if the bytes are no SentencePiece model or the vocabulary lacks one of the five special pieces.
    """

    vocabulary_file = "spiece.model"
    config: TokenizerConfig

    def __init__(self, model_proto: bytes, *, config: TokenizerConfig | None = None):
        self.model_proto = bytes(model_proto)
        self.config = config or TokenizerConfig()
        self._lengths = BoundedCache[int]()  # of words after normalisation, in characters
        self._processor = _load_processor(self.model_proto)
        size: int = self._processor.get_piece_size()
        self._set_pieces(
            [self._processor.id_to_piece(i) for i in range(size)],
            pad=PAD_PIECE,
            unk=UNK_PIECE,
            silent=(i for i in range(size) if self._processor.is_control(i) or self._processor.is_unused(i)),
            advice="train one with pipelines.train_tokenizer",
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # A Beam worker gets the bytes and builds its own; the C++ object does not travel.
        return _restore, (self.model_proto, self.config)

    @property
    def vocabulary(self) -> bytes:
        return self.model_proto

    @functools.cached_property
    def _digit_comma(self) -> dict[int, list[int]]:
        if not self.config.split_digit_comma:
            return {}
        return {
            i: [self.piece_to_id(part) for part in self._split_digit_comma(piece)]
            for i, piece in enumerate(self._pieces)
            if _ends_in_digit_comma(piece) and i not in self.special_ids
        }

    def normalize(self, text: str) -> str:
        """Text as the SentencePiece model sees it."""
        return normalize_text(text, self.config)

    def tokenize(self, text: str) -> list[str]:
        """Pieces of `text`. A stretch that the vocabulary does not know comes back as it stands in the text.

        Raises:
          ValueError: for text that cannot be written as UTF-8 (a lone surrogate).
        """
        return self._tokenize_normalized(self._checked(text))

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

    def encode_words(self, words: Sequence[str]) -> tuple[list[int], list[bool]]:
        text = self._checked("".join(words))
        ids, starts, begins, ends = self._encode_with_offsets(text)
        number = 0
        for at in self._boundaries(words):
            # Where SentencePiece cuts inside what one character became, all parts but the last are empty.
            while number < len(ids) and begins[number] < at >= ends[number]:
                number += 1
            # Behind a space the piece starts a word anyway, or a bare boundary mark before it does.
            if number < len(ids) and at and text[at - 1] != " ":
                starts[number] = True
        return ids, starts

    def _encode_with_offsets(self, text: str) -> tuple[list[int], list[bool], list[int], list[int]]:
        """Ids of normalised text; whether each is the first or behind a space; where each begins and ends."""
        found = self._processor.encode(text, return_type="offset_mapping")
        ids: list[int] = found["ids"]
        starts = [piece.startswith(WORD_BOUNDARY) for piece in found["pieces"]]
        starts[:1] = [True] * bool(ids)
        begins = [begin for begin, _ in found["offsets"]]
        ends = [end for _, end in found["offsets"]]
        if self.config.split_digit_comma and _holds_digit_comma(text):
            # From the end, so that the places before stay.
            for number in reversed(range(len(ids))):
                if _ends_in_digit_comma(found["pieces"][number]):
                    parts = self._split_digit_comma(found["pieces"][number])
                    lengths = [len(part.replace(WORD_BOUNDARY, "")) for part in parts]
                    inner = [max(begins[number], ends[number] - sum(lengths[n:])) for n in range(1, len(parts))]
                    ids[number : number + 1] = map(self.piece_to_id, parts)
                    starts[number + 1 : number + 1] = [False] * len(inner)
                    begins[number + 1 : number + 1] = inner
                    ends[number:number] = inner
        return ids, starts, begins, ends

    def _boundaries(self, words: Sequence[str]) -> Iterator[int]:
        """Places in the normalised text at which the words end, but for the last."""
        at = 0
        is_behind_space = True
        for word in filter(None, words[:-1]):
            length = self._lengths.get(word)
            if length is None:
                # Between letters, so that spaces at the edges are seen.
                length = self._lengths[word] = len(self.normalize(f"x{word}x")) - 2
            at += length - (is_behind_space and word[0].isspace())
            is_behind_space = word[-1].isspace()
            yield at

    def decode(self, ids: Iterable[int]) -> str:
        """Text of `ids`. Special tokens give nothing; what normalisation changed is not restored.

        Raises:
          ValueError: for an id that is not in the vocabulary.
        """
        return str(self._processor.decode_ids([self._checked_id(i) for i in ids]))

    def shown_piece(self, token_id: int) -> str:
        return self.id_to_piece(token_id).replace(WORD_BOUNDARY, " ")

    def word_start_table(self, as_original: bool = False) -> list[bool]:
        rule = word_starts.is_word_start_as_original if as_original else word_starts.is_word_start
        return [rule(piece) for piece in self._pieces]

    def word_context_tables(self) -> tuple[list[bool], list[bool]]:
        ends = [word_starts.ends_without_space(piece) for piece in self._pieces]
        loose = [not word_starts.begins_with_mark(piece) for piece in self._pieces]
        return ends, loose

    def digit_comma_table(self) -> dict[int, list[int]]:
        """Digit-comma rule as a static table: each id that the rule cuts and the ids that take its place."""
        return {i: list(parts) for i, parts in self._digit_comma.items()}

    def _checked(self, text: str) -> str:
        text = self.normalize(text)
        check_unicode(text)
        return text

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
