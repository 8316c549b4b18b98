"""Draw orbits, branches, rigs and running fits.

These are functions of results, without a page.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import plotly.graph_objects as go

from kapitza.base.arrays import Array
from kapitza.base.labels import CYCLE, escaped_label

if TYPE_CHECKING:
    from kapitza.continuation import Branch
    from kapitza.orbits import OrbitSet, PeriodicOrbit

DATA, CHOSEN, FIT = "#8d99ae", "#d55e00", CYCLE[0]
SHOWN = 4000
"""Points of a section that a picture shows."""

DASHES = {"stable": "solid", "unstable": "dash", "unknown": "dot"}
SYMBOLS = {"fold": "circle", "period doubling": "square", "Neimark-Sacker": "diamond", "pitchfork": "triangle-up",
           "branch point": "triangle-down", "Hopf": "cross"}  # fmt: skip


def plain(values: Any) -> list[float | None]:
    """Return numbers for JSON, None where there is none."""
    return [float(v) if math.isfinite(v) else None for v in np.asarray(values, float).ravel().tolist()]


def attractor_figure(
    orbits: OrbitSet, labels: Sequence[str], chosen: int | None = None, excluded: Sequence[str] = ()
) -> go.Figure:
    """Draw the section of a recording with orbits.

    customdata of a point is the position of its orbit in the set.
    """
    figure = go.Figure()
    flat = len(orbits[0].states) < 2 if len(orbits) else True
    cloud = orbits.section_points
    if cloud is not None and len(cloud):
        cloud = cloud[:: -(-len(cloud) // SHOWN)]
        figure.add_scatter(
            x=plain(cloud[:, 0]), y=plain(cloud[:, -1 if cloud.shape[1] < 2 else 1]), mode="markers", name="data",
            marker={"size": 2.5, "color": DATA}, hoverinfo="skip",
        )  # fmt: skip
    periods = sorted({len(orbit.points) for orbit in orbits})
    shown: set[int] = set()
    for number, (orbit, name) in enumerate(zip(orbits, labels, strict=True)):
        period, out = len(orbit.points), name in excluded
        colour = CYCLE[periods.index(period) % len(CYCLE)]
        marker = {"size": 15 if number == chosen else 9, "color": CHOSEN if number == chosen else colour,
                  "symbol": "x-thin-open" if out else "circle", "line": {"width": 2 if out else 1}}  # fmt: skip
        figure.add_scatter(
            x=plain(orbit.points[:, 0]), y=plain(orbit.points[:, 0 if flat else 1]), mode="markers",
            name=f"period {period}", legendgroup=str(period), showlegend=period not in shown, marker=marker,
            customdata=[number] * period, hovertemplate=f"orbit {name}<extra></extra>",
        )  # fmt: skip
        shown.add(period)
    if len(orbits):
        figure.update_xaxes(title_text=escaped_label(orbits[0].states[0]))
        figure.update_yaxes(title_text=escaped_label(orbits[0].states[0 if flat else 1]))
    figure.update_layout(clickmode="event", hovermode="closest")
    return figure


def motion_of(orbit: PeriodicOrbit) -> tuple[Array, Array]:
    """Return times (N,) and states (N, n).

    The orbit is drawn over one period; maps and bare points have their points alone.
    """
    if orbit.profile is not None:
        return orbit.profile.times, orbit.profile.states
    count = len(orbit.points)
    return np.arange(count) * orbit.period / max(count, 1), orbit.points


def time_figure(orbit: PeriodicOrbit) -> go.Figure:
    """Draw the states of an orbit over its period."""
    times, states = motion_of(orbit)
    figure = go.Figure()
    mode = "lines" if orbit.profile is not None else "lines+markers"
    for number, name in enumerate(orbit.states):
        figure.add_scatter(
            x=plain(times), y=plain(states[:, number]), mode=mode, name=escaped_label(name),
            line={"color": CYCLE[number % len(CYCLE)], "width": 1.6},
        )  # fmt: skip
    figure.update_xaxes(title_text="time [s]")
    return figure


def portrait_figure(orbit: PeriodicOrbit) -> go.Figure:
    """Draw a closed orbit in its first two states."""
    _, states = motion_of(orbit)
    figure = go.Figure()
    column = 1 if states.shape[1] > 1 else 0
    mode = "lines" if orbit.profile is not None else "markers"
    figure.add_scatter(
        x=plain(states[:, 0]), y=plain(states[:, column]), mode=mode, name="orbit", line={"color": FIT, "width": 1.8},
        marker={"size": 9, "color": FIT},
    )  # fmt: skip
    figure.add_scatter(
        x=plain(orbit.points[:, 0]), y=plain(orbit.points[:, column]), mode="markers", name="section",
        marker={"size": 8, "color": CHOSEN},
    )  # fmt: skip
    figure.update_xaxes(title_text=escaped_label(orbit.states[0]))
    figure.update_yaxes(title_text=escaped_label(orbit.states[column]))
    return figure


def multiplier_figure(orbit: PeriodicOrbit) -> go.Figure:
    """Draw Floquet multipliers beside the unit circle.

    Those outside make the orbit unstable.
    """
    turn = np.linspace(0, 2 * np.pi, 121)
    figure = go.Figure()
    figure.add_scatter(
        x=plain(np.cos(turn)), y=plain(np.sin(turn)), mode="lines", name="unit circle", hoverinfo="skip",
        line={"color": DATA, "width": 1.2},
    )  # fmt: skip
    found = np.empty(0, complex) if orbit.multipliers is None else np.asarray(orbit.multipliers)
    outside = np.abs(found) > 1
    for name, rows, colour in (("inside", ~outside, FIT), ("outside", outside, CHOSEN)):
        if rows.any():
            figure.add_scatter(
                x=plain(np.real(found[rows])), y=plain(np.imag(found[rows])), mode="markers", name=name,
                marker={"size": 10, "color": colour},
                hovertemplate="%{x:.5g} + %{y:.5g} i<extra></extra>",
            )  # fmt: skip
    figure.update_yaxes(scaleanchor="x", scaleratio=1, title_text="imaginary part")
    figure.update_xaxes(title_text="real part of the multiplier")
    return figure


def heights(branch: Branch, measure: str) -> Array:
    """Return the quantity (N,) drawn of a branch.

    It is the "amplitude" or "point" of the first coordinate.
    """
    name = branch.model.states[0]
    if measure == "point" or branch.resting or branch.model.is_map:
        return branch.points[:, 0]
    return branch.amplitude(name)


def branch_figure(
    branches: Sequence[tuple[Branch, Array]],
    chosen: tuple[int, int] | None = None,
    measured: Sequence[tuple[float, float]] = (),
    measure: str = "amplitude",
) -> go.Figure:
    """Draw branches with their heights (N,).

    customdata of a point is [branch, index], of a mark [branch, -1 - number].
    """
    figure = go.Figure()
    named: set[str] = set()
    for number, (branch, height) in enumerate(branches):
        colour = CYCLE[number % len(CYCLE)]
        values = branch.values[:, 0]
        if branch.deviations is not None and measure == "point":
            spread = 2 * branch.deviations[:, 0]
            across = np.concatenate([values, values[::-1]])
            edge = np.concatenate([height + spread, (height - spread)[::-1]])
            figure.add_scatter(
                x=plain(across), y=plain(edge), fill="toself", mode="none", fillcolor="rgba(0,114,178,0.15)",
                name="two standard deviations", hoverinfo="skip", showlegend="band" not in named,
            )  # fmt: skip
            named.add("band")
        stability = np.array(branch.stability)
        edges = [0, *(np.flatnonzero(stability[1:] != stability[:-1]) + 1).tolist(), len(values)]
        for begin, end in itertools.pairwise(edges):
            # One point of the neighbouring stretch, so that the line has no gap.
            rows = slice(begin, min(end + 1, len(values)))
            state = str(stability[begin])
            figure.add_scatter(
                x=plain(values[rows]), y=plain(height[rows]), mode="lines+markers", name=state, legendgroup=state,
                line={"color": colour, "dash": DASHES.get(state, "dot"), "width": 1.8},
                marker={"size": 5, "color": colour}, showlegend=state not in named,
                customdata=[[number, index] for index in range(rows.start, rows.stop)],
                hovertemplate="%{x:.6g}, %{y:.6g}<extra></extra>",
            )  # fmt: skip
            named.add(state)
        for place, mark in enumerate(branch.bifurcations):
            kind = mark.kind.value
            at = int(np.clip(mark.position, 0, len(values) - 1))
            figure.add_scatter(
                x=[mark.value], y=plain(height[at : at + 1]), mode="markers", name=kind, legendgroup=kind,
                marker={"size": 12, "symbol": SYMBOLS.get(kind, "star"), "color": CHOSEN, "line": {"width": 1}},
                error_x=_interval(mark), customdata=[[number, -1 - place]], showlegend=kind not in named,
                hovertemplate=f"{kind} at {mark.value:.6g}<extra></extra>",
            )  # fmt: skip
            named.add(kind)
    if measured:
        figure.add_scatter(
            x=[x for x, _ in measured], y=[y for _, y in measured], mode="markers", name="measured on the rig",
            marker={"size": 7, "color": DATA, "symbol": "circle-open", "line": {"width": 1.5}},
        )  # fmt: skip
    if chosen is not None:
        branch, height = branches[chosen[0]]
        figure.add_scatter(
            x=[float(branch.values[chosen[1], 0])], y=[float(height[chosen[1]])], mode="markers", name="chosen",
            marker={"size": 15, "color": "rgba(0,0,0,0)", "line": {"width": 2.5, "color": CHOSEN}}, hoverinfo="skip",
        )  # fmt: skip
    if branches:
        branch = branches[0][0]
        name = branch.model.states[0]
        title = escaped_label(name, branch.model.units.get(name, ""))
        figure.update_xaxes(title_text=escaped_label(branch.parameter))
        figure.update_yaxes(title_text=title if measure == "point" else f"amplitude of {title}")
    figure.update_layout(clickmode="event", hovermode="closest")
    return figure


def _interval(mark: Any) -> dict[str, Any]:
    if mark.interval is None:
        return {"visible": False}
    low, high = mark.interval
    return {"type": "data", "symmetric": False, "array": [high - mark.value], "arrayminus": [mark.value - low],
            "color": CHOSEN, "thickness": 1.5}  # fmt: skip


def growing_figure(points: Sequence[Mapping[str, float]], parameter: str) -> go.Figure:
    """Draw a growing branch.

    points: the parameter and the first state on the section, of the points so far in the order of their coming.
    """
    figure = go.Figure()
    rows = [one for one in points if parameter in one]
    state = next((name for one in rows for name in one if name != parameter), "")
    figure.add_scatter(
        x=[one[parameter] for one in rows], y=[one.get(state) for one in rows], mode="markers",
        name="points so far", marker={"size": 6, "color": FIT},
    )  # fmt: skip
    if rows:
        figure.add_scatter(
            x=[rows[-1][parameter]], y=[rows[-1].get(state)], mode="markers", name="last point",
            marker={"size": 13, "color": "rgba(0,0,0,0)", "line": {"width": 2.5, "color": CHOSEN}},
        )  # fmt: skip
    figure.update_xaxes(title_text=escaped_label(parameter))
    figure.update_yaxes(title_text=f"{escaped_label(state)} on the section" if state else "")
    return figure


def moving_figure(history: Sequence[Mapping[str, float]], start: Mapping[str, float]) -> go.Figure:
    """Draw estimates while a fit runs.

    Each over its start, which is marked; a start of zero or none is taken as 1.
    """
    figure = go.Figure()
    names = list(dict.fromkeys(name for row in history for name in row))
    for number, name in enumerate(names):
        first = start.get(name, math.nan)
        scale = first if math.isfinite(first) and first else 1.0
        colour = CYCLE[number % len(CYCLE)]
        rows = [(at, row[name] / scale) for at, row in enumerate(history, start=1) if row.get(name) is not None]
        figure.add_scatter(
            x=[at for at, _ in rows], y=[value for _, value in rows], mode="lines", name=escaped_label(name),
            line={"color": colour, "width": 1.8}, legendgroup=name,
        )  # fmt: skip
        if math.isfinite(first):
            figure.add_scatter(
                x=[0], y=[first / scale], mode="markers", showlegend=False, legendgroup=name, hoverinfo="skip",
                marker={"size": 9, "symbol": "diamond-open", "color": colour, "line": {"width": 2}},
            )  # fmt: skip
    figure.update_xaxes(title_text="report of the fit (diamonds: start)")
    figure.update_yaxes(title_text="estimate / start")
    return figure


def rig_figure(points: Sequence[Mapping[str, Any]], parameter: str, output: str) -> go.Figure:
    """Draw the peak of an output on a rig.

    The points are those measured so far, in the order in which they came.
    """
    figure = go.Figure()
    figure.add_scatter(
        x=[p["value"] for p in points], y=[p["peaks"].get(output) for p in points], mode="lines+markers",
        name="measured", line={"color": FIT, "width": 1.5}, marker={"size": 7, "color": FIT},
    )  # fmt: skip
    if points:
        last = points[-1]
        figure.add_scatter(
            x=[last["value"]], y=[last["peaks"].get(output)], mode="markers", name="last point",
            marker={"size": 13, "color": "rgba(0,0,0,0)", "line": {"width": 2.5, "color": CHOSEN}},
        )  # fmt: skip
    figure.update_xaxes(title_text=escaped_label(parameter))
    figure.update_yaxes(title_text=f"largest {escaped_label(output)}")
    return figure
