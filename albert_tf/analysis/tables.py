"""The analyses as tables for a terminal and as CSV."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from albert_tf.analysis.compared import Compared
from albert_tf.analysis.figures import ACTIVATION_FORMULA, PARTS, Figures, explain_paper
from albert_tf.analysis.layers import LayerChange, LayerChanges
from albert_tf.analysis.objectives import Probe
from albert_tf.features import SentenceObjective
from albert_tf.progress import counted

_PROBED: tuple[SentenceObjective, ...] = ("nsp", "sop")
Rows = Sequence[tuple[Compared, Figures]]
Table = tuple[tuple[str, ...], list[tuple[Any, ...]]]  # columns, rows


def parameter_table(rows: Rows) -> Table:
    """Parameters by part, in thousands, and all in full."""
    columns = ("model", "E", "H", "L", *(f"{part}, K" for part in PARTS), "all")
    found = []
    for model, figures in rows:
        shape = (model.config.embedding_size, model.config.hidden_size, model.config.num_hidden_layers)
        counts = (_thousands(figures.parameters[part]) for part in PARTS)
        found.append((model.name, *shape, *counts, figures.total))
    return columns, found


def _thousands(count: int) -> str:
    return f"{count / 1000:,.0f}" if count >= 10_000 or not count else f"{count / 1000:.1f}"


def paper_table(rows: Rows) -> Table:
    """The paper's figures, and which of the parts, rounded to millions, they are."""
    found = [
        (model.name, f"{model.paper_millions}M", explain_paper(figures, model.paper_millions))
        for model, figures in rows
        if model.paper_millions is not None
    ]
    return ("model", "paper", "computed"), found


def training_table(rows: Rows) -> Table:
    """What training needs: memory, operations, and what is summed over devices."""
    columns = (
        "model",
        "S",
        "weights",
        "optimizer",
        "activations of an example",
        "summed over devices",
        "GFLOP a token, forward",
        "step",
    )
    found = []
    for model, figures in rows:
        sizes = (figures.weight_bytes, figures.optimizer_bytes, figures.activation_bytes, figures.reduced_bytes)
        operations = (figures.forward_operations_per_token / 1e9, figures.training_operations_per_token / 1e9)
        found.append((model.name, figures.max_seq_length, *map(_megabytes, sizes), *operations))
    return columns, found


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 1e6 else f"{size / 1e6:.3f} MB"


def parameter_notes() -> tuple[str, ...]:
    """What the tables count and how, a paragraph each."""
    return (
        "Parameters: of the pretraining model, or of a model directory with the head that it has; heads are masked "
        "LM, whose output product is the embedding table, and sentence order. BERT is counted with the paper's 30,000 "
        "pieces: with the 30,522 of its published models no count gives the paper's 108M.",
        "Paper: where layers share weights its figures are the encoder with its pooler, where they share none the "
        "encoder without it, each rounded to millions. Its 60M and 235M follow from no count of the shapes that it "
        "gives (its first version had 59M and 233M); the published weights of these two sizes have the parameters "
        "counted here.",
        "Memory: float32, 4 bytes a value; the optimizer (LAMB, AdamW) keeps two moments. Activations of an example of "
        "S tokens and P predictions, without dropout, are the least that the gradients need, with N heads and an inner "
        f"width of I: {ACTIVATION_FORMULA}. TensorFlow's step keeps about 1.9 times as much of a layer (measured at "
        "base width on a CPU).",
        "Operations: of matrix products, a product of [a, b] and [b, c] counted as 2abc, heads included; a step takes "
        "three times the way forward. Summed over devices are the gradients of all parameters, once a step.",
    )


