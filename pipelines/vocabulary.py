"""Vocabulary: trains a SentencePiece model with ALBERT's settings on lines of text.

The settings are those of the published English vocabulary (original README): unigram model, character coverage 0.99995,
pad 0, unk 1, [CLS] [SEP] [MASK] 2 to 4, punctuation as symbols of its own, no begin and end of sentence.
"""

from __future__ import annotations

import dataclasses
import io
import re
import signal
import threading
from collections import Counter
from collections.abc import Iterable, Iterator

import sentencepiece

from albert_tf import tokenizer
from pipelines.line_sample import LineSample

CONTROL_SYMBOLS = (tokenizer.CLS_PIECE, tokenizer.SEP_PIECE, tokenizer.MASK_PIECE)
# A list, since SentencePiece's command line cuts one string at the commas and so loses the quotation mark.
USER_DEFINED_SYMBOLS = ("(", ")", '"', "-", ".", "\u2013", "\u00a3", "\u20ac")

# SentencePiece leaves out lines with these without a word that its caller could see.
_RESERVED = re.compile("[\x00\u2585]")

_SIGNALS = (signal.SIGINT, signal.SIGTERM)

_TOO_LARGE = re.compile(r"Vocabulary size too high \(\d+\)\. Please set it to a value <= (\d+)")
_TOO_SMALL = re.compile(r"Vocabulary size is smaller than required_chars\. \d+ vs (\d+)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class VocabularySettings:
    """How to train. Checks itself when made and never changes.

    Attributes:
      vocab_size: pieces to make (V), special ones included; at most ten million.
      character_coverage: share of all characters that must be in the vocabulary, in [0.98, 1].
      max_sentence_length: longest line to use, bytes of UTF-8 after normalisation, in [10, 2**30].
      sample_megabytes: most text to use, millions of bytes of UTF-8 after normalisation, in [1, 2000]. Of more text,
        lines are drawn evenly.
      num_threads: threads of the training, in [1, 1024]. The scores' last digits depend on it, so it does not follow
        the machine.
    """

    vocab_size: int = 30000
    character_coverage: float = 0.99995
    max_sentence_length: int = 4192
    sample_megabytes: int = 100
    num_threads: int = 2

    def __post_init__(self) -> None:
        least = 2 + len(CONTROL_SYMBOLS) + len(USER_DEFINED_SYMBOLS) + 1
        # SentencePiece's own limits, but for the first: with thousands of millions of pieces it never ends.
        limits = {
            "vocab_size": (least, 10_000_000),
            "character_coverage": (0.98, 1.0),
            "max_sentence_length": (10, 1 << 30),
            "sample_megabytes": (1, 2000),  # SentencePiece counts characters in 32 bits
            "num_threads": (1, 1024),
        }
        for name, (lowest, highest) in limits.items():
            if not lowest <= getattr(self, name) <= highest:
                raise ValueError(f"{name} must be in [{lowest}, {highest}], got {getattr(self, name)}")
        if self.max_sentence_length > self.sample_bytes:
            raise ValueError(
                f"max_sentence_length must be at most sample_megabytes, {self.sample_bytes} bytes, got "
                f"{self.max_sentence_length}"
            )

    @property
    def sample_bytes(self) -> int:
        """`sample_megabytes` in bytes."""
        return self.sample_megabytes * 1_000_000


class UnfitTextError(ValueError):
    """No vocabulary of the size asked for can be trained on the text; does not name the text."""


def train_vocabulary(
    lines: Iterable[str],
    settings: VocabularySettings,
    config: tokenizer.TokenizerConfig,
    *,
    verbose: bool = False,
) -> tuple[tokenizer.AlbertTokenizer, Counter[str]]:
    """Tokenizer with a vocabulary trained on `lines`, and counts of lines and bytes read, used and dropped by reason.

    All lines are used if they fit into the sample, and otherwise an even sample of them, the same in every run. Memory
    depends on the sample, not on the lines.

    Args:
      lines: text, normalised here as the tokenizer will do it.
      settings: see there.
      config: how the tokenizer prepares text.
      verbose: whether SentencePiece's own log goes to standard error.

    From the last line on until it returns, Ctrl-C and SIGTERM end the process at once: keep no unfinished file open.

    Raises:
      UnfitTextError: if there is no text, or `vocab_size` does not fit it. Also what reading `lines` raises.
    """
    counts: Counter[str] = Counter()
    failures: list[Exception] = []
    model = io.BytesIO()
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_prepared(lines, settings, config, counts, failures),
            model_writer=model,
            model_type="unigram",
            vocab_size=settings.vocab_size,
            character_coverage=settings.character_coverage,
            max_sentence_length=settings.max_sentence_length,
            num_threads=settings.num_threads,
            pad_id=0,
            unk_id=1,
            bos_id=-1,
            eos_id=-1,
            pad_piece=tokenizer.PAD_PIECE,
            unk_piece=tokenizer.UNK_PIECE,
            control_symbols=list(CONTROL_SYMBOLS),
            user_defined_symbols=list(USER_DEFINED_SYMBOLS),
            minloglevel=0 if verbose else 2,
        )
    except RuntimeError as error:
        if not failures:
            raise UnfitTextError(_explain(str(error), settings, counts)) from error
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in handlers.items():
                signal.signal(number, handler)
    if failures:
        raise failures[0]
    trained = tokenizer.AlbertTokenizer(model.getvalue(), config=config)
    found = (trained.pad_id, trained.unk_id, trained.cls_id, trained.sep_id, trained.mask_id)
    if found != (0, 1, 2, 3, 4) or trained.vocab_size != settings.vocab_size:
        raise RuntimeError(f"SentencePiece made {trained.vocab_size} pieces with special ids {found}")
    return trained, counts


