"""Small WordPiece vocabularies, made from texts by counting; and a tokenizer of one."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable

from albert_tf.wordpiece import WordPieceConfig, WordPieceTokenizer
from tests.reference import wordpiece

# The special pieces not in front and not in a row.
SPECIAL = ["[PAD]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[unused2]", "[MASK]"]

SENTENCES = (
    "使用 Debian 12 系统的用户可以自行编译内核。",
    "我们将学习手动创建 RAID 和 LVM 卷,而非在安装系统时创建!",
    "第 4 章 安装 (installation) 讲述了这些技术。",
    "软件包管理器 apt-get 会自动下载并安装 1,024 个软件包。",
    "The installer's naïve resume was rewritten in 2010, again and again.",
    "本章主要面向专业管理员,而不太面向使用家庭网络的个人。",
    "Unaffable users are installing the packages, then reinstalling them.",
)


def make_vocabulary(texts: Iterable[str], *, lower_case: bool = True, words: int = 60, endings: int = 120) -> list[str]:
    """Pieces: the special ones, all characters alone and behind others, frequent words and endings of words.

    Every 29th character is left out, so that some words are unknown.
    """
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(wordpiece.split_words(wordpiece.space_ideographs(wordpiece.clean(text)), lower_case=lower_case))
    characters = [c for n, c in enumerate(sorted({c for word in counts for c in word})) if n % 29 != 7]
    frequent = [word for word, _ in counts.most_common() if len(word) > 1][:words]
    tails: Counter[str] = Counter()
    for word, count in counts.items():
        for begin in range(1, len(word) - 1):
            tails["##" + word[begin : begin + 4]] += count
    inside = ["##" + c for c in characters if c.isalnum()]
    pieces = [*SPECIAL[:5], *characters, *SPECIAL[5:], *inside, *frequent, *(t for t, _ in tails.most_common(endings))]
    return list(dict.fromkeys(pieces))


def to_bytes(pieces: Iterable[str]) -> bytes:
    """Content of a vocab.txt."""
    return "".join(f"{piece}\n" for piece in pieces).encode()


@functools.cache
def tokenizer(lower_case: bool = True) -> WordPieceTokenizer:
    """Tokenizer of the sentences' vocabulary."""
    config = WordPieceConfig(lower_case=lower_case)
    return WordPieceTokenizer(to_bytes(make_vocabulary(SENTENCES, lower_case=lower_case)), config=config)
