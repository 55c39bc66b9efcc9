"""Reading advice: what looks wrong about the flags of reading, told before hours of work are spent on it.

It looks at the names of all files, and at the first lines of a few.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import unicodedata
from collections.abc import Iterator, Sequence

from pipelines import files, readers

_FILES_LOOKED_AT = 3
_LINES_LOOKED_AT = 1000
_FEWEST_LINES = 20  # fewer tell nothing
# Of lines that hold a sentence each nearly all end one, of wrapped prose about one in ten; in that, sentences end
# within every third line or so.
_MOST_ENDING, _FEWEST_INSIDE = 0.5, 0.1

_ENDS = frozenset(".!?:;\u2026\u3002\uff01\uff1f\uff61\u061f\u06d4\u0964\u0965\u0589\u104b\u1362\u1367\u166e\u17d4")
_ENDS_INSIDE = re.compile(r"[.!?\u06d4\u061f\u0589][^\w\s]*\s+\w|[\u3002\uff01\uff1f\u0964\u104b\u1362]\S")
# No other language's rules split all of these as English's do.
_TELLING = (
    "He met Mr. Smith there. He asked Prof. Smith. The Dept. Head came with Sgt. Smith.",
    "It was on Jan. Second. Messrs. Smith came.",
    "\u4eca\u5929\u3002\u6211\u4eec \u092f\u0939\u0964 \u0935\u0939",
)


def advise(inputs: Sequence[files.InputFile], reading: readers.ReaderSettings) -> Iterator[str]:
    """Sentences for the user, one for each thing that looks wrong.

    Args:
      inputs: the files to read.
      reading: how they are going to be read.
    """
    forms = {file.path: reading.format_of(file.path) for file in inputs}
    by_name = readers.ReaderSettings()
    for path, form in forms.items():
        if form != "jsonl" and by_name.format_of(path) == "jsonl":
            yield (
                f"{path} is named as JSON lines are, but read as --input_format={form}; leave the flag out if it holds "
                "JSON lines"
            )
            break
    for path in itertools.islice((path for path, form in forms.items() if form == "sentences"), _FILES_LOOKED_AT):
        if (share := _share_that_ends(path)) is not None:
            yield (
                f"{path}: only {share:.0%} of its lines end a sentence, and sentences end within lines. One sentence a "
                "line is expected; for prose with wrapped lines pass --input_format=paragraphs"
            )
            break
    if set(forms.values()) != {"sentences"} and follows_english(reading.language):
        yield (
            f"--language={reading.language}: the splitter has no rules of this language and takes those of English; "
            "the punctuation of every script ends a sentence"
        )


def follows_english(language: str) -> bool:
    """Whether the splitter falls back to English for the code of another language."""
    if re.match("en(-|$)", language, re.IGNORECASE):
        return False
    return all(readers.split_sentences(text, language) == readers.split_sentences(text, "en") for text in _TELLING)


def _share_that_ends(path: str) -> float | None:
    """Share of the first lines that end a sentence, in [0, 1], where it looks as if lines were wrapped; else None."""
    texts: list[str] = []
    with contextlib.suppress(ValueError, OSError):  # which is told when the file is read
        for line in itertools.islice(files.read_lines(path), _LINES_LOOKED_AT):
            if text := line.decode("utf-8", errors="replace").strip():
                texts.append(text)
    if len(texts) < _FEWEST_LINES:
        return None
    ending = sum(map(_ends_sentence, texts)) / len(texts)
    inside = sum(_ENDS_INSIDE.search(text) is not None for text in texts) / len(texts)
    return ending if ending < _MOST_ENDING and inside >= _FEWEST_INSIDE else None


def _ends_sentence(text: str) -> bool:
    """Whether the last character, but for quotation marks and brackets, ends a sentence."""
    for character in reversed(text):
        if character in _ENDS:
            return True
        if character not in "\"'*_" and unicodedata.category(character) not in ("Pe", "Pf", "Pi"):
            return False
    return False
