"""Draw expected widths of a plan over two choices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke

from kapitza.base.display import drawn
from kapitza.base.labels import CYCLE
from kapitza.report.style import INK, axis_label, new_figure, styled

if TYPE_CHECKING:
    import os

    from kapitza.planning import Choice, Plan, PlanMap

CONTOURS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
"""Relative widths [%] that are drawn as lines."""

NAMED = 4
"""Experiments of the table that are marked on a map."""


def plot_plan(
    plan: Plan, x: str = "", y: str = "", path: str | os.PathLike[str] | None = None, size: int = 28
) -> Figure:
    """Draw the map of a plan.

    The map is over x and y; without them the widths before and after every experiment are drawn.
    """
    with styled():
        if x and y:
            return drawn(_map(plan, plan.grid(x, y, size)), path)
        return drawn(_bars(plan), path)


def _map(plan: Plan, grid: PlanMap) -> Figure:
    figure = new_figure(8.4, 4.6)
    axes = figure.add_subplot()
    width = 100 * grid.width
    finite = width[np.isfinite(width)]
    low, high = (finite.min(), finite.max()) if finite.size else (0.1, 1.0)
    shown = axes.pcolormesh(
        grid.x,
        grid.y,
        width,
        norm=LogNorm(low, max(high, 1.01 * low)),
        cmap="viridis_r",
        shading="nearest",
        rasterized=True,
    )
    axes.set_facecolor("0.85")
    levels = [level for level in CONTOURS if low < level < high]
    if levels:
        lines = axes.contour(grid.x, grid.y, width, levels=levels, colors="white", linewidths=0.8)
        axes.clabel(lines, fmt=lambda v: f"{v:g} %", fontsize=7)
    handles: list[Line2D | Patch] = [Line2D([], [], color="0.6", lw=0.8, label="width [%]")]
    if plan.limits:
        over = np.where(np.isfinite(grid.share), grid.share, 1e9)
        axes.contourf(grid.x, grid.y, over, levels=[1.0, 1e300], colors="none", hatches=["////"])
        axes.contour(grid.x, grid.y, over, levels=[1.0], colors=[CYCLE[1]], linewidths=1.2)
        handles.append(Patch(fill=False, hatch="////", edgecolor=CYCLE[1], label="beyond a limit, with margin"))
    if np.isfinite(grid.spread).any() and np.nanmax(grid.spread) > 1.4:
        axes.contour(grid.x, grid.y, grid.spread, levels=[1.4], colors="white", linestyles="--", linewidths=1.0)
        handles.append(Line2D([], [], color="0.6", ls="--", label="draws disagree by 1.4"))
    handles += _marks(axes, plan, grid.names)
    axes.set_xlabel(axis_label(grid.names[0], plan.model.units.get(grid.names[0], "")))
    axes.set_ylabel(axis_label(grid.names[1], plan.model.units.get(grid.names[1], "")))
    axes.set_title(f"mean width of {', '.join(plan.wanted.labels)} after the run")
    bar = figure.colorbar(shown, ax=axes, label="relative width [%]", pad=0.01)
    bar.ax.yaxis.set_major_formatter(_plain)
    bar.ax.yaxis.set_minor_formatter(_plain)
    figure.legend(handles=handles, loc="outside right upper", frameon=False, fontsize=8)
    return figure


def _plain(value: float, _: float) -> str:
    """Label 1, 2 and 5 of every decade.

    Powers of ten are not used.
    """
    return f"{value:g}" if f"{value:.0e}"[0] in "125" else ""


def _marks(axes: Axes, plan: Plan, names: tuple[str, str]) -> list[Line2D]:
    """Mark experiments and former runs on the map.

    Stars and numbers are at experiments of the table, squares at runs measured before.
    """
    for rank, one in enumerate(plan.expected[:NAMED], 1):
        at = place_of(plan, one.choice, names)
        axes.plot(*at, marker="*", ms=12, color="white", mec=INK, ls="none")
        number = axes.annotate(str(rank), at, xytext=(6, 5), textcoords="offset points", color=INK, weight="bold")
        number.set_path_effects([withStroke(linewidth=2.5, foreground="white")])  # legible on every colour
    done = [place_of(plan, choice, names) for choice in plan.done]
    if done:
        axes.plot(*np.transpose(done), marker="s", ms=6, color=CYCLE[3], mec="white", ls="none")
    handles = [Line2D([], [], marker="*", ms=10, color="white", mec=INK, ls="none", label="planned, by rank")]
    return handles + (
        [Line2D([], [], marker="s", color=CYCLE[3], mec="white", ls="none", label="measured")] if done else []
    )


def place_of(plan: Plan, choice: Choice, names: tuple[str, str]) -> tuple[float, float]:
    """Return where an experiment is on a map.

    Settings that it does not name are those of the model; states that it does not name are 0.
    """
    known = {**plan.model.values, **dict.fromkeys(plan.model.states, 0.0), **choice.settings, **choice.start}
    known |= {"duration": choice.duration, "step": choice.step, "settle": choice.settle}
    return known[names[0]], known[names[1]]


def _bars(plan: Plan) -> Figure:
    """Draw widths now and after each experiment.

    The axis is logarithmic.
    """
    figure = new_figure(7.0, 1.2 + 0.5 * max(1, len(plan.expected)))
    axes = figure.add_subplot()
    for i, label in enumerate(plan.wanted.labels):
        unit = 100 / plan.wanted.scale[i]
        rows = np.arange(len(plan.expected)) + 0.12 * (i - (len(plan.wanted.labels) - 1) / 2)
        after = np.array([unit * one.after[i] for one in plan.expected])
        band = np.array(
            [[unit * (one.after[i] - one.low[i]), unit * (one.high[i] - one.after[i])] for one in plan.expected]
        ).T
        color = CYCLE[i % len(CYCLE)]
        axes.errorbar(after, rows, xerr=np.clip(band, 0.0, None), fmt="o", ms=4, color=color, label=label)
        if plan.expected:
            axes.axvline(unit * plan.expected[0].now[i], color=color, lw=0.8, ls=":")
    axes.set_yticks(range(len(plan.expected)), [str(rank) for rank in range(1, len(plan.expected) + 1)])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("relative width [%]; dotted: now")
    axes.set_ylabel("experiment")
    figure.legend(loc="outside right upper", frameon=False)
    return figure
