"""The ALBERT paper's own analyses, of its models and of yours. The first word says which one.

parameters: parameters by part, memory of weights, optimizer and activations, operations of a token and bytes that
devices sum, of BERT base and large, ALBERT base to xxlarge and base by embedding size and sharing, each computed from
its configuration, with the paper's own figures and what they count; your configurations and models beside them.

layers: L2 distance and cosine similarity between the input and the output of each layer (the paper's Figure 1), of one
or several models side by side, in the mean over the tokens of real text.

objectives: can the order of segments (SOP), and whether they are of one document (NSP), be read from a model's
vectors (the paper's Table 5)? Of one or several models, on held-out data directories of both kinds.

With --output_dir each also writes a CSV file; the first two draw pictures, SVG and PNG, for a light and a dark page.

Example:
  python -m albert_tf.analyze parameters --model=runs/small/model --output_dir=analysis
  python -m albert_tf.analyze layers --model=runs/small/model --input=heldout/part.txt --output_dir=analysis
  python -m albert_tf.analyze objectives --model=runs/sop/model --model=runs/nsp/model \\
      --sop_data_dir=heldout/sop --nsp_data_dir=heldout/nsp

`python -m albert_tf.analyze layers --help` shows the flags of one analysis.
"""

from __future__ import annotations

import itertools
import os
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from absl import flags, logging

from albert_tf import door
from albert_tf.files import read_whole

if TYPE_CHECKING:
    from albert_tf.analysis.layers import Batch
    from albert_tf.analysis.objectives import Probe
    from albert_tf.features import SentenceObjective
    from albert_tf.tokenizer_base import Tokenizer

PARAMETERS, LAYERS, OBJECTIVES = "parameters", "layers", "objectives"
ANALYSES = (PARAMETERS, LAYERS, OBJECTIVES)


def _define_flags(analysis: str | None) -> None:
    """Flags of one analysis, or of all."""
    with door.group("Models and result"):
        flags.DEFINE_multi_string("model", [], "Model directory, or what another project has written. May be repeated.")
        flags.DEFINE_integer(
            "max_seq_length",
            None,
            "Tokens of an example (parameters; by default 512, or as many as a model has positions), or at most of a "
            "row of text (layers; by default 128, or the positions).",
            1,
        )
        flags.DEFINE_string("output_dir", None, "Folder for CSV and pictures; without it there are tables only.")
    if analysis in (None, PARAMETERS):
        with door.group("parameters"):
            flags.DEFINE_multi_string("config", [], "An albert_config.json. May be repeated.")
            flags.DEFINE_integer(
                "max_predictions_per_seq", None, "Predictions of an example; by default 15 % of its tokens.", 1
            )
            flags.DEFINE_boolean("paper", True, "Whether the paper's models are shown beside yours.")
    if analysis in (None, LAYERS):
        with door.group("layers"):
            flags.DEFINE_multi_string("text", [], "A text. May be repeated.")
            flags.DEFINE_multi_string(
                "input", [], "File with a text on each line, empty lines left out. May be repeated."
            )
            flags.DEFINE_string(
                "tokenizer", None, "Folder with the tokenizer of those models that have none beside their weights."
            )
    if analysis in (None, OBJECTIVES):
        with door.group("objectives"):
            flags.DEFINE_string("sop_data_dir", None, "Held-out data directory, made with --sentence_objective=sop.")
            flags.DEFINE_string("nsp_data_dir", None, "Another of the same text, made with --sentence_objective=nsp.")
    if analysis in (None, LAYERS, OBJECTIVES):
        with door.group("layers and objectives"):
            flags.DEFINE_integer("batch_size", 8, "Rows that are computed together.", 1)


