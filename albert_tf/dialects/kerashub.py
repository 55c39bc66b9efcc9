"""KerasHub presets of ALBERT, in and out: `AlbertBackbone`, `AlbertMaskedLM`, `AlbertTextClassifier`.

A preset is a folder:

    config.json                       the backbone
    model.weights.h5                  its weights, or model.weights.json and shards of them
    task.json, task.weights.h5        the head, if there is one
    tokenizer.json, preprocessor.json, assets/tokenizer/vocabulary.spm
    metadata.json                     versions, for people

Source: keras_hub/src/utils/preset_utils.py, version 0.32. KerasHub itself is not imported.

KerasHub gives text to SentencePiece as it is. Published presets (`albert_base_en_uncased` ...) have the vocabulary of
the original without the original's preparation of text (keras-hub tools/checkpoint_conversion/
convert_albert_checkpoints.py), so that capitals are unknown there. What is read here lowers letters and drops accents
where the vocabulary has no pieces for them; what is written has that preparation inside the SentencePiece file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from albert_tf import normalizer
from albert_tf.config import AlbertConfig
from albert_tf.dialects import kerashub_configs as configs
from albert_tf.dialects.foreign_model import ForeignModel
from albert_tf.dialects.kerashub_configs import KerasObject
from albert_tf.dialects.kerashub_table import IGNORED, MODEL, TASK, current_name, table
from albert_tf.files import exists, make_directory, read_whole, write_whole
from albert_tf.head_config import HeadConfig
from albert_tf.json_object import parse_object
from albert_tf.tokenizer import AlbertTokenizer, TokenizerConfig, normalize_text
from albert_tf.tokenizer_base import Tokenizer
from albert_tf.weight_files.hdf5_file import Hdf5File, write_hdf5
from albert_tf.weight_files.joined_files import JoinedFiles
from albert_tf.weight_files.weight_file import WeightFile

__all__ = ["NAME", "TITLE", "open_model", "recognises", "save_model", "table", "written_notes"]

NAME = "kerashub"
TITLE = "KerasHub preset (config.json, model.weights.h5)"

_CONFIG, _TASK_CONFIG = "config.json", "task.json"
_TOKENIZER_CONFIG, _PREPROCESSOR_CONFIG = "tokenizer.json", "preprocessor.json"
_METADATA = "metadata.json"
_WEIGHTS, _SHARDS, _TASK_WEIGHTS = "model.weights.h5", "model.weights.json", "task.weights.h5"
_VOCABULARY = "assets/tokenizer/vocabulary.spm"


def recognises(path: str) -> bool:
    """Whether `path` is a preset's folder or one of its files of weights, of whatever model."""
    try:
        values = _read_json(os.path.join(_folder(path), _CONFIG))
    except (OSError, ValueError):
        return False
    return str(values.get("registered_name")).startswith(("keras_hub>", "keras_nlp>"))


def open_model(path: str, *, head: str | None = None) -> ForeignModel:
    """The model of a preset.

    Args:
      path: the preset's folder, or a file of weights in it.
      head: "encoder" leaves a task's head away, "regression" takes a classifier of one class for one.

    Raises:
      FileNotFoundError: if a file is missing.
      ValueError: if a file is damaged, or the model is none that we have.
    """
    folder = _folder(path)
    config_path, task_path = os.path.join(folder, _CONFIG), os.path.join(folder, _TASK_CONFIG)
    config, notes = configs.read_config(KerasObject.parse(_read_json(config_path), config_path), config_path)
    task = KerasObject.parse(_read_json(task_path), task_path) if exists(task_path) else None
    found, of_head = configs.read_head(task, head, task_path if task else config_path)
    if task is None and exists(os.path.join(folder, _TASK_WEIGHTS)):
        of_head = (*of_head, f"{_TASK_WEIGHTS} lies there without {_TASK_CONFIG}: the encoder alone is taken.")
    tokenizer, of_tokenizer = _read_tokenizer(folder, config.vocab_size)
    return ForeignModel(
        config=config,
        head=found,
        table=table(config, found),
        weights=JoinedFiles(folder, _open_weights(folder, with_task=found.head != "encoder"), name=current_name),
        ignored=IGNORED,
        tokenizer=tokenizer,
        notes=(*notes, *of_head, *of_tokenizer),
    )


