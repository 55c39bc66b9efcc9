"""Exports a model directory, whatever its head, as a TFLite (LiteRT) file, for phones and small machines.

The layers run in a loop, so that the file holds and the runtime packs their weights once; batch size and length are
free (resize the inputs). Inputs and outputs have the model's names, in one signature, "serving_default". Token ids go
in: the tokenizer stays outside. Head, labels and task stand as JSON in the file's metadata, under the name "albert_tf".
Before the file appears it is loaded again and compared with the source.

  --quantization  float32  as trained
                  float16  half the size, same speed
                  int8     dynamic range: weights in 8 bits, a quarter of the size; activations stay float32
  --head          of a pretraining model; every other head gives all of its outputs
                  encoder        sequence_output and pooled_output
                  masked_lm      masked_lm_logits at masked_lm_positions
                  sentence_order sentence_order_logits
                  pretraining    both heads
                  all            everything

Example:
  python -m export.tflite --model=runs/small/model --output=small_int8.tflite --quantization=int8
  python -m export.run_saved_model --tflite=small_int8.tflite --model=runs/small/model --text='The [MASK] is red.'
"""

from __future__ import annotations

import dataclasses
import os
import shlex
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, get_args

from absl import flags, logging

from albert_tf import door
from albert_tf.files import check_regular
from export.artifacts import check_apart, quiet
from export.tflite_graph import HEADS, WITH_MASKS, WITH_SENTENCE_ORDER, Head
from export.tflite_runtime import SIGNATURE, make_interpreter, run

if TYPE_CHECKING:
    from albert_tf.head_config import HeadConfig
    from albert_tf.modeling.head_model import AlbertHeadModel
    from export.parity import Agreement, Bound
    from export.tflite_metadata import TFLiteMetadata

__all__ = [
    "HEADS",
    "QUANTIZATIONS",
    "SIGNATURE",
    "Head",
    "Quantization",
    "TFLiteReport",
    "bound_of",
    "convert",
    "export_tflite",
    "make_interpreter",
    "run",
]

Quantization = Literal["float32", "float16", "int8"]
QUANTIZATIONS: tuple[Quantization, ...] = get_args(Quantization)
MIN_COSINE = 0.999
MAX_DIFFERENCE = 1e-5


@dataclasses.dataclass(frozen=True, kw_only=True)
class TFLiteReport:
    """What an export gave: size of the file in bytes, what it says of itself, how well each output agrees."""

    bytes: int
    metadata: TFLiteMetadata
    agreement: Mapping[str, Agreement]


def export_tflite(
    model_directory: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    quantization: Quantization = "int8",
    head: Head | None = None,
    min_cosine: float = MIN_COSINE,
    max_difference: float = MAX_DIFFERENCE,
    overwrite: bool = False,
) -> TFLiteReport:
    """Writes a TFLite file of a model directory and checks it. Nothing is left behind where that fails.

    Args:
      model_directory: the model directory.
      output: file to write.
      quantization: how weights are stored.
      head: which outputs the file of a pretraining model has, None for "pretraining"; None for every other model.
      min_cosine: for int8, lowest cosine with the source that any output of any text may have.
      max_difference: for float32, how far any output may be from the source, as a share of its largest magnitude.
      overwrite: whether a file at `output` is replaced.

    Raises:
      FileNotFoundError: if the model directory or a file in it is missing.
      ValueError: if it is damaged, `output` exists, or the file does not agree with the source.
    """
    from albert_tf.model_directory import load_model, load_tokenizer, read_config, read_head_config
    from export import parity, tflite_metadata

    if quantization not in QUANTIZATIONS or head not in (None, *HEADS):
        raise ValueError(
            f"quantization must be one of {', '.join(QUANTIZATIONS)} and head one of {', '.join(HEADS)}, "
            f"got {quantization!r} and {head!r}"
        )
    check_apart(output, model_directory)
    if os.path.isdir(output):
        raise IsADirectoryError(21, "is a folder, a file was expected", os.fspath(output))
    check_regular(output)
    if os.path.exists(output) and not overwrite:
        raise ValueError(f"{os.fspath(output)} exists; name another file or pass --overwrite")
    read_config(model_directory)  # before the seconds that loading TensorFlow takes
    head_config = read_head_config(model_directory)
    head = _checked_head(model_directory, head_config, head)
    described = tflite_metadata.describe(model_directory, quantization=quantization, tokenizer="outside")
    model, tokenizer = load_model(model_directory), load_tokenizer(model_directory)
    begun = time.monotonic()
    content = convert(model, quantization=quantization, head=head, metadata=described)
    logging.info("converted in %.1f s", time.monotonic() - begun)

    batches = parity.standard_batches(tokenizer, model.config.max_position_embeddings)
    interpreter = make_interpreter(content)
    inputs = [parity.head_inputs(head_config, batch) for batch in batches]
    found = parity.agreement(
        [parity.source_outputs(model, one) for one in inputs],
        [run(interpreter, one) for one in inputs],
        batches,
        head=head_config.head,
    )
    parity.check(found, bound_of(quantization, min_cosine, max_difference), artefact=f"TFLite {quantization}")
    door.write_whole(output, content)
    return TFLiteReport(bytes=len(content), metadata=described, agreement=found)


