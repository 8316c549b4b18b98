"""Figures of a study with Matplotlib, to be changed and printed: fit and prediction, intervals side by side, forces."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from kapitza.circle import wrap
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
            for place, outcome in enumerate(shown[::-1]):
                if name not in outcome.names:
                    continue
                axes.plot([outcome.low[name], outcome.high[name]], [place, place], color=CYCLE[0], lw=2.5)
                axes.plot(outcome.values[name], place, "o", ms=4, color=ACCENT)
            axes.set_xlim(interval_range(name, [o for o in shown if name in o.names]))
            axes.set_xlabel(axis_label(name, shown[0].units.get(name, "")))
            axes.locator_params(axis="x", nbins=4)
        panels[0].set_yticks(range(len(shown)), [plain(outcome.label) for outcome in shown[::-1]])
        panels[0].set_ylim(-0.6, len(shown) - 0.4)
        return figure


def interval_range(name: str, outcomes: Sequence[Outcome]) -> tuple[float, float] | None:
    """Axis of one parameter: all values, and intervals up to twice the width of the narrower half of them to each side.

    A wide interval runs out of its panel instead of flattening the others. None where no interval is known.
    """
    known = [o for o in outcomes if math.isfinite(o.high[name] - o.low[name])]
    values = [o.values[name] for o in outcomes if math.isfinite(o.values[name])]
    if not known or not values:
        return None
    widths = sorted(o.high[name] - o.low[name] for o in known)
    reach = 2 * widths[(len(widths) - 1) // 2]
    low = min([*values, *(max(o.low[name], o.values[name] - reach) for o in known)])
    high = max([*values, *(min(o.high[name], o.values[name] + reach) for o in known)])
    margin = 0.12 * (high - low) or 0.1 * abs(high) or 1.0
    return low - margin, high + margin


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


def plot_force_surface(outcome: Outcome) -> Figure:
    """Force per mass over position and rate, one panel per coordinate, with the motion that supports it."""
    if not outcome.surfaces:
        raise KapitzaError(f"{outcome.label} has no force surface: it needs a measured second-order coordinate.")
    with styled():
        figure = new_figure(4.8 * len(outcome.surfaces) + 0.4, 4.0)
        panels = figure.subplots(1, len(outcome.surfaces), squeeze=False)[0]
        for axes, surface in zip(panels, outcome.surfaces, strict=True):
            force, name = np.array(surface.force), surface.coordinate
            levels = np.linspace(-1, 1, 22) * (float(np.abs(force).max()) or 1.0)
            shown = axes.contourf(surface.positions, surface.rates, force, levels, cmap="RdBu_r")
            axes.contour(surface.positions, surface.rates, force, levels[::2], colors="black", linewidths=0.4)
            motion = outcome.motion
            if motion is not None and name in motion.predicted:
                at, speed = motion.predicted[name], motion.rate(name)
                at = wrap(at) if name in motion.angles and np.ptp(at) > 2 * np.pi else at
                axes.plot(at, speed, ".", ms=1.5, color="black")
            axes.set_xlim(surface.positions[0], surface.positions[-1])
            axes.set_ylim(surface.rates[0], surface.rates[-1])
            axes.set_xlabel(greek(name))
            axes.set_ylabel(greek(f"{name}'"))
            figure.colorbar(shown, ax=axes, label="force / mass")
        return figure
