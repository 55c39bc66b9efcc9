"""What the analyses draw: parameters by part, memory and arithmetic, and what each layer changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from albert_tf.analysis import pictures
from albert_tf.analysis.compared import Compared
from albert_tf.analysis.figures import PARTS, Figures
from albert_tf.analysis.layers import LayerChanges

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BAR = 0.3  # inches of a bar
_MARGIN = 1.5  # inches above and below the bars
_FEWEST = 3  # rows that there is room for, so that a single bar is no block
Rows = Sequence[tuple[Compared, Figures]]


def draw_parameters(folder: str, rows: Rows) -> list[str]:
    """Bars of the parameters by part: the paper's sizes with the user's models, and beside them the ablations.

    Raises:
      ValueError, OSError: as `pictures.draw`.
    """
    sizes = [row for row in rows if row[0].group != "ablations"]
    kinds = {model.group for model, _ in sizes}
    names = [name for group, name in (("sizes", "BERT, ALBERT"), ("own", "own models")) if group in kinds]
    groups = (
        (" and ".join(names), sizes),
        ("ALBERT base by embedding size and sharing", [row for row in rows if row[0].group == "ablations"]),
    )
    panels = [(title, shown) for title, shown in groups if shown]

    def fill(figure: Figure, theme: pictures.Theme) -> None:
        for axes, (title, shown) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            parts = {part: np.array([figures.parameters[part] for _, figures in shown], np.float64) for part in PARTS}
            numbers = [pictures.short_count(figures.total) for _, figures in shown]
            _bars(axes, theme, pictures.short_names([model.name for model, _ in shown]), parts, numbers)
            axes.set_title(title)
            axes.set_xlabel("parameters")
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3 * len(panels))

    most = max(len(shown) for _, shown in panels)
    return pictures.draw(folder, "parameters", (5.5 * len(panels) + 1.0, _MARGIN + _BAR * max(most, _FEWEST)), fill)


def draw_training(folder: str, rows: Rows) -> list[str]:
    """Bars of what training needs, of the paper's sizes and the user's models: memory, and operations of a token.

    Raises:
      ValueError, OSError: as `pictures.draw`.
    """
    shown = [row for row in rows if row[0].group != "ablations"]
    names = pictures.short_names([model.name for model, _ in shown])
    found = [figures for _, figures in shown]
    memory = {
        "weights": np.array([one.weight_bytes for one in found]),
        "gradients, summed over devices": np.array([one.reduced_bytes for one in found]),
        "optimizer": np.array([one.optimizer_bytes for one in found]),
        "activations of one example": np.array([one.activation_bytes for one in found]),
    }
    operations = {"forward": np.array([one.forward_operations_per_token for one in found])}

    def fill(figure: Figure, theme: pictures.Theme) -> None:
        left, right = figure.subplots(1, 2, sharey=False)
        _bars(
            left,
            theme,
            names,
            memory,
            [f"{pictures.short_count(total)}B" for total in np.sum(list(memory.values()), 0)],
        )
        lengths = sorted({one.max_seq_length for one in found})
        tokens = f"{lengths[0]} tokens" if len(lengths) == 1 else f"{lengths[0]} to {lengths[-1]} tokens, as each has"
        left.set_title(f"Memory of training, float32; examples of {tokens}")
        left.set_xlabel("bytes")
        _bars(right, theme, names, operations, [pictures.short_count(value) for value in operations["forward"]])
        right.set_title("Matrix products of a token, forward")
        right.set_xlabel("floating-point operations; a training step takes three times as many")
        handles, labels = left.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(memory))

    return pictures.draw(folder, "training", (12.0, _MARGIN + _BAR * max(len(shown), _FEWEST)), fill)


def _bars(
    axes: Any, theme: pictures.Theme, names: Sequence[str], parts: Mapping[str, np.ndarray], numbers: Sequence[str]
) -> None:
    """Stacked bars, the first model on top, with a number behind each."""
    starts = np.zeros(len(names))
    for index, (part, widths) in enumerate(parts.items()):
        axes.barh(
            range(len(names)),
            widths,
            left=starts,
            height=0.7,
            color=pictures.COLOURS[index],
            hatch=pictures.HATCHES[index],
            edgecolor=theme.ground,
            linewidth=0.5,
            label=part,
        )
        starts = starts + widths
    for row, number in enumerate(numbers):
        axes.annotate(number, (starts[row], row), xytext=(4, 0), textcoords="offset points", va="center")
    axes.set_yticks(range(len(names)), names, parse_math=False)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(max(len(names), _FEWEST) - 0.4, -0.6)
    axes.xaxis.set_major_formatter(lambda count, _: pictures.short_count(count, "g"))
    axes.grid(axis="x")
    axes.set_xlim(0, 1.16 * max(starts, default=1.0))


def draw_layers(folder: str, models: Sequence[LayerChanges]) -> list[str]:
    """Lines over the layers of each model: L2 distance of input and output, and the angle between them.

    Raises:
      ValueError, OSError: as `pictures.draw`.
    """
    names = pictures.short_names([model.name for model in models])

    def fill(figure: Figure, theme: pictures.Theme) -> None:
        panels = figure.subplots(1, 2)
        for axes, field, title, label in zip(
            panels,
            ("l2_distance", "degrees"),
            ("L2 distance of a layer's input and output", "Cosine similarity of a layer's input and output"),
            ("distance", "angle, degrees"),
            strict=True,
        ):
            for index, (name, model) in enumerate(zip(names, models, strict=True)):
                style = index % len(pictures.COLOURS)
                axes.plot(
                    range(1, len(model.layers) + 1),
                    [getattr(layer, field) for layer in model.layers],
                    color=pictures.COLOURS[style],
                    marker=pictures.MARKERS[style],
                    linestyle=pictures.DASHES[(style + index // len(pictures.COLOURS)) % len(pictures.DASHES)],
                    markersize=4,
                    label=name,
                )
            axes.set_title(title)
            axes.set_xlabel("layer")
            axes.set_ylabel(label)
            axes.set_ylim(bottom=0)
            axes.xaxis.get_major_locator().set_params(integer=True)
            axes.grid()
        handles, labels = panels[0].get_legend_handles_labels()
        legend = figure.legend(handles, labels, loc="outside lower center", ncols=min(len(models), 3))
        for text in legend.get_texts():
            text.set_parse_math(False)

    height = 3.4 + 0.2 * ((len(models) + 2) // 3)
    return pictures.draw(folder, "layers", (10.0, height), fill)