def _checked_head(model_directory: str | os.PathLike[str], head_config: HeadConfig, head: Head | None) -> Head:
    """Which outputs the file has; of a model with another head than pretraining's it says nothing.

    Raises:
      ValueError: if the model has not these outputs, or never learned them.
    """
    from albert_tf.model_directory import read_sentence_objective

    if head_config.head != "pretraining":
        if head is not None:
            raise ValueError(
                f"{os.fspath(model_directory)}: has the head {head_config.head!r}, whose outputs all go into the file; "
                "leave out head, which chooses between those of a pretraining model"
            )
        return "all"
    head = head or "pretraining"
    if read_sentence_objective(model_directory) == "none" and head in WITH_SENTENCE_ORDER:
        raise ValueError(
            f"{os.fspath(model_directory)}: trained with sentence_objective none, so its sentence-order head knows "
            f"nothing; head must be masked_lm or encoder, got {head}"
        )
    return head


def bound_of(
    quantization: Quantization, min_cosine: float = MIN_COSINE, max_difference: float = MAX_DIFFERENCE
) -> Bound:
    """What the outputs of a file must keep to; `min_cosine` is for int8, `max_difference` for float32."""
    from export.parity import Bound

    return {
        "float32": Bound(relative=max_difference),  # sums in another order; measured at base size: 2e-6
        "float16": Bound(relative=1e-2, cosine=0.9999),  # weights rounded to 11 bits; measured: 1e-3
        "int8": Bound(cosine=min_cosine, probability=0.05),
    }[quantization]


def convert(
    model: AlbertHeadModel,
    *,
    quantization: Quantization,
    head: Head = "pretraining",
    metadata: TFLiteMetadata | None = None,
) -> bytes:
    """Content of a TFLite file of `model`. Nothing is checked but that the file needs no foreign operations.

    Args:
      model: the model.
      quantization: how weights are stored.
      head: which outputs the file of a pretraining model has; others give all of theirs.
      metadata: what the file says of itself; None leaves it out.

    Raises:
      ValueError: if it does.
    """
    import tensorflow as tf

    from export import flatbuffer, tflite_graph, tflite_metadata
    from export.serving_module import WeightsModule

    if quantization == "float16":
        _check_range_of_float16(model)
    module = WeightsModule(model)
    with quiet():
        function = tflite_graph.ids_function(model, head).get_concrete_function()
        converter = tf.lite.TFLiteConverter.from_concrete_functions([function], module)
        if quantization != "float32":
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if quantization == "float16":
            converter.target_spec.supported_types = [tf.float16]
        content = flatbuffer.share_tied_tables(bytes(converter.convert()))
    flatbuffer.check_operators(content)
    if metadata is not None:
        content = flatbuffer.add_metadata(content, tflite_metadata.NAME, metadata.to_json().encode())
    return content


def _check_range_of_float16(model: AlbertHeadModel) -> None:
    import numpy as np

    for name, variable in model.named_weights().items():
        largest = float(np.abs(variable.numpy()).max())
        if largest > np.finfo(np.float16).max:
            raise ValueError(f"{name} holds {largest:.3g}, which float16 cannot: export float32 or int8")


def _define_flags() -> None:
    """Flags of the command; not at import, since other commands of this package use the same names."""
    flags.DEFINE_string("model", None, "Model directory to export.")
    flags.DEFINE_string("output", None, "File to write, NAME.tflite.")
    flags.DEFINE_enum("quantization", "int8", list(QUANTIZATIONS), "How weights are stored.")
    flags.DEFINE_enum(
        "head",
        None,
        list(HEADS),
        "Of a pretraining model, which outputs the file has: without the flag those of both heads. Other models give "
        "all of theirs.",
    )
    flags.DEFINE_float(
        "min_cosine",
        MIN_COSINE,
        "With int8, lowest cosine with the source that any output may have; of the two numbers of the sentence-order "
        "head no probability may differ by more than 0.05 instead.",
        0.0,
        1.0,
    )
    flags.DEFINE_float(
        "max_difference",
        MAX_DIFFERENCE,
        "With float32, largest difference from the source, as a share of an output's magnitude. Weights far larger "
        "than training usually gives may need more.",
        0.0,
    )
    flags.DEFINE_bool("overwrite", False, "Replace a file at --output.")


def main() -> None:
    values = flags.FLAGS
    if not values.output.endswith(".tflite"):
        raise door.UsageError(f"--output must end in .tflite, got {values.output!r}")
    report = export_tflite(
        values.model,
        values.output,
        quantization=values.quantization,
        head=values.head,
        min_cosine=values.min_cosine,
        max_difference=values.max_difference,
        overwrite=values.overwrite,
    )
    rows = [(name, one.relative, one.cosine) for name, one in sorted(report.agreement.items())]
    door.print_table("Agreement with the source", ("output", "largest relative difference", "lowest cosine"), rows)
    print(f"{values.output}: {report.bytes / 1e6:.2f} MB")
    if report.metadata.head == "pretraining" and (values.head or "pretraining") in WITH_MASKS:
        question = f"--tflite={shlex.quote(values.output)} --model={shlex.quote(values.model)}"
        print(f"next: python -m export.run_saved_model {question} --text='A sentence with a [MASK].'")


if __name__ == "__main__":
    _define_flags()
    door.run(main, required=["model", "output"])
