"""Texts that show a converter which range each activation has, for 8-bit activations ("full_int8").

From a data directory of pretraining records, or a text file with one text a line. All batches have one shape, [B, S]:
the converter cannot change shapes while it watches.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import numpy as np

from albert_tf import features
from albert_tf.data.manifest import DATASET_FILE, read_data_directory
from albert_tf.files import exists, read_whole
from albert_tf.tokenizer_base import Tokenizer
from export.artifacts import ENCODER_INPUTS
from export.parity import Batch, make_batch

Row = tuple[list[int], list[int], list[int]]  # input ids, input mask and segment ids of a text

MOST_TEXTS = 32
BATCH_SIZE = 8
LONGEST = 128  # tokens


def read_representative(
    path: str | os.PathLike[str], tokenizer: Tokenizer, max_seq_length: int, *, count: int = MOST_TEXTS
) -> list[Batch]:
    """Batches as `parity.make_batch` gives them, of the first texts of `path`; a text of more than 128 tokens is cut.

    Args:
      path: data directory, as `pipelines.create_pretraining_data` writes it, or a text file in UTF-8.
      tokenizer: the model's tokenizer.
      max_seq_length: most tokens of a text that the model takes.
      count: most texts to take.

    Raises:
      OSError: if it cannot be read.
      ValueError: if it is damaged, was made with another vocabulary, or holds no text.
    """
    length = min(max_seq_length, LONGEST)
    is_folder = os.path.isdir(path) or exists(os.path.join(path, DATASET_FILE))
    read = _rows_of_records if is_folder else _rows_of_lines
    found = list(itertools.islice(read(os.fspath(path), tokenizer, length), count))
    if not found:
        raise ValueError(f"{os.fspath(path)}: holds no text; representative data must be texts as the model will get")
    found = (found * BATCH_SIZE)[: max(BATCH_SIZE, len(found) // BATCH_SIZE * BATCH_SIZE)]
    longest = max(sum(mask) for _, mask, _ in found)
    batches = []
    for start in range(0, len(found), BATCH_SIZE):
        batch = make_batch(found[start : start + BATCH_SIZE])
        missing = longest - batch[features.INPUT_IDS].shape[1]
        for name in ENCODER_INPUTS:
            batch[name] = np.pad(batch[name], [(0, 0), (0, missing)])
        batches.append(batch)
    return batches


def _rows_of_lines(path: str, tokenizer: Tokenizer, length: int) -> Iterator[Row]:
    try:
        lines = read_whole(path).decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 at byte {error.start}; representative data is one text a line") from error
    for line in lines:
        if ids := tokenizer.encode(line):
            yield tokenizer.encode_pair(ids, None, length)


def _rows_of_records(path: str, tokenizer: Tokenizer, length: int) -> Iterator[Row]:
    import tensorflow as tf

    from albert_tf.data.batches import evaluation_batches, explain

    data = read_data_directory(path)
    if data.tokenizer_digest != tokenizer.digest:
        raise ValueError(f"{path}: made with another tokenizer than the model's; give data of its own, or a text file")
    try:
        for batch in evaluation_batches(data, batch_size=BATCH_SIZE):
            ids, mask, segments = (batch[name].numpy()[:, :length].tolist() for name in ENCODER_INPUTS)
            yield from zip(ids, mask, segments, strict=True)
    except tf.errors.OpError as error:
        raise explain(error, data) or error from error
