"""The files that lie beside a foreign checkpoint: configuration, vocabulary, and our own word on either.

Checkpoints say nothing of depth, heads or letter case. Published archives have a JSON file and a vocabulary beside
them (google-research/albert: `albert_config.json`, `30k-clean.model`, for Chinese `vocab_chinese.txt`;
brightmart/albert_zh: `albert_config_tiny.json` and the like, `vocab.txt`). `head_config.json` and
`tokenizer_config.json`, which are ours, say what those cannot.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from albert_tf.config import AlbertConfig
from albert_tf.files import is_remote, read_whole
from albert_tf.head_config import HeadConfig
from albert_tf.json_object import JsonConfig, parse_object
from albert_tf.tokenizer import TokenizerConfig
from albert_tf.tokenizer_base import Tokenizer
from albert_tf.tokenizer_files import CONFIG_FILE as TOKENIZER_CONFIG_FILE
from albert_tf.tokenizer_files import is_wordpiece, make_tokenizer
from albert_tf.wordpiece import WordPieceConfig

CONFIG_FILE = "albert_config.json"
HEAD_CONFIG_FILE = "head_config.json"
_CONFIG_FILES = (CONFIG_FILE, "bert_config.json")
_OURS = (HEAD_CONFIG_FILE, TOKENIZER_CONFIG_FILE)
_SENTENCEPIECE = ("spiece.model", "30k-clean.model")
_WORDPIECE = ("vocab.txt", "vocab_chinese.txt")
# No default of one project is another's, so these have to be said.
_NEEDED = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
# Keys of BERT's files that do nothing.
_INERT = ("pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head")
_FIXED = {"directionality": "bidi", "pooler_type": "first_token_transform"}


def find_config(folder: str) -> str | None:
    """Path of the configuration in a folder, None if it has none.

    Raises:
      ValueError: if there are several, none of them under a usual name.
    """
    names = list_folder(folder)
    for name in _CONFIG_FILES:
        if name in names:
            return os.path.join(folder, name)
    others = [name for name in names if name.endswith(".json") and "config" in name and name not in _OURS]
    if len(others) > 1:
        raise ValueError(f"{folder}: has several configurations ({', '.join(others)}): keep the one of these weights")
    return os.path.join(folder, others[0]) if others else None


def read_values(folder: str, needed_by: str) -> tuple[dict[str, Any], str]:
    """Content of the configuration in a folder without BERT's inert keys, and its path.

    Raises:
      FileNotFoundError: if there is none.
      ValueError: if it is no JSON object, lacks a needed key, or has one of BERT's keys at a value that means more.
    """
    path = find_config(folder)
    if path is None:
        raise FileNotFoundError(
            2, f"No {CONFIG_FILE} there, which {needed_by} needs: put the model's configuration beside it", folder
        )
    values = parse_object(read_whole(path), source=path)
    for key, allowed in _FIXED.items():
        if values.pop(key, allowed) != allowed:
            raise ValueError(f"{path}: {key} is supported at {allowed!r} only")
    for key in _INERT:
        values.pop(key, None)
    missing = [key for key in _NEEDED if key not in values]
    if missing:
        raise ValueError(f"{path}: has no {', '.join(missing)}; is it the configuration of an ALBERT model?")
    if "hidden_act" in values:  # the original takes nothing for "linear", and does not mind capitals
        act = values["hidden_act"] or "linear"
        values["hidden_act"] = act.lower() if isinstance(act, str) else act
    return values, path


def make_config(values: Mapping[str, Any], path: str) -> AlbertConfig:
    """The configuration that a file's values are.

    Raises:
      ValueError: for an unknown key or a value out of range; names the file.
    """
    try:
        return AlbertConfig.from_dict(values)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def read_head_config(folder: str) -> HeadConfig | None:
    """Our `head_config.json` of a folder, None if there is none.

    Raises:
      ValueError: if it is no valid one.
    """
    if HEAD_CONFIG_FILE not in list_folder(folder):
        return None
    path = os.path.join(folder, HEAD_CONFIG_FILE)
    return HeadConfig.from_json(read_whole(path), source=path)


def read_tokenizer(
    folder: str, vocab_size: int, *, lower_case: bool | None = None
) -> tuple[Tokenizer | None, tuple[str, ...]]:
    """Tokenizer of the vocabulary in a folder, None if it has none; and what a user should know of it.

    Args:
      folder: where the vocabulary is.
      vocab_size: pieces (V) that the weights are for.
      lower_case: whether letters are lowered; None for what the folder says, or else that they are.

    Raises:
      ValueError: if there are several vocabularies, or it is damaged or another model's.
    """
    path = _find_vocabulary(folder)
    if path is None:
        return None, ("no vocabulary lies beside the weights: the model comes without a tokenizer",)
    content = read_whole(path)
    wordpiece = is_wordpiece(path, content)
    config, notes = _tokenizer_config(folder, WordPieceConfig if wordpiece else TokenizerConfig, lower_case)
    tokenizer = make_tokenizer(path, content, path, config.to_json().encode())
    if tokenizer.vocab_size != vocab_size:
        raise ValueError(
            f"{path}: has {tokenizer.vocab_size} pieces, the weights are for {vocab_size}: another model's"
        )
    return tokenizer, notes


def _tokenizer_config(
    folder: str, kind: type[TokenizerConfig] | type[WordPieceConfig], lower_case: bool | None
) -> tuple[JsonConfig, tuple[str, ...]]:
    config: JsonConfig = kind()
    if lower_case is not None:
        return config.replace(lower_case=lower_case), ()
    if TOKENIZER_CONFIG_FILE in list_folder(folder):
        path = os.path.join(folder, TOKENIZER_CONFIG_FILE)
        values = parse_object(read_whole(path), source=path)
        if values.keys() <= config.to_dict().keys():
            return kind.from_json(read_whole(path), source=path), ()
        if isinstance(values.get("do_lower_case"), bool):  # another project's file of this name
            return config.replace(lower_case=values["do_lower_case"]), ()
    return config, ("letters are lowered before the vocabulary sees them, as all published vocabularies need it",)


def _find_vocabulary(folder: str) -> str | None:
    names = list_folder(folder)
    usual = [name for name in (*_SENTENCEPIECE, *_WORDPIECE) if name in names]
    others = [name for name in names if name.endswith(".model")]
    others += [name for name in names if name.startswith("vocab") and name.endswith(".txt")]
    found = usual or others
    if len(found) > 1:
        raise ValueError(f"{folder}: holds several vocabularies ({', '.join(found)}): keep the one of these weights")
    return os.path.join(folder, found[0]) if found else None


def list_folder(folder: str) -> list[str]:
    """Names of what is in a folder, sorted; none if there is no such folder."""
    if is_remote(folder):
        import tensorflow as tf

        return sorted(tf.io.gfile.listdir(folder)) if tf.io.gfile.isdir(folder) else []
    folder = folder or "."
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []
