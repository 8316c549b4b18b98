"""Draw figures of branches.

Diagrams have line styles for stability; there are waterfalls of profiles and an interactive page.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from kapitza.base import checks
from kapitza.base.argument_checks import Count
from kapitza.base.arrays import Array
from kapitza.base.files import replacing
from kapitza.base.labels import CYCLE
from kapitza.errors import KapitzaError
from kapitza.report.branch_curves import BranchLine, place_names
from kapitza.report.style import FAINT, INK, Color, axes_for, axis_label, figure_of, styled

if TYPE_CHECKING:
    from kapitza.continuation import Branch, Diagram, FrequencyResponse


MARKS = {
    "fold": "o",
    "period doubling": "s",
    "Neimark-Sacker": "D",
    "pitchfork": "^",
    "branch point": "v",
    "Hopf": "P",
    "grazing": "x",
    "change of event sequence": "|",
    "beginning of stick": "*",
    "cusp": "p",
}
"""Marks of bifurcations, in the order of legends."""

STYLES = {"stable": "-", "unstable": "--", "unknown": ":"}
"""Lines of each stability, in the order of legends."""


def plot_branch(
    branch: Branch,
    of: str | None = None,
    measure: str = "amplitude",
    ax: Axes | None = None,
    color: Color | None = None,
) -> Figure:
    """Draw a branch over its parameter.

    Lines are solid where stable, dashed where unstable, dotted where unknown.
    of: a state (the first coordinate by default). measure: "amplitude" (half peak to peak), "extent" (smallest and
    largest), "point" (the value on the section; every point of a cycle of a map), "period". Cycles of maps are drawn by
    their points unless "extent" or "period" is wanted. A curve of bifurcations is drawn in its two parameters.
    Bands of two standard deviations are drawn where a posterior was given (measure="point").
    """
    with styled():
        axes = axes_for(ax)
        _draw(axes, branch, of, measure, color)
        branch_legend(axes)
        return figure_of(axes)


def plot_diagram(diagram: Diagram, of: str | None = None, measure: str | None = None, ax: Axes | None = None) -> Figure:
    """Draw the branches of a diagram, coloured by level.

    measure: as for `plot_branch`. By default limit cycles show their smallest and largest value, beside the
    equilibria that they leave; orbits of models with a drive and cycles of maps show their points.
    """
    if measure is None:
        # The section of a limit cycle moves along a branch, so that the point on it has kinks.
        free = any(b.autonomous and b.subject == "orbit" and not b.model.is_map for b in diagram.branches)
        measure = "extent" if free else "point"
    with styled():
        axes = axes_for(ax)
        for branch, level in zip(diagram.branches, diagram.levels, strict=True):
            _draw(axes, branch, of, measure, CYCLE[level % len(CYCLE)])
        branch_legend(axes)
        return figure_of(axes)


def branch_legend(axes: Axes, lines: Sequence[tuple[str, str]] = ()) -> None:
    """Add one legend entry per line and mark.

    The (colour, name) pairs given come first, then stability, marks and the others.
    """
    found = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    order: dict[str, Any] = {name: Line2D([], [], color=color) for color, name in lines}
    for name, style in STYLES.items():
        if name in found:
            order[name] = Line2D([], [], color=INK, ls=style)
    for name in (*MARKS, *(f"{mark} (unverified)" for mark in MARKS)):
        if name in found:
            order[name] = found[name]
    order |= {name: handle for name, handle in found.items() if name not in order}
    if order:
        axes.legend(list(order.values()), list(order), loc="best")


def _draw_curve(axes: Axes, branch: Branch, color: Color | None) -> None:
    """Draw a curve of bifurcations in two parameters.

    Points of codimension two carry their names.
    """
    others = sum(not str(line.get_label()).startswith("_") for line in axes.lines)
    # The second colour is that of the marks.
    color = color or (CYCLE[0], *CYCLE[2:])[others % (len(CYCLE) - 1)]
    axes.plot(*BranchLine(branch, branch.values[:, 1]).whole(), color=color, label=branch.subject)
    names = []
    for mark in branch.bifurcations:
        values = dict(zip(branch.model.names, np.asarray(mark.values).tolist(), strict=True))
        height = values[branch.parameters[1]]
        axes.plot(mark.value, height, MARKS.get(mark.kind.value, "o"), color=CYCLE[1], zorder=5)
        names.append((mark.value, height, mark.name))
    axes.set_xlabel(_named(branch, branch.parameters[0]))
    axes.set_ylabel(_named(branch, branch.parameters[1]))
    place_names(axes, names)


def _draw(axes: Axes, branch: Branch, of: str | None, measure: str, color: Color | None) -> None:
    if len(branch.parameters) == 2:
        _draw_curve(axes, branch, color)
        return
    color = color or CYCLE[0]
    name, rows = measured(branch, of, measure)
    lines = [BranchLine(branch, row) for row in rows]
    for line in lines:
        for state, along, height in line.pieces():
            axes.plot(along, height, STYLES[state], color=color, label=state)
    if branch.deviations is not None and measure == "point":
        spread = 2 * branch.deviations[:, branch.model.states.index(name)]
        height = np.ptp(rows[0]) or 1.0
        axes.fill_between(branch.values[:, 0], rows[0] - spread, rows[0] + spread, where=spread < 0.5 * height,
                          color=color, alpha=0.2, lw=0)  # fmt: skip
    for mark, (value, at) in zip(branch.bifurcations, lines[-1].marks, strict=True):
        face = CYCLE[1] if mark.verified else "white"
        edge = "white" if mark.verified else CYCLE[1]
        symbol = MARKS.get(mark.kind.value, "o")
        look: dict[str, Any] = {"color": CYCLE[1]} if symbol in "x|" else {"mfc": face, "mec": edge}
        axes.plot(value, at, symbol, ms=5, mew=0.8, ls="none", label=mark.name, zorder=5, **look)
        if mark.interval is not None:
            axes.plot(mark.interval, [at, at], color=CYCLE[1], lw=3, alpha=0.5, solid_capstyle="butt")
    axes.set_xlabel(_named(branch, branch.parameters[0]))
    points = branch.model.is_map and measure == "amplitude"
    word = "amplitude of " if measure == "amplitude" and not points and not branch.resting else ""
    unit = "period [steps]" if branch.model.is_map else "period [s]"
    axes.set_ylabel(unit if measure == "period" else word + axis_label(name))


def measured(branch: Branch, of: str | None, measure: str) -> tuple[str, list[Array]]:
    """Return the state's name and the rows drawn.

    Each row is (N,).
    """
    name = _state(branch, of)
    column = branch.model.states.index(name)
    if branch.model.is_map and measure in ("point", "amplitude"):
        return name, list(branch.nodes[:, column].reshape(len(branch), -1).T)
    if measure == "point" or branch.subject == "equilibrium":
        return name, [branch.points[:, column]]
    if measure == "period":
        return name, [branch.periods]
    if measure == "amplitude":
        return name, [branch.amplitude(name)]
    if measure == "extent":
        return name, list(branch.extent(name))
    raise KapitzaError(f'measure = "{measure}": choose "amplitude", "extent", "point" or "period".')


def _state(branch: Branch, of: str | None) -> str:
    """Return the state to draw, the first by default."""
    name = of or branch.model.states[0]
    if name not in branch.model.states:
        raise KapitzaError(f'There is no state "{name}": {", ".join(branch.model.states)}.')
    return name


def _named(branch: Branch, parameter: str) -> str:
    return axis_label(parameter, str(branch.model.parameter(parameter).unit or ""))


def plot_waterfall(branch: Branch, of: str | None = None, count: Count = 24, ax: Axes | None = None) -> Figure:
    """Draw profiles over one period along a branch.

    They are one above the other; unstable ones are dashed.
    """
    if branch.subject != "orbit":
        raise KapitzaError(f"A branch of {branch.subject} points has no profiles to draw.")
    checks.whole("count", count, least=1, error=KapitzaError)
    name = _state(branch, of)
    chosen = np.unique(np.linspace(0, len(branch) - 1, min(count, len(branch))).astype(int))
    profiles = branch.profiles(160)[chosen][:, :, branch.model.states.index(name)]
    stability = branch.stability
    step = 0.6 * float(np.ptp(profiles, axis=1).max()) / max(len(chosen), 1) * 3 or 1.0
    with styled():
        axes = axes_for(ax, (6.0, 6.0))
        # Values that would be written over each other are left out.
        apart = 0.03 * (float(np.ptp(profiles)) + step * len(chosen))
        written: list[float] = []
        for place, (index, profile) in enumerate(zip(chosen, profiles, strict=True)):
            style = "-" if stability[index] == "stable" else "--"
            axes.plot(np.arange(160) / 160, profile + place * step, style, color=CYCLE[0], lw=0.9)
            height = profile[-1] + place * step
            if all(abs(height - other) > apart for other in written):
                axes.annotate(f"{branch.values[index, 0]:.4g}", (1.0, height), fontsize=7, color=FAINT, va="center")
                written.append(height)
        axes.set_xlabel("t / T")
        axes.set_ylabel(f"{axis_label(name)}, shifted along {axis_label(branch.parameter)}")
        return figure_of(axes)


def write_branch_page(branch: Branch, path: str | Path, of: str | None = None, measure: str = "amplitude") -> Path:
    """Write an interactive page of a branch.

    It is one HTML file: click a point of the diagram to see its orbit and its multipliers.
    """
    from plotly.offline import get_plotlyjs

    if branch.subject != "orbit" or len(branch.parameters) != 1:
        raise KapitzaError(f"The interactive page shows branches of orbits, not of {branch.subject} points.")
    name, rows = measured(branch, of, measure)
    lines = [BranchLine(branch, row) for row in rows]
    profiles = branch.profiles(120)
    content = {
        "parameter": branch.parameter,
        "quantity": f"{measure} of {name}" if measure == "amplitude" else name,
        "values": branch.values[:, 0].tolist(),
        "rows": [row.tolist() for row in rows],
        "stability": list(branch.stability),
        "states": list(branch.model.states),
        "profiles": np.round(profiles, 9).tolist(),
        "periods": branch.periods.tolist(),
        "multipliers": [[[float(m.real), float(m.imag)] for m in row] for row in branch.multipliers],
        "marks": [
            {"value": float(value), "height": float(height), "text": str(b)}
            for b, (value, height) in zip(branch.bifurcations, lines[-1].marks, strict=True)
        ],
        "pieces": [
            {"x": along.tolist(), "y": height.tolist(), "stability": state}
            for line in lines
            for state, along, height in line.pieces()
        ],
    }
    data = json.dumps(content).replace("</", "<\\/")
    page = _PAGE.replace("__TITLE__", _escaped(branch.model.name)).replace("__PLOTLY__", get_plotlyjs())
    with replacing(path) as draft:
        draft.write_text(page.replace("__DATA__", data), encoding="utf-8")
    return Path(path)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>__TITLE__</title>
<script>__PLOTLY__</script>
<style>body{font-family:sans-serif;color:#22223b;margin:1em}#row{display:flex;flex-wrap:wrap}
#row>section{flex:1 1 340px;min-width:0}#diagram{height:520px}#orbit,#circle{height:360px}
p{margin:.2em 0}h3{margin:.6em 0 0;font-size:1em}</style></head>
<body><h2>__TITLE__</h2><p><span style="color:#0072b2">● stable</span> <span style="color:#d55e00">● unstable</span>
<span style="color:#8d99ae">● unknown</span> <span style="color:#009e73">◆ bifurcation</span></p>
<p id="said">Click a point of the diagram.</p>
<div id="diagram"></div><div id="row"><section><h3>One period</h3><div id="orbit"></div></section>
<section><h3>Multipliers</h3><div id="circle"></div></section></div>
<script>
const d = __DATA__;
const look = {stable: "#0072b2", unstable: "#d55e00", unknown: "#8d99ae"};
const dash = {stable: "solid", unstable: "dash", unknown: "dot"};
const traces = d.rows.map(r => ({x: d.values, y: r, mode: "markers",
  marker: {size: 7, color: d.stability.map(s => look[s])}, text: d.stability, name: d.quantity, showlegend: false,
  hovertemplate: d.parameter + " = %{x:.6g}<br>%{y:.5g}<br>%{text}<extra></extra>"}));
traces.push({x: d.marks.map(m => m.value), y: d.marks.map(m => m.height), mode: "markers",
  text: d.marks.map(m => m.text),
  marker: {size: 12, symbol: "diamond", color: "#009e73"}, name: "bifurcations",
  hovertemplate: "%{text}<extra></extra>"});
d.pieces.forEach(p => traces.push({x: p.x, y: p.y, mode: "lines", hoverinfo: "skip",
  line: {color: look[p.stability], dash: dash[p.stability], width: 1.5}}));
Plotly.newPlot("diagram", traces, {xaxis: {title: {text: d.parameter}}, yaxis: {title: {text: d.quantity}},
  showlegend: false, margin: {t: 40}}, {responsive: true});
function show(i) {
  const t = d.profiles[i].map((_, k) => k * d.periods[i] / d.profiles[i].length);
  Plotly.react("orbit", d.states.map((s, j) => ({x: t, y: d.profiles[i].map(p => p[j]), name: s})),
    {xaxis: {title: {text: "t [s]"}}, showlegend: true, legend: {orientation: "h", y: -0.2, yanchor: "top"},
    margin: {t: 40}}, {responsive: true});
  const a = Array.from({length: 181}, (_, k) => k * Math.PI / 90);
  Plotly.react("circle", [{x: a.map(Math.cos), y: a.map(Math.sin), mode: "lines", line: {color: "#8d99ae"},
    showlegend: false}, {x: d.multipliers[i].map(m => m[0]), y: d.multipliers[i].map(m => m[1]), mode: "markers",
    marker: {size: 10, color: look[d.stability[i]]}, showlegend: false}],
    {xaxis: {title: {text: "Re μ"}}, yaxis: {scaleanchor: "x", title: {text: "Im μ"}}, margin: {t: 40}},
    {responsive: true});
  document.getElementById("said").textContent = d.parameter + " = " + d.values[i].toPrecision(8) + ", " +
    d.stability[i] + ", period " + d.periods[i].toPrecision(6) + " s";
}
document.getElementById("diagram").on("plotly_click", e => {
  if (e.points[0].curveNumber < d.rows.length) show(e.points[0].pointIndex); });
show(0);
</script></body></html>
"""


def plot_frequency_response(response: FrequencyResponse, of: str | None = None, ax: Axes | None = None) -> Figure:
    """Draw amplitude over frequency for each force level.

    Stable parts are solid, unstable ones dashed, the backbone is grey.
    """
    with styled():
        axes = axes_for(ax)
        levels = list(dict.fromkeys(response.forces))
        for branch, level in zip(response.branches, response.forces, strict=True):
            _draw(axes, branch, of, "amplitude", CYCLE[levels.index(level) % len(CYCLE)])
        if response.backbone is not None:
            _, rows = measured(response.backbone, of, "amplitude")
            axes.plot(response.backbone.values[:, 0], rows[0], color=FAINT, lw=2, alpha=0.6, label="backbone")
        branch_legend(axes, [(CYCLE[i % len(CYCLE)], f"{response.force} = {level:g}") for i, level in
                       enumerate(levels)])  # fmt: skip
        return figure_of(axes)
