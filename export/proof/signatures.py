"""Which of an artefact's signatures can be compared with a model, and what each is given."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from albert_tf import features
from albert_tf.files import exists, read_whole
from albert_tf.tokenizer_base import Tokenizer
from export import parity
from export.artifacts import ENCODER_INPUTS, SIGNATURES_FILE
from export.proof.passages import LONG_PASSAGE, PASSAGES
from export.proof.process import AloneProcess, Signature

if TYPE_CHECKING:
    from albert_tf.inference.loaded_model import LoadedModel

TOKENIZE = "tokenize"
_TEXTS_AT_ONCE = 16


def takes_ids(signature: Signature, inputs: Mapping[str, np.ndarray]) -> bool:
    """Whether a signature takes nothing but what `inputs` has, of any number of rows and tokens."""
    return bool(signature.inputs) and all(
        name in inputs and shape is not None and len(shape) == inputs[name].ndim and set(shape) == {None}
        for name, (_, shape) in signature.inputs.items()
    )


def takes_texts(signature: Signature, outputs: Iterable[str]) -> bool:
    """Whether a signature takes one text or a pair for each row, and gives one of the model's `outputs`."""
    return set(signature.inputs) in ({"text"}, {"text", "text_b"}) and not signature.outputs.keys().isdisjoint(outputs)


def given(signature: Signature, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Those of `inputs` that a signature takes."""
    return {name: inputs[name] for name in signature.inputs}


def read_max_seq_length(path: str | os.PathLike[str]) -> int | None:
    """Tokens that a SavedModel cuts texts to, as its description says; None where it does not."""
    described_path = os.path.join(path, SIGNATURES_FILE)
    if not exists(described_path):
        return None
    try:
        value = json.loads(read_whole(described_path)).get("max_seq_length")
    except (ValueError, AttributeError):
        return None
    return value if isinstance(value, int) else None


def check_tokenize(process: AloneProcess, tokenizer: Tokenizer) -> int:
    """Compares the ids that the signature `tokenize` gives with the Python tokenizer's; returns how many texts.

    Raises:
      ValueError: for the first text with other ids.
    """
    texts = (*PASSAGES, LONG_PASSAGE, "")
    found = process.run(TOKENIZE, [{"text": np.array(texts)}])[0]
    for text, ids, length in zip(texts, found["ids"], found["lengths"], strict=True):
        if (wanted := tokenizer.encode(text)) != ids[:length].tolist():
            raise ValueError(
                f"{process.name}: {text[:80]!r} gives the ids {_short(ids[:length].tolist())}, "
                f"the tokenizer {_short(wanted)}"
            )
    return len(texts)


def _short(ids: Sequence[int]) -> str:
    return f"{list(ids[:12])}{'...' if len(ids) > 12 else ''}"


def text_cases(
    process: AloneProcess, name: str, source: LoadedModel, max_seq_length: int, texts: Sequence[str]
) -> tuple[list[parity.Batch], list[dict[str, np.ndarray]]]:
    """Batches as the tokenizer makes them of `texts`, and what the signature `name` gives for the texts.

    Raises:
      ValueError: if it tells that the model was given other ids than the tokenizer's.
    """
    signature = process.loaded.signatures[name]
    pairs = "text_b" in signature.inputs
    others = [*texts[1:], texts[0]] if pairs else [""] * len(texts)
    batches, requests = [], []
    for start in range(0, len(texts), _TEXTS_AT_ONCE):
        # Every so many, so that short and long ones stand together
        ones = texts[start // _TEXTS_AT_ONCE :: -(-len(texts) // _TEXTS_AT_ONCE)]
        twos = others[start // _TEXTS_AT_ONCE :: -(-len(texts) // _TEXTS_AT_ONCE)]
        rows = [
            source.tokenizer.encode_pair(
                source.tokenizer.encode(one), source.tokenizer.encode(two) or None, max_seq_length
            )
            for one, two in zip(ones, twos, strict=True)
        ]
        batches.append(parity.make_batch(rows))
        given = {"text": np.array(ones), **({"text_b": np.array(twos)} if pairs else {})}
        if len(signature.inputs["text"][1] or ()) == 2:  # choices, as `parity.head_inputs` makes them
            shifts = range(parity.CHOICES)
            given = {key: np.stack([np.roll(one, -n) for n in shifts], axis=1) for key, one in given.items()}
        requests.append(given)
    outputs = process.run(name, requests)
    for batch, one in zip(batches, outputs, strict=True):
        for key in ENCODER_INPUTS:
            if key in one and not np.array_equal(one[key], batch[key]):
                raise ValueError(f"{process.name}: signature {name!r} gives a text other {key} than the tokenizer")
    return batches, outputs


def model_inputs(source: LoadedModel, batch: parity.Batch) -> parity.Batch:
    """What the model takes where an artefact takes text: of a conditional span the second text alone may answer."""
    inputs = parity.head_inputs(source.model.head_config, batch)
    if features.P_MASK in inputs:
        allowed = (batch[features.SEGMENT_IDS] == 1) & (batch[features.INPUT_IDS] != source.tokenizer.sep_id)
        allowed[:, 0] = True
        inputs[features.P_MASK] = 1 - allowed.astype(np.int32)
    return inputs


def timed_signature(signatures: Mapping[str, Signature]) -> str | None:
    """Name of the signature that time is measured with: the first that takes token ids."""
    for name in ("serving_default", "ids", *signatures):
        if name in signatures and set(ENCODER_INPUTS) <= set(signatures[name].inputs):
            return name
    return None


def full_rows(signature: Signature, batch_size: int, length: int) -> dict[str, np.ndarray]:
    """Inputs for a signature that takes token ids, without padding; the ids are those that every vocabulary has."""
    generator = np.random.default_rng(length)
    inputs = {}
    for name, (_, shape) in signature.inputs.items():
        rank = len(shape or ())
        sizes = (batch_size, parity.CHOICES, length) if rank == 3 else (batch_size, length)
        if name == features.MASKED_LM_POSITIONS:
            inputs[name] = np.zeros([batch_size, 1], np.int32)
        elif name == features.INPUT_IDS:
            inputs[name] = generator.integers(0, 5, sizes).astype(np.int32)
        else:
            inputs[name] = np.full(sizes, int(name == features.INPUT_MASK), np.int32)
    return inputs
