"""Exports a model directory, whatever its head, as a TFLite (LiteRT) file, for phones and small machines.

The layers run in a loop, so that the file holds and the runtime packs their weights once; batch size and length are
free (resize the inputs). Inputs and outputs have the model's names, in one signature, "serving_default". Head, labels
and task stand as JSON in the file's metadata, under the name "albert_tf". Before the file appears it is loaded by a
process without this project and TensorFlow, and compared with the source: beside NAME.tflite NAME.card.md tells what
was found, in words, NAME.report.json in numbers.

  --quantization  float32  as trained
                  float16  half the size, same speed
                  int8     dynamic range: weights in 8 bits, a quarter of the size; activations stay float32
                  full_int8 as int8, and the inputs and outputs of all matrix products in 8 bits too, their ranges
                           measured on --representative_data; sums, LayerNorm and softmax stay float32. For chips that
                           have nothing but 8-bit products. Less exact: on weights as they start the lowest cosines
                           were 0.990 to 0.999, and a probability was up to 0.03 off. Measure yours on its task
  --tokenizer     outside  token ids go in, int32
                  inside   text goes in, string [B], a second one as text_b where the task has pairs; cut to the
                           length that the model was trained on. Half a megabyte and more for the vocabulary. Running
                           it needs TF-Text's operations (tensorflow_text.tflite_registrar.SELECT_TFTEXT_OPS)
  --head          of a pretraining model; every other head gives all of its outputs
                  encoder        sequence_output and pooled_output
                  masked_lm      masked_lm_logits at masked_lm_positions
                  sentence_order sentence_order_logits
                  pretraining    both heads
                  all            everything

Examples:
  python -m export.tflite --model=runs/small/model --output=small_int8.tflite --quantization=int8
  python -m export.run_saved_model --tflite=small_int8.tflite --model=runs/small/model --text='The [MASK] is red.'
  python -m export.tflite --model=runs/sst2/model --output=sst2_text.tflite --tokenizer=inside
  python -m export.tflite --model=runs/sst2/model --output=sst2.tflite --quantization=full_int8 \\
      --representative_data=texts.txt
"""

from __future__ import annotations

import dataclasses
import os
import shlex
import tempfile
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from absl import flags, logging

from albert_tf import door
from albert_tf.files import check_regular
from export.artifacts import check_apart
from export.tflite_conversion import MAX_DIFFERENCE, QUANTIZATIONS, Quantization, bound_of, convert
from export.tflite_graph import HEADS, Head, input_shapes
from export.tflite_runtime import SIGNATURE, make_interpreter, run
from export.tflite_settings import TOKENIZER_PLACES, TokenizerPlace, check_settings, checked_head

if TYPE_CHECKING:
    from albert_tf.inference.loaded_model import LoadedModel
    from export.parity import Agreement, Batch, Bound
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class TFLiteReport:
    """What an export gave.

    Attributes:
      bytes: size of the file.
      seconds: what the conversion took, without the comparison.
      inputs: names of the file's inputs.
      metadata: what the file says of itself.
      agreement: how well each output agrees with the source.
    """

    bytes: int
    seconds: float
    inputs: tuple[str, ...]
    metadata: TFLiteMetadata
    agreement: Mapping[str, Agreement]