def parameter_csv(rows: Rows) -> str:
    """All figures in full, a row a model."""
    fields = [field.name for field in dataclasses.fields(Figures) if field.name != "parameters"]
    shape = ("vocab_size", "embedding_size", "hidden_size", "num_hidden_layers", "parameter_sharing")
    parts = [part.replace("-", "_") for part in PARTS]
    columns = ("model", "group", *shape, "head", *parts, "total", *fields, "paper_millions", "paper_explained")
    lines = []
    for model, figures in rows:
        explained = "" if model.paper_millions is None else explain_paper(figures, model.paper_millions)
        lines.append(
            (
                model.name,
                model.group,
                *(getattr(model.config, name) for name in shape),
                model.head.head,
                *(figures.parameters[part] for part in PARTS),
                figures.total,
                *(getattr(figures, name) for name in fields),
                model.paper_millions,
                explained,
            )
        )
    return to_csv(columns, lines)


_CHANGES = tuple(field.name for field in dataclasses.fields(LayerChange))


def layer_table(models: Sequence[LayerChanges]) -> Table:
    """A row a layer; of each model distance, cosine, angle and the input's length. Several models are lettered."""
    columns = ["layer"]
    for index in range(len(models)):
        prefix = f"{letter(index)}: " if len(models) > 1 else ""
        columns += [f"{prefix}{name}" for name in ("L2", "cosine", "degrees", "input")]
    found = []
    for layer in range(max(len(model.layers) for model in models)):
        cells: list[str] = []
        for model in models:
            if layer < len(model.layers):
                change = model.layers[layer]
                cells += [f"{change.l2_distance:.4g}", f"{change.cosine_similarity:.5f}", f"{change.degrees:.2f}"]
                cells += [f"{change.input_norm:.4g}"]
            else:
                cells += [""] * len(_CHANGES)
        found.append((layer + 1, *cells))
    return tuple(columns), found


def layer_notes(models: Sequence[LayerChanges]) -> tuple[str, ...]:
    """The models by their letters, and what the table measures."""
    names = [f"{letter(index)}: " if len(models) > 1 else "" for index in range(len(models))]
    return (
        *(
            f"{name}{model.name}, {counted(model.num_tokens, 'token')}"
            for name, model in zip(names, models, strict=True)
        ),
        "L2: distance of a layer's output from its input. Cosine and degrees: of the angle between them. Input: the "
        "input's length, by which distances in models of different widths are judged. All are means over the tokens, "
        "[CLS] and [SEP] among them, padding left out. The first layer's input are the projected embeddings.",
    )


def objective_table(models: Sequence[tuple[str, float | None, Mapping[SentenceObjective, Probe]]]) -> Table:
    """Accuracy on each task with its standard error, in percent; of masked words, where the model says it."""
    rows = [
        (
            name,
            "" if accuracy is None else f"{100 * accuracy:.1f}",
            *(f"{100 * probes[o].accuracy:.1f} ± {100 * probes[o].standard_error:.1f}" for o in _PROBED),
        )
        for name, accuracy, probes in models
    ]
    return ("model", "masked LM", "NSP", "SOP"), rows


def objective_notes(models: Sequence[tuple[str, float | None, Mapping[SentenceObjective, Probe]]]) -> tuple[str, ...]:
    """What chance is, and how far from it each model is."""
    first = models[0][2]
    chance = ", ".join(f"{o.upper()} {100 * first[o].majority:.1f} % on {first[o].num_pairs:,} pairs" for o in _PROBED)
    notes = [f"Always the same answer is right in: {chance}."]
    for name, _, probes in models:
        above = ", ".join(f"{o.upper()} {probes[o].errors_above_chance:+.1f}" for o in _PROBED)
        notes.append(f"{name}: standard errors above that: {above}.")
    notes.append(
        "The paper (Table 5): NSP's model cannot tell the order of segments, SOP's tells documents apart in part."
    )
    return tuple(notes)


def letter(index: int) -> str:
    """Letter of a model in the table: A to Z, then numbers."""
    return chr(ord("A") + index) if index < 26 else str(index + 1)


def layer_csv(models: Sequence[LayerChanges]) -> str:
    """A row a model and layer."""
    return to_csv(
        ("model", "layer", *_CHANGES, "tokens"),
        [
            (model.name, layer, *(getattr(change, name) for name in _CHANGES), model.num_tokens)
            for model in models
            for layer, change in enumerate(model.layers, start=1)
        ],
    )


def to_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue()
