"""Exports a model directory as SavedModel, for servers and for programs in other languages. Any head will do.

Two are written, each with every weight once:

  OUTPUT_DIR/text   takes text: the tokenizer is inside. Loading it needs `import tensorflow_text` (or a server with
                    TF-Text's operations).
  OUTPUT_DIR/ids    takes token ids: plain TensorFlow, C, Go and Java load it.

  head                    what `serving_default` of text/ takes and gives      further signatures
  pretraining, masked_lm  text: its vectors                                    pair, fill_mask, fill_mask_pair,
                                                                               sentence_order (pretraining)
  encoder                 text: its vectors                                    pair
  classifier, regression  text, and text_b for pairs: labels, scores; value    pair where nothing says the task
  token_classifier        text: words with their places and labels             words
  multiple_choice         context, question, choices: choice
  span, conditional_span  question, context: answer and its place

All of text/ have `ids`, which takes token ids, and `tokenize`. `serving_default` of ids/ takes and gives what the model
does; of the pretraining heads it gives vectors, and `masked_lm` and `sentence_order` the logits.

Batch size and length are free. Padding costs nothing: it is left out inside, unless --padding=computed asks for plain
operations that XLA compiles. What each signature takes and gives stands in assets.extra/signatures.json of either
folder; beside it lie the requests that TensorFlow Serving warms a model up with. With --version=N the SavedModels go to
OUTPUT_DIR/text/N and OUTPUT_DIR/ids/N, beside earlier versions, and OUTPUT_DIR/text is what TensorFlow Serving takes as
a base path. Before the folders appear each is loaded by a process that cannot import this project, and compared with
the source: assets.extra/MODEL_CARD.md of either tells what was found, in words, export_report.json in numbers.

Examples:
  python -m export.saved_model --model=runs/small/model --output_dir=exported
  python -m export.run_saved_model --saved_model=exported/text --text='The [MASK] is red.'
  python -m export.saved_model --model=runs/reviews/model --output_dir=serving/reviews --version=1
  python -m export.run_saved_model --saved_model=serving/reviews/text/1 --text='A gorgeous, witty film.'
"""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

from absl import flags

from albert_tf import door
from export.artifacts import IDS_FOLDER, TEXT_FOLDER, check_apart
from export.export_folders import export_paths, new_export

if TYPE_CHECKING:
    from albert_tf.inference.loaded_model import LoadedModel
    from export.parity import Agreement
    from export.signatures.signature_maker import Padding

PADDINGS = ("skipped", "computed")  # of export.signatures.signature_maker, which loads TensorFlow
TOP_K = 10
# float32 sums in another order: without padding and over other shapes. Measured at base size: 7e-7.
MAX_DIFFERENCE = 1e-5


@dataclasses.dataclass(frozen=True, kw_only=True)
class SavedModelReport:
    """What an export gave.

    Attributes:
      text_folder: the SavedModel that takes text.
      ids_folder: the one that takes token ids.
      head: of the model.
      num_texts: texts that its task gives it; None where nothing says it.
      variables_bytes: of either SavedModel.
      parameters: weights of the model.
      agreement: by output, how well the reloaded ids signatures agree with the source.
    """

    text_folder: str
    ids_folder: str
    head: str
    num_texts: int | None
    variables_bytes: int
    parameters: int
    agreement: Mapping[str, Agreement]