def save_model(
    folder: str,
    config: AlbertConfig,
    head: HeadConfig,
    weights: Mapping[str, np.ndarray],
    tokenizer: Tokenizer | None,
) -> tuple[str, ...]:
    """Writes a preset into the empty folder `folder`; notes on it.

    `config.json` names the dtype of the weights; float32, which holds all others, if they have several.

    Raises:
      ValueError: for what KerasHub's ALBERT cannot express; nothing is written then.
    """
    configs.check_expressible(config, head)
    vocabulary = _baked_vocabulary(tokenizer)
    part = _Renamed(config, head, MODEL, weights)
    write_hdf5(os.path.join(folder, _WEIGHTS), part)
    backbone = configs.backbone_object(config, part.dtypes.pop() if len(part.dtypes) == 1 else "float32")
    objects = {_CONFIG: backbone}
    preprocessor = None
    if vocabulary is not None:
        make_directory(os.path.dirname(os.path.join(folder, _VOCABULARY)))
        write_whole(os.path.join(folder, _VOCABULARY), vocabulary)
        objects[_TOKENIZER_CONFIG] = configs.tokenizer_object()
    if head.head != "encoder":
        task_weights = _Renamed(config, head, TASK, weights, more=_fresh_optimizer(head))
        write_hdf5(os.path.join(folder, _TASK_WEIGHTS), task_weights)
        if vocabulary is not None:
            preprocessor = configs.preprocessor_object(head, config.max_position_embeddings)
            objects[_PREPROCESSOR_CONFIG] = preprocessor
        objects[_TASK_CONFIG] = configs.task_object(head, backbone, preprocessor)
    objects[_METADATA] = _metadata(part.count)
    for name, values in objects.items():
        write_whole(os.path.join(folder, name), json.dumps(values, indent=4))
    return written_notes(config, head, tokenizer)


def written_notes(config: AlbertConfig, head: HeadConfig, tokenizer: Tokenizer | None) -> tuple[str, ...]:
    """What a user should know of the preset that `save_model` writes with the same arguments."""
    del config
    notes = []
    if head.head == "masked_lm":
        notes.append(
            "KerasHub's masked-LM head normalises with epsilon 1e-5, this one with 1e-12: logits differ by about 5e-6 "
            "of their size, more where the head's transform gives small numbers"
        )
    if head.head == "regression":
        notes.append(
            "KerasHub has classifiers only: to bring this one in again as a regression, pass --head=regression"
        )
    if head.labels is not None:
        notes.append(f"KerasHub stores no names of classes; they are, from 0 on: {', '.join(head.labels)}")
    if tokenizer is not None and not isinstance(tokenizer, AlbertTokenizer):
        notes.append("KerasHub's ALBERT has no WordPiece: the preset is written without a tokenizer")
    elif tokenizer is not None and tokenizer.config.split_digit_comma:
        notes.append('KerasHub does not cut pieces such as "2010," into number and comma: ids differ there')
    return tuple(notes)


