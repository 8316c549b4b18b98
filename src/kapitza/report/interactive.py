"""Interactive figures of a study, as Plotly figures; the page that holds them gives them its colours."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from kapitza.circle import unwrap
from kapitza.report.study_figures import interval_range
from kapitza.report.style import CYCLE, axis_label
from kapitza.signal import Decay, half_cycles
from kapitza.study import Motion, Outcome, SectionSketch

Array = NDArray[np.float64]

MOST = 3000
"""Samples of one curve: more cannot be told apart on a screen."""

STACK = {"stack": True}
"""Panels side by side that a narrow screen puts below each other."""

ENOUGH = 12
"""Samples per cycle from which on differences tell the rate."""

DATA, FIT, CHECK = "#8d99ae", CYCLE[0], CYCLE[1]


def escaped(text: str) -> str:
    """Text that Plotly shows as it is: it reads a few HTML tags, which a name may not smuggle in."""
    return html.escape(text, quote=False)


def label(name: str, unit: str = "") -> str:
    return escaped(axis_label(name, unit).replace(r"\$", "$"))


def window(motion: Motion, count: int = MOST) -> slice:
    """The first samples of a motion that a picture shows."""
    return slice(0, min(count, motion.time.size))


def broken(motion: Motion, values: Array, part: slice) -> list[float | None]:
    """Values with a gap wherever one piece ends: a line must not join them."""
    shown: list[float | None] = [float(v) for v in values[part]]
    for cut in np.flatnonzero(np.diff(motion.piece[part])):
        shown[int(cut)] = None
    return shown


def floats(values: Array) -> list[float]:
    """Numbers with the seven digits that a picture can show: half the size of the page."""
    return [float(f"{v:.7g}") for v in values]


def fit_figure(outcome: Outcome) -> go.Figure | None:
    """Data, fitted motion and prediction of what was held back, one row per channel."""
    motion = outcome.motion
    if motion is None:
        return None
    channels = list(motion.measured)
    figure = make_subplots(rows=len(channels), cols=1, shared_xaxes=True, vertical_spacing=0.06)
    same_clock = outcome.check is not None and float(outcome.check.time[0]) >= float(motion.time[-1])
    parts = [(motion, "fit", FIT, window(motion))]
    if outcome.check is not None and same_clock:
        parts.append((outcome.check, "prediction of held-back data", CHECK, window(outcome.check)))
    for row, channel in enumerate(channels, start=1):
        for shown, name, colour, part in parts:
            if channel not in shown.measured:
                continue
            time, first = floats(shown.time[part]), row == 1
            data = floats(shown.measured[channel][part])
            line = broken(shown, near(shown, channel), part)
            figure.add_scatter(
                x=time, y=data, mode="markers", marker={"size": 3, "color": DATA}, name="data", legendgroup="data",
                showlegend=first and shown is motion, row=row, col=1,
            )  # fmt: skip
            figure.add_scatter(
                x=time, y=line, mode="lines", line={"width": 1.5, "color": colour}, name=name, legendgroup=name,
                showlegend=first, row=row, col=1,
            )  # fmt: skip
        figure.update_yaxes(title_text=label(channel, motion.units.get(channel, "")), row=row, col=1)
    figure.update_xaxes(title_text="time [s]", row=len(channels), col=1)
    figure.update_layout(height=180 + 170 * len(channels))
    return figure


def check_figure(outcome: Outcome) -> go.Figure | None:
    """The prediction of a recording of its own, where it has another clock than the data fitted."""
    motion, check = outcome.motion, outcome.check
    if check is None or (motion is not None and float(check.time[0]) >= float(motion.time[-1])):
        return None
    return fit_figure(Outcome(outcome.candidate, outcome.method, motion=check))


def near(motion: Motion, channel: str) -> Array:
    """Predicted values; angles beside the measured ones, whatever turn they are in."""
    return motion.measured[channel] + motion.error(channel)


def residual_figure(outcome: Outcome) -> go.Figure | None:
    """Residuals against time, against the value of each channel, and against its rate where the samples tell it."""
    motion = outcome.motion
    if motion is None:
        return None
    channels = list(motion.measured)
    rated = [c for c in channels if not c.endswith("'") and samples_per_cycle(near(motion, c)) >= ENOUGH]
    columns = 3 if rated else 2
    figure = make_subplots(
        rows=len(channels), cols=columns, column_widths=[0.44, 0.28, 0.28][:columns], horizontal_spacing=0.07,
        vertical_spacing=0.12, shared_yaxes=True,
        specs=[[{}, {}, {} if c in rated else None][:columns] for c in channels],
    )  # fmt: skip
    for row, channel in enumerate(channels, start=1):
        for shown, colour, name in ((motion, FIT, "fitted"), (outcome.check, CHECK, "held back")):
            if shown is None or channel not in shown.measured:
                continue
            step = slice(None, None, max(1, shown.time.size // MOST))
            error = floats(shown.error(channel)[step])
            against = [shown.time, near(shown, channel), *([shown.rate(channel)] if channel in rated else [])]
            for column, values in enumerate(against, start=1):
                known = [None if math.isnan(v) else v for v in floats(values[step])]
                figure.add_scatter(
                    x=known, y=error, mode="markers", marker={"size": 3, "color": colour}, name=name,
                    legendgroup=name, showlegend=row == 1 and column == 1, row=row, col=column,
                )  # fmt: skip
        unit = motion.units.get(channel, "")
        figure.update_yaxes(title_text="residual " + label(channel, unit), row=row, col=1)
        figure.update_xaxes(title_text="time [s]", row=row, col=1)
        figure.update_xaxes(title_text=label(channel, unit), row=row, col=2)
        if channel in rated:
            figure.update_xaxes(title_text=label(f"{channel}'", f"{unit}/s" if unit else ""), row=row, col=3)
    figure.update_layout(height=170 + 190 * len(channels), meta=STACK)
    return figure


def portrait_figure(outcome: Outcome) -> go.Figure | None:
    """Velocity against position of the first channel: fitted motion, data where the rate was measured too."""
    motion = outcome.motion
    if motion is None:
        return None
    channel = next((c for c in motion.measured if not c.endswith("'")), None)
    if channel is None:
        return None
    part = window(motion)
    position, speed = np.asarray(near(motion, channel)), motion.rate(channel)
    rate = f"{channel}'"
    if rate not in motion.predicted and samples_per_cycle(position) < ENOUGH:
        return None
    figure = go.Figure()
    if rate in motion.measured:
        figure.add_scatter(
            x=floats(motion.measured[channel][part]), y=floats(motion.measured[rate][part]), mode="markers",
            marker={"size": 3, "color": DATA}, name="data",
        )  # fmt: skip
    turn = channel in motion.angles and bool((np.abs(np.diff(position)) > np.pi).any())
    line = {"mode": "markers", "marker": {"size": 2.5, "color": FIT}} if turn else {"mode": "lines"}
    shown = [None if v is None or math.isnan(v) else v for v in broken(motion, speed, part)]
    figure.add_scatter(x=floats(position[part]), y=shown, name="fit", line={"color": FIT, "width": 1}, **line)
    figure.update_xaxes(title_text=label(channel, motion.units.get(channel, "")))
    unit = motion.units.get(channel, "")
    figure.update_yaxes(title_text=label(rate, f"{unit}/s" if unit else ""))
    figure.update_layout(height=420)
    return figure


def samples_per_cycle(values: Array) -> float:
    centred = values - np.median(values)
    crossings = int(np.count_nonzero(np.diff(np.signbit(centred))))
    return 2 * values.size / max(crossings, 1)


def interval_figure(outcomes: Sequence[Outcome]) -> go.Figure | None:
    """Intervals of every fit side by side, a panel for each parameter.

    The axis follows the narrower half: one wide interval runs out of its panel instead of flattening the others.
    """
    shown = [o for o in outcomes if o.ok]
    names = list(dict.fromkeys(name for o in shown for name in o.names))
    if not names:
        return None
    columns = min(3, len(names))
    rows = math.ceil(len(names) / columns)
    figure = make_subplots(rows=rows, cols=columns, shared_yaxes=True, horizontal_spacing=0.06,
                           vertical_spacing=0.28 / rows, specs=used(len(names), rows, columns))  # fmt: skip
    labels = [escaped(o.label) for o in shown]
    for number, name in enumerate(names):
        row, column = number // columns + 1, number % columns + 1
        own = [(text, o) for text, o in zip(labels, shown, strict=True) if name in o.names]
        for text, o in own:
            low, high, value = o.low[name], o.high[name], o.values[name]
            known = math.isfinite(low) and math.isfinite(high)
            figure.add_scatter(
                x=[value], y=[text], mode="markers",
                marker={"size": 8, "color": CYCLE[1], "symbol": "circle" if known else "x"},
                error_x={"type": "data", "symmetric": False, "array": [high - value if known else 0],
                         "arrayminus": [value - low if known else 0], "color": FIT, "thickness": 2.5, "width": 5},
                hovertemplate=f"{value:.6g}<br>[{low:.6g}, {high:.6g}]<extra></extra>", showlegend=False,
                row=row, col=column,
            )  # fmt: skip
        figure.update_xaxes(
            title_text=label(name, own[0][1].units.get(name, "")), range=interval_range(name, [o for _, o in own]),
            nticks=4, row=row, col=column,
        )  # fmt: skip
    figure.update_yaxes(categoryorder="array", categoryarray=labels[::-1], automargin=True)
    figure.update_layout(height=80 + rows * (90 + 34 * len(shown)), meta=STACK)
    return figure


def used(count: int, rows: int, columns: int) -> list[list[dict[str, Any] | None]]:
    """Panels of a grid, the last ones left out."""
    return [[{} if row * columns + column < count else None for column in range(columns)] for row in range(rows)]


def decay_figure(outcome: Outcome) -> go.Figure | None:
    """Amplitude against time and frequency against amplitude of a free decay: data and fit; None where none decays."""
    motion = outcome.motion
    if motion is None:
        return None
    channel = next((c for c in motion.measured if not c.endswith("'")), None)
    if channel is None:
        return None
    pairs: list[tuple[Decay, Decay | None]] = []
    for number in np.unique(motion.piece):
        inside = motion.piece == number
        time, followed = motion.time[inside], near(motion, channel)[inside]
        values = motion.measured[channel][inside]
        if channel in motion.angles:
            followed, values = unwrap(followed), unwrap(values)
        decay = half_cycles(time, values)
        if decay is not None and decay.dies_out:
            pairs.append((decay, half_cycles(time, followed)))
    if not pairs:
        return None
    unit = motion.units.get(channel, "")
    figure = make_subplots(rows=1, cols=2, horizontal_spacing=0.12)
    for number, (data, fit) in enumerate(pairs[:8]):
        for decay, colour, name, mode in ((data, DATA, "data", "markers"), (fit, FIT, "fit", "lines")):
            if decay is None:
                continue
            style: dict[str, Any] = {
                "mode": mode,
                "name": name,
                "legendgroup": name,
                "marker": {"color": colour, "size": 5},
            }
            style["line"] = {"color": colour, "width": 1.5}
            amplitude = floats(decay.amplitude)
            figure.add_scatter(
                x=floats(decay.time - decay.time[0]), y=amplitude, showlegend=number == 0, row=1, col=1, **style
            )
            figure.add_scatter(x=amplitude, y=floats(decay.frequency), showlegend=False, row=1, col=2, **style)
    figure.update_yaxes(type="log", title_text="amplitude of " + label(channel, unit), row=1, col=1)
    figure.update_xaxes(title_text="time from the first half cycle [s]", row=1, col=1)
    figure.update_xaxes(title_text="amplitude of " + label(channel, unit), row=1, col=2)
    figure.update_yaxes(title_text="frequency [Hz]", row=1, col=2)
    figure.update_layout(height=380, meta=STACK)
    return figure


def section_figure(section: SectionSketch) -> go.Figure:
    """The section of a recording; hover an orbit for its code, period and multipliers."""
    figure = go.Figure()
    points = np.array(section.points)
    figure.add_scatter(
        x=floats(points[:, 0]), y=floats(points[:, 1]), mode="markers", marker={"size": 2, "color": DATA},
        name="data", hoverinfo="skip",
    )  # fmt: skip
    longest = sorted({orbit.periods for orbit in section.orbits})
    for orbit in section.orbits:
        at = np.array(orbit.points)
        code, multipliers = escaped(orbit.code) or "-", escaped(orbit.multipliers) or "-"
        text = f"period {orbit.periods}, code {code}<br>multipliers {multipliers}"
        figure.add_scatter(
            x=floats(at[:, 0]), y=floats(at[:, 1]), mode="markers", name=f"period {orbit.periods}",
            legendgroup=str(orbit.periods), hovertemplate=text + "<extra></extra>",
            marker={"size": 9, "color": CYCLE[longest.index(orbit.periods) % len(CYCLE)], "line": {"width": 1}},
            showlegend=orbit is next(o for o in section.orbits if o.periods == orbit.periods),
        )  # fmt: skip
    figure.update_xaxes(title_text=label(section.states[0]))
    figure.update_yaxes(title_text=label(section.states[1]))
    figure.update_layout(height=520)
    return figure


def convergence_figure(outcome: Outcome) -> go.Figure | None:
    """Distance of each parameter from where it ended, in standard errors, by iteration."""
    if not outcome.path:
        return None
    figure = go.Figure()
    for number, (name, values) in enumerate(outcome.path.items()):
        spread = outcome.deviations.get(name, math.nan)
        scale = spread if math.isfinite(spread) and spread > 0 else abs(values[-1]) or 1.0
        away = np.maximum(np.abs(np.array(values) - outcome.values[name]) / scale, 1e-6)
        figure.add_scatter(
            x=list(range(1, len(values) + 1)), y=floats(away), mode="lines+markers", name=label(name),
            line={"color": CYCLE[number % len(CYCLE)], "width": 1.5}, marker={"size": 5},
        )  # fmt: skip
    figure.update_xaxes(title_text="iteration")
    figure.update_yaxes(type="log", exponentformat="power", title_text="distance from the end / standard error")
    figure.update_layout(height=340)
    return figure


def profile_figure(outcome: Outcome) -> go.Figure | None:
    """Profile likelihood of each parameter beside the parabola of its standard error."""
    if not outcome.profiles:
        return None
    columns = min(3, len(outcome.profiles))
    rows = math.ceil(len(outcome.profiles) / columns)
    figure = make_subplots(rows=rows, cols=columns, horizontal_spacing=0.08, vertical_spacing=0.3 / rows,
                           specs=used(len(outcome.profiles), rows, columns))  # fmt: skip
    for number, curve in enumerate(outcome.profiles):
        row, column = number // columns + 1, number % columns + 1
        at = np.array(curve.at)
        fine = np.linspace(at[0], at[-1], 61)
        parabola = ((fine - outcome.values[curve.name]) / outcome.deviations[curve.name]) ** 2
        rise = [None if math.isnan(v) else v for v in curve.rise]
        for x, y, name, style in (
            (floats(fine), floats(parabola), "Gaussian", {"mode": "lines", "line": {"color": DATA, "dash": "dash"}}),
            (floats(at), rise, "profile likelihood", {"mode": "lines+markers", "line": {"color": FIT}}),
            (floats(at[[0, -1]]), [curve.threshold] * 2, f"{100 * outcome.level:g} %",
             {"mode": "lines", "line": {"color": CHECK, "width": 1}}),
        ):  # fmt: skip
            figure.add_scatter(
                x=x, y=y, name=name, legendgroup=name, showlegend=number == 0, row=row, col=column, **style
            )
        figure.update_xaxes(
            title_text=label(curve.name, outcome.units.get(curve.name, "")), nticks=4, row=row, col=column
        )
        figure.update_yaxes(range=[-0.3, 2.2 * curve.threshold], row=row, col=column)
    figure.update_yaxes(title_text="2 Δ log L", col=1)
    figure.update_layout(height=110 + 250 * rows, meta=STACK)
    return figure
