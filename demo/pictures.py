"""The demo's two pictures, as SVG and PNG: the learning curve, and what the model puts at some masks.

Colours are Okabe and Ito's, which colour-blind readers tell apart; lines differ in their dashes too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#666666"


@contextmanager
def _figure(folder: str, name: str, rows: int, size: tuple[float, float]) -> Iterator[tuple[Any, Any]]:
    """A figure and its axes; written to `folder` as `name`.svg and `name`.png when the block ends."""
    import matplotlib

    matplotlib.use("Agg")  # no display is needed
    from matplotlib import pyplot

    with matplotlib.rc_context(
        {"svg.hashsalt": name, "font.size": 10, "axes.spines.top": False, "axes.spines.right": False}
    ):
        figure, axes = pyplot.subplots(rows, 1, figsize=size, sharex=rows > 1, constrained_layout=True)
        yield figure, axes
        _write(figure, folder, name)
        pyplot.close(figure)


def _write(figure: Figure, folder: str, name: str) -> None:
    from albert_tf.files import whole_file

    os.makedirs(folder, exist_ok=True)
    for ending, metadata in (("svg", {"Date": None}), ("png", {})):
        with whole_file(os.path.join(folder, f"{name}.{ending}")) as path:
            figure.savefig(path, format=ending, dpi=120, metadata=metadata)


def draw_learning_curve(
    folder: str, points: Sequence[Mapping[str, float]], *, bound: float, order_majority: float
) -> None:
    """Held-out masked-LM loss at [MASK] positions with the context-free bound, and the order's accuracy.

    Args:
      folder: where `learning_curve.svg` and `.png` go.
      points: evaluations in order, each with "step", "masked_lm_loss" in nats and "order_accuracy" in [0, 1].
      bound: loss of the training labels' frequencies at the same positions, nats.
      order_majority: share of the more frequent order, in [0, 1].
    """
    steps = [point["step"] for point in points]
    with _figure(folder, "learning_curve", 2, (7.0, 6.5)) as (figure, (upper, lower)):
        upper.plot(steps, [point["masked_lm_loss"] for point in points], color=BLUE, marker="o", label="model")
        upper.axhline(bound, color=ORANGE, linestyle="--", label="context-free bound (word frequencies)")
        upper.set_ylabel("masked-LM loss at [MASK], nats")
        lower.plot(steps, [point["order_accuracy"] for point in points], color=GREEN, marker="s", label="model")
        lower.axhline(order_majority, color=GREY, linestyle=":", label="always the more frequent order")
        lower.set_ylabel("sentence order, accuracy")
        lower.set_xlabel("training step")
        for axes in (upper, lower):
            axes.grid(alpha=0.3)
            axes.legend(frameon=False)
        figure.suptitle("Held-out text while training")


def draw_mask_examples(folder: str, examples: Sequence[Mapping[str, Any]]) -> None:
    """What the model puts at some masks of held-out text.

    Args:
      folder: where `mask_examples.svg` and `.png` go.
      examples: each with "text" (one mask as "[MASK]"), "answer" (what stood there) and "candidates", best first, each
        with "piece" and "probability".
    """
    import textwrap

    with _figure(folder, "mask_examples", len(examples), (8.0, 1.9 * len(examples))) as (figure, all_axes):
        figure.suptitle("Held-out masks: where the model is surest, and right or wrong")
        for axes, example in zip([all_axes] if len(examples) == 1 else all_axes, examples, strict=True):
            candidates = example["candidates"]
            pieces = [str(candidate["piece"]) for candidate in candidates]
            right = [piece == example["answer"] for piece in pieces]
            bars = axes.barh(
                range(len(pieces)),
                [candidate["probability"] for candidate in candidates],
                color=[ORANGE if is_right else BLUE for is_right in right],
                hatch=["//" if is_right else "" for is_right in right],
            )
            axes.bar_label(bars, fmt="%.2f", padding=3)
            axes.set_yticks(range(len(pieces)), pieces)
            axes.invert_yaxis()
            axes.set_xlim(0, 1)
            axes.set_title(
                textwrap.fill(f"{example['text']}   (was: {example['answer']})", 90),
                fontsize=9,
                loc="left",
                parse_math=False,
            )
        axes.set_xlabel("probability; hatched: what stood there")
