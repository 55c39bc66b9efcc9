"""Artefacts beside models or other artefacts: the same inputs, the same weights, the same ids of texts."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from albert_tf import features, loading
from albert_tf.config import AlbertConfig
from albert_tf.head_config import HeadConfig
from albert_tf.stored_weights import VariableValues
from albert_tf.tokenizer_base import Tokenizer
from export import parity
from export.artifacts import ENCODER_INPUTS
from export.comparison import MAX_DIFFERENCE, Comparison, Difference
from export.proof import cases, signatures, weights
from export.proof.passages import LONG_PASSAGE, PASSAGES
from export.proof.process import AloneProcess, is_saved_model, is_tflite

_TEXTS = (*PASSAGES, LONG_PASSAGE)
_MOST = 1 << 20  # of pieces and of positions
# Largest difference as a share of an output's magnitude, by the narrowest numbers that weights are stored in. With 8
# bits outputs tell little of a weight: there the comparison of the weights themselves is the sharp one.
_BOUNDS = {4: MAX_DIFFERENCE, 2: 1e-2, 1: 0.2}


def is_artefact(path: str | os.PathLike[str]) -> bool:
    """Whether there is a SavedModel of ours or a TFLite file at `path`; a SavedModel of another project is none."""
    if is_saved_model(path):
        return any(name.startswith("encoder/") for name in weights.variable_names(os.fspath(path)))
    return is_tflite(path)


class _Side(Protocol):
    """One of the two that are compared. `tokenizer` is Python's, None where it has none."""

    tokenizer: Tokenizer | None

    @property
    def config(self) -> AlbertConfig:
        """Its configuration, of an artefact as far as its inputs tell it."""

    def outputs(self, batches: Sequence[parity.Batch]) -> list[dict[str, np.ndarray]]:
        """Every output for each batch."""

    def ids(self, texts: Sequence[str]) -> list[list[int]] | None:
        """Ids of each text; None where it takes no text."""

    def tensors(self) -> list[weights.StoredTensor]:
        """What it stores."""


class _Model:
    """A model directory, or what another project has written, computed by Keras."""

    def __init__(self, path: str | os.PathLike[str], format: str | None, head: str | None) -> None:
        self._model = loading.load_model(path, format=format, head=head)
        self.config: AlbertConfig = self._model.config
        self.tokenizer = loading.load_tokenizer(path, format=format, head=head)

    def outputs(self, batches: Sequence[parity.Batch]) -> list[dict[str, np.ndarray]]:
        inputs = [parity.head_inputs(self._model.head_config, batch) for batch in batches]
        return [parity.source_outputs(self._model, one) for one in inputs]

    def ids(self, texts: Sequence[str]) -> list[list[int]] | None:
        return None if self.tokenizer is None else [self.tokenizer.encode(text) for text in texts]

    def tensors(self) -> list[weights.StoredTensor]:
        return weights.named_tensors(VariableValues(self._model.named_weights()))


