"""Flags that say how text is read, the same for every command that reads text."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence

from absl import flags, logging

from albert_tf import door
from pipelines import files, readers, reading_advice


def define() -> None:
    """Defines the flags `input_format`, `language`, `text_key`, `on_bad_input` and `word_separator`."""
    flags.DEFINE_enum(
        "input_format",
        "auto",
        readers.INPUT_FORMATS,
        "sentences: one a line, blank lines between documents. paragraphs: blank lines between documents, split into "
        "sentences. files: each file is a document, split into sentences. jsonl: a JSON object a line, with a "
        "document's text. auto: jsonl for *.jsonl, *.ndjson and *.json, else sentences.",
    )
    flags.DEFINE_string("language", "en", "Code (ISO 639) of the language of text that is split into sentences.")
    flags.DEFINE_string("text_key", "text", "Key of the text in JSON objects.")
    flags.DEFINE_enum(
        "on_bad_input",
        "fail",
        readers.ON_BAD_INPUT,
        "At text that is not UTF-8, or a line that is not JSON: fail, or skip (leave its document out, and say how "
        "many and where).",
    )
    flags.DEFINE_string(
        "word_separator",
        None,
        "Character that a segmenter put between words, itself or as in U+200B. It is taken out of the text, and masks "
        "cover the words that it shows. White space is taken out beside characters of scripts without spaces only.",
    )


def given() -> str:
    """The flags that were given, as one types them, each with a space before it; for the command that comes next."""
    names = ("input_format", "language", "text_key", "on_bad_input", "word_separator")
    found = [flags.FLAGS[name] for name in names]
    return "".join(f" --{flag.name}={shlex.quote(flag.value)}" for flag in found if flag.present)


def settings() -> readers.ReaderSettings:
    """What the flags say.

    Raises:
      UsageError: for a value out of range.
    """
    values = flags.FLAGS
    with door.checking_flags():
        return readers.ReaderSettings(
            input_format=values.input_format,
            language=values.language,
            text_key=values.text_key,
            on_bad_input=values.on_bad_input,
            word_separator=_character(values.word_separator),
        )


def warn(inputs: Sequence[files.InputFile], reading: readers.ReaderSettings) -> None:
    """Warns of what looks wrong about the way in which `inputs` are going to be read."""
    for advice in reading_advice.advise(inputs, reading):
        logging.warning("%s", advice)


def _character(value: str | None) -> str | None:
    """A character, given itself or by its code point, which is how invisible ones can be typed."""
    if value and re.fullmatch(r"[Uu]\+[0-9A-Fa-f]{4,6}", value) and int(value[2:], 16) <= sys.maxunicode:
        return chr(int(value[2:], 16))
    return value
