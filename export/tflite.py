"""Exports a model directory as a TFLite (LiteRT) file, for phones and small machines.

The layers run in a loop, so that the file holds and the runtime packs their weights once; batch size and length are
free (resize the inputs). Inputs and outputs have names, in one signature, "serving_default". Token ids go in: the
tokenizer stays outside. Before the file appears it is loaded by a process without this project and TensorFlow, and
compared with the source: beside NAME.tflite NAME.card.md tells what was found, in words, NAME.report.json in numbers.

  --quantization  float32  as trained
                  float16  half the size, same speed
                  int8     dynamic range: weights in 8 bits, a quarter of the size; activations stay float32
  --head          encoder        sequence_output and pooled_output
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
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

from absl import flags, logging

from albert_tf import door, startup
from albert_tf.files import check_regular
from export.artifacts import ENCODER_INPUTS, check_apart, quiet

if TYPE_CHECKING:
    from albert_tf.inference.loaded_model import LoadedModel
    from albert_tf.modeling.encoder import Form
    from albert_tf.modeling.models import AlbertPretrainingModel
    from export.parity import Agreement, Batch, Bound

Quantization = Literal["float32", "float16", "int8"]
Head = Literal["encoder", "masked_lm", "sentence_order", "pretraining", "all"]
QUANTIZATIONS: tuple[Quantization, ...] = get_args(Quantization)
HEADS: tuple[Head, ...] = get_args(Head)
SIGNATURE = "serving_default"
MIN_COSINE = 0.999
MAX_DIFFERENCE = 1e-5


@dataclasses.dataclass(frozen=True, kw_only=True)
class TFLiteReport:
    """What an export gave: size of the file in bytes, and how well each output agrees with the source."""

    bytes: int
    agreement: Mapping[str, Agreement]


def export_tflite(
    model_directory: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    quantization: Quantization = "int8",
    head: Head = "pretraining",
    min_cosine: float = MIN_COSINE,
    max_difference: float = MAX_DIFFERENCE,
    overwrite: bool = False,
) -> TFLiteReport:
    """Writes a TFLite file of a model directory and checks it. Nothing is left behind where that fails.

    Args:
      model_directory: the model directory.
      output: file to write.
      quantization: how weights are stored.
      head: which outputs the file has.
      min_cosine: for int8, lowest cosine with the source that any output of any text may have.
      max_difference: for float32, how far any output may be from the source, as a share of its largest magnitude.
      overwrite: whether a file at `output` is replaced.

    Raises:
      FileNotFoundError: if the model directory or a file in it is missing.
      ValueError: if it is damaged, `output` exists, or the file does not agree with the source.
    """
    from albert_tf.inference.loaded_model import LoadedModel
    from albert_tf.model_directory import (
        check_head,
        load_pretraining_model,
        load_tokenizer,
        read_config,
        read_max_seq_length,
        read_sentence_objective,
    )

    if quantization not in QUANTIZATIONS or head not in HEADS:
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
    check_head(model_directory, ("pretraining",), reader="export.tflite")
    if read_sentence_objective(model_directory) == "none" and head in ("sentence_order", "pretraining", "all"):
        raise ValueError(
            f"{os.fspath(model_directory)}: trained with sentence_objective none, so its sentence-order head knows "
            f"nothing; head must be masked_lm or encoder, got {head}"
        )
    model, tokenizer = load_pretraining_model(model_directory), load_tokenizer(model_directory)
    begun = time.monotonic()
    content = convert(model, quantization=quantization, head=head)
    logging.info("converted in %.1f s", time.monotonic() - begun)

    source = LoadedModel(
        path=os.fspath(model_directory),
        model=model,
        tokenizer=tokenizer,
        max_seq_length=read_max_seq_length(model_directory),
        sentence_objective=read_sentence_objective(model_directory),
    )
    found = _prove(output, content, source, bound_of(quantization, min_cosine, max_difference))
    return TFLiteReport(bytes=len(content), agreement=found)


def _prove(
    output: str | os.PathLike[str], content: bytes, source: LoadedModel, bound: Bound
) -> Mapping[str, Agreement]:
    """Proves that a file equals its source and writes it with report and card; agreement by output.

    Raises:
      ValueError: as `proof.prove`.
    """
    from export.proof.proof import Artefact, prove
    from export.proof.report import make_report, write_with_report

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.tflite")
        door.write_whole(path, content)
        proof = prove([Artefact(path=path, name=os.path.basename(output))], source, bound)
    write_with_report(output, content, make_report(source, proof))
    return {name: one for outputs in proof.artefacts[0].agreement.values() for name, one in outputs.items()}


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


def convert(model: AlbertPretrainingModel, *, quantization: Quantization, head: Head) -> bytes:
    """Content of a TFLite file of `model`. Nothing is checked but that the file needs no foreign operations.

    Raises:
      ValueError: if it does.
    """
    import tensorflow as tf

    from export import flatbuffer
    from export.signatures.common import WeightsModule

    if quantization == "float16":
        _check_range_of_float16(model)
    module = WeightsModule(model)
    with quiet():
        function = _function(model, head).get_concrete_function()
        converter = tf.lite.TFLiteConverter.from_concrete_functions([function], module)
        if quantization != "float32":
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if quantization == "float16":
            converter.target_spec.supported_types = [tf.float16]
        content = flatbuffer.share_tied_tables(bytes(converter.convert()))
    flatbuffer.check_operators(content)
    return content


def _check_range_of_float16(model: AlbertPretrainingModel) -> None:
    import numpy as np

    for name, variable in model.named_weights().items():
        largest = float(np.abs(variable.numpy()).max())
        if largest > np.finfo(np.float16).max:
            raise ValueError(f"{name} holds {largest:.3g}, which float16 cannot: export float32 or int8")


def make_interpreter(content: bytes, *, num_threads: int | None = None) -> Any:
    """Interpreter of a TFLite file's content.

    It is LiteRT's, which succeeds the deprecated `tf.lite.Interpreter` and needs no TensorFlow. Of LiteRT's two classes
    it is the older: the newer `CompiledModel` fixes the shapes when it compiles.

    Raises:
      ValueError: if the content is no TFLite file, or a damaged one.
    """
    from ai_edge_litert.interpreter import Interpreter

    try:
        interpreter = Interpreter(model_content=content, num_threads=num_threads)
        with startup.held_back():  # the runtime says here which delegate it uses
            interpreter.allocate_tensors()
        signatures = interpreter.get_signature_list()
    except (RuntimeError, ValueError) as error:
        raise ValueError(f"not a TFLite file, or a damaged one: {error}") from error
    if SIGNATURE not in signatures:
        raise ValueError(f"the TFLite file has no signature {SIGNATURE!r}; it has {', '.join(signatures) or 'none'}")
    return interpreter


def run(interpreter: Any, inputs: Batch) -> dict[str, Any]:
    """Outputs by name for inputs by name; inputs that the file does not take are left out.

    Raises:
      ValueError: if the file is damaged.
    """
    try:
        runner = interpreter.get_signature_runner(SIGNATURE)
        taken = {name: inputs[name] for name in runner.get_input_details() if name in inputs}
        return dict(runner(**taken))
    except RuntimeError as error:
        raise ValueError(f"the TFLite file is damaged: {' '.join(str(error).split())}") from error


def _function(model: AlbertPretrainingModel, head: Head) -> Any:
    """The model with one of its heads as a TensorFlow function with named inputs."""
    import tensorflow as tf

    from albert_tf import features

    # Where layers have weights of their own there is nothing to go round.
    form: Form = "loop" if model.config.parameter_sharing == "all" else "unrolled"
    names: Sequence[str] = ENCODER_INPUTS
    if head in ("masked_lm", "pretraining", "all"):
        names = (*ENCODER_INPUTS, features.MASKED_LM_POSITIONS)

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32, name=name) for name in names], autograph=False)
    def function(*values: tf.Tensor) -> dict[str, tf.Tensor]:
        inputs = dict(zip(names, values, strict=True))
        encoded = model.encoder.encode(inputs, form=form)
        outputs = encoded if head in ("encoder", "all") else {}
        if features.MASKED_LM_POSITIONS in inputs:
            positions = inputs[features.MASKED_LM_POSITIONS]
            outputs["masked_lm_logits"] = model.masked_lm_head(encoded["sequence_output"], positions)
        if head in ("sentence_order", "pretraining", "all"):
            outputs["sentence_order_logits"] = model.sentence_order_head(encoded["pooled_output"])
        return outputs

    return function


def _define_flags() -> None:
    """Flags of the command; not at import, since other commands of this package use the same names."""
    flags.DEFINE_string("model", None, "Model directory to export.")
    flags.DEFINE_string("output", None, "File to write, NAME.tflite.")
    flags.DEFINE_enum("quantization", "int8", list(QUANTIZATIONS), "How weights are stored.")
    flags.DEFINE_enum("head", "pretraining", list(HEADS), "Which outputs the file has.")
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
    if values.head in ("masked_lm", "pretraining", "all"):
        question = f"--tflite={shlex.quote(values.output)} --model={shlex.quote(values.model)}"
        print(f"next: python -m export.run_saved_model {question} --text='A sentence with a [MASK].'")


if __name__ == "__main__":
    _define_flags()
    door.run(main, required=["model", "output"])