class _Artefact:
    """A SavedModel or a TFLite file, on its own."""

    tokenizer: Tokenizer | None = None

    def __init__(self, path: str | os.PathLike[str], process: AloneProcess) -> None:
        self._path, self._process = path, process
        found = process.loaded.signatures
        self._with_ids = {name: one for name, one in found.items() if set(ENCODER_INPUTS) <= set(one.inputs)}
        if not self._with_ids:
            raise ValueError(f"{os.fspath(path)}: no signature takes token ids; it has {', '.join(found) or 'none'}")

    def outputs(self, batches: Sequence[parity.Batch]) -> list[dict[str, np.ndarray]]:
        found: list[dict[str, np.ndarray]] = [{} for _ in batches]
        for name, signature in self._with_ids.items():
            inputs = [_inputs_for(signature, batch) for batch in batches]
            if not signatures.takes_ids(signature, inputs[0]):
                raise ValueError(f"{os.fspath(self._path)}: signature {name!r} takes {signature.inputs}, not any batch")
            for outputs, more in zip(found, self._process.run(name, inputs), strict=True):
                outputs.update(more)
        return found

    def ids(self, texts: Sequence[str]) -> list[list[int]] | None:
        if signatures.TOKENIZE not in self._process.loaded.signatures:
            return None
        outputs = self._process.run(signatures.TOKENIZE, [{"text": np.array(texts)}])[0]
        return [row[:length].tolist() for row, length in zip(outputs["ids"], outputs["lengths"], strict=True)]

    def tensors(self) -> list[weights.StoredTensor]:
        return weights.stored_tensors(self._path)

    @functools.cached_property
    def config(self) -> AlbertConfig:
        """A configuration with the sizes of what goes in, found by trying: too long a row and too high an id fail."""

        def runs(**changes: Any) -> bool:
            length = changes.pop("length", 1)
            batch = parity.make_batch([([0] * length, [1] * length, [0] * length)])
            for name, value in changes.items():
                batch[name] = np.full_like(batch[name], value)
            name, signature = next(iter(self._with_ids.items()))
            try:
                self._process.run(name, [_inputs_for(signature, batch)])
            except ValueError:
                return False
            return True

        if not runs():
            raise ValueError(f"{os.fspath(self._path)}: does not take a row of one token")
        return AlbertConfig(
            max_position_embeddings=_greatest(lambda length: runs(length=length)),
            vocab_size=1 + _greatest(lambda one: runs(input_ids=one)),
            type_vocab_size=1 + _greatest(lambda one: runs(segment_ids=one)),
        )


