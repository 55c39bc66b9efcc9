"""Runs two models on the same inputs and prints the largest difference of each output.

Each of --a and --b is a model directory, or what another project has written (see export.convert_checkpoint). Inputs
are random ids in ragged batches, and real texts of several scripts where one of the two has a tokenizer. Where both
have one, their ids are compared too. Outputs that both models have are compared; padding is left out. albert_tf runs
both models: this checks a conversion, not what the other project's code computes, for which see its own outputs.

Either may be an artefact, too: a SavedModel's folder `text` or `ids`, or a TFLite file. It is run by a process that has
nothing of this project, on inputs that reach every position and segment and, of models up to base size, every piece;
differences then count as shares of the output's largest value. Its weights are compared one by one as well, since
outputs do not show each of them: 8-bit ones must be within half a step of the model's.

Exit code 0 if all differences are within --max_difference, 1 if not.

Example:
  python -m export.verify --a=albert_base/model.ckpt-best --b=models/base
  python -m export.verify --a=models/base --b=exported/ids
  python -m export.verify --a=models/base --b=base_int8.tflite
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from absl import flags

from albert_tf import door, features
from albert_tf.tokenizer_base import Tokenizer
from export import parity
from export.artifacts import ENCODER_INPUTS
from export.comparison import MAX_DIFFERENCE, Comparison, Difference, print_comparison, within

if TYPE_CHECKING:
    from albert_tf.config import AlbertConfig
    from albert_tf.head_config import HeadConfig

ROWS, LONGEST = 6, 64
TEXTS = (
    *parity.SENTENCES,
    "Der Fluß trat über die Ufer; niemand hatte es für möglich gehalten.",
    "Река вышла из берегов, и мельник понёс муку наверх.",
    "夜里下了一整夜的雨,到早晨河水已经涨到桥下。",
    "ليلة ماطرة",
    "雨が降り続いた。",
    "😀 naïve café, 3.14 % of 2,000",
    "In 2010, it was 1,000,000, and 3, too.",
)


def compare(
    a: str | os.PathLike[str],
    b: str | os.PathLike[str],
    *,
    formats: tuple[str | None, str | None] = (None, None),
    head: str | None = None,
    seed: int = 0,
) -> Comparison:
    """Runs the models at `a` and `b` on the same inputs.

    Args:
      a: a model directory, what another project has written, or an artefact.
      b: as `a`.
      formats: format of each; None finds it out.
      head: the head, where the files cannot tell it.
      seed: of the random inputs.

    Raises:
      FileNotFoundError, ValueError: if a model cannot be loaded, or the two do not take the same inputs.
    """
    from export.proof import beside

    if any(beside.is_artefact(path) for path in (a, b)):
        return beside.compare(a, b, formats=formats, head=head, seed=seed)
    from albert_tf import loading

    pairs = list(zip((a, b), formats, strict=True))
    models = [loading.load_model(path, format=format, head=head) for path, format in pairs]
    tokenizers = [loading.load_tokenizer(path, format=format, head=head) for path, format in pairs]
    config = _common_config(models[0].config, models[1].config)
    same_head = _check_heads(models[0].head_config, models[1].head_config)
    tokenizer = next((one for one in tokenizers if one is not None), None)
    batches = [("random", batch) for batch in _random_batches(config, np.random.default_rng(seed))]
    if tokenizer is not None:
        batches += [("texts", batch) for batch in _text_batches(tokenizer, config)]
    found: dict[tuple[str, str], Difference] = {}
    names: list[set[str]] = [set(), set()]
    for kind, batch in batches:
        first, second = (_outputs(model, batch, with_head=same_head) for model in models)
        names = [names[0] | first.keys(), names[1] | second.keys()]
        for name in first.keys() & second.keys():
            one = _difference(name, kind, first[name], second[name], batch[features.INPUT_MASK])
            found[name, kind] = _larger(found.get((name, kind)), one)
    both = None
    first_tokenizer, second_tokenizer = tokenizers
    if first_tokenizer is not None and second_tokenizer is not None:
        both = sum(first_tokenizer.encode(text) != second_tokenizer.encode(text) for text in TEXTS)
    return Comparison(
        differences=tuple(found[key] for key in sorted(found)),
        left_out=tuple(sorted(names[0] ^ names[1])),
        different_ids=both,
        texts=len(TEXTS),
        heads=None if same_head else (models[0].head_config.head, models[1].head_config.head),
    )


def _common_config(a: AlbertConfig, b: AlbertConfig) -> AlbertConfig:
    """Configuration whose inputs both models take."""
    if a.vocab_size != b.vocab_size:
        raise ValueError(
            f"the models have vocabularies of {a.vocab_size} and {b.vocab_size} pieces: nothing to compare"
        )
    return a.replace(
        max_position_embeddings=min(a.max_position_embeddings, b.max_position_embeddings),
        type_vocab_size=min(a.type_vocab_size, b.type_vocab_size),
    )


def _check_heads(a: HeadConfig, b: HeadConfig) -> bool:
    """Whether both models have the same head, or two pretraining ones.

    Raises:
      ValueError: if they have the same head of other sizes.
    """
    for name in ("num_labels", "start_n_top", "end_n_top"):
        one, other = getattr(a, name), getattr(b, name)
        if a.head == b.head and one != other and (name == "num_labels" or a.head == "conditional_span"):
            raise ValueError(f"the heads differ in {name}: {one} and {other}; load both with the same setting")
    return a.head == b.head or {a.head, b.head} == {"pretraining", "masked_lm"}


def _random_batches(config: AlbertConfig, generator: np.random.Generator) -> Iterator[parity.Batch]:
    """Ragged batches, one of them of the greatest length."""
    for longest in sorted({min(LONGEST, config.max_position_embeddings), config.max_position_embeddings}):
        rows = ROWS if longest <= LONGEST else 1
        lengths = [longest, *generator.integers(1, longest + 1, rows - 1)]
        shape = (rows, longest)
        yield {
            features.INPUT_IDS: generator.integers(0, config.vocab_size, shape).astype(np.int32),
            features.INPUT_MASK: (np.arange(longest) < np.array(lengths)[:, None]).astype(np.int32),
            features.SEGMENT_IDS: generator.integers(0, config.type_vocab_size, shape).astype(np.int32),
        }


def _text_batches(tokenizer: Tokenizer, config: AlbertConfig) -> Iterator[parity.Batch]:
    """The built-in texts, alone and in pairs, as the tokenizer lays them out."""
    length = min(LONGEST, config.max_position_embeddings)
    ids = [tokenizer.encode(text) or [tokenizer.unk_id] for text in TEXTS]
    yield parity.make_batch([tokenizer.encode_pair(one, None, length) for one in ids])
    if length >= 5 and config.type_vocab_size > 1:
        yield parity.make_batch([tokenizer.encode_pair(one, two, length) for one, two in itertools.pairwise(ids)])


def _outputs(model: Any, batch: parity.Batch, *, with_head: bool) -> dict[str, np.ndarray]:
    """Outputs of the encoder and, if asked for, of the head."""
    encoder_inputs = {name: batch[name] for name in ENCODER_INPUTS}
    outputs = dict(model.encoder.encode(encoder_inputs))
    if not with_head:
        return {name: np.asarray(value) for name, value in outputs.items()}
    inputs: dict[str, np.ndarray] = dict(encoder_inputs)
    length = batch[features.INPUT_MASK].shape[1]
    head = model.head_config.head
    if head in ("pretraining", "masked_lm"):
        inputs[features.MASKED_LM_POSITIONS] = np.tile(np.arange(length, dtype=np.int32), (len(inputs["input_ids"]), 1))
    elif head == "conditional_span":
        inputs["p_mask"] = 1 - batch[features.INPUT_MASK]
    elif head == "multiple_choice":
        inputs = parity.head_inputs(model.head_config, batch)
    return {name: np.asarray(value) for name, value in {**outputs, **model.forward(inputs)}.items()}


def _difference(name: str, kind: str, a: np.ndarray, b: np.ndarray, mask: np.ndarray) -> Difference:
    """Largest difference over real tokens."""
    if a.shape != b.shape:
        raise ValueError(f"{name} has shape {list(a.shape)} in one model and {list(b.shape)} in the other")
    a, b = a.astype(np.float64), b.astype(np.float64)
    if a.ndim >= 2 and a.shape[:2] == mask.shape:  # one value for each token
        a, b = a[mask > 0], b[mask > 0]
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise ValueError(f"{name} is not finite")
    largest, magnitude = (float(np.abs(value).max(initial=0.0)) for value in (a - b, a))
    return Difference(output=name, inputs=kind, largest=largest, magnitude=magnitude)


def _larger(a: Difference | None, b: Difference) -> Difference:
    return b if a is None or b.largest > a.largest else a


def _define_flags() -> None:
    """Flags of the command; not at import, since other commands of this package use the same names."""
    from albert_tf.conversion import FORMATS
    from albert_tf.head_config import HEADS

    flags.DEFINE_string("a", None, "Model directory, what another project has written, or an artefact.")
    flags.DEFINE_string("b", None, "As --a.")
    flags.DEFINE_enum("a_format", None, FORMATS, "Format of --a; found by itself where it is not given.")
    flags.DEFINE_enum("b_format", None, FORMATS, "Format of --b; found by itself where it is not given.")
    flags.DEFINE_enum("head", None, HEADS, "The head, where the files cannot tell it, such as regression.")
    flags.DEFINE_float(
        "max_difference",
        None,
        f"Largest difference of an output: absolute, or with an artefact as a share of the output's largest value. By "
        f"default {MAX_DIFFERENCE:g}, with weights in 16 bits 0.01, in 8 bits 0.2.",
        0.0,
    )
    flags.DEFINE_integer("seed", 0, "Of the random inputs.", 0)


def main() -> int:
    values: Mapping[str, Any] = flags.FLAGS.flag_values_dict()
    formats = (values["a_format"], values["b_format"])
    found = compare(values["a"], values["b"], formats=formats, head=values["head"], seed=values["seed"])
    bound = found.max_difference if values["max_difference"] is None else values["max_difference"]
    print_comparison(found, (values["a"], values["b"]), bound)
    return 0 if within(found, bound) else 1


if __name__ == "__main__":
    _define_flags()
    door.run(main, required=["a", "b"])
