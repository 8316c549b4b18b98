"""Draw forces of a fitted model for the report.

Curves have bands; surfaces are over position and rate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from kapitza.base.angles import wrap
from kapitza.base.labels import escaped_label
from kapitza.report.forces import ForceCurve, ForceSurface
from kapitza.report.interactive import ENOUGH, FIT, MOST, STACK, floats, line, samples_per_cycle, used
from kapitza.report.motions import Motion, extremes

LEVELS = 14
"""Lines of equal force, half of them on either side of zero."""

PALE = ((0.0, "#5b9bd5"), (0.25, "#bdd7ee"), (0.5, "#f7f7f7"), (0.75, "#f8cbad"), (1.0, "#e07b54"))
"""Blue for negative, red for positive forces, pale enough for lines and labels on top."""


def force_figure(curves: Sequence[ForceCurve], units: Mapping[str, str] | None = None) -> go.Figure | None:
    """Restoring and damping forces per mass with their bands."""
    if not curves:
        return None
    columns = 2
    rows = math.ceil(len(curves) / columns)
    figure = make_subplots(rows=rows, cols=columns, horizontal_spacing=0.12, vertical_spacing=0.3 / rows,
                           specs=used(len(curves), rows, columns))  # fmt: skip
    for number, curve in enumerate(curves):
        row, column = number // columns + 1, number % columns + 1
        at = floats(curve.at)
        figure.add_scatter(
            x=at + at[::-1], y=floats(curve.high) + floats(curve.low)[::-1], fill="toself",
            fillcolor="rgba(0,114,178,0.22)", line={"width": 0}, hoverinfo="skip", name="95 % band", legendgroup="band",
            showlegend=number == 0, row=row, col=column,
        )  # fmt: skip
        figure.add_scatter(
            x=at, y=floats(curve.force), mode="lines", line={"color": FIT, "width": 2}, name="fitted force",
            legendgroup="force", showlegend=number == 0, row=row, col=column,
        )  # fmt: skip
        figure.update_xaxes(title_text=escaped_label(curve.state, unit_of(curve.state, units)), row=row, col=column)
        figure.update_yaxes(
            title_text=f"{curve.kind} force / mass{force_unit(curve.coordinate, units)}", row=row, col=column
        )
    figure.update_layout(height=110 + 270 * rows, meta=STACK)
    return figure


def unit_of(state: str, units: Mapping[str, str] | None) -> str:
    """Return the unit of a coordinate or its rate.

    The model states it, or the recording.
    """
    known = units or {}
    base = known.get(state.rstrip("'"), "")
    return known.get(state) or (f"{base}/s" if base and state.endswith("'") else base)


def force_unit(coordinate: str, units: Mapping[str, str] | None) -> str:
    base = unit_of(coordinate, units)
    unit = (units or {}).get(f"{coordinate}''") or (f"{base}/s²" if base else "")
    return f" [{unit}]" if unit else ""


def surface_figure(
    surfaces: Sequence[ForceSurface], motion: Motion | None, units: Mapping[str, str] | None = None
) -> go.Figure | None:
    """Draw force per mass over position and rate.

    There is one panel per coordinate, with the motion that supports it.
    """
    if not surfaces:
        return None
    columns = min(2, len(surfaces))
    rows = math.ceil(len(surfaces) / columns)
    figure = make_subplots(rows=rows, cols=columns, horizontal_spacing=0.14, vertical_spacing=0.3 / rows,
                           specs=used(len(surfaces), rows, columns))  # fmt: skip
    for number, surface in enumerate(surfaces):
        row, column = number // columns + 1, number % columns + 1
        force, name = surface.force, surface.coordinate
        reach = float(np.abs(force).max()) or 1.0
        figure.add_contour(
            x=floats(surface.positions), y=floats(surface.rates),
            z=[floats(line) for line in force], customdata=[floats(line) for line in surface.band],
            colorscale=PALE, zmin=-reach, zmax=reach, showscale=False,
            contours={"showlabels": True, "start": -reach, "end": reach, "size": 2 * reach / LEVELS,
                      "labelfont": {"size": 10, "color": "#22223b"}},
            line={"width": 0.6, "color": "rgba(34,34,59,0.55)"}, name="force / mass", showlegend=False,
            hovertemplate="%{x:.4g}, %{y:.4g}<br>force / mass %{z:.4g} ± %{customdata:.2g}<extra></extra>",
            row=row, col=column,
        )  # fmt: skip
        if motion is not None and name in motion.predicted and samples_per_cycle(motion.near(name)) >= ENOUGH:
            at = motion.predicted[name]
            turns = name in motion.angles and np.ptp(at) > 2 * np.pi
            at = wrap(at) if turns else at
            style = {"mode": "markers", "marker": {"size": 2, "color": "#22223b"}}
            if not turns:
                style = {"mode": "lines", "line": {"color": "#22223b", "width": 0.8}}
            figure.add_scatter(
                **line(motion, motion.rate(name), extremes(at, MOST), at), name="motion of the fit", hoverinfo="skip",
                legendgroup="motion", showlegend=False, row=row, col=column, **style,
            )  # fmt: skip
            if not any(getattr(trace, "showlegend", False) for trace in figure.data):
                # Dark on the pale surface, the line of the legend would vanish on a dark page.
                figure.add_scatter(x=[None], y=[None], mode="lines", line={"color": "#7d8894", "width": 1.5},
                                   name="motion of the fit", legendgroup="motion", showlegend=True,
                                   row=row, col=column)  # fmt: skip
        figure.update_xaxes(
            title_text=escaped_label(name, unit_of(name, units)),
            range=[surface.positions[0], surface.positions[-1]],
            row=row,
            col=column,
        )
        figure.update_yaxes(
            title_text=escaped_label(f"{name}'", unit_of(f"{name}'", units)),
            range=[surface.rates[0], surface.rates[-1]],
            row=row,
            col=column,
        )
    figure.update_layout(height=130 + 330 * rows, meta=STACK)
    return figure
