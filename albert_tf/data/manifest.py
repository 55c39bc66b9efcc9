"""dataset.json: what a data directory holds, read and checked before anything is trained on it.

The file says by which record contract, tokenizer and settings the shards were made, how many examples each has and how
long it is, so that a shard of another run, or one cut off by a full disk, is refused by name at the start.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import reprlib
from collections.abc import Mapping
from typing import Any, TypeVar

from albert_tf import features, folder_kinds
from albert_tf.data.shards import Shard, check_length, open_file
from albert_tf.json_object import parse_object

DATASET_FILE = "dataset.json"
DIGITS_SHOWN = 12  # of a digest, in messages
_FORMAT = "albert_tf pretraining data"

_Text = TypeVar("_Text", bound=str)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataDirectory:
    """What dataset.json says. Field names are its keys.

    Attributes:
      path: the data directory.
      masking: "static" (masks are in the records) or "dynamic" (drawn while training).
      sentence_objective: "sop", "nsp" or "none": what the examples' second segments are for.
      max_seq_length: S, tokens.
      max_predictions_per_seq: P.
      masked_lm_prob: share of the real positions to predict, in (0, 1).
      max_ngram: longest n-gram to mask, in words.
      vocab_size: V.
      special_ids: ids of "pad", "unk", "cls", "sep" and "mask".
      excluded_replacement_ids: ids that no random replacement may be.
      tokenizer_digest: of the vocabulary and its settings.
      seed: of the run that made it.
      original_compatible: whether segments were chosen as the original does.
      counts: what was counted while it was made, by name.
      piece_counts: name and SHA-256 of the file that says how often each piece occurs.
      shards: the files, in the order of dataset.json; examples are numbered through all of them.
      digest: SHA-256 of dataset.json itself.
    """

    path: str
    masking: features.Masking
    sentence_objective: features.SentenceObjective
    max_seq_length: int
    max_predictions_per_seq: int
    masked_lm_prob: float
    max_ngram: int
    vocab_size: int
    special_ids: Mapping[str, int]
    excluded_replacement_ids: tuple[int, ...]
    tokenizer_digest: str
    seed: int
    original_compatible: bool
    counts: Mapping[str, int]
    piece_counts: tuple[str, str]
    shards: tuple[Shard, ...]
    digest: str

    @property
    def num_examples(self) -> int:
        """Examples in all shards."""
        return sum(shard.examples for shard in self.shards)

    @property
    def source(self) -> str:
        """Path of dataset.json."""
        return os.path.join(self.path, DATASET_FILE)

    def features(self) -> tuple[features.Feature, ...]:
        """What each record must hold."""
        return features.record_features(
            self.masking, self.sentence_objective, self.max_seq_length, self.max_predictions_per_seq
        )

    def locate(self, example: int) -> str:
        """Where example number `example` stands, for messages: "FILE, record N" (records count from 0)."""
        for shard in self.shards:
            if example < shard.examples:
                return f"{shard.path}, record {example}"
            example -= shard.examples
        raise ValueError(f"example must be in [0, {self.num_examples})")

    def check_fits(self, other: DataDirectory) -> None:
        """Refuses `other`, held-out data for example, where it was not made for the same model.

        Raises:
          ValueError: naming the key that differs.
        """
        for name in ("tokenizer_digest", "vocab_size", "sentence_objective"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                if name == "tokenizer_digest":
                    raise ValueError(f"{other.source}: made with another tokenizer than {self.path}; build it anew")
                raise ValueError(f"{other.source}: {name} must be that of {self.path}, {mine}, got {theirs}")


def read_data_directory(path: str | os.PathLike[str]) -> DataDirectory:
    """Checked content of the data directory `path`: keys, contract version, presence and length of every shard.

    Raises:
      FileNotFoundError: if the folder, its dataset.json or a shard is missing.
      ValueError: naming file, key or position, for anything that is not as it must be.
    """
    path = os.fspath(path)
    folder_kinds.check(path, DATASET_FILE, folder_kinds.DATA)
    with open_file(os.path.join(path, DATASET_FILE)) as stream:
        content: bytes = stream.read()
    data = parse_data_directory(path, content)
    for shard in data.shards:
        check_length(shard)
    return data


def parse_data_directory(path: str, content: bytes) -> DataDirectory:
    """What the dataset.json of data directory `path` says; looks at no other file.

    Args:
      path: the data directory.
      content: of its dataset.json.

    Raises:
      ValueError: naming the key, for anything that is not as it must be.
    """
    source = os.path.join(path, DATASET_FILE)
    values = parse_object(content, source=source)
    if values.get("format") != _FORMAT:
        raise ValueError(f'{source}: format must be "{_FORMAT}", got {values.get("format")!r}')
    version = values.get("contract_version")
    if version != features.RECORD_CONTRACT_VERSION or not isinstance(version, int) or isinstance(version, bool):
        raise ValueError(
            f"{source}: contract_version must be {features.RECORD_CONTRACT_VERSION}, got "
            f"{values.get('contract_version')!r}; build the shards again with this version"
        )
    try:
        data = _parse(path, values, hashlib.sha256(content).hexdigest())
    except KeyError as error:
        raise ValueError(f"{source}: missing key {error.args[0]!r}") from error
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from error
    if not data.num_examples:
        raise ValueError(f"{source}: the data directory holds no example")
    return data


def _parse(path: str, values: Mapping[str, Any], digest: str) -> DataDirectory:
    """`DataDirectory` of what dataset.json holds.

    Raises:
      KeyError: for a missing key.
      ValueError: naming the key, for a value of another type or out of range.
    """
    max_seq_length = _whole(values, "max_seq_length", 5, features.LONGEST_SEQUENCE)
    vocab_size = _whole(values, "vocab_size", 6, 2**31 - 1)
    special_ids = _mapping(values, "special_ids")
    excluded = values["excluded_replacement_ids"]
    if not isinstance(excluded, list) or not all(_is_whole(i, 0, vocab_size - 1) for i in excluded):
        raise ValueError(f"excluded_replacement_ids must be ids in [0, {vocab_size}), got {_shortened(excluded)}")
    if len(set(excluded)) >= vocab_size:
        raise ValueError("excluded_replacement_ids must leave an id to replace with, got every one")
    prob = values["masked_lm_prob"]
    if isinstance(prob, bool) or not isinstance(prob, (int, float)) or not 0 < prob < 1:
        raise ValueError(f"masked_lm_prob must be a number in (0, 1), got {_shortened(prob)}")
    pieces = _mapping(values, "piece_counts")
    counts = _mapping(values, "counts")
    shards = values["shards"]
    if not isinstance(shards, list) or not all(isinstance(entry, dict) for entry in shards):
        raise ValueError(f"shards must be a list of objects, got {_shortened(shards)}")
    return DataDirectory(
        path=path,
        masking=_choice(values, "masking", ("static", "dynamic")),
        sentence_objective=_choice(values, "sentence_objective", features.SENTENCE_OBJECTIVES),
        max_seq_length=max_seq_length,
        max_predictions_per_seq=_whole(values, "max_predictions_per_seq", 1, max_seq_length),
        masked_lm_prob=float(prob),
        max_ngram=_whole(values, "max_ngram", 1, features.LONGEST_NGRAM),
        vocab_size=vocab_size,
        special_ids={
            name: _whole(special_ids, name, 0, vocab_size - 1) for name in ("pad", "unk", "cls", "sep", "mask")
        },
        excluded_replacement_ids=tuple(excluded),
        tokenizer_digest=_text(_mapping(values, "tokenizer"), "digest"),
        seed=_whole(values, "seed", 0, 2**62),
        original_compatible=bool(_mapping(values, "settings").get("original_compatible", False)),
        counts={name: count for name, count in counts.items() if _is_whole(count, 0, 2**63)},
        piece_counts=(_file_name(pieces), _text(pieces, "sha256")),
        shards=tuple(_parse_shard(path, entry) for entry in shards),
        digest=digest,
    )


def _parse_shard(path: str, entry: Mapping[str, Any]) -> Shard:
    return Shard(
        path=os.path.join(path, _file_name(entry)),
        examples=_whole(entry, "examples", 0, 2**53),
        bytes=_whole(entry, "bytes", 0, 2**53),
        sha256=_text(entry, "sha256"),
    )


def _file_name(entry: Mapping[str, Any]) -> str:
    name = _text(entry, "file")
    if not name or os.path.basename(name) != name:
        raise ValueError(f"file must be a name in the data directory, got {_shortened(name)}")
    return name


def _choice(values: Mapping[str, Any], key: str, choices: tuple[_Text, ...]) -> _Text:
    for choice in choices:
        if values[key] == choice:
            return choice
    raise ValueError(f"{key} must be {', '.join(choices[:-1])} or {choices[-1]}, got {_shortened(values[key])}")


def _whole(values: Mapping[str, Any], key: str, lowest: int, highest: int) -> int:
    value = values[key]
    if not _is_whole(value, lowest, highest):
        raise ValueError(f"{key} must be a whole number in [{lowest}, {highest}], got {_shortened(value)}")
    number: int = value
    return number


def _is_whole(value: Any, lowest: int, highest: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and lowest <= value <= highest


def _text(values: Mapping[str, Any], key: str) -> str:
    value = values[key]
    if not isinstance(value, str):
        raise ValueError(f"{key} must be a text, got {_shortened(value)}")
    return value


def _mapping(values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = values[key]
    if not isinstance(value, dict):
        raise ValueError(f"{key} must be an object, got {_shortened(value)}")
    return value


def _shortened(value: Any) -> str:
    return reprlib.repr(value)
