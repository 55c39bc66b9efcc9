"""Word boundaries that a segmenter put into the text: from its separator to a mark, and from the mark to words.

A reader turns the separator into `MARK`, so that all that comes after it needs to know no setting; `words` cuts a
sentence at the marks again. Masking whole words of Chinese needs this, since the text itself does not show them.
"""

from __future__ import annotations

import re

from albert_tf.scripts import is_wide_punctuation, is_written_without_spaces

# A noncharacter: Unicode keeps it for use inside a program, and no text may hold it.
MARK = "\ufdd0"


def mark_words(sentence: str, separator: str) -> str:
    """The sentence with `MARK` in place of each separator.

    A separator that is white space is taken away only where it stands beside a character that needs no space: of a
    script written without spaces, or wide punctuation. Between words of other scripts it is part of the text, and a
    boundary as it is. So "使用 Debian GNU 系统" reads "使用Debian GNU系统".
    """
    if not separator.isspace():
        return sentence.replace(separator, MARK)

    def replaced(found: re.Match[str]) -> str:
        before, after = sentence[: found.start()][-1:], sentence[found.end() :][:1]
        return MARK if _needs_no_space(before) or _needs_no_space(after) else found[0]

    return re.sub(f"{re.escape(separator)}+", replaced, sentence)


def without_marks(sentence: str) -> str:
    """The text alone."""
    return sentence.replace(MARK, "")


def words(sentence: str) -> list[str]:
    """The sentence cut at its marks; a single part if it has none."""
    return sentence.split(MARK)


def _needs_no_space(character: str) -> bool:
    return bool(character) and (is_written_without_spaces(character) or is_wide_punctuation(character))
