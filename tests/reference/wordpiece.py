"""BERT's tokenizer restated one character at a time, straight from its description; slow and plain."""

from __future__ import annotations

import unicodedata

CJK_BLOCKS = (
    range(0x4E00, 0xA000),  # CJK Unified Ideographs
    range(0x3400, 0x4DC0),  # Extension A
    range(0x20000, 0x2A6E0),  # B
    range(0x2A700, 0x2B740),  # C
    range(0x2B740, 0x2B820),  # D
    range(0x2B820, 0x2CEB0),  # E
    range(0xF900, 0xFB00),  # Compatibility Ideographs
    range(0x2F800, 0x2FA20),  # and their supplement
)


def clean(text: str) -> str:
    """Step 1: no control characters, every white space a space."""
    kept = ""
    for c in text:
        if c in (" ", "\t", "\n", "\r") or unicodedata.category(c) == "Zs":
            kept += " "
        elif ord(c) not in (0, 0xFFFD) and unicodedata.category(c) not in ("Cc", "Cf"):
            kept += c
    return kept


def space_ideographs(text: str) -> str:
    """Step 2: a space on either side of each ideograph."""
    return "".join(" " + c + " " if any(ord(c) in block for block in CJK_BLOCKS) else c for c in text)


def split_words(text: str, *, lower_case: bool) -> list[str]:
    """Steps 3 to 5: words at spaces; small letters without accents; punctuation on its own."""
    words: list[str] = []
    for token in unicodedata.normalize("NFC", text).split():
        if lower_case:
            token = unicodedata.normalize("NFD", token.lower())
            token = "".join(c for c in token if unicodedata.category(c) != "Mn")
        word = ""
        for c in token:
            ascii_sign = 33 <= ord(c) <= 47 or 58 <= ord(c) <= 64 or 91 <= ord(c) <= 96 or 123 <= ord(c) <= 126
            if ascii_sign or unicodedata.category(c).startswith("P"):
                words += [word] * bool(word) + [c]
                word = ""
            else:
                word += c
        words += [word] * bool(word)
    return words


def cut_word(word: str, vocabulary: set[str]) -> list[str]:
    """Step 6: the longest piece from the left, again and again; one [UNK] where there is none."""
    if len(word) > 200:
        return ["[UNK]"]
    pieces: list[str] = []
    rest = word
    while rest:
        for size in range(len(rest), 0, -1):
            piece = rest[:size] if rest is word else "##" + rest[:size]
            if piece in vocabulary:
                pieces.append(piece)
                rest = rest[size:]
                break
        else:
            return ["[UNK]"]
    return pieces


def tokenize(text: str, vocabulary: set[str], *, lower_case: bool) -> list[str]:
    """All steps."""
    words = split_words(space_ideographs(clean(text)), lower_case=lower_case)
    return [piece for word in words for piece in cut_word(word, vocabulary)]
