"""Report the next experiment.

The page shows the ranked table, the map, sensors to drop, the duration, and what nothing improves.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from kapitza.base.display import percent
from kapitza.report.interactive import CHECK, DATA, floats
from kapitza.report.page import Section, write_page
from kapitza.report.plan_figures import NAMED, place_of, plot_plan
from kapitza.study import equations_text

if TYPE_CHECKING:
    from kapitza.planning import Expected, Plan

GRID, GRID_WITH_SWITCHES = 18, 12
"""Points of the map along each choice; runs with switches take twenty times as long as smooth ones."""


def plan_table(plan: Plan) -> pd.DataFrame:
    """Return one row of text per experiment."""
    rows = []
    for one in plan.expected:
        row: dict[str, object] = {"experiment": plan.words(one.choice)}
        for i, label in enumerate(plan.wanted.labels):
            row[label] = _change(plan, one, i)
        if one.with_laws is not None:
            ends = 100 * one.with_laws / plan.wanted.scale
            row[f"if there is {' or '.join(plan.missing)}"] = ", ".join(
                f"{label} ± {percent(end)}" for label, end in zip(plan.wanted.labels, ends, strict=True)
            )
        row["remarks"] = "; ".join(plan.remarks(one))
        row["time [s]"] = one.choice.seconds
        rows.append(row)
    return pd.DataFrame(rows, index=pd.RangeIndex(1, len(rows) + 1, name="rank"))


def _change(plan: Plan, one: Expected, i: int) -> str:
    unit = 100 / plan.wanted.scale[i]
    now, after, low, high = (float(unit * part[i]) for part in (one.now, one.after, one.low, one.high))
    return f"± {percent(now)} → ± {percent(after)} ({low:.2g} … {high:.2g})"


def plan_sentences(plan: Plan) -> list[str]:
    """Describe the next run and how to read the table."""
    if not plan.expected:
        return [str(plan)]
    best = plan.expected[0]
    gains = ", ".join(f"{label} {_change(plan, best, i)}" for i, label in enumerate(plan.wanted.labels))
    return [
        f"Do this next: {plan.words(best.choice)}. Expected relative standard errors: {gains}.",
        "Every experiment was simulated at draws of what the parameters may be. Widths are means over the draws, in "
        "brackets the 5-95 % band.",
    ]


def plan_answers(plan: Plan) -> list[str]:
    """Return sentences on sensors and hopeless parameters.

    They say which sensors to leave out, and what nothing improves and why.
    """
    if not plan.expected:
        return []
    channels = tuple(plan.expected[0].choice.channels)
    spare = plan.droppable()
    sensors = f"Every sensor is needed: {', '.join(channels)}."
    if len(channels) == 1:
        sensors = f"One sensor, {channels[0]}, is enough for the table."
    if spare:
        sensors = f"Sensors that can be left out: {', '.join(spare)}; no wanted interval widens by more than 5 %."
    lost = [line.strip() for line in plan.unimproved()]
    found = [f"{line[0].upper()}{line[1:]}." for line in lost]
    return [sensors, *(found or ["Everything wanted can be improved."]), *(f"{d.strip()}." for d in plan.doubts())]


def duration_table(plan: Plan) -> pd.DataFrame:
    """Return expected widths over the best run's duration.

    The widths are relative.
    """
    table = plan.long_enough()
    known = list(zip(plan.wanted.labels, plan.wanted.scale.tolist(), strict=True))
    shown = pd.DataFrame(
        {f"{label} ± [%]": [float(f"{100 * v / scale:.2g}") for v in table[label]] for label, scale in known}
    )
    return shown.set_index(pd.Index([float(f"{d:.4g}") for d in table.index], name="duration [s]"))


def choice_table(plan: Plan) -> pd.DataFrame:
    """Return the settings of a run: chosen or held.

    Ranges and options of those that may be chosen, values of parameters that are neither chosen nor fitted, limits.
    """
    model, held = plan.model, [n for n in plan.model.names if n not in plan.knowledge.names]
    rows = []
    for axis in plan.space.axes:
        text = ", ".join(map(str, axis.options)) if axis.options else f"{axis.low:.4g} to {axis.high:.4g}"
        unit = model.units.get(axis.name, "") or (model.parameter(axis.name).unit if axis.name in model.names else "")
        rows.append((axis.name, "chosen", f"{text} {unit}".strip()))
    chosen = {axis.name for axis in plan.space.axes}
    best = plan.expected[0].choice.settings if plan.expected else {}
    rows += [
        (name, "held", f"{best.get(name, model.values[name]):.4g} {model.parameter(name).unit}".strip())
        for name in held
        if name not in chosen
    ]
    rows += [(text, "limit", f"at most {bound:.4g}") for text, bound in plan.limits.items()]
    return pd.DataFrame(rows, columns=["quantity", "is", "value"]).set_index("quantity")


LONG = "The best run, shorter and longer, from the same start. Long enough: where a longer run narrows hardly anything."


def write_plan_report(plan: Plan, path: str | os.PathLike[str]) -> Path:
    """Write the plan as an HTML file.

    The file is self-contained; its path is returned.
    """
    sections = [Section("The next experiment", tuple(plan_sentences(plan)), table=plan_table(plan))]
    if plan.expected:
        x, y = ranges(plan)
        caption = "Mean relative width after the run; stars: experiments of the table; hatched: beyond a limit."
        sections += [
            Section(
                "Map",
                figure=plot_plan(plan, x, y, size=_size(plan)),
                caption=caption if y else "Widths after each experiment.",
            ),
            Section("How long is long enough", (LONG,), table=duration_table(plan)),
            Section("Sensors, and what cannot be improved", tuple(plan_answers(plan))),
        ]
    # A reader of this page alone has to know what F and omega are.
    sections.append(Section("Model and choices", listing=equations_text(plan.model), table=choice_table(plan)))
    return write_page(f"Next experiment: {plan.model.name}", plan_sentences(plan)[0], sections, Path(path))


def ranges(plan: Plan) -> tuple[str, str]:
    """Return the first two choices with a range.

    Empty where there is only one.
    """
    names = [axis.name for axis in plan.space.axes if axis.continuous]
    return (names[0], names[1]) if len(names) > 1 else ("", "")


def _size(plan: Plan) -> int:
    return GRID_WITH_SWITCHES if plan.model.structure.switches else GRID


def map_figure(plan: Plan) -> go.Figure | None:
    """Draw the interactive map of a plan.

    It is over the first two ranges; None where the plan has fewer.
    """
    x, y = ranges(plan)
    if not y or not plan.expected:
        return None
    grid = plan.grid(x, y, _size(plan))
    width = 100 * grid.width
    shown = np.log10(width)
    text = np.vectorize(lambda w, s: f"{w:.2g} %" if np.isfinite(w) else f"beyond a limit ({s:.2g})")(width, grid.share)
    levels = [float(v) for v in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50) if np.nanmin(width) < v < np.nanmax(width)]
    heat = go.Heatmap(
        x=floats(grid.x),
        y=floats(grid.y),
        z=[[None if not np.isfinite(v) else float(v) for v in row] for row in shown],
        text=text.tolist(),
        hovertemplate=f"{x} = %{{x:.4g}}<br>{y} = %{{y:.4g}}<br>%{{text}}<extra></extra>",
        colorscale="Viridis",
        reversescale=True,
        colorbar={"title": "width", "tickvals": np.log10(levels).tolist(), "ticktext": [f"{v:g} %" for v in levels]},
    )
    figure = go.Figure(heat)
    places = [place_of(plan, one.choice, grid.names) for one in plan.expected[:NAMED]]
    figure.add_scatter(
        x=[p[0] for p in places],
        y=[p[1] for p in places],
        mode="markers+text",
        marker={"symbol": "star", "size": 14, "color": "white", "line": {"color": "black", "width": 1}},
        text=[str(rank) for rank in range(1, len(places) + 1)],
        textposition="top right",
        textfont={"color": CHECK, "size": 14},
        name="planned, by rank",
    )
    done = [place_of(plan, choice, grid.names) for choice in plan.done]
    if done:
        figure.add_scatter(
            x=[p[0] for p in done],
            y=[p[1] for p in done],
            mode="markers",
            marker={"symbol": "square", "size": 9, "color": DATA, "line": {"color": "white", "width": 1}},
            name="measured",
        )
    units = plan.model.units
    figure.update_layout(
        height=460,
        plot_bgcolor="#d9d9d9",
        xaxis_title=f"{x} {units.get(x, '')}".strip(),
        yaxis_title=f"{y} {units.get(y, '')}".strip(),
        legend={"orientation": "h", "y": 1.08},
    )
    return figure