def _greatest(holds: Callable[[int], bool]) -> int:
    """The greatest whole number for which `holds` is true, which it is up to there and not behind."""
    low, high = 0, 1
    while high < _MOST and holds(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _inputs_for(signature: signatures.Signature, batch: parity.Batch) -> dict[str, np.ndarray]:
    """Of a batch what a signature takes, as `parity.head_inputs` gives it to the head that takes such inputs."""
    _, shape = signature.inputs[features.INPUT_IDS]
    if shape is not None and len(shape) == 3:
        return parity.head_inputs(HeadConfig(head="multiple_choice"), batch)
    all_inputs = {**batch, **parity.head_inputs(HeadConfig(head="conditional_span"), batch)}
    return {name: all_inputs[name] for name in signature.inputs if name in all_inputs}


@contextlib.contextmanager
def _opened(path: str | os.PathLike[str], format: str | None, head: str | None) -> Iterator[_Side]:
    if not is_artefact(path):
        yield _Model(path, format, head)
        return
    with AloneProcess(path) as process:
        yield _Artefact(path, process)


def compare(
    a: str | os.PathLike[str],
    b: str | os.PathLike[str],
    *,
    formats: tuple[str | None, str | None] = (None, None),
    head: str | None = None,
    seed: int = 0,
) -> Comparison:
    """Compares two models of which one at least is an artefact; arguments as of `export.verify.compare`.

    Raises:
      FileNotFoundError, ValueError: if one cannot be loaded or run, or the two do not take the same inputs.
    """
    with _opened(a, formats[0], head) as one, _opened(b, formats[1], head) as other:
        config = _common_config(one, other)
        tokenizer = one.tokenizer or other.tokenizer
        generator = np.random.default_rng(seed)
        longest = config.max_position_embeddings
        batches = [("random", batch) for batch in cases.make_batches(cases.random_rows(config, longest, generator))]
        if tokenizer is not None:
            rows = cases.text_rows(tokenizer, longest, config.type_vocab_size)
            batches += [("texts", batch) for batch in cases.make_batches(rows)]
        alone = [batch for _, batch in batches]
        first, second = one.outputs(alone), other.outputs(alone)
        differences = _differences([kind for kind, _ in batches], alone, first, second)
        ids = (one.ids(_TEXTS), other.ids(_TEXTS))
        looked_for, missing, narrowest = _compare_tensors(
            (one.tensors(), other.tensors()), tuple(is_tflite(path) for path in (a, b))
        )
        return Comparison(
            differences=differences,
            left_out=tuple(sorted(set(first[0]) ^ set(second[0]))),
            different_ids=None if None in ids else sum(x != y for x, y in zip(*ids, strict=True)),  # type: ignore[arg-type]
            texts=len(_TEXTS),
            weights=looked_for,
            missing_weights=missing,
            is_relative=True,
            max_difference=_BOUNDS[narrowest],
        )


def _common_config(one: _Side, other: _Side) -> AlbertConfig:
    """Configuration whose inputs both take; sizes that artefacts do not tell are those of a model, if one is."""
    first, second = (other, one) if isinstance(one, _Artefact) else (one, other)
    if first.config.vocab_size != second.config.vocab_size:
        raise ValueError(
            f"the models have vocabularies of {one.config.vocab_size} and {other.config.vocab_size} pieces: nothing to "
            "compare"
        )
    return first.config.replace(
        max_position_embeddings=min(first.config.max_position_embeddings, second.config.max_position_embeddings),
        type_vocab_size=min(first.config.type_vocab_size, second.config.type_vocab_size),
    )


def _differences(
    kinds: Sequence[str],
    batches: Sequence[parity.Batch],
    first: Sequence[Mapping[str, np.ndarray]],
    second: Sequence[Mapping[str, np.ndarray]],
) -> tuple[Difference, ...]:
    """The largest difference of each output that both have, over real tokens, by kind of input.

    Raises:
      ValueError: if they have none in common, or one has other shapes, or is not finite.
    """
    largest: dict[tuple[str, str], list[float]] = {}
    for kind, batch, one, other in zip(kinds, batches, first, second, strict=True):
        for name in one.keys() & other.keys():
            if np.issubdtype(one[name].dtype, np.integer):
                continue  # places, which two near ones may exchange; their log probabilities stand beside them
            difference, magnitude = _difference(name, one[name], other[name], batch[features.INPUT_MASK])
            entry = largest.setdefault((name, kind), [0.0, 0.0])
            entry[:] = max(entry[0], difference), max(entry[1], magnitude)
    if not largest:
        raise ValueError(f"no output in common: {', '.join(first[0])} and {', '.join(second[0])}")
    return tuple(
        Difference(output=name, inputs=kind, largest=difference, magnitude=magnitude)
        for (name, kind), (difference, magnitude) in sorted(largest.items())
    )


def _difference(name: str, one: np.ndarray, other: np.ndarray, mask: np.ndarray) -> tuple[float, float]:
    if one.shape != other.shape:
        raise ValueError(f"{name} has shape {list(one.shape)} in one and {list(other.shape)} in the other")
    one, other = one.astype(np.float64), other.astype(np.float64)
    if one.shape[:2] == mask.shape:  # a value for each token
        one, other = one[mask > 0], other[mask > 0]
    if not (np.isfinite(one).all() and np.isfinite(other).all()):
        raise ValueError(f"{name} is not finite")
    if name.endswith("_log_probs"):
        is_real = one > parity.FORBIDDEN
        one, other = one[is_real], other[is_real]
    return float(np.abs(one - other).max(initial=0.0)), float(np.abs(one).max(initial=0.0))


def _compare_tensors(
    tensors: tuple[list[weights.StoredTensor], list[weights.StoredTensor]], are_tflite: tuple[bool, ...]
) -> tuple[int, tuple[str, ...], int]:
    """Weights that were looked for, names of those that are not in both, and bytes of the narrowest numbers.

    Where one is a TFLite file, which has constants besides, the other's weights are looked for in it.
    """
    wanted, stored = reversed(tensors) if are_tflite == (True, False) else tensors
    found = weights.compare_weights([tensor for tensor in wanted if tensor.values.size > 1], stored)
    missing = weights.not_allowed(found.missing, is_part=any(are_tflite))
    return found.of, missing, min(tensor.bytes // tensor.values.size for tensor in (*wanted, *stored))
