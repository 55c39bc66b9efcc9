"""Tokenizer files of transformers, in and out.

Source: huggingface/transformers, tokenization_albert.py and tokenization_bert.py: release 5.24 for what is written, and
up to 4.57 for the settings that older files hold.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from albert_tf.dialects.transformers.configuration import Configuration
from albert_tf.dialects.transformers.fast_tokenizer import fast_tokenizer
from albert_tf.files import exists, read_whole
from albert_tf.json_object import JsonConfig, parse_object
from albert_tf.tokenizer import AlbertTokenizer, TokenizerConfig
from albert_tf.tokenizer_base import CLS_PIECE, MASK_PIECE, SEP_PIECE, Tokenizer
from albert_tf.tokenizer_files import CONFIG_FILE, make_tokenizer
from albert_tf.wordpiece import WordPieceConfig, WordPieceTokenizer

_FAST_FILE = "tokenizer.json"
_SENTENCEPIECE = ("AlbertTokenizer", "AlbertTokenizerFast")
_WORDPIECE = ("BertTokenizer", "BertTokenizerFast")
_ANY = (None, "PreTrainedTokenizerFast", "TokenizersBackend")
_SPLITS = "split_digit_comma"  # ours; their tokenizers pass over it


def read_tokenizer(folder: str, configuration: Configuration) -> tuple[Tokenizer | None, tuple[str, ...]]:
    """Tokenizer of the files in `folder`, and what a user should know; None where there is none that we have.

    Args:
      folder: of the model.
      configuration: its `config.json`.

    Raises:
      ValueError: if a file is damaged or no ALBERT vocabulary; names it.
    """
    config_path = os.path.join(folder, CONFIG_FILE)
    values = parse_object(read_whole(config_path), source=config_path) if exists(config_path) else {}
    kind = values.get("tokenizer_class") or configuration.values.get("tokenizer_class")
    there = [
        name
        for name in (AlbertTokenizer.vocabulary_file, WordPieceTokenizer.vocabulary_file)
        if exists(os.path.join(folder, name))
    ]
    if not there:
        if not exists(os.path.join(folder, _FAST_FILE)):
            return None, ("No vocabulary lies beside the weights: the model comes without a tokenizer.",)
        return None, (
            f"{_FAST_FILE} lies there without spiece.model or vocab.txt, and no tokenizer can be made of it alone: the "
            "model comes without one.",
        )
    if kind not in (*_SENTENCEPIECE, *_WORDPIECE, *_ANY):
        return None, (f"The tokenizer is a {kind}, which cuts text in another way: the model comes without one.",)
    name = there[-1] if kind in _WORDPIECE else there[0]
    notes = [f"{name} is the vocabulary; {other} lies there, too." for other in there if other != name]
    if not exists(config_path):
        notes.append(f"There is no {CONFIG_FILE}: text is prepared as the library does without one, in lower case.")
    wordpiece = name == WordPieceTokenizer.vocabulary_file
    if kind in (_SENTENCEPIECE if wordpiece else _WORDPIECE):
        return None, (f"The tokenizer is a {kind}, but its vocabulary is not there: the model comes without one.",)
    settings, problem = (_wordpiece_settings if wordpiece else _sentencepiece_settings)(values)
    if settings is None:
        return None, (*notes, f"{CONFIG_FILE}: {problem}: the model comes without a tokenizer.")
    if problem:
        notes.append(f"{CONFIG_FILE}: {problem}.")
    path = os.path.join(folder, name)
    try:
        tokenizer = make_tokenizer(path, read_whole(path), config_path, settings.to_json().encode())
    except ValueError as error:
        raise ValueError(f"{error}; move the file away to convert the weights alone") from error
    vocab_size = configuration.config.vocab_size
    if tokenizer.vocab_size != vocab_size:
        notes.append(f"{name} has {tokenizer.vocab_size} pieces, the model {vocab_size}: it comes without a tokenizer.")
        return None, tuple(notes)
    return tokenizer, tuple(notes)


def _sentencepiece_settings(values: Mapping[str, Any]) -> tuple[JsonConfig | None, str]:
    """Our settings, and what differs; None where no settings of ours do the same."""
    lower, keep = values.get("do_lower_case", True), values.get("keep_accents", False)
    splits = values.get(_SPLITS, True)
    if not all(isinstance(value, bool) for value in (lower, keep, splits)):
        return None, f"do_lower_case, keep_accents and {_SPLITS} must be true or false"
    note = "" if values.get("remove_space", True) else "remove_space is false; here, white space becomes single spaces"
    return TokenizerConfig(lower_case=lower, strip_accents=not keep, split_digit_comma=splits), note


def _wordpiece_settings(values: Mapping[str, Any]) -> tuple[JsonConfig | None, str]:
    lower, strip = values.get("do_lower_case", True), values.get("strip_accents")
    if not isinstance(lower, bool):
        return None, "do_lower_case must be true or false"
    if strip not in (None, lower):
        return None, f"strip_accents {strip} beside do_lower_case {lower} is nothing that tokenizers have here"
    for key in ("tokenize_chinese_chars", "do_basic_tokenize"):
        if not values.get(key, True):
            return None, f"{key} is false, which tokenizers cannot have here"
    return WordPieceConfig(lower_case=lower), ""


def check_tokenizer(tokenizer: Tokenizer, vocab_size: int) -> None:
    """Refuses a tokenizer that does not fit the model.

    Raises:
      ValueError: names both sizes.
    """
    if tokenizer.vocab_size != vocab_size:
        raise ValueError(f"the tokenizer has {tokenizer.vocab_size} pieces, the model was made for {vocab_size}")


def tokenizer_files(tokenizer: Tokenizer, *, longest: int) -> dict[str, bytes]:
    """Content of the files by name; `longest` is the longest sequence, in tokens, of the model."""
    values: dict[str, Any] = {
        "model_max_length": longest,
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
    }
    if isinstance(tokenizer, AlbertTokenizer):
        values |= {
            # It takes tokenizer.json as it is; their AlbertTokenizer would take two apostrophes for a quotation mark.
            "tokenizer_class": "PreTrainedTokenizerFast",
            "do_lower_case": tokenizer.config.lower_case,
            "keep_accents": not tokenizer.config.strip_accents,
            "remove_space": True,
            _SPLITS: tokenizer.config.split_digit_comma,
            "bos_token": CLS_PIECE,
            "eos_token": SEP_PIECE,
        }
        files = {tokenizer.vocabulary_file: tokenizer.vocabulary, _FAST_FILE: fast_tokenizer(tokenizer)}
    elif isinstance(tokenizer, WordPieceTokenizer):
        values |= {
            "tokenizer_class": _WORDPIECE[0],
            "do_lower_case": tokenizer.config.lower_case,
            "strip_accents": tokenizer.config.lower_case,
            "tokenize_chinese_chars": True,
        }
        # Its mark would be a part of the first piece there.
        files = {tokenizer.vocabulary_file: tokenizer.vocabulary.removeprefix(b"\xef\xbb\xbf")}
    else:
        raise ValueError(f"transformers has no tokenizer such as {type(tokenizer).__name__}")
    values |= {
        "pad_token": tokenizer.id_to_piece(tokenizer.pad_id),
        "unk_token": tokenizer.id_to_piece(tokenizer.unk_id),
        "cls_token": CLS_PIECE,
        "sep_token": SEP_PIECE,
        "mask_token": MASK_PIECE,
    }
    content = json.dumps(values, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    return {**files, CONFIG_FILE: content.encode()}
