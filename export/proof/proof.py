"""The proof: an artefact, loaded on its own, stores the model's weights and gives its numbers, and what it costs.

proof.prove([Artefact(path=..., name="SavedModel ids")], loaded, bound) -> Report
"""

from __future__ import annotations

import dataclasses
import os
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from absl import logging

from albert_tf.files import is_remote
from albert_tf.stored_weights import VariableValues
from export import parity
from export.proof import cases, signatures, weights
from export.proof.passages import LONG_PASSAGE, PASSAGES, PLAIN_PASSAGES
from export.proof.process import AloneProcess, is_saved_model

if TYPE_CHECKING:
    from albert_tf.inference.loaded_model import LoadedModel

_LENGTHS = (8, 32, 128, 512)
_REPEATS = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Artefact:
    """A SavedModel's folder or a TFLite file, and what reports and errors call it."""

    path: str
    name: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Latency:
    """Median seconds of a call with rows without padding."""

    signature: str
    batch_size: int
    length: int
    seconds: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProvenArtefact:
    """What was found of one artefact.

    Attributes:
      name: what it is called.
      kind: "SavedModel" or "TFLite".
      bytes: of all its files.
      weights: what of the model it stores.
      agreement: by signature and output, how well it agrees with the source.
      not_compared: signatures that nothing in the source corresponds to.
      equal_texts: texts whose ids are the Python tokenizer's; None where the artefact has no tokenizer.
      needs: programs that ran it -> their versions.
      load_seconds: time to load it.
      memory: bytes at the peak above what the process had after its imports, loading and the latencies' calls
        included; None where the system does not tell.
      latencies: time of calls.
    """

    name: str
    kind: str
    bytes: int
    weights: weights.Weights
    agreement: Mapping[str, Mapping[str, parity.Agreement]]
    not_compared: tuple[str, ...]
    equal_texts: int | None
    needs: Mapping[str, str]
    load_seconds: float
    memory: int | None
    latencies: tuple[Latency, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Proof:
    """What `prove` gives.

    Attributes:
      bound: what the outputs kept to.
      reach: what the artefacts were compared on.
      artefacts: what was found of each.
    """

    bound: parity.Bound
    reach: cases.Reach
    artefacts: tuple[ProvenArtefact, ...]


def prove(artefacts: Sequence[Artefact], source: LoadedModel, bound: parity.Bound) -> Proof:
    """Runs each artefact in a process that has nothing of this project, and compares it with its source.

    Args:
      artefacts: what was exported.
      source: the model they were made from.
      bound: what every output must keep to.

    Raises:
      ValueError: naming the artefact: if it does not load or run on its own, lacks weights of the model, gives a number
        that is not finite, other ids than the tokenizer, or an output beyond the bound.
    """
    begun = time.monotonic()
    model = source.model
    wanted = weights.named_tensors(VariableValues(model.named_weights()))
    stored = [_check_weights(artefact, wanted) for artefact in artefacts]
    made = cases.make_cases(model.config, source.tokenizer)
    batches, reach = made.batches, made.reach
    # Rounded weights are bound on texts: what they make of random ids tells nobody anything, but must be finite.
    judged = len(batches) if bound.relative is not None else made.text_batches
    given = [parity.head_inputs(model.head_config, batch) for batch in batches]
    expected = [parity.source_outputs(model, inputs) for inputs in given]
    logging.info("source: %d rows in %.1f s", reach.rows, time.monotonic() - begun)
    found = []
    for artefact, of_artefact in zip(artefacts, stored, strict=True):
        begun = time.monotonic()
        with AloneProcess(artefact.path, name=artefact.name) as process:
            latencies, memory = _measure(process, model.config.max_position_embeddings)
            compared = _compare_ids(process, source, (batches, given, expected), judged)
            compared |= _compare_texts(process, source, artefact.path, expected[0].keys())
            if not compared:
                raise ValueError(f"{artefact.name}: no signature takes token ids or texts as its source does")
            for name, of_outputs in compared.items():
                parity.check(of_outputs, bound, artefact=f"{artefact.name}, signature {name!r}")
            equal_texts = None
            if signatures.TOKENIZE in process.loaded.signatures:
                equal_texts = signatures.check_tokenize(process, source.tokenizer)
            done = {*compared, *([signatures.TOKENIZE] if equal_texts is not None else [])}
            if is_saved_model(artefact.path):
                _ask(process, set(process.loaded.signatures) - done, given[0])
            found.append(
                ProvenArtefact(
                    name=artefact.name,
                    kind="SavedModel" if is_saved_model(artefact.path) else "TFLite",
                    bytes=size_of(artefact.path),
                    weights=of_artefact,
                    agreement=compared,
                    not_compared=tuple(sorted(set(process.loaded.signatures) - done)),
                    equal_texts=equal_texts,
                    needs=process.loaded.needs,
                    load_seconds=process.loaded.load_seconds,
                    memory=memory,
                    latencies=latencies,
                )
            )
        logging.info("%s: proved in %.1f s", artefact.name, time.monotonic() - begun)
    return Proof(bound=bound, reach=reach, artefacts=tuple(found))


def _check_weights(artefact: Artefact, wanted: Sequence[weights.StoredTensor]) -> weights.Weights:
    found = weights.compare_weights(wanted, weights.stored_tensors(artefact.path))
    if lacking := weights.not_allowed(found.missing, is_part=not is_saved_model(artefact.path)):
        raise ValueError(
            f"{artefact.name}: stores {found.stored:,} numbers of a model of {found.parameters:,}; {lacking[0]} of the "
            f"source is not among its tensors{f', nor {len(lacking) - 1} more' if len(lacking) > 1 else ''}; nothing "
            "was written"
        )
    return found


def _measure(process: AloneProcess, longest: int) -> tuple[tuple[Latency, ...], int | None]:
    """Time of calls of one row, and the memory that loading and these calls took."""
    name = signatures.timed_signature(process.loaded.signatures)
    if name is None:
        return (), process.memory()
    lengths = sorted({min(length, longest) for length in _LENGTHS})
    signature = process.loaded.signatures[name]
    requests = [signatures.full_rows(signature, 1, length) for length in lengths]
    seconds = process.time(name, requests, repeats=_REPEATS)
    found = tuple(
        Latency(signature=name, batch_size=1, length=length, seconds=statistics.median(times))
        for length, times in zip(lengths, seconds, strict=True)
    )
    return found, process.memory()


def _compare_ids(
    process: AloneProcess,
    source: LoadedModel,
    compared: tuple[list[parity.Batch], list[parity.Batch], list[dict[str, np.ndarray]]],
    judged: int,
) -> dict[str, dict[str, parity.Agreement]]:
    """Agreement of every signature that takes token ids, over the first `judged` batches; the others must be finite."""
    batches, inputs, expected = compared
    found = {}
    for name, signature in process.loaded.signatures.items():
        if signatures.takes_ids(signature, inputs[0]):
            actual = process.run(name, [signatures.given(signature, one) for one in inputs])
            _agreement(process.name, name, expected[judged:], actual[judged:], batches[judged:], source)
            found[name] = _agreement(process.name, name, expected[:judged], actual[:judged], batches[:judged], source)
    return {name: one for name, one in found.items() if one}


def _compare_texts(
    process: AloneProcess, source: LoadedModel, path: str, outputs: Iterable[str]
) -> dict[str, dict[str, parity.Agreement]]:
    """Agreement of every signature that takes texts and gives what the model gives."""
    found = {}
    max_seq_length = signatures.read_max_seq_length(path) or source.max_seq_length
    # The tokenizer inside a TFLite file prepares a few odd characters otherwise.
    texts = (*PASSAGES, LONG_PASSAGE) if is_saved_model(path) else PLAIN_PASSAGES
    for name, signature in process.loaded.signatures.items():
        if signatures.takes_texts(signature, outputs):
            batches, actual = signatures.text_cases(process, name, source, max_seq_length, texts)
            inputs = [signatures.model_inputs(source, batch) for batch in batches]
            expected = [parity.source_outputs(source.model, one) for one in inputs]
            found[name] = _agreement(process.name, name, expected, actual, batches, source)
    return {name: one for name, one in found.items() if one}


def _ask(process: AloneProcess, names: Iterable[str], ids: parity.Batch) -> None:
    """Sends each of these signatures the request that it is warmed up with.

    Raises:
      ValueError: if it fails, or gives a number that is not finite.
    """
    from export.warm_up import example_inputs

    for name in sorted(names):
        request = example_inputs(name, process.loaded.signatures[name].inputs, ids)
        texts_plain = {key: np.array(one.tolist()) if one.dtype == object else one for key, one in request.items()}
        for output, value in process.run(name, [texts_plain])[0].items():
            if np.issubdtype(value.dtype, np.floating) and not np.isfinite(value).all():
                raise ValueError(f"{process.name}: {output} of {name!r} is not finite; nothing was written")


def _agreement(
    artefact: str,
    signature: str,
    expected: Sequence[Mapping[str, np.ndarray]],
    actual: Sequence[Mapping[str, np.ndarray]],
    batches: Sequence[parity.Batch],
    source: LoadedModel,
) -> dict[str, parity.Agreement]:
    """Agreement of the outputs that the source has too."""
    shared = [
        {name: value for name, value in got.items() if name in wanted}
        for wanted, got in zip(expected, actual, strict=True)
    ]
    try:
        return parity.agreement(expected, shared, batches, head=source.model.HEAD)
    except ValueError as error:
        raise ValueError(f"{artefact}, signature {signature!r}: {error}; nothing was written") from error


def size_of(path: str) -> int:
    """Bytes of a file, or of all files in a folder."""
    if is_remote(path):
        import tensorflow as tf

        folders = tf.io.gfile.walk(path)
        return sum(
            int(tf.io.gfile.stat(os.path.join(folder, name)).length) for folder, _, names in folders for name in names
        )
    if os.path.isfile(path):
        return os.path.getsize(path)
    return sum(os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(path) for name in names)
