"""Asking an exported model with pretraining heads: one class for SavedModel, one for TFLite, the same two questions."""

from __future__ import annotations

import dataclasses
import os
import textwrap
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from albert_tf import features
from albert_tf.marked_text import MARKER, MarkedTextEncoder
from albert_tf.tokenizer_base import Tokenizer
from export import tflite
from export.artifacts import ENCODER_INPUTS
from export.served_model import as_strings, load_served_model, read_description


@dataclasses.dataclass(frozen=True, kw_only=True)
class Candidate:
    """A piece that may stand at a mask, and its probability in [0, 1]."""

    piece: str
    id: int
    probability: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskAnswer:
    """What may stand at one mask, best first; `position` counts tokens from [CLS] = 0."""

    position: int
    candidates: tuple[Candidate, ...]


class Runner(Protocol):
    """An exported model that is loaded and can be asked."""

    def fill_mask(self, text: str, text_b: str | None = None, *, top_k: int = 5) -> list[MaskAnswer]:
        """Answers for every "[MASK]" of the text or the pair of texts, in order.

        Raises:
          ValueError: if there is no mask, a mask lies behind the length that texts are cut to, or the model gives fewer
            than `top_k` candidates.
        """

    def order_probability(self, text: str, text_b: str) -> float | None:
        """Probability that `text_b` follows `text`, not the other way round; None where the model cannot tell."""