def export_saved_model(
    model_directory: str | os.PathLike[str],
    output_directory: str | os.PathLike[str],
    *,
    max_seq_length: int | None = None,
    stride: int | None = None,
    top_k: int = TOP_K,
    padding: Padding = "skipped",
    version: int | None = None,
    max_difference: float = MAX_DIFFERENCE,
    overwrite: bool = False,
) -> SavedModelReport:
    """Writes both SavedModels of a model directory and checks them. Nothing is left behind where that fails.

    Args:
      model_directory: the model directory, with any head.
      output_directory: folder to make, with `text` and `ids` in it.
      max_seq_length: most tokens of a row (S), which texts are cut to; None takes what the model was trained on.
      stride: tokens from the start of a window to that of the next one, for texts that do not fit; None takes the
        task's, without which texts are cut, and for answers out of a text 128.
      top_k: candidates for each mask, and answers out of a text.
      padding: "skipped" or, for XLA and TPUs, "computed".
      version: number of the export, which then goes to `text/N` and `ids/N` beside other versions; None for none.
      max_difference: how far any output may be from the source, as a share of the output's largest magnitude.
      overwrite: whether an export at the same place is replaced.

    Raises:
      FileNotFoundError: if the model directory or a file in it is missing.
      ValueError: if it is damaged, the place is taken, a setting is out of range, or an exported model does not give
        the source's numbers.
    """
    check_apart(output_directory, model_directory)
    with new_export(output_directory, version=version, overwrite=overwrite) as folders:
        from albert_tf.model_directory import read_config

        read_config(model_directory)  # before the seconds that loading TensorFlow takes
        from albert_tf.inference import loaded_model
        from export import saved_model_files
        from export.saved_model_files import ServedSettings, variables_bytes

        settings = ServedSettings(max_seq_length=max_seq_length, stride=stride, top_k=top_k, padding=padding)
        loaded = loaded_model.load(model_directory)
        served = saved_model_files.served_from(loaded, settings)
        saved_model_files.write_saved_models(folders, loaded, served)
        agreement = _prove(folders, loaded, max_difference)
        config = loaded.task_config
        paths = export_paths(output_directory, version)
        return SavedModelReport(
            text_folder=paths[TEXT_FOLDER],
            ids_folder=paths[IDS_FOLDER],
            head=loaded.model.HEAD,
            num_texts=config.make_task(None).num_texts if config else None,
            variables_bytes=variables_bytes(folders[IDS_FOLDER]),
            parameters=loaded.model.count_params(),
            agreement=agreement,
        )


def _prove(folders: Mapping[str, str], source: LoadedModel, max_difference: float) -> Mapping[str, Agreement]:
    """Proves that both SavedModels equal their source, and writes report and card into them; agreement by output.

    Raises:
      ValueError: as `proof.prove`.
    """
    from export import parity
    from export.proof.proof import Artefact, prove
    from export.proof.report import make_report, write_report

    artefacts = [Artefact(path=folders[name], name=f"SavedModel {name}") for name in (TEXT_FOLDER, IDS_FOLDER)]
    proof = prove(artefacts, source, parity.Bound(relative=max_difference))
    for artefact in artefacts:
        write_report(make_report(source, proof), artefact.path)
    return {name: one for outputs in proof.artefacts[-1].agreement.values() for name, one in outputs.items()}


def _define_flags() -> None:
    """Flags of the command; not at import, since other commands of this package use the same names."""
    flags.DEFINE_string("model", None, "Model directory to export.")
    flags.DEFINE_string("output_dir", None, "Folder to make, with text/ and ids/ in it.")
    flags.DEFINE_integer(
        "max_seq_length", None, "Tokens that texts are cut to; by default the longest that the model was trained on.", 5
    )
    flags.DEFINE_integer(
        "stride",
        None,
        "Tokens from the start of a window to that of the next one, for texts that do not fit; by default as in "
        "training, and 128 for answers out of a text. Without one long texts are cut.",
        1,
    )
    flags.DEFINE_integer("top_k", TOP_K, "Candidates for each mask, and answers out of a text.", 1)
    flags.DEFINE_enum(
        "padding", "skipped", PADDINGS, "Whether padding is left out, or computed like tokens, as XLA and TPUs need it."
    )
    flags.DEFINE_integer(
        "version", None, "Number of this export, which then stands in text/ and ids/ beside other versions.", 1
    )
    flags.DEFINE_float(
        "max_difference",
        MAX_DIFFERENCE,
        "Largest difference from the source, as a share of an output's magnitude. Weights far larger than training "
        "usually gives may need more.",
        0.0,
    )
    flags.DEFINE_bool("overwrite", False, "Replace an export at --output_dir, with --version that version alone.")


def main() -> None:
    from export.run_saved_model import example_question

    values = flags.FLAGS
    report = export_saved_model(
        values.model,
        values.output_dir,
        max_seq_length=values.max_seq_length,
        stride=values.stride,
        top_k=values.top_k,
        padding=values.padding,
        version=values.version,
        max_difference=values.max_difference,
        overwrite=values.overwrite,
    )
    per_weight = report.variables_bytes / report.parameters
    rows = [(name, one.relative, one.cosine) for name, one in sorted(report.agreement.items())]
    door.print_table("Agreement with the source", ("output", "largest relative difference", "lowest cosine"), rows)
    print(f"{report.parameters:,} weights, {report.variables_bytes / 1e6:.1f} MB ({per_weight:.3f} bytes each)")
    print(f"text in: {report.text_folder}\nids in:  {report.ids_folder}")
    question = example_question(report.head, report.num_texts)
    print(f"next: python -m export.run_saved_model --saved_model={shlex.quote(report.text_folder)} {question}")


if __name__ == "__main__":
    _define_flags()
    door.run(main, required=["model", "output_dir"])