def _prepared(
    lines: Iterable[str],
    settings: VocabularySettings,
    config: tokenizer.TokenizerConfig,
    counts: Counter[str],
    failures: list[Exception],
) -> Iterator[bytes]:
    """Normalised lines that SentencePiece will use; counts all. A failure is kept: an error must not cross its C++."""
    try:
        sample = LineSample(settings.sample_bytes)
        lines_read = bytes_read = 0
        for line in lines:
            lines_read += 1
            bytes_read += len(line) if line.isascii() else len(line.encode("utf-8"))
            text = tokenizer.normalize_text(line, config)
            content = text.encode("utf-8")
            if not text:
                counts["dropped: empty"] += 1
            elif len(content) > settings.max_sentence_length:
                counts["dropped: too long"] += 1
            elif _RESERVED.search(text):
                counts["dropped: reserved character"] += 1
            else:
                sample.add(content)
        sample.finish()
        counts.update(
            {
                "lines read": lines_read,
                "bytes read": bytes_read,
                "lines used": sample.kept,
                "bytes used": sample.kept_bytes,
            }
        )
        if left_out := sample.added - sample.kept:
            counts["dropped: not sampled"] = left_out
        yield from sample.take()
        _end_at_once_on_signals()
    except Exception as error:
        failures.append(error)


def _end_at_once_on_signals() -> None:
    """Lets Ctrl-C and SIGTERM end the process while SentencePiece computes, when no Python code could answer them."""
    if threading.current_thread() is threading.main_thread():
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)


def _explain(message: str, settings: VocabularySettings, counts: Counter[str]) -> str:
    """SentencePiece's message in our form."""
    if not counts["lines used"]:
        reasons = sorted(item for item in counts.items() if item[0].startswith("dropped: "))
        dropped = ", ".join(f"{reason.removeprefix('dropped: ')} {count}" for reason, count in reasons)
        advice = ""
        if counts["dropped: too long"]:
            advice = (
                f"; lines must have at most {settings.max_sentence_length} bytes (max_sentence_length): if they hold "
                "paragraphs, input_format=paragraphs splits them into sentences"
            )
        return f"no line of text to train on ({dropped or 'the input is empty'}){advice}"
    if match := _TOO_LARGE.search(message):
        return (
            f"vocab_size must be at most {match[1]} for this text of {counts['bytes used']:,} bytes, "
            f"got {settings.vocab_size}; give more text or a smaller vocab_size"
        )
    if match := _TOO_SMALL.search(message):
        return (
            f"vocab_size must be at least {match[1]}, since the text has so many different characters, "
            f"got {settings.vocab_size}; raise it or lower character_coverage"
        )
    return f"SentencePiece: {message.rpartition('] ')[2] or message}"
