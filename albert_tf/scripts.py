"""Characters by script: those written without spaces between words, and CJK ideographs as BERT counts them.

Python's `unicodedata` does not know a character's script, so ranges of code points stand here, by the blocks of the
Unicode Standard.
"""

from __future__ import annotations

import bisect

# Scripts that put no space between words. Unicode's rules for word boundaries (UAX #29) leave these to dictionaries
# or break at every character: the ideographic scripts and kana (line breaking classes ID and CJ of UAX #14), and those
# of South East Asia (class SA). Tibetan, Balinese and Javanese mark syllables or phrases only. Hangul is not among
# them: Korean has spaces.
_WITHOUT_SPACES = (
    (0x0E00, 0x0E7F),  # Thai
    (0x0E80, 0x0EFF),  # Lao
    (0x0F00, 0x0FFF),  # Tibetan
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x1950, 0x19DF),  # Tai Le, New Tai Lue
    (0x19E0, 0x19FF),  # Khmer symbols
    (0x1A20, 0x1AAF),  # Tai Tham
    (0x1B00, 0x1B7F),  # Balinese
    (0x2E80, 0x2FDF),  # radicals
    (0x3005, 0x3007),  # iteration mark, closing mark, zero of Han
    (0x3021, 0x3029),  # Hangzhou numerals
    (0x3031, 0x3035),  # kana repeat marks
    (0x3038, 0x303C),
    (0x3040, 0x312F),  # Hiragana, Katakana, Bopomofo
    (0x31A0, 0x31BF),  # Bopomofo
    (0x31F0, 0x31FF),  # Katakana
    (0x3400, 0x4DBF),  # Han
    (0x4E00, 0x9FFF),  # Han
    (0xA000, 0xA4CF),  # Yi
    (0xA980, 0xA9DF),  # Javanese
    (0xA9E0, 0xA9FF),  # Myanmar
    (0xAA60, 0xAADF),  # Myanmar, Tai Viet
    (0xF900, 0xFAFF),  # Han, compatibility forms
    (0xFF66, 0xFF9F),  # Katakana, half width
    (0x116D0, 0x116FF),  # Myanmar
    (0x11700, 0x1174F),  # Ahom
    (0x16FE0, 0x18D7F),  # Tangut, Khitan, Nushu's iteration mark
    (0x1AFF0, 0x1B2FF),  # kana, Nushu
    (0x20000, 0x3FFFD),  # Han: all of planes 2 and 3
)

# What BERT's tokenizer puts spaces round: Han alone, and not its iteration mark or zero.
_IDEOGRAPHS = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)

# Punctuation of East Asian type, which takes the width of an ideograph and so brings its own space.
_WIDE_PUNCTUATION = (
    (0x3001, 0x303F),
    (0x30FB, 0x30FB),
    (0xFE10, 0xFE1F),
    (0xFE30, 0xFE4F),
    (0xFF01, 0xFF0F),
    (0xFF1A, 0xFF20),
    (0xFF3B, 0xFF40),
    (0xFF5B, 0xFF65),
)


def is_written_without_spaces(character: str) -> bool:
    """Whether the character is of a script that puts no spaces between words."""
    return _is_in(_WITHOUT_SPACES, character)


def is_ideograph(character: str) -> bool:
    """Whether BERT's tokenizer takes the character for a word of its own (`_is_chinese_char` there)."""
    return _is_in(_IDEOGRAPHS, character)


def is_wide_punctuation(character: str) -> bool:
    """Whether the character is punctuation as wide as an ideograph, such as the ideographic comma."""
    return _is_in(_WIDE_PUNCTUATION, character)


def _is_in(ranges: tuple[tuple[int, int], ...], character: str) -> bool:
    code = ord(character)
    place = bisect.bisect_right(ranges, (code, 0x110000)) - 1
    return place >= 0 and code <= ranges[place][1]
