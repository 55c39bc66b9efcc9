"""The files of a tokenizer: a vocabulary, `spiece.model` or `vocab.txt`, and `tokenizer_config.json` beside it.

Content goes in and comes out; opening files is left to the caller, since there are several kinds of file systems.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from albert_tf.tokenizer import AlbertTokenizer, TokenizerConfig
from albert_tf.tokenizer_base import CLS_PIECE, Tokenizer
from albert_tf.wordpiece import WordPieceConfig, WordPieceTokenizer

CONFIG_FILE = "tokenizer_config.json"
VOCABULARY_FILES = (AlbertTokenizer.vocabulary_file, WordPieceTokenizer.vocabulary_file)

_LINE_OF_WORDPIECE = re.compile(rb"^" + re.escape(CLS_PIECE.encode()) + rb"\r?$", re.MULTILINE)


def choose_vocabulary_file(names: Collection[str], folder: str) -> str:
    """Name of the vocabulary among the `names` of the files in `folder`.

    Raises:
      ValueError: if both kinds are there.
      FileNotFoundError: if none is.
    """
    found = [name for name in VOCABULARY_FILES if name in names]
    if len(found) > 1:
        raise ValueError(f"{folder}: holds {' and '.join(found)}, two vocabularies: remove the one that is not meant")
    if not found:
        raise FileNotFoundError(2, f"No vocabulary there; {' or '.join(VOCABULARY_FILES)} is expected", folder)
    return found[0]


def is_wordpiece(path: str, content: bytes) -> bool:
    """Whether a vocabulary's file is a list of WordPiece's pieces, by its name or else by its content."""
    return path.endswith(".txt") or _LINE_OF_WORDPIECE.search(content) is not None


def make_tokenizer(path: str, content: bytes, config_path: str | None = None, config: bytes = b"") -> Tokenizer:
    """Tokenizer out of the content of its files.

    Args:
      path: of the vocabulary's file, for errors; its name may say which kind it is.
      content: of that file.
      config_path: of `tokenizer_config.json`; None for the default settings.
      config: content of that file.

    Raises:
      ValueError: if one of the files is unfit; names it.
    """
    wordpiece = is_wordpiece(path, content)
    settings = WordPieceConfig if wordpiece else TokenizerConfig
    values = {} if config_path is None else settings.from_json(config, source=config_path).to_dict()
    try:
        if wordpiece:
            return WordPieceTokenizer(content, config=WordPieceConfig(**values))
        return AlbertTokenizer(content, config=TokenizerConfig(**values))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
