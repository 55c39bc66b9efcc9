"""Exports a model directory as SavedModel, for servers and for programs in other languages.

Two are written, each with every weight once:

  OUTPUT_DIR/text   takes text: the tokenizer is inside. Loading it needs `import tensorflow_text` (or a server with
                    TF-Text's operations). Signatures: serving_default, pair, ids, tokenize, fill_mask,
                    fill_mask_pair, sentence_order.
  OUTPUT_DIR/ids    takes token ids: plain TensorFlow, C, Go and Java load it. Signatures: serving_default,
                    masked_lm, sentence_order.

Batch size and length are free, and padding costs nothing: it is left out inside. What each signature takes and gives
stands in assets.extra/signatures.json of either folder. Before the folders appear each is loaded by a process that
cannot import this project, and compared with the source: beside it MODEL_CARD.md tells what was found, in words, and
export_report.json in numbers.

Example:
  python -m export.saved_model --model=runs/small/model --output_dir=exported
  python -m export.run_saved_model --saved_model=exported/text --text='The [MASK] is red.'
"""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from absl import flags, logging

from albert_tf import door
from export.artifacts import IDS_FOLDER, SIGNATURES_FILE, TEXT_FOLDER, check_apart, quiet

if TYPE_CHECKING:
    from albert_tf.features import SentenceObjective
    from albert_tf.inference.loaded_model import LoadedModel
    from albert_tf.modeling.models import AlbertPretrainingModel
    from albert_tf.tokenizer_base import Tokenizer
    from export.parity import Agreement
    from export.serving_module import Signature

TOP_K = 10
# float32 sums in another order: without padding and over other shapes. Measured at base size: 7e-7.
MAX_DIFFERENCE = 1e-5


@dataclasses.dataclass(frozen=True, kw_only=True)
class SavedModelReport:
    """What an export gave. `agreement` holds, by output, how well the reloaded ids signature agrees with the source."""

    text_folder: str
    ids_folder: str
    variables_bytes: int
    parameters: int
    agreement: Mapping[str, Agreement]


def export_saved_model(
    model_directory: str | os.PathLike[str],
    output_directory: str | os.PathLike[str],
    *,
    max_seq_length: int | None = None,
    top_k: int = TOP_K,
    max_difference: float = MAX_DIFFERENCE,
    overwrite: bool = False,
) -> SavedModelReport:
    """Writes both SavedModels of a model directory and checks them. Nothing is left behind where that fails.

    Args:
      model_directory: the model directory.
      output_directory: folder to make, with `text` and `ids` in it.
      max_seq_length: length in tokens that texts are cut to (S); None takes the longest that the model was trained on.
      top_k: candidates for each mask.
      max_difference: how far any output may be from the source, as a share of the output's largest magnitude.
      overwrite: whether a folder with content at `output_directory` is replaced.

    Raises:
      FileNotFoundError: if the model directory or a file in it is missing.
      ValueError: if it is damaged, `output_directory` has content, a setting is out of range, or an exported model does
        not give the source's numbers.
    """
    check_apart(output_directory, model_directory)
    if overwrite:
        _check_earlier_export(output_directory)
    advice = "name another folder, or pass --overwrite to replace it"
    with door.whole_directory(output_directory, replace=overwrite, advice=advice) as folder:
        from albert_tf.inference.loaded_model import LoadedModel
        from albert_tf.model_directory import (
            check_head,
            load_pretraining_model,
            load_tokenizer,
            read_config,
            read_max_seq_length,
            read_sentence_objective,
        )

        check_head(model_directory, ("pretraining",), reader="export.saved_model")
        objective = read_sentence_objective(model_directory)
        longest = read_config(model_directory).max_position_embeddings
        if max_seq_length is None:
            max_seq_length = read_max_seq_length(model_directory)
        max_seq_length = checked_max_seq_length(max_seq_length, longest)
        model, tokenizer = load_pretraining_model(model_directory), load_tokenizer(model_directory)
        write_saved_models(
            folder, model, tokenizer, max_seq_length=max_seq_length, top_k=top_k, sentence_objective=objective
        )
        source = LoadedModel(
            path=os.fspath(model_directory),
            model=model,
            tokenizer=tokenizer,
            max_seq_length=read_max_seq_length(model_directory),
            sentence_objective=objective,
        )
        agreement = _prove(folder, source, max_difference)
        return SavedModelReport(
            text_folder=os.path.join(output_directory, TEXT_FOLDER),
            ids_folder=os.path.join(output_directory, IDS_FOLDER),
            variables_bytes=variables_bytes(os.path.join(folder, IDS_FOLDER)),
            parameters=model.count_params(),
            agreement=agreement,
        )


def _check_earlier_export(path: str | os.PathLike[str]) -> None:
    """Refuses to replace a folder with anything in it but an earlier export.

    Raises:
      ValueError: naming what else is there.
    """
    if door.is_remote(path):
        import tensorflow as tf

        names = [name.rstrip("/") for name in tf.io.gfile.listdir(path)] if tf.io.gfile.isdir(path) else []
    else:
        names = os.listdir(path) if os.path.isdir(path) else []
    others = sorted(set(names) - {TEXT_FOLDER, IDS_FOLDER})
    if others:
        raise ValueError(
            f"{os.fspath(path)}: holds {others[0]!r}, which is no export; --overwrite replaces exports only"
        )


