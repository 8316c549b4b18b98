"""Make interactive figures of a study.

They are Plotly figures; the page that holds them sets their colours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from kapitza.base.angles import unwrap
from kapitza.base.arrays import Array, Indices
from kapitza.base.labels import CYCLE, escaped, escaped_label
from kapitza.estimate import Estimate, PredictionTest, ProfileCurve
from kapitza.orbits import OrbitSet
from kapitza.report.motions import Motion, extremes
from kapitza.report.study_figures import drawn_ends, interval_range
from kapitza.signal import Decay, half_cycles

MOST = 3000
"""Samples of one curve: a screen cannot show more."""

STACK = {"stack": True}
"""Panels side by side that a narrow screen puts below each other."""

ENOUGH = 12
"""Samples per cycle from which on differences tell the rate."""

DATA, FIT, CHECK, OUT = "#8d99ae", CYCLE[0], CYCLE[1], "#d7263d"


def log_ticks(values: Array) -> dict[str, Any]:
    """Return the settings of a logarithmic axis over these values.

    Labels are at powers of ten beyond two and a half decades, else at 1, 2 and 5 of each: all nine would overlap.
    """
    found = values[np.isfinite(values) & (values > 0)]
    decades = float(np.ptp(np.log10(found))) if found.size else 0.0
    return {"type": "log", "dtick": 1 if decades > 2.5 else "D2", "exponentformat": "power"}


def floats(values: Array) -> list[float | None]:
    """Return numbers with seven digits, None for NaN.

    A picture shows no more digits; the page has half the size.
    """
    return [None if math.isnan(v) else float(f"{v:.7g}") for v in values.tolist()]


def line(motion: Motion, values: Array, at: Indices, against: Array | None = None) -> dict[str, list[float | None]]:
    """Return a line through the samples `at`.

    Its x and y are interrupted wherever one piece ends.
    """
    x, y = floats((motion.time if against is None else against)[at]), floats(values[at])
    for cut in np.flatnonzero(np.diff(motion.piece[at]))[::-1].tolist():
        x.insert(cut + 1, None)
        y.insert(cut + 1, None)
    return {"x": x, "y": y}


def fit_figure(motion: Motion | None, check: Motion | None = None) -> go.Figure | None:
    """Draw data, fitted motion and prediction.

    The prediction is of data held back. One row per channel; bad samples are marked.
    """
    if motion is None:
        return None
    channels = list(motion.measured)
    figure = make_subplots(rows=len(channels), cols=1, shared_xaxes=True, vertical_spacing=0.06)
    shown = [(motion, "fit", FIT), *([(check, "prediction of held-back data", CHECK)] if check is not None else [])]
    for row, channel in enumerate(channels, start=1):
        for one, name, colour in shown:
            if channel not in one.measured:
                continue
            values, near = one.measured[channel], one.near(channel)
            at = extremes(values, MOST)
            figure.add_scatter(
                x=floats(one.time[at]), y=floats(values[at]), mode="markers", marker={"size": 3, "color": DATA},
                name="data", legendgroup="data", showlegend=row == 1 and one is motion, row=row, col=1,
            )  # fmt: skip
            figure.add_scatter(
                **line(one, near, extremes(near, MOST)), mode="lines", line={"width": 1.5, "color": colour}, name=name,
                legendgroup=name, showlegend=row == 1, row=row, col=1,
            )  # fmt: skip
            add_marked(figure, one, channel, row, (row, 1), values)
        figure.update_yaxes(title_text=escaped_label(channel, motion.units.get(channel, "")), row=row, col=1)
    figure.update_xaxes(title_text="time [s]", row=len(channels), col=1)
    figure.update_layout(height=180 + 170 * len(channels))
    return figure


def add_marked(
    figure: go.Figure, motion: Motion, channel: str, row: int, place: tuple[int, int], values: Array
) -> None:
    """Mark samples left out and outlying ones.

    Outlying: fitted samples whose residual is far beyond the noise.
    """
    marked = {"left out": motion.lost.get(channel), "outliers": motion.outlying(channel)}
    for (name, flags), symbol in zip(marked.items(), ("x", "circle-open"), strict=True):
        at = np.flatnonzero(flags) if flags is not None else np.empty(0, np.intp)
        if at.size:
            at = at[:: -(-at.size // MOST)]
            figure.add_scatter(
                x=floats(motion.time[at]), y=floats(values[at]), mode="markers", name=name, legendgroup=name,
                marker={"size": 7, "symbol": symbol, "color": OUT}, showlegend=row == 1, row=place[0], col=place[1],
            )  # fmt: skip


def residual_figure(motion: Motion | None) -> go.Figure | None:
    """Draw residuals against time, value and rate.

    The rate is used where the samples determine it.
    """
    if motion is None:
        return None
    channels = list(motion.measured)
    rated = [c for c in channels if not c.endswith("'") and samples_per_cycle(motion.near(c)) >= ENOUGH]
    columns = 3 if rated else 2
    figure = make_subplots(
        rows=len(channels), cols=columns, column_widths=[0.44, 0.28, 0.28][:columns], horizontal_spacing=0.07,
        vertical_spacing=0.12, shared_yaxes=True,
        specs=[[{}, {}, {} if c in rated else None][:columns] for c in channels],
    )  # fmt: skip
    for row, channel in enumerate(channels, start=1):
        error = motion.error(channel)
        at = extremes(error, MOST)
        against = [motion.time, motion.near(channel), *([motion.rate(channel)] if channel in rated else [])]
        for column, values in enumerate(against, start=1):
            figure.add_scatter(
                x=floats(values[at]), y=floats(error[at]), mode="markers", marker={"size": 3, "color": FIT},
                name="residuals", showlegend=row == 1 and column == 1, row=row, col=column,
            )  # fmt: skip
        add_marked(figure, motion, channel, row, (row, 1), np.nan_to_num(error))
        noise, unit = motion.noise.get(channel, 0.0), motion.units.get(channel, "")
        if noise > 0:
            figure.add_hrect(
                y0=-2 * noise, y1=2 * noise, fillcolor="rgba(0,114,178,0.12)", line_width=0, row=row, col=1  # pyright: ignore[reportArgumentType]
            )  # fmt: skip
        figure.update_yaxes(title_text="residual " + escaped_label(channel, unit), row=row, col=1)
        figure.update_xaxes(title_text="time [s]", row=row, col=1)
        figure.update_xaxes(title_text=escaped_label(channel, unit), row=row, col=2)
        if channel in rated:
            figure.update_xaxes(title_text=escaped_label(f"{channel}'", f"{unit}/s" if unit else ""), row=row, col=3)
    figure.update_layout(height=170 + 190 * len(channels), meta=STACK)
    return figure


def lead_figure(test: PredictionTest | None) -> go.Figure | None:
    """Draw prediction errors against the lead time.

    Time is counted from the last fitted sample; errors are in standard deviations of the noise.
    """
    if test is None or not len(test.starts):
        return None
    with np.errstate(invalid="ignore"):
        single = np.sqrt(np.mean((test.error / test.noise) ** 2, axis=2))
    figure = go.Figure()
    for number, row in enumerate(single):
        at = extremes(row, 600)
        figure.add_scatter(
            x=floats(test.lead[at]), y=floats(row[at]), mode="lines", line={"color": DATA, "width": 0.7},
            name="one stretch", legendgroup="one", showlegend=number == 0,
        )  # fmt: skip
    figure.add_scatter(
        x=floats(test.lead),
        y=floats(test.course[0]),
        mode="lines",
        line={"color": CHECK, "width": 2},
        name="all of them",
    )
    figure.add_hline(y=test.noises, line={"color": OUT, "width": 1, "dash": "dash"})
    figure.update_xaxes(title_text="time since the last fitted sample [s]")
    figure.update_yaxes(**log_ticks(single), title_text=f"error / {test.source}")
    figure.update_layout(height=340)
    return figure


def portrait_figure(motion: Motion | None) -> go.Figure | None:
    """Draw velocity against position of the first channel.

    The fitted motion, and data where the rate was measured too.
    """
    channel = None if motion is None else next((c for c in motion.measured if not c.endswith("'")), None)
    if motion is None or channel is None:
        return None
    position, speed, rate = motion.near(channel), motion.rate(channel), f"{channel}'"
    if rate not in motion.predicted and samples_per_cycle(position) < ENOUGH:
        return None
    at = extremes(position, 2 * MOST)
    figure = go.Figure()
    if rate in motion.measured:
        figure.add_scatter(
            x=floats(motion.measured[channel][at]), y=floats(motion.measured[rate][at]), mode="markers",
            marker={"size": 3, "color": DATA}, name="data",
        )  # fmt: skip
    turn = channel in motion.angles and bool((np.abs(np.diff(position)) > np.pi).any())
    style = {"mode": "markers", "marker": {"size": 2.5, "color": FIT}} if turn else {"mode": "lines"}
    figure.add_scatter(**line(motion, speed, at, position), name="fit", line={"color": FIT, "width": 1}, **style)
    unit = motion.units.get(channel, "")
    figure.update_xaxes(title_text=escaped_label(channel, unit))
    figure.update_yaxes(title_text=escaped_label(rate, f"{unit}/s" if unit else ""))
    figure.update_layout(height=420)
    return figure


def samples_per_cycle(values: Array) -> float:
    centred = values - np.median(values)
    crossings = int(np.count_nonzero(np.diff(np.signbit(centred))))
    return 2 * values.size / max(crossings, 1)


def interval_figure(fits: Mapping[str, Estimate], level: float) -> go.Figure | None:
    """Draw intervals of every fit side by side.

    Each parameter has a panel.
    The axis follows the narrower half: one wide interval runs out of its panel instead of flattening the others.
    """
    names = list(dict.fromkeys(name for fit in fits.values() for name in fit.names))
    if not names:
        return None
    columns = min(3, len(names))
    rows = math.ceil(len(names) / columns)
    figure = make_subplots(rows=rows, cols=columns, shared_yaxes=True, horizontal_spacing=0.06,
                           vertical_spacing=0.5 / rows, specs=used(len(names), rows, columns))  # fmt: skip
    labels = [escaped(name) for name in fits]
    ends = [fit.interval(level) for fit in fits.values()]
    for number, name in enumerate(names):
        row, column = number // columns + 1, number % columns + 1
        triples, texts = [], []
        for text, fit, table in zip(labels, fits.values(), ends, strict=True):
            if name in fit.names:
                triples.append((float(table["low"][name]), fit.values[name], float(table["high"][name])))
                texts.append(text)
        limits = interval_range(triples)
        for text, (low, value, high) in zip(texts, triples, strict=True):
            first, last = drawn_ends(low, high, limits)
            known = math.isfinite(high - low)
            figure.add_scatter(
                x=[value], y=[text], mode="markers",
                marker={"size": 8, "color": CYCLE[1], "symbol": "circle" if known else "x"},
                error_x={"type": "data", "symmetric": False, "array": [last - value], "arrayminus": [value - first],
                         "color": FIT, "thickness": 2.5, "width": 5},
                hovertemplate=f"{value:.6g}<br>[{low:.6g}, {high:.6g}]<extra></extra>", showlegend=False,
                row=row, col=column,
            )  # fmt: skip
        unit = next((fit.units.get(name, "") for fit in fits.values() if name in fit.names), "")
        figure.update_xaxes(title_text=escaped_label(name, unit), range=limits, nticks=4, row=row, col=column)
    figure.update_yaxes(categoryorder="array", categoryarray=labels[::-1], automargin=True)
    figure.update_layout(height=80 + rows * (120 + 34 * len(fits)), meta=STACK)
    return figure


def used(count: int, rows: int, columns: int) -> list[list[dict[str, Any] | None]]:
    """Return panels of a grid, the last left out."""
    return [[{} if row * columns + column < count else None for column in range(columns)] for row in range(rows)]


def decay_figure(motion: Motion | None) -> go.Figure | None:
    """Draw amplitude and frequency of a free decay.

    It shows amplitude against time and frequency against amplitude, of data and fit; None where no channel decays.
    """
    channel = None if motion is None else next((c for c in motion.measured if not c.endswith("'")), None)
    if motion is None or channel is None:
        return None
    pairs: list[tuple[Decay, Decay | None]] = []
    for number in np.unique(motion.piece):
        inside = motion.piece == number
        time, followed = motion.time[inside], motion.near(channel)[inside]
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
    amplitudes = np.concatenate([data.amplitude for data, _ in pairs[:8]])
    figure.update_yaxes(
        **log_ticks(amplitudes), title_text="amplitude of " + escaped_label(channel, unit), row=1, col=1
    )
    figure.update_xaxes(title_text="time from the first half cycle [s]", row=1, col=1)
    figure.update_xaxes(title_text="amplitude of " + escaped_label(channel, unit), row=1, col=2)
    figure.update_yaxes(title_text="frequency [Hz]", row=1, col=2)
    figure.update_layout(height=380, meta=STACK)
    return figure


def section_figure(orbits: OrbitSet | None) -> go.Figure | None:
    """Draw the section of a recording.

    Hover an orbit for its code, period and multipliers.
    """
    if orbits is None or not len(orbits) or orbits.section_points is None or len(orbits[0].states) < 2:
        return None
    figure = go.Figure()
    cloud = orbits.section_points
    cloud = cloud[:: -(-len(cloud) // SHOWN_RETURNS)]
    figure.add_scatter(
        x=floats(cloud[:, 0]), y=floats(cloud[:, 1]), mode="markers", marker={"size": 2, "color": DATA},
        name="data", hoverinfo="skip",
    )  # fmt: skip
    longest = sorted({len(orbit.points) for orbit in orbits})
    shown: set[int] = set()
    for orbit in orbits:
        periods = len(orbit.points)
        multipliers = "-" if orbit.multipliers is None else ", ".join(map(_multiplier, orbit.multipliers))
        text = f"period {periods}, code {escaped(orbit.code or '') or '-'}<br>multipliers {multipliers}"
        figure.add_scatter(
            x=floats(orbit.points[:, 0]), y=floats(orbit.points[:, 1]), mode="markers", name=f"period {periods}",
            legendgroup=str(periods), hovertemplate=text + "<extra></extra>",
            marker={"size": 9, "color": CYCLE[longest.index(periods) % len(CYCLE)], "line": {"width": 1}},
            showlegend=periods not in shown,
        )  # fmt: skip
        shown.add(periods)
    figure.update_xaxes(title_text=escaped_label(orbits[0].states[0]))
    figure.update_yaxes(title_text=escaped_label(orbits[0].states[1]))
    figure.update_layout(height=520)
    return figure


def _multiplier(value: complex) -> str:
    return f"{value.real:.3g}" if value.imag == 0 else f"{value:.3g}"


SHOWN_RETURNS = 4000
"""Points of a section that a picture shows."""


def convergence_figure(estimate: Estimate) -> go.Figure | None:
    """Draw each parameter's distance from its end value.

    The distance is in standard errors, by iteration.
    """
    if not estimate.path:
        return None
    figure = go.Figure()
    for number, (name, values) in enumerate(estimate.path.items()):
        spread = estimate.deviations.get(name, math.nan)
        scale = spread if math.isfinite(spread) and spread > 0 else abs(values[-1]) or 1.0
        # The axis is logarithmic, and the last iterate has distance zero.
        away = np.maximum(np.abs(values - estimate.values[name]) / scale, 1e-6)
        figure.add_scatter(
            x=list(range(1, len(values) + 1)), y=floats(away), mode="lines+markers", name=escaped_label(name),
            line={"color": CYCLE[number % len(CYCLE)], "width": 1.5}, marker={"size": 5},
        )  # fmt: skip
    longest = max(len(values) for values in estimate.path.values())
    figure.update_xaxes(title_text="iteration", dtick=max(1, round(longest / 10)))
    figure.update_yaxes(type="log", exponentformat="power", title_text="distance from the end / standard error")
    figure.update_layout(height=340)
    return figure


def profile_figure(curves: Sequence[ProfileCurve], estimate: Estimate, level: float) -> go.Figure | None:
    """Draw the profile likelihood of each parameter.

    Beside it is the parabola of its standard error.
    """
    if not curves:
        return None
    columns = min(3, len(curves))
    rows = math.ceil(len(curves) / columns)
    figure = make_subplots(rows=rows, cols=columns, horizontal_spacing=0.08, vertical_spacing=0.3 / rows,
                           specs=used(len(curves), rows, columns))  # fmt: skip
    for number, curve in enumerate(curves):
        row, column = number // columns + 1, number % columns + 1
        at = curve.values
        fine = np.linspace(at[0], at[-1], 61)
        parabola = ((fine - estimate.values[curve.name]) / estimate.deviations[curve.name]) ** 2
        rise = floats(curve.rise)
        for x, y, name, style in (
            (floats(fine), floats(parabola), "Gaussian", {"mode": "lines", "line": {"color": DATA, "dash": "dash"}}),
            (floats(at), rise, "profile likelihood", {"mode": "lines+markers", "line": {"color": FIT}}),
            (floats(at[[0, -1]]), [curve.threshold] * 2, f"{100 * level:g} %",
             {"mode": "lines", "line": {"color": CHECK, "width": 1}}),
        ):  # fmt: skip
            figure.add_scatter(
                x=x, y=y, name=name, legendgroup=name, showlegend=number == 0, row=row, col=column, **style
            )
        figure.update_xaxes(
            title_text=escaped_label(curve.name, estimate.units.get(curve.name, "")), nticks=4, row=row, col=column
        )
        figure.update_yaxes(range=[-0.3, 2.2 * curve.threshold], row=row, col=column)
    figure.update_yaxes(title_text="2 Δ log L", col=1)
    figure.update_layout(height=110 + 250 * rows, meta=STACK)
    return figure
