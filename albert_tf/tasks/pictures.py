"""The confusion matrix as a picture, SVG and PNG."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence

import numpy as np

from albert_tf.files import is_remote, whole_file

_MOST_NUMBERS = 24  # labels up to which each cell shows its count
_MOST_NAMES = 60  # labels up to which each row and column has its name
_LONGEST_NAME = 24  # characters


def draw_confusion_matrix(folder: str, matrix: np.ndarray, labels: Sequence[str], *, title: str) -> list[str]:
    """Writes `confusion_matrix.svg` and `.png` to a folder, and returns their paths.

    Colour shows the share of the true label's examples, so that a rare label is seen as well as a frequent one; the
    numbers are counts.

    Args:
      folder: where the pictures go.
      matrix: int [C, C], counts by true label (row) and predicted label (column).
      labels: names [C].
      title: what stands above.

    Raises:
      ValueError: for a matrix of another shape, or a folder in an object store.
      OSError: if a file cannot be written.
    """
    if matrix.shape != (len(labels), len(labels)):
        raise ValueError(
            f"matrix must be [{len(labels)}, {len(labels)}], a row and a column a label, got {matrix.shape}"
        )
    if is_remote(folder):
        raise ValueError(f"folder of pictures must be local, got {folder}")
    import matplotlib

    matplotlib.use("Agg")  # no display is needed
    from matplotlib import pyplot

    count = len(labels)
    shares = matrix / np.maximum(matrix.sum(-1, keepdims=True), 1)
    side = min(max(3.5, (0.45 if count <= _MOST_NUMBERS else 0.18) * count + 2.0), 16.0)
    settings = {
        "svg.hashsalt": "confusion_matrix",
        "svg.fonttype": "none",
        "font.size": 9 if count <= _MOST_NUMBERS else 6,
    }
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        # Of a script that the font lacks; in the SVG, where text stays text, the viewer's fonts have it.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure, axes = pyplot.subplots(figsize=(side + 0.8, side), constrained_layout=True)
        image = axes.imshow(shares, cmap="cividis", vmin=0.0, vmax=1.0)  # readable for colour-blind eyes and in grey
        figure.colorbar(image, ax=axes, label="share of the true label", shrink=0.8)
        if count <= _MOST_NAMES:
            names = [_short(label) for label in labels]
            axes.set_xticks(
                range(count), names, rotation=45 if max(map(len, names)) > 3 else 0, ha="right", parse_math=False
            )
            axes.set_yticks(range(count), names, parse_math=False)
            if max(map(len, names)) <= 3:
                for tick in axes.get_xticklabels():
                    tick.set_horizontalalignment("center")
        if count <= _MOST_NUMBERS:
            for row, column in np.ndindex(matrix.shape):
                colour = "black" if shares[row, column] > 0.6 else "white"
                axes.text(column, row, f"{matrix[row, column]:,}", ha="center", va="center", color=colour)
        axes.set_xlabel("predicted")
        axes.set_ylabel("true")
        axes.set_title(title, parse_math=False)
        paths = []
        for ending, metadata in (("svg", {"Date": None}), ("png", {})):
            paths.append(os.path.join(folder, f"confusion_matrix.{ending}"))
            with whole_file(paths[-1]) as temporary:
                figure.savefig(temporary, format=ending, dpi=120, metadata=metadata)
        pyplot.close(figure)
    return paths


def _short(label: str) -> str:
    return label if len(label) <= _LONGEST_NAME else label[: _LONGEST_NAME - 1] + "…"
