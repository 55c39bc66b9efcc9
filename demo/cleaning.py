"""English sentences out of Python documentation: code, doctests, tables and markup taken away.

Pure functions on strings, standard library only. The order is `paragraphs` (line structure), `plain_text` (inline
markup), `split_sentences`, `is_english_sentence`; `sentences_of` applies them all to one docstring.
"""

from __future__ import annotations

import re

MIN_WORDS = 4
MAX_WORDS = 80

_FENCE = re.compile(r"^(```|~~~)")
_RULER = re.compile(r"^[=\-~^+|*#_`'\". ]{3,}$")
_HEADING = re.compile(r"^[A-Z][\w /]{0,40}:$")
_DIRECTIVE = re.compile(r"^\.\.(\s|$)")
_PROSE_DIRECTIVE = re.compile(r"^\.\. (note|warning|tip|important|caution|hint)::\s*(.*)$", re.IGNORECASE)
_FIELD = re.compile(r"^[:@](\w+)([^:]{0,60}:|\s+\w+\s)\s*(.*)$")
_NUMPY_PARAMETER = re.compile(r"^[*\w][*\w, ]*\s:(\s.*)?$")
_ARGUMENT = re.compile(r"^[*]{0,2}[`\"']{0,2}[\w.\[\]]+[`\"']{0,2}(?:\s\([^)]*\))?:\s+(.+)$")
_LIST_ITEM = re.compile(r"^(?:[-*+•o]|\d{1,2}[.)]|\([a-z\d]\))\s+(.+)$")

_INLINE = (
    (re.compile(r":[\w:+-]+:`([^`<]*?)\s*(?:<[^`>]*>)?`"), r"\1"),  # :role:`text <target>`
    (re.compile(r"`([^`<]+?)\s*<[^`>]*>`_*"), r"\1"),  # `text <address>`_
    (re.compile(r"!?\[([^\]\[]+)\]\([^)\s]*\)"), r"\1"),  # [text](address)
    (re.compile(r"\[([^\]\[]+)\]\[[^\]\[]*\]"), r"\1"),  # [text][label]
    (re.compile(r"`+_{0,2}"), ""),
    (re.compile(r"(?<![\w*])\*{1,2}([^*\s](?:[^*]*[^*\s])?)\*{1,2}(?![\w*])"), r"\1"),  # *emphasis*
    (re.compile(r"\s*\[\d+\]_?"), ""),  # [1]_
    (re.compile(r"(?<!\w)~(?=\w)"), ""),  # ~package.Name
)
_TYPOGRAPHY = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "-", "…": "...", "\u00a0": " "})

_SENTENCE_END = re.compile(r"[.!?][\"')\]]*\s+(?=[\"'(\[]?[A-Z])")
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|vs|cf|eq|fig|sec|al|resp|approx|incl|no|dr|mr|st)|\b[A-Za-z])\.$", re.IGNORECASE
)

_WORD = re.compile(r"^[\"'(\[]*[A-Za-z]+(?:['/-][A-Za-z]+)*[\"')\],.;:!?]*$")
_CODE_MARK = re.compile(r"://|www\.|\\|\$|@|>>>|[{}|<>=^~#%]|->|::|__|\.\.\.\s*$")
_KEY = re.compile(r"[a-z0-9]+")
_FUNCTION_WORD = re.compile(
    "the|an?|of|to|in|is|are|be|and|or|for|with|that|this|its?|by|on|as|at|from|if|when|not|which|can|will|has|have|was|"
    "were|you|your|we|may|must|should|than|then|into|only|all|any|each|no|but|used",
    re.IGNORECASE,
)


def paragraphs(text: str) -> list[str]:
    """Paragraphs of a docstring as single lines; code, doctests, tables, headings and directives are left out.

    A list item or the description of one argument is a paragraph of its own.
    """
    found: list[str] = []
    current: list[str] = []
    skip_deeper_than: int | None = None  # indentation of the line that opened a block to leave out
    in_fence = in_doctest = False

    def close() -> None:
        if current:
            found.append(" ".join(current))
            current.clear()

    for line in text.expandtabs().splitlines():
        content = line.strip()
        indent = len(line) - len(line.lstrip())
        if _FENCE.match(content):
            close()
            in_fence = not in_fence
            continue
        if in_fence:
            continue
        if not content:
            close()
            in_doctest = False
            continue
        if in_doctest:
            continue
        if skip_deeper_than is not None:
            if indent > skip_deeper_than:
                continue
            skip_deeper_than = None
        if content.startswith(">>>"):
            close()
            in_doctest = True
            continue
        if _RULER.match(content):
            # The line above a ruler is a heading or the head of a table.
            current.clear()
            continue
        if content.count("|") >= 2 or "::=" in content or _HEADING.match(content):
            close()
            continue
        prose = _PROSE_DIRECTIVE.match(content)
        if _DIRECTIVE.match(content) and not prose:
            close()
            skip_deeper_than = indent
            continue
        start = prose or _FIELD.match(content) or _LIST_ITEM.match(content) or _ARGUMENT.match(content)
        if start:
            close()
            content = start.group(start.re.groups)
            if not content:
                continue
        elif _NUMPY_PARAMETER.match(content):
            close()
            continue
        current.append(content)
        if content.endswith(":"):
            # What an indented block after a colon holds is nearly always code.
            skip_deeper_than = indent
            close()
    close()
    return found


def plain_text(paragraph: str) -> str:
    """Paragraph without inline markup of reStructuredText and Markdown, spaces normalised, plain quotes."""
    for pattern, replacement in _INLINE:
        paragraph = pattern.sub(replacement, paragraph)
    return " ".join(paragraph.translate(_TYPOGRAPHY).split())


def split_sentences(text: str) -> list[str]:
    """Sentences of a paragraph. A full stop after an abbreviation or an initial ends none."""
    sentences = []
    start = 0
    for end in _SENTENCE_END.finditer(text):
        if text[end.start()] == "." and _ABBREVIATION.search(text, start, end.start() + 1):
            continue
        sentences.append(text[start : end.end()].strip())
        start = end.end()
    rest = text[start:].strip()
    return [*sentences, rest] if rest else sentences


def is_english_sentence(sentence: str) -> bool:
    """Whether a line reads as an English sentence: 4 to 80 words, nearly all of them plain words, no code."""
    words = sentence.split()
    if not MIN_WORDS <= len(words) <= MAX_WORDS or not sentence.isascii():
        return False
    if not sentence[0].isupper() or sentence[-1] not in ".!?\"')" or _CODE_MARK.search(sentence):
        return False
    if sum(bool(_WORD.match(word)) for word in words) < 0.8 * len(words):
        return False
    return sum(bool(_FUNCTION_WORD.fullmatch(word)) for word in words) >= max(1, len(words) // 10)


def sentences_of(text: str) -> list[str]:
    """English sentences of one docstring or documentation page, in order."""
    return [
        sentence
        for paragraph in paragraphs(text)
        for sentence in split_sentences(plain_text(paragraph))
        if is_english_sentence(sentence)
    ]


def word_keys(sentence: str) -> tuple[str, ...]:
    """Words of a sentence as compared between texts: lower case, letters and digits only."""
    return tuple(_KEY.findall(sentence.lower()))