def export_tflite(
    model_directory: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    quantization: Quantization = "int8",
    head: Head | None = None,
    tokenizer: TokenizerPlace = "outside",
    representative_data: str | os.PathLike[str] | None = None,
    min_cosine: float | None = None,
    max_difference: float = MAX_DIFFERENCE,
    overwrite: bool = False,
) -> TFLiteReport:
    """Writes a TFLite file of a model directory and checks it. Nothing is left behind where that fails.

    Args:
      model_directory: the model directory.
      output: file to write.
      quantization: how weights and activations are stored.
      head: which outputs the file of a pretraining model has, None for "pretraining", or "encoder" with the tokenizer
        inside; None for every other model.
      tokenizer: "inside" for a file that takes text, "outside" for one that takes token ids.
      representative_data: for "full_int8", a data directory, or a text file with one text a line.
      min_cosine: for 8 bits, lowest cosine with the source that any output of any text may have; None for what
        `bound_of` says.
      max_difference: for float32, how far any output may be from the source, as a share of its largest magnitude.
      overwrite: whether a file at `output` is replaced.

    Raises:
      FileNotFoundError: if the model directory or a file in it is missing.
      ValueError: if it is damaged, `output` exists, or the file does not agree with the source.
    """
    from albert_tf.inference import loaded_model
    from albert_tf.model_directory import load_tokenizer, read_config, read_head_config
    from export import parity, tflite_metadata

    check_settings(quantization, head, tokenizer, representative_data)
    check_apart(output, model_directory)
    if os.path.isdir(output):
        raise IsADirectoryError(21, "is a folder, a file was expected", os.fspath(output))
    check_regular(output)
    if os.path.exists(output) and not overwrite:
        raise ValueError(f"{os.fspath(output)} exists; name another file or pass --overwrite")
    read_config(model_directory)  # before the seconds that loading TensorFlow takes
    head_config = read_head_config(model_directory)
    head = checked_head(model_directory, head_config, head, tokenizer)
    described = tflite_metadata.describe(model_directory, outputs=head, quantization=quantization, tokenizer=tokenizer)
    vocabulary = load_tokenizer(model_directory)
    text = None
    if tokenizer == "inside":
        from export.tflite_tokenizer import make_text_graph

        text = make_text_graph(vocabulary, described.max_seq_length)
    batches: list[Batch] = []
    if representative_data is not None:
        from export.representative_data import read_representative

        batches = read_representative(representative_data, vocabulary, described.max_seq_length)
    source = loaded_model.load(model_directory)
    model = source.model
    taken = input_shapes(model, head)
    representative = [{name: parity.head_inputs(head_config, batch)[name] for name in taken} for batch in batches]
    begun = time.monotonic()
    content = convert(
        model,
        quantization=quantization,
        head=head,
        text=text,
        pairs=described.takes_pairs,
        representative=representative,
        metadata=described,
    )
    seconds = time.monotonic() - begun
    logging.info("converted in %.1f s", seconds)
    inputs = make_interpreter(content).get_signature_runner(SIGNATURE).get_input_details()
    found = _prove(output, content, source, bound_of(quantization, min_cosine, max_difference))
    return TFLiteReport(
        bytes=len(content), seconds=seconds, inputs=tuple(sorted(inputs)), metadata=described, agreement=found
    )


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


def _define_flags() -> None:
    """Flags of the command; not at import, since other commands of this package use the same names."""
    flags.DEFINE_string("model", None, "Model directory to export.")
    flags.DEFINE_string("output", None, "File to write, NAME.tflite.")
    flags.DEFINE_enum("quantization", "int8", list(QUANTIZATIONS), "How weights and activations are stored.")
    flags.DEFINE_enum(
        "head",
        None,
        list(HEADS),
        "Of a pretraining model, which outputs the file has: without the flag those of both heads. Other models give "
        "all of theirs.",
    )
    flags.DEFINE_enum(
        "tokenizer",
        "outside",
        list(TOKENIZER_PLACES),
        "Whether text goes into the file, or token ids. SentencePiece vocabularies only.",
    )
    flags.DEFINE_string(
        "representative_data",
        None,
        "With full_int8, texts as the model will get: a data directory of pretraining, or a text file, one a line. "
        "The first 32 are taken.",
    )
    flags.DEFINE_float(
        "min_cosine",
        None,
        "With 8 bits, lowest cosine with the source that any output may have; without the flag 0.999, and 0.98 with "
        "full_int8. Of a few classes no probability may differ by more than 0.05 instead.",
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
    with door.checking_flags():
        check_settings(values.quantization, values.head, values.tokenizer, values.representative_data)
    if not values.output.endswith(".tflite"):
        raise door.UsageError(f"--output must end in .tflite, got {values.output!r}")
    report = export_tflite(
        values.model,
        values.output,
        quantization=values.quantization,
        head=values.head,
        tokenizer=values.tokenizer,
        representative_data=values.representative_data,
        min_cosine=values.min_cosine,
        max_difference=values.max_difference,
        overwrite=values.overwrite,
    )
    rows = [(name, one.relative, one.cosine) for name, one in sorted(report.agreement.items())]
    door.print_table("Agreement with the source", ("output", "largest relative difference", "lowest cosine"), rows)
    print(f"{values.output}: {report.bytes / 1e6:.2f} MB")
    if "masked_lm_logits" in report.agreement:
        question = f"--tflite={shlex.quote(values.output)} --model={shlex.quote(values.model)}"
        print(f"next: python -m export.run_saved_model {question} --text='A sentence with a [MASK].'")
    else:
        print(f"next: give {', '.join(report.inputs)} to the signature {SIGNATURE} (export.tflite_runtime.run does)")


if __name__ == "__main__":
    _define_flags()
    door.run(main, required=["model", "output"])
