"""Readers: the lines of a file to documents, each a list of sentences.

  sentences   one sentence a line, a blank line between documents
  paragraphs  a blank line between documents; lines are joined and the text is split into sentences
  files       the whole file is one document; its paragraphs are split into sentences
  jsonl       one JSON object a line, with the text of a document under a key ("text"), as Wikipedia extracts have it;
              each of its lines is a paragraph, split into sentences

In every format the end of a file ends its document. Sentences are found by sentencex, which knows the abbreviations and
the punctuation of some 300 languages.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple, get_args

from pipelines import blocks, word_marks

InputFormat = Literal["auto", "sentences", "paragraphs", "files", "jsonl"]
INPUT_FORMATS: tuple[InputFormat, ...] = get_args(InputFormat)
OnBadInput = Literal["fail", "skip"]
ON_BAD_INPUT: tuple[OnBadInput, ...] = get_args(OnBadInput)

_TOO_LONG = f"a document of more than {blocks.LONGEST_DOCUMENT >> 20} MB"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[a-z0-9]+)*", re.IGNORECASE)
_KEYS_SHOWN = 5
_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_JSON_NAMES = {list: "an array", str: "a string", int: "a number", float: "a number", bool: "a truth value"}
_JSON_NAMES[type(None)] = "null"
_JSON_ENDINGS = (".jsonl", ".ndjson", ".json")
_COMPRESSED_ENDINGS = (".gz", ".bz2", ".zst", ".zstd", ".deflate", ".xz")


class InputError(ValueError):
    """A fault in the input, with file, line and byte. Its message is found again in what a Beam worker reports."""


class BadInput(NamedTuple):
    """A fault that was passed over: `file`, `line` from 1, `byte` offset in its decompressed content, the `reason`."""

    file: str
    line: int
    byte: int
    reason: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReaderSettings:
    """How files are read. Checks itself when made and never changes.

    Attributes:
      input_format: one of `INPUT_FORMATS`; "auto" takes "jsonl" for files named *.jsonl, *.ndjson or *.json (also
        compressed) and "sentences" for all others.
      language: ISO 639 code, such as "en", of the text that is split into sentences.
      text_key: key of the text in a JSON object.
      on_bad_input: "fail" ends at the first fault, "skip" leaves out the document that has one, and counts it.
      word_separator: character that stands between words in text that a segmenter cut; None if there is none.
    """

    input_format: InputFormat = "auto"
    language: str = "en"
    text_key: str = "text"
    on_bad_input: OnBadInput = "fail"
    word_separator: str | None = None

    def __post_init__(self) -> None:
        if self.input_format not in INPUT_FORMATS:
            raise ValueError(f"input_format must be one of {', '.join(INPUT_FORMATS)}, got {self.input_format!r}")
        if self.on_bad_input not in ON_BAD_INPUT:
            raise ValueError(f"on_bad_input must be one of {', '.join(ON_BAD_INPUT)}, got {self.on_bad_input!r}")
        if not _LANGUAGE.fullmatch(self.language):
            raise ValueError(f"language must be a code such as en or zh, got {self.language!r}")
        if not self.text_key:
            raise ValueError("text_key must not be empty")
        if any(unicodedata.category(character) == "Cs" for character in self.text_key):
            raise ValueError(f"text_key must be valid Unicode, got {self.text_key!a}")
        if self.word_separator is not None:
            _check_separator(self.word_separator)

    def format_of(self, path: str) -> InputFormat:
        """Format of one file, never "auto"."""
        if self.input_format != "auto":
            return self.input_format
        name = path.lower()
        for ending in _COMPRESSED_ENDINGS:
            name = name.removesuffix(ending)
        return "jsonl" if name.endswith(_JSON_ENDINGS) else "sentences"


def _check_separator(separator: str) -> None:
    """Refuses what cannot stand between words.

    Raises:
      ValueError: naming the rule.
    """
    unfit = len(separator) != 1 or separator in "\n\r\0\u2581"
    if unfit or unicodedata.category(separator)[0] in "LMN" or unicodedata.category(separator) == "Cs":
        raise ValueError(
            "word_separator must be one character that is no letter, mark, digit, end of line or U+2581, such as | or "
            f"U+200B, got {separator!r}"
        )


def read_documents(
    lines: Iterable[bytes],
    source: str,
    settings: ReaderSettings | None = None,
    *,
    note: Callable[[BadInput], None] | None = None,
) -> Iterator[list[str]]:
    """Documents of one file, each a list of sentences without surrounding white space; none is empty.

    With `word_separator` the sentences hold `word_marks.MARK` between words.

    Args:
      lines: lines of the file with their ends, as an open binary file gives them.
      source: name of the file; decides the format where that is "auto", and is named in errors.
      settings: how to read.
      note: is told of every fault that is passed over, with `on_bad_input` "skip".

    Raises:
      InputError: at the first byte that is not UTF-8 or is NUL, or the first line that is not the JSON expected, with
        `on_bad_input` "fail".
    """
    settings = settings or ReaderSettings()
    form = settings.format_of(source)
    make_blocks = {"jsonl": blocks.single_lines, "files": blocks.whole_file}.get(form, blocks.between_blank_lines)
    yield from _read(make_blocks(lines), source, form, settings, note)


def read_sentences(
    lines: Iterable[bytes],
    source: str,
    settings: ReaderSettings | None = None,
    *,
    note: Callable[[BadInput], None] | None = None,
) -> Iterator[str]:
    """The sentences of `read_documents`, one after the other; takes its arguments and raises as it does.

    Documents of any length take no memory where one sentence a line is read, and the first fault ends it.
    """
    settings = settings or ReaderSettings()
    form = settings.format_of(source)
    if form == "sentences" and settings.on_bad_input == "fail":
        documents = _read(blocks.runs_of_lines(lines), source, form, settings, note)
    else:
        documents = read_documents(lines, source, settings, note=note)
    for document in documents:
        yield from document


class _FaultError(Exception):
    """A fault at a byte offset of the file, with what to do about it."""

    def __init__(self, byte: int, reason: str, advice: str) -> None:
        super().__init__(reason)
        self.byte = byte
        self.reason = reason
        self.advice = advice


def _read(
    found: Iterable[blocks.Block],
    source: str,
    form: InputFormat,
    settings: ReaderSettings,
    note: Callable[[BadInput], None] | None,
) -> Iterator[list[str]]:
    """Sentences of each block that has any."""
    for block in found:
        try:
            if block.content is None:
                raise _FaultError(block.byte, _TOO_LONG, "put blank lines between documents")
            sentences = _sentences(block.content, block.byte, form, settings)
        except _FaultError as fault:
            line = block.line + (block.content or b"")[: fault.byte - block.byte].count(b"\n")
            if settings.on_bad_input == "fail":
                raise InputError(
                    f"{source}: line {line}, byte {fault.byte}: {fault.reason}; {fault.advice}, or leave such "
                    "documents out with --on_bad_input=skip"
                ) from None
            if note is not None:
                note(BadInput(source, line, fault.byte, fault.reason))
            continue
        if settings.word_separator is not None:
            marked = (word_marks.mark_words(sentence, settings.word_separator) for sentence in sentences)
            sentences = [sentence for sentence in marked if word_marks.without_marks(sentence).strip()]
        if sentences:
            yield sentences


def _sentences(content: bytes, offset: int, form: InputFormat, settings: ReaderSettings) -> list[str]:
    """Sentences of one document's bytes, which begin at `offset` in the file.

    Raises:
      _FaultError: for a fault in them.
    """
    text = _decode(content, offset)
    if form == "jsonl":
        paragraphs: Iterable[str] = _json_text(text, offset, settings.text_key).splitlines()
    elif form == "sentences":
        return [sentence for line in text.split("\n") if (sentence := line.strip())]
    else:
        paragraphs = _paragraphs(text)
    return [sentence for paragraph in paragraphs for sentence in split_sentences(paragraph, settings.language)]


def _decode(content: bytes, offset: int) -> str:
    mark = len(_BYTE_ORDER_MARK) if offset == 0 and content.startswith(_BYTE_ORDER_MARK) else 0
    try:
        text = content[mark:].decode("utf-8")
    except UnicodeDecodeError as error:
        at = mark + error.start
        kind = ", UTF-16 by its first bytes" if offset == 0 and content.startswith(_UTF_16_MARKS) else ""
        raise _FaultError(
            offset + at, f"not valid UTF-8 (0x{content[at]:02x}: {error.reason}){kind}", "convert the file to UTF-8"
        ) from None
    if "\0" in text:
        raise _FaultError(
            offset + content.index(b"\0"), "a NUL byte, which no text has", "give text files in UTF-8 (not UTF-16)"
        )
    if word_marks.MARK in text:
        at = content.index(word_marks.MARK.encode("utf-8"))
        raise _FaultError(offset + at, "U+FDD0, a noncharacter, which no text has", "remove it")
    return text


def _paragraphs(text: str) -> Iterator[str]:
    """Stretches between blank lines, their lines joined by spaces."""
    lines: list[str] = []
    for line in text.split("\n"):
        if stripped := line.strip():
            lines.append(stripped)
        elif lines:
            yield " ".join(lines)
            lines = []
    if lines:
        yield " ".join(lines)


def _json_text(line: str, offset: int, key: str) -> str:
    advice = f'one JSON object a line is expected, such as {{"{key}": "..."}}'
    other_key = "name the key of the text with --text_key"
    try:
        value = json.loads(line.rstrip())
    except json.JSONDecodeError as error:
        at = offset + len(line[: error.pos].encode("utf-8"))
        raise _FaultError(at, f"not valid JSON: {error.msg}", advice) from None
    except RecursionError:
        raise _FaultError(offset, "JSON nested too deep", advice) from None
    except ValueError:  # Python's own limit
        raise _FaultError(offset, "JSON with a number of too many digits", advice) from None
    if not isinstance(value, dict):
        raise _FaultError(offset, f"holds {_JSON_NAMES[type(value)]}, no object", advice)
    text = value.get(key)
    if not isinstance(text, str):
        found = f"{key!r} holds no text" if key in value else f"the object has no key {key!r}{_listed(value)}"
        raise _FaultError(offset, found, other_key)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise _FaultError(
            offset, f"a lone surrogate at character {error.start} of {key!r}", "it stands for no character: repair it"
        ) from None
    if "\0" in text:
        raise _FaultError(offset, f"a NUL character in {key!r}", "remove it")
    if word_marks.MARK in text:
        raise _FaultError(offset, f"U+FDD0, a noncharacter, in {key!r}", "remove it")
    return text


def _listed(value: dict[str, object]) -> str:
    """What keys there are, for messages."""
    names = ", ".join(map(repr, itertools.islice(value, _KEYS_SHOWN)))
    return f" (it has {names}{', ...' if len(value) > _KEYS_SHOWN else ''})" if value else ""


def split_sentences(paragraph: str, language: str) -> list[str]:
    """Sentences of a paragraph, without surrounding white space.

    Args:
      paragraph: text.
      language: ISO 639 code; for one that sentencex does not know it takes a related language's rules, or English.
    """
    import sentencex

    return [sentence for found in sentencex.segment(language, paragraph) if (sentence := found.strip())]
