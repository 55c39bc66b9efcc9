"""dataset.json: what a data directory holds and by which settings it was made.

It says nothing of time, host, files or workers: equal input and settings give equal bytes. Those go to build.log.json.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf import features, folder_kinds
from albert_tf.data.manifest import DATASET_FILE, DataDirectory, parse_data_directory
from albert_tf.json_object import parse_object
from albert_tf.tokenizer_base import Tokenizer
from pipelines import files, readers
from pipelines.example_settings import ExampleSettings

LOG_FILE, PIECE_COUNTS_FILE = "build.log.json", "piece_counts.npy"

_FORMAT = "albert_tf pretraining data"
_RESULTS = ("counts", "shards", "piece_counts", "inputs")


def shard_name(shard: int, num_shards: int) -> str:
    """File name of a shard."""
    return f"pretrain-{shard:05d}-of-{num_shards:05d}.tfrecord"


def manifest_name(shard: int) -> str:
    """File name of what the writer of a shard says about it: the shard is finished when it is there."""
    return f"manifest-{shard:05d}.json"


def describe_settings(
    settings: ExampleSettings, reading: readers.ReaderSettings, tokenizer: Tokenizer
) -> dict[str, Any]:
    """The part of dataset.json that is known before any text is read."""
    values = {**settings.to_dict(), **dataclasses.asdict(reading)}
    top = ("sentence_objective", "masking", "max_seq_length", "max_predictions_per_seq", "masked_lm_prob", "max_ngram")
    return {
        "format": _FORMAT,
        "contract_version": features.RECORD_CONTRACT_VERSION,
        **{name: values.pop(name) for name in top},
        "vocab_size": tokenizer.vocab_size,
        "tokenizer": {"file": tokenizer.vocabulary_file, "config": files.CONFIG_FILE, "digest": tokenizer.digest},
        "special_ids": {
            "pad": tokenizer.pad_id,
            "unk": tokenizer.unk_id,
            "cls": tokenizer.cls_id,
            "sep": tokenizer.sep_id,
            "mask": tokenizer.mask_id,
        },
        "excluded_replacement_ids": sorted(tokenizer.special_ids),
        "seed": values.pop("seed"),
        "settings": values,
    }


def describe_counts(counts: Mapping[str, int]) -> dict[str, Any]:
    """The counts of `ExampleBuilder`, with what was dropped by reason and n-grams by length."""
    values = dict(sorted(counts.items()))
    ngrams = {name.removeprefix("ngrams_of_"): values.pop(name) for name in list(values) if name.startswith("ngrams_")}
    dropped = {reason: values.pop(f"tokens_{reason}", 0) for reason in ("single_word", "truncated")}
    values = {"duplicate_documents": 0, "bad_input": 0, **values}
    return {**values, "tokens_dropped": dropped, **({"ngrams": ngrams} if ngrams else {})}


def describe(
    settings: Mapping[str, Any],
    counts: Mapping[str, int],
    shards: Sequence[Mapping[str, Any]],
    piece_counts_sha256: str,
) -> dict[str, Any]:
    """All of dataset.json."""
    return {
        **settings,
        "counts": describe_counts(counts),
        "piece_counts": {"file": PIECE_COUNTS_FILE, "sha256": piece_counts_sha256},
        "shards": list(shards),
    }


def to_json(value: Mapping[str, Any]) -> str:
    """Text of a JSON file, ending with a newline."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def check_same_settings(text: str, settings: Mapping[str, Any], source: str) -> dict[str, Any]:
    """What a dataset.json holds; refuses one that other settings made.

    Args:
      text: content of the dataset.json found there.
      settings: `describe_settings` of this run.
      source: path of that file, for errors.

    Raises:
      ValueError: naming the first setting that differs.
    """
    try:
        found = parse_object(text, source=source)
    except ValueError as error:
        raise ValueError(f"{error}; name another output_dir") from error
    old, new = _flatten({k: v for k, v in found.items() if k not in _RESULTS}), _flatten(settings)
    for name in [*new, *old]:
        if old.get(name) != new.get(name):
            there, here = (_shortened(name, values.get(name)) for values in (old, new))
            raise ValueError(
                f"{source}: made with {name} = {there}, asked for {here}; name another output_dir or remove this one"
            )
    return found


def read_dataset(path: str) -> DataDirectory:
    """What the dataset.json of data directory `path` says, on any file system that Beam knows.

    Unlike `albert_tf.data.manifest.read_data_directory` it looks at no shard: an audit names the faults of all of them.

    Raises:
      FileNotFoundError: if there is no such folder, or no dataset.json in it.
      ValueError: naming the key, for anything that is not as it must be.
    """
    source = files.join(path, DATASET_FILE)
    folder_kinds.check(path, DATASET_FILE, folder_kinds.DATA)
    return parse_data_directory(path, files.read_bytes(source))


def _shortened(name: str, value: Any) -> str:
    """A setting's value for messages: of a digest, the first digits."""
    return repr(value[:12] if name.endswith("digest") and isinstance(value, str) else value)


def _flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat.update(_flatten(value, f"{prefix}{name}."))
        else:
            flat[prefix + name] = value
    return flat
