"""One look for every figure."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import matplotlib
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.colors import is_color_like
from matplotlib.figure import Figure

from kapitza.base import checks
from kapitza.base.argument_checks import Check
from kapitza.base.labels import CYCLE, spelled
from kapitza.errors import ArgumentError

INK = "#22223b"
ACCENT = "#c1272d"
QUIET = "#8d99ae"
FAINT = "#5c677d"

SETTINGS: Any = {
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": cycler(color=CYCLE),
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "figure.dpi": 120,
    "savefig.dpi": 160,
    "lines.linewidth": 1.2,
}


_drawing = threading.RLock()


@contextmanager
def styled() -> Iterator[None]:
    """Apply Kapitza's style inside the block.

    The user's settings are left as they were.
    Settings of Matplotlib belong to the whole process: one thread draws at a time.
    """
    with _drawing, matplotlib.rc_context(SETTINGS):
        yield


class Picture(Figure):
    """Show a figure in notebooks.

    Elsewhere pyplot does this; it does not know these figures.
    """

    def _repr_png_(self) -> bytes:
        stream = io.BytesIO()
        self.savefig(stream, format="png", dpi=SETTINGS["figure.dpi"])
        return stream.getvalue()


def _admit_color(what: str, value: Any) -> str:
    if not isinstance(value, str) or not is_color_like(value):
        raise ArgumentError(f"{what} = {checks.shown(value)}; give a color of Matplotlib, such as 'tab:red'.")
    return value


Color = Annotated[str, Check("a color", lambda value: isinstance(value, str), _admit_color)]


def new_figure(width: float, height: float) -> Figure:
    """Return a figure [inches] unknown to pyplot.

    pyplot belongs to the user.
    """
    return Picture(figsize=(width, height), layout="constrained")


def axes_for(ax: Axes | None, size: tuple[float, float] = (6.0, 4.2)) -> Axes:
    """Return the axes given, or those of a new figure."""
    return ax if ax is not None else new_figure(*size).add_subplot()


def figure_of(ax: Axes) -> Figure:
    figure = ax.get_figure(root=True)
    assert isinstance(figure, Figure)
    return figure


def axis_label(name: str, unit: str = "") -> str:
    """Return a label of name and unit that Matplotlib prints unchanged; see `kapitza.base.labels`."""
    return plain(spelled(name, unit))


def greek(name: str) -> str:
    """Return 'phi1'' as φ1', for Matplotlib."""
    return plain(spelled(name))


def plain(text: str) -> str:
    """Return text that Matplotlib prints unchanged.

    A dollar sign would start a formula.
    """
    return text.replace("$", r"\$")