def write_saved_models(
    folder: str,
    model: AlbertPretrainingModel,
    tokenizer: Tokenizer,
    *,
    max_seq_length: int,
    top_k: int = TOP_K,
    sentence_objective: SentenceObjective = "sop",
) -> None:
    """Writes `text` and `ids` into `folder`, unchecked.

    Raises:
      ValueError: if `top_k` is less than 1.
    """
    from export import serving_module
    from export.text_graph import make_text_graph

    if top_k < 1:
        raise ValueError(f"top_k must be at least 1, got {top_k}")
    text = make_text_graph(tokenizer, max_seq_length)
    signatures = serving_module.text_signatures(
        model, tokenizer, text, top_k=top_k, sentence_objective=sentence_objective
    )
    settings = {"max_seq_length": max_seq_length, "top_k": top_k, "sentence_objective": sentence_objective}
    save(serving_module.WeightsModule(model, text), signatures, os.path.join(folder, TEXT_FOLDER), **settings)
    signatures = serving_module.ids_signatures(model, sentence_objective)
    save(serving_module.WeightsModule(model), signatures, os.path.join(folder, IDS_FOLDER))


def checked_max_seq_length(max_seq_length: int, longest: int) -> int:
    """`max_seq_length`, checked.

    Raises:
      ValueError: if the model cannot take that length, or no pair of texts fits.
    """
    if not 5 <= max_seq_length <= longest:
        raise ValueError(
            f"max_seq_length must be in [5, {longest}] (the model's max_position_embeddings), got {max_seq_length}"
        )
    return max_seq_length


def variables_bytes(saved_model: str) -> int:
    """Bytes of the data files in a SavedModel's `variables` folder."""
    import tensorflow as tf

    files = tf.io.gfile.glob(os.path.join(saved_model, "variables", "variables.data-*"))
    return sum(int(tf.io.gfile.stat(file).length) for file in files)


def save(module: Any, signatures: Mapping[str, Signature], folder: str, **settings: int | str) -> None:
    """Writes one SavedModel with its description."""
    import tensorflow as tf

    begun = time.monotonic()
    functions = {name: signature.function.get_concrete_function() for name, signature in signatures.items()}
    traced = time.monotonic()
    # The gradients of packing are for training; a SavedModel cannot hold them.
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    with quiet():
        tf.saved_model.save(module, folder, signatures=functions, options=options)
    described = {
        name: {
            "description": " ".join(signature.document.split()),
            "inputs": _specs(functions[name].structured_input_signature[0]),
            "outputs": _specs(functions[name].structured_outputs),
        }
        for name, signature in signatures.items()
    }
    content = json.dumps({**settings, "signatures": described}, indent=2) + "\n"
    door.write_whole(os.path.join(folder, SIGNATURES_FILE), content)
    name, end = os.path.basename(folder), time.monotonic()
    logging.info("%s model: traced in %.1f s, saved in %.1f s", name, traced - begun, end - traced)


def _specs(specs: Any) -> dict[str, str]:
    """Dtype and shape of each input or output, such as "int32 [None, None]"."""
    named = specs if isinstance(specs, dict) else {spec.name: spec for spec in specs}
    return {name: f"{spec.dtype.name} {list(spec.shape)}" for name, spec in sorted(named.items())}


def _prove(folder: str, source: LoadedModel, max_difference: float) -> Mapping[str, Agreement]:
    """Proves that both SavedModels equal their source and writes report and card into them; agreement by output.

    Raises:
      ValueError: as `proof.prove`.
    """
    from export import parity
    from export.proof.proof import Artefact, prove
    from export.proof.report import make_report, write_report

    artefacts = [
        Artefact(path=os.path.join(folder, name), name=f"SavedModel {name}") for name in (TEXT_FOLDER, IDS_FOLDER)
    ]
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
    flags.DEFINE_integer("top_k", TOP_K, "Candidates that fill_mask gives for each mask.", 1)
    flags.DEFINE_float(
        "max_difference",
        MAX_DIFFERENCE,
        "Largest difference from the source, as a share of an output's magnitude. Weights far larger than training "
        "usually gives may need more.",
        0.0,
    )
    flags.DEFINE_bool("overwrite", False, "Replace a folder with content at --output_dir.")


def main() -> None:
    values = flags.FLAGS
    report = export_saved_model(
        values.model,
        values.output_dir,
        max_seq_length=values.max_seq_length,
        top_k=values.top_k,
        max_difference=values.max_difference,
        overwrite=values.overwrite,
    )
    per_weight = report.variables_bytes / report.parameters
    rows = [(name, one.relative, one.cosine) for name, one in sorted(report.agreement.items())]
    door.print_table("Agreement with the source", ("output", "largest relative difference", "lowest cosine"), rows)
    print(f"{report.parameters:,} weights, {report.variables_bytes / 1e6:.1f} MB ({per_weight:.3f} bytes each)")
    print(f"text in: {report.text_folder}\nids in:  {report.ids_folder}")
    folder = shlex.quote(report.text_folder)
    print(f"next: python -m export.run_saved_model --saved_model={folder} --text='A sentence with a [MASK].'")


if __name__ == "__main__":
    _define_flags()
    door.run(main, required=["model", "output_dir"])
