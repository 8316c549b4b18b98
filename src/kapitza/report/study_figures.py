"""Figures of a study with Matplotlib, to be changed and printed: fit and prediction, intervals side by side, forces."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from kapitza.errors import KapitzaError
from kapitza.report.style import ACCENT, CYCLE, QUIET, axis_label, greek, new_figure, plain, styled
from kapitza.study import Outcome


def plot_fit(outcome: Outcome, samples: int = 3000) -> Figure:
    """Data and fitted motion, with the held-back part and the residuals below, one column per channel."""
    motion = outcome.motion
    if motion is None:
        raise KapitzaError(f"{outcome.label} has no motion to draw: {outcome.failure or 'none followed the data'}.")
    channels = list(motion.measured)
    with styled():
        figure = new_figure(5.2 * len(channels) + 0.6, 4.6)
        grid = figure.subplots(2, len(channels), sharex="col", squeeze=False, height_ratios=[2.2, 1])
        for column, channel in enumerate(channels):
            above, below = grid[0, column], grid[1, column]
            later = outcome.check if outcome.check is not None and outcome.check.time[0] >= motion.time[-1] else None
            for shown, colour, name in ((motion, CYCLE[0], "fit"), (later, CYCLE[1], "prediction")):
                if shown is None or channel not in shown.measured:
                    continue
                part = slice(0, samples)
                error = shown.error(channel)
                above.plot(shown.time[part], shown.measured[channel][part], ".", ms=2, color=QUIET)
                for number in np.unique(shown.piece[part]):
                    at = np.flatnonzero(shown.piece[part] == number)
                    said = name if number == shown.piece[0] else None
                    above.plot(shown.time[at], (shown.measured[channel] + error)[at], color=colour, lw=1, label=said)
                below.plot(shown.time[part], error[part], ".", ms=2, color=colour)
            above.set_ylabel(axis_label(channel, motion.units.get(channel, "")))
            below.set_ylabel("residual")
            below.set_xlabel("time [s]")
            above.legend(loc="upper right")
        return figure


def plot_intervals(outcomes: Sequence[Outcome]) -> Figure:
    """Intervals of several fits, a panel for each parameter; one wide interval does not flatten the others."""
    shown = [outcome for outcome in outcomes if outcome.ok]
    names = list(dict.fromkeys(name for outcome in shown for name in outcome.names))
    if not names:
        raise KapitzaError("None of these fits succeeded: there are no intervals to draw.")
    with styled():
        figure = new_figure(2.6 * len(names) + 1.4, 1.2 + 0.35 * len(shown))
        panels = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
        for axes, name in zip(panels, names, strict=True):
            widths = [o.high[name] - o.low[name] for o in shown if name in o.names]
            reach = 2 * float(np.nanmedian([w for w in widths if math.isfinite(w)] or [math.nan]))
            edges = []
            for place, outcome in enumerate(shown[::-1]):
                if name not in outcome.names:
                    continue
                value = outcome.values[name]
                axes.plot([outcome.low[name], outcome.high[name]], [place, place], color=CYCLE[0], lw=2.5)
                axes.plot(value, place, "o", ms=4, color=ACCENT)
                edges += [max(outcome.low[name], value - reach), min(outcome.high[name], value + reach), value]
            known = [edge for edge in edges if math.isfinite(edge)]
            margin = 0.1 * (max(known) - min(known)) or 1e-3 * abs(known[0]) or 1.0
            axes.set_xlim(min(known) - margin, max(known) + margin)
            axes.set_xlabel(axis_label(name, shown[0].units.get(name, "")))
            axes.locator_params(axis="x", nbins=4)
        panels[0].set_yticks(range(len(shown)), [plain(outcome.label) for outcome in shown[::-1]])
        panels[0].set_ylim(-0.6, len(shown) - 0.4)
        return figure


def plot_section(outcome: Outcome) -> Figure:
    """The section of the recording, one point per excitation period, with the periodic orbits found on it."""
    section = outcome.section
    if section is None:
        raise KapitzaError(f"{outcome.label} has no section: it was not fitted by orbits.")
    with styled():
        figure = new_figure(6.4, 4.8)
        axes = figure.add_subplot()
        points = np.array(section.points)
        axes.plot(points[:, 0], points[:, 1], ".", ms=1.2, color=QUIET)
        periods = sorted({orbit.periods for orbit in section.orbits})
        for number, period in enumerate(periods):
            at = np.concatenate([np.array(o.points) for o in section.orbits if o.periods == period])
            colour = CYCLE[number % len(CYCLE)]
            axes.plot(at[:, 0], at[:, 1], "o", ms=5, mec="white", mew=0.5, color=colour, label=f"period {period}")
        axes.set_xlabel(axis_label(section.states[0]))
        axes.set_ylabel(axis_label(section.states[1]))
        figure.legend(loc="outside right upper")
        return figure


def plot_forces(outcome: Outcome) -> Figure:
    """Restoring and damping forces per mass with the band that the errors of the parameters give."""
    if not outcome.forces:
        raise KapitzaError(f"{outcome.label} has no force curves: they need a measured second-order coordinate.")
    with styled():
        figure = new_figure(3.4 * len(outcome.forces) + 0.4, 3.2)
        panels = figure.subplots(1, len(outcome.forces), squeeze=False)[0]
        for axes, curve in zip(panels, outcome.forces, strict=True):
            axes.fill_between(curve.at, curve.low, curve.high, color=CYCLE[5], alpha=0.5, lw=0)
            axes.plot(curve.at, curve.force, color=CYCLE[0])
            axes.set_xlabel(greek(curve.state))
            axes.set_ylabel(f"{curve.kind} force / mass")
        return figure
