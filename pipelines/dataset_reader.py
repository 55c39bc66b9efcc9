"""dataset.json as an audit needs it: the contract, the ids, and what each file should be.

Unlike `albert_tf.data.manifest`, which refuses a data directory at the first fault, this looks at no shard: the audit
names the faults of all of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from albert_tf import features, folder_kinds
from albert_tf.json_object import parse_object
from pipelines import dataset, files

_SPECIAL = ("pad", "unk", "cls", "sep", "mask")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardEntry:
    """What dataset.json says of one shard: its path, examples, bytes, and SHA-256 in hexadecimal."""

    path: str
    examples: int
    bytes: int
    sha256: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dataset:
    """What dataset.json says. Field names are its keys.

    Attributes:
      path: the data directory.
      source: path of dataset.json.
      masking: "static" or "dynamic".
      max_seq_length: S, tokens.
      max_predictions_per_seq: P.
      masked_lm_prob: share of the real positions to predict, in (0, 1).
      max_ngram: longest n-gram to mask, in words.
      vocab_size: V.
      seed: of the run that made it.
      special_ids: ids of "pad", "unk", "cls", "sep" and "mask".
      excluded_replacement_ids: ids that no random replacement may be.
      tokenizer_digest: of the vocabulary and its settings.
      counts: what the builder counted, by name.
      piece_counts: path and SHA-256 of the file that says how often each piece occurs.
      shards: in the order of dataset.json.
    """

    path: str
    source: str
    masking: features.Masking
    max_seq_length: int
    max_predictions_per_seq: int
    masked_lm_prob: float
    max_ngram: int
    vocab_size: int
    seed: int
    special_ids: Mapping[str, int]
    excluded_replacement_ids: tuple[int, ...]
    tokenizer_digest: str
    counts: Mapping[str, int]
    piece_counts: tuple[str, str]
    shards: tuple[ShardEntry, ...]

    def features(self) -> tuple[features.Feature, ...]:
        """What each record must hold."""
        if self.masking == "static":
            return features.static_features(self.max_seq_length, self.max_predictions_per_seq)
        return features.dynamic_features()

    @property
    def num_examples(self) -> int:
        """Examples in all shards."""
        return sum(shard.examples for shard in self.shards)


def read_dataset(path: str) -> Dataset:
    """Checked content of the dataset.json of data directory `path`.

    Raises:
      FileNotFoundError: if there is no such folder, or no dataset.json in it.
      ValueError: naming the key, for anything that is not as it must be.
    """
    source = files.join(path, dataset.DATASET_FILE)
    folder_kinds.check(path, dataset.DATASET_FILE, folder_kinds.DATA)
    values = parse_object(files.read_bytes(source), source=source)
    expected = {"format": "albert_tf pretraining data", "contract_version": features.RECORD_CONTRACT_VERSION}
    for key, value in expected.items():
        if values.get(key) != value:
            raise ValueError(f"{source}: {key} must be {value!r}, got {values.get(key)!r}")
    try:
        return _parse(path, source, values)
    except KeyError as error:
        raise ValueError(f"{source}: missing key {error.args[0]!r}") from error
    except (TypeError, AttributeError) as error:
        raise ValueError(f"{source}: a value has the wrong type: {error}") from error


def _parse(path: str, source: str, values: Mapping[str, Any]) -> Dataset:
    def number(holder: Mapping[str, Any], key: str, least: int, most: int = 2**63) -> int:
        value = holder[key]
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value < most:
            raise ValueError(f"{source}: {key} must be a whole number in [{least}, {most}), got {value!r}")
        return value

    V = number(values, "vocab_size", 1, 2**31)
    S = number(values, "max_seq_length", 5, 2**31)
    if values["masking"] not in ("static", "dynamic"):
        raise ValueError(f"{source}: masking must be static or dynamic, got {values['masking']!r}")
    probability = values["masked_lm_prob"]
    if not isinstance(probability, float) or not 0.0 < probability < 1.0:
        raise ValueError(f"{source}: masked_lm_prob must be in (0, 1), got {probability!r}")
    excluded = list(values["excluded_replacement_ids"])
    counts = {key: value for key, value in values["counts"].items() if isinstance(value, int)}
    shards = tuple(
        ShardEntry(
            path=files.join(path, entry["file"]),
            examples=number(entry, "examples", 0),
            bytes=number(entry, "bytes", 0),
            sha256=str(entry["sha256"]),
        )
        for entry in values["shards"]
    )
    if not sum(shard.examples for shard in shards):
        raise ValueError(f"{source}: the data directory holds no example")
    return Dataset(
        path=path,
        source=source,
        masking=values["masking"],
        max_seq_length=S,
        max_predictions_per_seq=number(values, "max_predictions_per_seq", 1, S + 1),
        masked_lm_prob=probability,
        max_ngram=number(values, "max_ngram", 1),
        vocab_size=V,
        seed=number(values, "seed", 0),
        special_ids={name: number(values["special_ids"], name, 0, V) for name in _SPECIAL},
        excluded_replacement_ids=tuple(
            number({"excluded_replacement_ids": value}, "excluded_replacement_ids", 0, V) for value in excluded
        ),
        tokenizer_digest=str(values["tokenizer"]["digest"]),
        counts=counts,
        piece_counts=(files.join(path, values["piece_counts"]["file"]), str(values["piece_counts"]["sha256"])),
        shards=shards,
    )
