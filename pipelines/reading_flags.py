"""Flags that say how text is read, the same for every command that reads text."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from absl import flags, logging

from albert_tf import door
from pipelines import files, readers, reading_advice


def define() -> None:
    """Defines the flags `input_format`, `language`, `text_key` and `on_bad_input`."""
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


def given() -> str:
    """The flags that were given, as one types them, each with a space before it; for the command that comes next."""
    names = ("input_format", "language", "text_key", "on_bad_input")
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
        )


def warn(inputs: Sequence[files.InputFile], reading: readers.ReaderSettings) -> None:
    """Warns of what looks wrong about the way in which `inputs` are going to be read."""
    for advice in reading_advice.advise(inputs, reading):
        logging.warning("%s", advice)
