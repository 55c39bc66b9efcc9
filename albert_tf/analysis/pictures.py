"""The style of the analyses' pictures: each as SVG and PNG, on a light and on a dark ground.

Colours are Okabe and Ito's, which colour-blind readers tell apart; lines differ in marker and dashes too, bars in their
hatches. Text in an SVG stays text.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from albert_tf.files import check_writable, is_remote, whole_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9")
HATCHES = ("", "//", "", "\\\\", "..", "xx")
MARKERS = ("o", "s", "^", "D", "v", "P")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 2)))
KINDS = ("svg", "png")
_LONGEST_NAME = 32  # characters
_CONFIG_FILE = "albert_config.json"


@dataclasses.dataclass(frozen=True)
class Theme:
    """Colours of ground, text and grid; `ending` is what the pictures' names get."""

    ending: str
    ground: str
    ink: str
    grid: str


THEMES = (Theme("", "#ffffff", "#222222", "#d9d9d9"), Theme("_dark", "#15181d", "#e8e8e8", "#3a3f47"))


def draw(folder: str, name: str, size: tuple[float, float], fill: Callable[[Figure, Theme], None]) -> list[str]:
    """Writes `name`.svg, `name`.png, `name`_dark.svg and `name`_dark.png to a folder, and returns their paths.

    Args:
      folder: where the pictures go.
      name: of the files, without ending.
      size: width and height, inches.
      fill: draws on the figure, once for each ground.

    Raises:
      ValueError: for a folder in an object store.
      OSError: if a file cannot be written.
    """
    check_folder(folder)
    paths = []
    for theme in THEMES:
        paths += [os.path.join(folder, f"{name}{theme.ending}.{kind}") for kind in KINDS]
        _draw(paths[-len(KINDS) :], name, theme, size, fill)
    return paths


def draw_file(path: str, size: tuple[float, float], fill: Callable[[Figure, Theme], None]) -> None:
    """Writes one picture on a light ground, SVG or PNG by the ending of its name; `size` and `fill` as for `draw`.

    Raises:
      ValueError: for another ending, or a path in an object store.
      OSError: if the file cannot be written.
    """
    check_folder(os.path.dirname(path))
    if path.rpartition(".")[2] not in KINDS:
        raise ValueError(f"name of a picture must end in {' or '.join(f'.{kind}' for kind in KINDS)}, got {path}")
    _draw([path], os.path.basename(path), THEMES[0], size, fill)


def _draw(
    paths: Sequence[str], name: str, theme: Theme, size: tuple[float, float], fill: Callable[[Figure, Theme], None]
) -> None:
    """One figure, saved as each of `paths`."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_settings(name, theme)), warnings.catch_warnings():
        # Of a script that the font lacks; in the SVG, where text stays text, the viewer's fonts have it.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = Figure(figsize=size, layout="constrained")
        fill(figure, theme)
        for path in paths:
            kind = path.rpartition(".")[2]
            with whole_file(path) as temporary:
                figure.savefig(temporary, format=kind, dpi=120, metadata={"Date": None} if kind == "svg" else {})


def check_folder(folder: str) -> None:
    """Refuses at once, before long work, a folder that pictures cannot be written to.

    Raises:
      ValueError: if it is in an object store.
      OSError: if it is a file, or nothing can be written there.
    """
    if is_remote(folder):
        raise ValueError(f"folder of pictures must be local, got {folder}")
    check_writable(folder)


def _settings(name: str, theme: Theme) -> dict[str, Any]:
    inks = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color", "legend.labelcolor")
    return {
        "svg.hashsalt": name,
        "svg.fonttype": "none",
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "axes.titlesize": 10,
        "axes.titlelocation": "left",
        "legend.frameon": False,
        "grid.color": theme.grid,
        **dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor", "hatch.color"), theme.ground),
        **dict.fromkeys(inks, theme.ink),
    }


def short_names(names: Sequence[str]) -> list[str]:
    """Names as they stand in a picture: of paths what tells them apart, long ones without their beginning."""
    shown = [name.removesuffix(f"/{_CONFIG_FILE}").rstrip("/") for name in names]
    folders = {os.path.dirname(name) for name in shown if "/" in name}
    with contextlib.suppress(ValueError):  # of absolute paths beside relative ones
        if len(folders) > 1 and (common := os.path.commonpath(list(folders))):
            shown = [os.path.relpath(name, common) if "/" in name else name for name in shown]
    return [name if len(name) <= _LONGEST_NAME else "…" + name[1 - _LONGEST_NAME :] for name in shown]


def short_count(count: float, form: str = ",.1f") -> str:
    """A count as it stands beside a bar: "11.8M", "427.5K", "95"."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "K")):
        if count >= size:
            return f"{count / size:{form}}{letter}"
    return f"{count:,.0f}"