def analyze_parameters() -> None:
    """Prints the comparison and writes its files."""
    from albert_tf import conversion
    from albert_tf.analysis import figures, pictures, plots, tables
    from albert_tf.analysis.compared import Compared, papers_models
    from albert_tf.config import AlbertConfig

    values = flags.FLAGS
    if values.output_dir is not None:
        pictures.check_folder(values.output_dir)
    models = list(papers_models()) if values.paper else []
    for path in values.config:
        config = AlbertConfig.from_json(read_whole(path), source=path)
        models.append(Compared(name=path, group="own", config=config))
    for path in values.model:
        with conversion.open_weights(path) as (_, found, _):
            models.append(Compared(name=path, group="own", config=found.config, head=found.head))
    if not models:
        raise door.UsageError("--nopaper needs --config or --model: nothing else is there to show")
    length, predictions = values.max_seq_length, values.max_predictions_per_seq
    rows = [
        (model, figures.compute_figures(model, max_seq_length=length, max_predictions_per_seq=predictions))
        for model in models
    ]
    door.print_table("Parameters (K: thousands)", *tables.parameter_table(rows))
    if values.paper:
        door.print_table("The paper's figures", *tables.paper_table(rows))
    door.print_table("Training", *tables.training_table(rows))
    _print_notes(tables.parameter_notes())
    if values.output_dir is not None:
        door.write_whole(os.path.join(values.output_dir, "parameters.csv"), tables.parameter_csv(rows))
        paths = plots.draw_parameters(values.output_dir, rows)
        paths += plots.draw_training(values.output_dir, rows)
        _say_written(values.output_dir, ["parameters.csv", *map(os.path.basename, paths)])


def analyze_layers() -> None:
    """Prints what each layer changes and writes the files."""
    values = flags.FLAGS
    if not values.model:
        raise door.UsageError("missing --model; --help explains the flags")
    if not values.text and not values.input:
        raise door.UsageError("no text to measure on: give --text or --input")
    from albert_tf import loading
    from albert_tf.analysis import layers, pictures, plots, tables

    if values.output_dir is not None:
        pictures.check_folder(values.output_dir)
    found = []
    tokenizers = [_load_tokenizer(path) for path in values.model]  # all of them before the first model is computed
    for path, tokenizer in zip(values.model, tokenizers, strict=True):
        model = loading.load_model(path, head="encoder")
        if tokenizer.vocab_size != model.config.vocab_size:
            raise ValueError(
                f"{path}: has a vocabulary of {model.config.vocab_size} pieces, its tokenizer {tokenizer.vocab_size}"
            )
        positions = model.config.max_position_embeddings
        length = values.max_seq_length or min(128, positions)
        if length > positions:
            raise ValueError(
                f"{path}: --max_seq_length must be at most the model's {positions} positions, got {length}"
            )
        batches = layers.make_batches(_texts(), tokenizer, max_seq_length=length, batch_size=values.batch_size)
        with door.progress(description=path, unit="batches") as bar:
            found.append(layers.measure_layers(model.encoder, _counted(batches, bar), name=path))
        del model
    door.print_table("Input and output of each layer", *tables.layer_table(found))
    _print_notes(tables.layer_notes(found))
    if values.output_dir is not None:
        door.write_whole(os.path.join(values.output_dir, "layers.csv"), tables.layer_csv(found))
        paths = plots.draw_layers(values.output_dir, found)
        _say_written(values.output_dir, ["layers.csv", *map(os.path.basename, paths)])