class _Renamed(Mapping[str, np.ndarray]):
    """The weights that belong into one of the files, under their paths in it; notes what it hands out.

    Args:
      part: beginning of the names of that file.
      weights: all weights by canonical name.
      more: what else goes into the file, by path.
    """

    def __init__(
        self,
        config: AlbertConfig,
        head: HeadConfig,
        part: str,
        weights: Mapping[str, np.ndarray],
        *,
        more: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        entries = (entry for entry in table(config, head) if entry.theirs.startswith(part))
        self._entries = {entry.theirs.removeprefix(part): entry for entry in entries}
        self._weights = weights
        self._more = more or {}
        self.dtypes: set[str] = set()
        self.count = 0

    def __getitem__(self, path: str) -> np.ndarray:
        if path in self._more:
            return self._more[path]
        entry = self._entries[path]
        value = entry.transform.to_theirs(self._weights[entry.ours])
        self.dtypes.add(value.dtype.name)
        self.count += value.size
        return value

    def __iter__(self) -> Iterator[str]:
        yield from self._entries
        yield from self._more

    def __len__(self) -> int:
        return len(self._entries) + len(self._more)


def _folder(path: str) -> str:
    return os.path.dirname(path) if os.path.basename(path) in (_WEIGHTS, _SHARDS, _TASK_WEIGHTS) else path


def _read_json(path: str) -> dict[str, Any]:
    return parse_object(read_whole(path), source=path)


def _open_weights(folder: str, *, with_task: bool) -> Iterator[tuple[str, WeightFile]]:
    whole, shards = os.path.join(folder, _WEIGHTS), os.path.join(folder, _SHARDS)
    if exists(whole) or not exists(shards):
        yield MODEL, Hdf5File(whole)
    else:
        for name in _shard_names(shards):
            yield MODEL, Hdf5File(os.path.join(folder, name))
    if with_task:
        yield TASK, Hdf5File(os.path.join(folder, _TASK_WEIGHTS))


def _shard_names(index: str) -> list[str]:
    """Names of the shards that an index of Keras' names: one or a list for each group of tensors."""
    weight_map = _read_json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise ValueError(f"{index}: has no object 'weight_map' that names files")
    names = []
    for found in weight_map.values():
        for name in found if isinstance(found, list) else [found]:
            if not isinstance(name, str) or os.path.basename(name) != name or name in ("", ".", ".."):
                raise ValueError(f"{index}: expected names of files beside it, got {name!r}")
            names.append(name)
    return sorted(set(names))


def _read_tokenizer(folder: str, vocab_size: int) -> tuple[Tokenizer | None, tuple[str, ...]]:
    path = os.path.join(folder, _VOCABULARY)
    if not exists(path):
        return None, ("the preset has no vocabulary: the model comes without a tokenizer",)
    try:
        config = _preparation(AlbertTokenizer(read_whole(path), config=_UNPREPARED))
        tokenizer = AlbertTokenizer(read_whole(path), config=config)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    if tokenizer.vocab_size != vocab_size:
        raise ValueError(
            f"{path}: has {tokenizer.vocab_size} pieces, the weights are for {vocab_size}: another model's"
        )
    added = " and ".join(
        words
        for words, is_added in (("letters are lowered", config.lower_case), ("accents dropped", config.strip_accents))
        if is_added
    )
    if not added:
        return tokenizer, ()
    return tokenizer, (
        f"{added} before the vocabulary, which has no pieces for them, sees the text; KerasHub does not",
    )


_UNPREPARED = TokenizerConfig(lower_case=False, strip_accents=False, split_digit_comma=False)


def _preparation(tokenizer: AlbertTokenizer) -> TokenizerConfig:
    """The preparation of text that a vocabulary was made for, as far as its own rules do not do it."""
    pieces = [tokenizer.id_to_piece(i) for i in range(tokenizer.vocab_size) if i not in tokenizer.special_ids]
    found = {}
    for name, sample in (("lower_case", "A"), ("strip_accents", "é")):
        config = _UNPREPARED.replace(**{name: True})
        wanted = normalize_text(sample, config)
        has_pieces = any(normalize_text(piece, config) != piece for piece in pieces)
        found[name] = not has_pieces and tokenizer.encode(sample) != tokenizer.encode(wanted)
    return _UNPREPARED.replace(**found)


def _baked_vocabulary(tokenizer: Tokenizer | None) -> bytes | None:
    """Content of the vocabulary's file: gives the tokenizer's ids without further preparation of text."""
    if not isinstance(tokenizer, AlbertTokenizer):
        return None
    if not (tokenizer.config.lower_case or tokenizer.config.strip_accents):
        return tokenizer.vocabulary
    return normalizer.bake_normalizer(tokenizer.vocabulary, tokenizer.config)


def _fresh_optimizer(head: HeadConfig) -> dict[str, np.ndarray]:
    """Step and learning rate of the optimizer that KerasHub gives a task; it warns where a file has none."""
    rate = 5e-5 if head.head == "masked_lm" else 1e-5
    return {"optimizer/vars/0": np.array(0, np.int64), "optimizer/vars/1": np.array(rate, np.float32)}


def _metadata(parameter_count: int) -> dict[str, Any]:
    """Content of `metadata.json`: the versions whose layout is written, whatever is installed."""
    return {
        "keras_version": "3.15.1",
        "keras_hub_version": "0.32.0",
        "parameter_count": parameter_count,
        "tasks": ["MaskedLM", "TextClassifier"],
    }
