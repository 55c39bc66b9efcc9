"""What a pretraining run reads, checked against each other and the model before TensorFlow is loaded."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

from absl import logging

from albert_tf.data.manifest import DATASET_FILE, DIGITS_SHOWN, DataDirectory, read_data_directory
from albert_tf.model_directory import load_tokenizer
from albert_tf.tokenizer_base import Tokenizer
from albert_tf.training.settings import PretrainingSettings
from albert_tf.training.warm_start import WarmStart


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inputs:
    """Training data of each stage, held-out data if any, the tokenizer of all, and the model to start from if any."""

    stages: tuple[DataDirectory, ...]
    held_out: DataDirectory | None
    tokenizer: Tokenizer
    start: WarmStart | None = None


def read_inputs(settings: PretrainingSettings, start: WarmStart | None = None) -> Inputs:
    """Inputs of a run, of a new model or of one to `start` from.

    Raises:
      ValueError: naming file, key and values of what does not fit.
      FileNotFoundError: if something is missing.
    """
    stages = tuple(_with_ngrams(read_data_directory(one.data_dir), settings.max_ngram) for one in settings.all_stages)
    data = stages[0]
    tokenizer = load_tokenizer(settings.data_dir)
    source = os.path.join(settings.data_dir, DATASET_FILE)
    if tokenizer.digest != data.tokenizer_digest:
        raise ValueError(
            f"{source}: made with the tokenizer {data.tokenizer_digest[:DIGITS_SHOWN]}, but the files beside it in "
            f"{settings.data_dir} are {tokenizer.digest[:DIGITS_SHOWN]}; build the shards again"
        )
    if start is not None:
        _check_same_pieces(start, data, tokenizer, source)
    config = settings.config
    if config.vocab_size != data.vocab_size:
        raise ValueError(f"{source}: vocab_size must be that of the model, {config.vocab_size}, got {data.vocab_size}")
    held_out = read_data_directory(settings.eval_data_dir) if settings.eval_data_dir else None
    for other in stages[1:]:
        data.check_fits(other)
    if held_out is not None:
        data.check_fits(held_out)
        if held_out.digest in {stage.digest for stage in stages}:
            logging.warning("%s is the training data: the evaluation says nothing of new text", settings.eval_data_dir)
    for directory in filter(None, (*stages, held_out)):
        if directory.max_seq_length > config.max_position_embeddings:
            raise ValueError(
                f"{os.path.join(directory.path, DATASET_FILE)}: max_seq_length must be at most the model's "
                f"max_position_embeddings, {config.max_position_embeddings}, got {directory.max_seq_length}"
            )
    for directory, size in zip(stages, settings.batch_sizes, strict=True):
        if size > directory.num_examples:
            raise ValueError(
                f"{directory.source}: train_batch_size must be at most the number of examples, "
                f"{directory.num_examples}, got {size}"
            )
    return Inputs(stages=stages, held_out=held_out, tokenizer=tokenizer, start=start)


def _with_ngrams(data: DataDirectory, max_ngram: int | None) -> DataDirectory:
    """The data, with another longest n-gram to mask where `max_ngram` is given.

    Raises:
      ValueError: if its masks are drawn already.
    """
    if max_ngram is None:
        return data
    if data.masking != "dynamic":
        raise ValueError(f"{data.source}: its masks are drawn already (masking {data.masking}): leave max_ngram away")
    return dataclasses.replace(data, max_ngram=max_ngram)


def fingerprint(
    settings: PretrainingSettings, stages: Sequence[DataDirectory], start: WarmStart | None
) -> dict[str, Any]:
    """What decides the weights of a run, ready for JSON."""
    digests = (data.digest for data in stages)
    return settings.fingerprint(*digests, start_digest=start.digest if start else None)


def _check_same_pieces(start: WarmStart, data: DataDirectory, tokenizer: Tokenizer, source: str) -> None:
    """Refuses data whose ids mean other pieces than the model's.

    Raises:
      ValueError: saying how the data can be made.
    """
    advice = f"build the shards again with --tokenizer={start.path}, or begin with a new model"
    if start.config.vocab_size != data.vocab_size:
        raise ValueError(
            f"{source}: made for {data.vocab_size} pieces, {start.path} has {start.config.vocab_size}; a change of the "
            f"vocabulary would leave the embeddings without meaning: {advice}"
        )
    if start.tokenizer is None:
        logging.warning("%s has no tokenizer: whether its pieces are those of the data cannot be told", start.path)
    elif start.tokenizer.digest != tokenizer.digest:
        raise ValueError(f"{source}: made with another tokenizer than that of {start.path}: {advice}")