def analyze_objectives() -> None:
    """Prints what can be read from each model's vectors and writes the file."""
    values = flags.FLAGS
    if not values.model:
        raise door.UsageError("missing --model; --help explains the flags")
    if values.sop_data_dir is None or values.nsp_data_dir is None:
        raise door.UsageError("give both --sop_data_dir and --nsp_data_dir")
    from albert_tf import loading
    from albert_tf.analysis import objectives, pictures, tables
    from albert_tf.data.manifest import read_data_directory

    if values.output_dir is not None:
        pictures.check_folder(values.output_dir)
    paths: dict[SentenceObjective, str] = {"nsp": values.nsp_data_dir, "sop": values.sop_data_dir}
    data = {objective: read_data_directory(path) for objective, path in paths.items()}
    found: list[tuple[str, float | None, Mapping[SentenceObjective, Probe]]] = []
    for path in values.model:
        model = loading.load_model(path, head="encoder")
        tokenizer = loading.load_tokenizer(path)
        probes: dict[SentenceObjective, Probe] = {}
        for objective, pairs in data.items():
            objectives.check_data(pairs, objective, model.config.vocab_size, model.config.max_position_embeddings)
            if tokenizer is not None and tokenizer.digest != pairs.tokenizer_digest:
                raise ValueError(f"{pairs.source}: made with another tokenizer than that of {path}")
            with door.progress(total=pairs.num_examples, description=f"{path}, {objective}", unit="pairs") as bar:
                read = objectives.read_pairs(model.encoder, pairs, batch_size=values.batch_size, advance=bar.advance)
            try:
                probes[objective] = objectives.probe(*read)
            except ValueError as error:
                raise ValueError(f"{pairs.source}: {error}") from error
        found.append((path, _masked_lm_accuracy(path), probes))
    columns, rows = tables.objective_table(found)
    door.print_table("Read from the vector at [CLS], % right", columns, rows)
    _print_notes(tables.objective_notes(found))
    if values.output_dir is not None:
        door.write_whole(os.path.join(values.output_dir, "objectives.csv"), tables.to_csv(columns, rows))
        _say_written(values.output_dir, ["objectives.csv"])


def _masked_lm_accuracy(path: str) -> float | None:
    """Accuracy that the pretraining run of a model directory noted; None where it did not."""
    from albert_tf import conversion, model_directory

    if not conversion.is_model_directory(path):
        return None
    evaluation = model_directory.read_training(path).get("evaluation", {})
    found = evaluation.get("masked_lm_accuracy") if isinstance(evaluation, dict) else None
    return found if isinstance(found, float) else None


def _load_tokenizer(path: str) -> Tokenizer:
    """Tokenizer beside the weights at `path`, else that of --tokenizer."""
    from albert_tf import loading, model_directory

    tokenizer = loading.load_tokenizer(path)
    if tokenizer is not None:
        return tokenizer
    if flags.FLAGS.tokenizer is None:
        raise door.UsageError(f"{path}: has no tokenizer; name the folder of one by --tokenizer")
    return model_directory.load_tokenizer(flags.FLAGS.tokenizer)


def _counted(batches: Iterable[Batch], bar: door.Progress) -> Iterator[Batch]:
    """The batches; the bar moves when the next one is asked for."""
    for batch in batches:
        yield batch
        bar.advance()


def _texts() -> Iterator[str]:
    """Texts of the flags, one at a time."""
    from albert_tf.tasks.tables import read_lines

    lines = (line for path in flags.FLAGS.input for _, line in read_lines(path))
    return (text for text in itertools.chain(flags.FLAGS.text, lines) if text.strip())


def _print_notes(notes: Sequence[str]) -> None:
    for note in notes:
        print(textwrap.fill(note, 110))


def _say_written(folder: str, names: Sequence[str]) -> None:
    logging.info("wrote to %s: %s", folder, ", ".join(names))


def _take_analysis(arguments: list[str]) -> str | None:
    """First argument, taken out, if it is a word and no flag."""
    return arguments.pop(1) if len(arguments) > 1 and not arguments[1].startswith("-") else None


def run(analysis: str | None) -> None:
    """Runs one analysis with the flags' values.

    Raises:
      door.UsageError: if there is none of that name.
    """
    if analysis not in ANALYSES:
        got = "" if analysis is None else f", got {analysis!r}"
        raise door.UsageError(f"the first word must be one of {', '.join(ANALYSES)}{got}; --help explains them")
    {PARAMETERS: analyze_parameters, LAYERS: analyze_layers, OBJECTIVES: analyze_objectives}[analysis]()


if __name__ == "__main__":
    _analysis = _take_analysis(sys.argv)
    _define_flags(_analysis if _analysis in ANALYSES else None)
    door.run(lambda: run(_analysis))
