"""Draw figures of tori.

They show rotation numbers and amplitudes along a family, and invariant circles.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from kapitza.base.arrays import Array
from kapitza.base.labels import CYCLE
from kapitza.errors import KapitzaError
from kapitza.report.branch_figures import STYLES
from kapitza.report.style import INK, axes_for, axis_label, figure_of, styled

if TYPE_CHECKING:
    from kapitza.continuation import Tongue, Torus, TorusBranch
    from kapitza.model import Model


PHASES = 400
"""Of a circle that is drawn."""


def plot_tori(
    tori: TorusBranch,
    measure: Literal["rotation", "amplitude", "circles"] = "rotation",
    of: str | None = None,
    tongues: tuple[Tongue, ...] = (),
    ax: Axes | None = None,
) -> Figure:
    """Draw a family of tori over its parameter.

    Lines are solid where stable, dashed where unstable.
    measure: "rotation" (the rotation number), "amplitude" (half the width of the circle in a state, the first by
    default), or "circles" (in the plane of two states). tongues: drawn as plateaus of the rotation number. A family of
    one rotation number is drawn in its two parameters.
    """
    with styled():
        axes = axes_for(ax)
        if measure == "circles":
            _draw_circles(axes, tori, of)
        elif len(tori.parameters) == 2:
            _draw_lines(axes, tori, tori.values[:, 1])
            axes.set_ylabel(_parameter(tori, 1))
            axes.set_title(f"rotation number {tori.rotations[0]:.6g}")
        else:
            name = _state(tori.model, of)
            _draw_lines(axes, tori, tori.rotations if measure == "rotation" else tori.amplitude(name))
            axes.set_ylabel("rotation number" if measure == "rotation" else f"amplitude of {axis_label(name)}")
            if measure == "rotation":
                _draw_plateaus(axes, tongues)
        if measure != "circles":
            axes.set_xlabel(_parameter(tori, 0))
        return figure_of(axes)


def plot_torus(torus: Torus, of: tuple[str, str] | None = None, ax: Axes | None = None) -> Figure:
    """Draw an invariant circle in two states.

    The first two states are taken by default; a dot marks phase 0.
    """
    names = of or tuple(torus.model.states[:2])
    columns = [torus.model.states.index(_state(torus.model, name)) for name in names]
    if len(columns) != 2:
        raise KapitzaError(f"A circle is drawn over two states; {', '.join(names)} are {len(columns)}.")
    with styled():
        axes = axes_for(ax, (4.6, 4.2))
        curve = torus.states(np.linspace(0, 1, PHASES))
        axes.plot(*curve[:, columns].T, STYLES[torus.stability], color=CYCLE[0])
        axes.plot(*curve[0, columns], "o", ms=4, color=CYCLE[1])
        axes.set_xlabel(axis_label(names[0]))
        axes.set_ylabel(axis_label(names[1]))
        axes.set_title(f"rotation number {torus.rotation:.6g}")
        return figure_of(axes)


def _draw_lines(axes: Axes, tori: TorusBranch, height: Array) -> None:
    """Draw pieces of one stability; neighbours share their end."""
    states, place = tori.stability, 0
    for state, members in groupby(states):
        stop = place + len(list(members))
        piece = slice(max(place - 1, 0), stop)
        axes.plot(tori.values[piece, 0], height[piece], STYLES[state], color=CYCLE[0])
        place = stop
    handles = [Line2D([], [], color=INK, ls=STYLES[state]) for state in STYLES if state in states]
    axes.legend(handles, [state for state in STYLES if state in states], loc="best")


def _draw_plateaus(axes: Axes, tongues: tuple[Tongue, ...]) -> None:
    for tongue in tongues:
        height = float(tongue.ratio)
        axes.plot([tongue.low, tongue.high], [height, height], color=CYCLE[1], lw=3, solid_capstyle="butt")
        axes.plot(0.5 * (tongue.low + tongue.high), height, "|", ms=7, color=CYCLE[1])
        axes.annotate(
            f"{tongue.turns}/{tongue.periods}", (0.5 * (tongue.low + tongue.high), height),
            xytext=(-4, 5), textcoords="offset points", ha="right", fontsize=8, color=CYCLE[1],
        )  # fmt: skip


def _draw_circles(axes: Axes, tori: TorusBranch, of: str | None) -> None:
    first = _state(tori.model, of)
    others = [name for name in tori.model.states if name != first]
    if not others:
        raise KapitzaError(f'"{tori.model.name}" has one state: its circles have no plane.')
    columns = [tori.model.states.index(name) for name in (first, others[0])]
    chosen = np.unique(np.linspace(0, len(tori) - 1, min(12, len(tori))).astype(int)).tolist()
    states = tori.stability
    for i in chosen:
        curve = tori.torus(i).states(np.linspace(0, 1, PHASES))
        axes.plot(*curve[:, columns].T, STYLES[states[i]], color=CYCLE[0], lw=0.9)
    axes.set_xlabel(axis_label(first))
    axes.set_ylabel(axis_label(others[0]))


def _state(model: Model, of: str | None) -> str:
    name = of or model.states[0]
    if name not in model.states:
        raise KapitzaError(f'There is no state "{name}": {", ".join(model.states)}.')
    return name


def _parameter(tori: TorusBranch, number: int) -> str:
    name = tori.parameters[number]
    return axis_label(name, str(tori.model.parameter(name).unit or ""))