class SavedModelRunner:
    """A SavedModel that takes text, as `export.saved_model` writes it to OUTPUT_DIR/text.

    Args:
      path: its folder.

    Raises:
      FileNotFoundError: if there is no SavedModel at `path`.
      ValueError: if it is damaged, or another kind of SavedModel.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._model = load_served_model(path, "fill_mask")
        self._signatures = self._model.signatures
        length = read_description(path).get("max_seq_length")
        self._max_seq_length = length if isinstance(length, int) else None

    def fill_mask(self, text: str, text_b: str | None = None, *, top_k: int = 5) -> list[MaskAnswer]:
        expected = count_markers(text, text_b)
        if text_b is None:
            outputs = self._signatures["fill_mask"](text=as_strings(text))
        else:
            outputs = self._signatures["fill_mask_pair"](text=as_strings(text), text_b=as_strings(text_b))
        positions, ids, pieces, probabilities = (
            outputs[name].numpy()[0] for name in ("positions", "ids", "pieces", "probabilities")
        )
        if len(positions) < expected:
            raise ValueError(_behind_cut(expected, len(positions), self._max_seq_length))
        if top_k > ids.shape[1]:
            raise ValueError(f"top_k must be at most {ids.shape[1]}, as the SavedModel was exported, got {top_k}")
        return [
            MaskAnswer(
                position=int(position),
                candidates=tuple(
                    Candidate(piece=pieces[m, k].decode(), id=int(ids[m, k]), probability=float(probabilities[m, k]))
                    for k in range(top_k)
                ),
            )
            for m, position in enumerate(positions)
        ]

    def order_probability(self, text: str, text_b: str) -> float | None:
        if "sentence_order" not in self._signatures:
            return None
        outputs = self._signatures["sentence_order"](text=as_strings(text), text_b=as_strings(text_b))
        return float(outputs["in_order"].numpy()[0])


class TFLiteRunner:
    """A TFLite file with a masked-LM head, as `export.tflite` writes it, and the tokenizer of its model directory.

    Args:
      content: content of the file.
      tokenizer: tokenizer of the model that the file was made from.
      max_seq_length: length in tokens that texts are cut to: the model's `max_position_embeddings` or less.
      source: name of the file in errors.

    Raises:
      ValueError: if the file is damaged, has no masked-LM head, or was made for another vocabulary.
    """

    def __init__(
        self, content: bytes, tokenizer: Tokenizer, *, max_seq_length: int, source: str = "TFLite file"
    ) -> None:
        try:
            self._interpreter = tflite.make_interpreter(content)
        except ValueError as error:
            raise ValueError(f"{source}: {error}") from error
        outputs = self._interpreter.get_signature_runner(tflite.SIGNATURE).get_output_details()
        if "masked_lm_logits" not in outputs:
            raise ValueError(f"{source}: has no masked_lm_logits; export it with --head=pretraining")
        vocab_size = int(outputs["masked_lm_logits"]["shape_signature"][-1])
        if vocab_size not in (-1, tokenizer.vocab_size):
            raise ValueError(
                f"{source}: was made for {vocab_size} pieces, the tokenizer has {tokenizer.vocab_size}: "
                "give the model directory it was exported from"
            )
        self._tokenizer = tokenizer
        self._encoder = MarkedTextEncoder(tokenizer)
        self._max_seq_length = max_seq_length

    def fill_mask(self, text: str, text_b: str | None = None, *, top_k: int = 5) -> list[MaskAnswer]:
        expected = count_markers(text, text_b)
        if not 1 <= top_k <= self._tokenizer.vocab_size:
            raise ValueError(f"top_k must be in [1, {self._tokenizer.vocab_size}], got {top_k}")
        inputs = self._inputs(text, text_b)
        positions = np.flatnonzero(inputs[features.INPUT_IDS][0] == self._tokenizer.mask_id).astype(np.int32)
        if len(positions) < expected:
            raise ValueError(_behind_cut(expected, len(positions), self._max_seq_length))
        outputs = tflite.run(self._interpreter, {**inputs, features.MASKED_LM_POSITIONS: positions[None]})
        answers = []
        for position, logits in zip(positions, outputs["masked_lm_logits"][0], strict=True):
            best = np.argsort(-logits, kind="stable")[:top_k]
            exponentials = np.exp(logits - logits.max())
            candidates = tuple(
                Candidate(
                    piece=self._tokenizer.id_to_piece(int(i)),
                    id=int(i),
                    probability=float(exponentials[i] / exponentials.sum()),
                )
                for i in best
            )
            answers.append(MaskAnswer(position=int(position), candidates=candidates))
        return answers

    def order_probability(self, text: str, text_b: str) -> float | None:
        inputs = {**self._inputs(text, text_b), features.MASKED_LM_POSITIONS: np.zeros([1, 1], np.int32)}
        logits = tflite.run(self._interpreter, inputs).get("sentence_order_logits")
        if logits is None:
            return None
        return float(1.0 / (1.0 + np.exp(logits[0, 1] - logits[0, 0])))

    def _inputs(self, text: str, text_b: str | None) -> dict[str, np.ndarray]:
        ids_a = self._encoder.encode(text)
        ids_b = (self._encoder.encode(text_b) or None) if text_b is not None else None
        rows = self._tokenizer.encode_pair(ids_a, ids_b, self._max_seq_length)
        length = sum(rows[1])
        return {name: np.array([row[:length]], np.int32) for name, row in zip(ENCODER_INPUTS, rows, strict=True)}


def load_tflite_runner(path: str | os.PathLike[str], model_directory: str | os.PathLike[str]) -> TFLiteRunner:
    """Runner of the TFLite file `path` with the tokenizer of `model_directory`.

    Raises:
      FileNotFoundError: if either is missing.
      ValueError: if either is damaged, they do not belong together, or the model has other heads than pretraining's.
    """
    from albert_tf.model_directory import check_head, load_tokenizer, read_max_seq_length

    check_head(model_directory, ("pretraining",), reader="export.run_saved_model")
    max_seq_length = read_max_seq_length(model_directory)
    with open(path, "rb") as stream:
        content = stream.read()
    return TFLiteRunner(
        content,
        load_tokenizer(model_directory),
        max_seq_length=max_seq_length,
        source=os.fspath(path),
    )


def count_markers(text: str, text_b: str | None) -> int:
    """Number of markers in a text or a pair of texts.

    Raises:
      ValueError: if there is none.
    """
    texts: Sequence[str] = [text] if text_b is None else [text, text_b]
    count = sum(one.count(MARKER) for one in texts)
    if not count:
        shown = textwrap.shorten(" | ".join(texts), 200)
        raise ValueError(f"there is no {MARKER}, in capitals, in {shown!r}: put one where a piece is to be filled in")
    return count


def _behind_cut(expected: int, found: int, max_seq_length: int | None) -> str:
    length = f"the first {max_seq_length} tokens" if max_seq_length else "what the model reads"
    return f"{expected - found} of {expected} {MARKER} lie behind {length}: shorten the text"
