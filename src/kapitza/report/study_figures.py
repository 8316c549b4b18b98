"""Draw figures of fits with Matplotlib.

They can be changed and printed: fit and prediction, intervals side by side, forces.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from kapitza.base.angles import wrap
from kapitza.base.argument_checks import Count
from kapitza.base.labels import CYCLE
from kapitza.errors import KapitzaError
from kapitza.estimate import Estimate, Validation
from kapitza.report.forces import forces_of
from kapitza.report.motions import Motion, extremes, motion_of_test, motions_of
from kapitza.report.style import ACCENT, QUIET, axis_label, greek, new_figure, plain, styled


def plot_fit(estimate: Estimate, validation: Validation | None = None, samples: Count = 3000) -> Figure:
    """Draw data, fitted motion and residuals.

    The first recording is drawn, the residuals below, one column per channel.
    validation: of data held back, whose predictions are drawn after those fitted. Longer records are thinned to
    `samples`, keeping their extremes.
    """
    motions = motions_of(estimate)
    if not motions:
        raise KapitzaError(f"{estimate.method} fitted no motion along the data: there is nothing to draw.")
    motion, test = motions[0], motion_of_test(validation)
    later = test if test is not None and test.time[0] >= motion.time[-1] else None
    channels = list(motion.measured)
    with styled():
        figure = new_figure(5.2 * len(channels) + 0.6, 4.6)
        grid = figure.subplots(2, len(channels), sharex="col", squeeze=False, height_ratios=[2.2, 1])
        for column, channel in enumerate(channels):
            above, below = grid[0, column], grid[1, column]
            for shown, colour, name in ((motion, CYCLE[0], "fit"), (later, CYCLE[1], "prediction")):
                if shown is not None and channel in shown.measured:
                    _draw_motion(above, below, shown, channel, (colour, name), samples)
            above.set_ylabel(axis_label(channel, motion.units.get(channel, "")))
            below.set_ylabel("residual")
            below.set_xlabel("time [s]")
            above.legend(loc="upper right")
        return figure


def _draw_motion(above, below, motion: Motion, channel: str, style: tuple[str, str], samples: int) -> None:
    (colour, name), near, error = style, motion.near(channel), motion.error(channel)
    at = extremes(motion.measured[channel], samples)
    above.plot(motion.time[at], motion.measured[channel][at], ".", ms=2, color=QUIET)
    along = extremes(near, samples)
    for number, part in enumerate(np.split(along, np.flatnonzero(np.diff(motion.piece[along])) + 1)):
        above.plot(motion.time[part], near[part], color=colour, lw=1, label=None if number else name)
    at = extremes(error, samples)
    below.plot(motion.time[at], error[at], ".", ms=2, color=colour)


def plot_intervals(fits: Mapping[str, Estimate], level: float = 0.95) -> Figure:
    """Draw intervals of several fits.

    A panel for each parameter; one wide interval does not flatten the others.
    """
    names = list(dict.fromkeys(name for fit in fits.values() for name in fit.names))
    if not names:
        raise KapitzaError("None of these fits succeeded: there are no intervals to draw.")
    ends = [fit.interval(level) for fit in fits.values()]
    with styled():
        figure = new_figure(2.6 * len(names) + 1.4, 1.2 + 0.35 * len(fits))
        panels = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
        for axes, name in zip(panels, names, strict=True):
            triples, places = [], []
            for place, (fit, table) in enumerate(zip([*fits.values()][::-1], ends[::-1], strict=True)):
                if name not in fit.names:
                    continue
                triples.append((float(table["low"][name]), fit.values[name], float(table["high"][name])))
                places.append(place)
            limits = interval_range(triples)
            for place, (low, value, high) in zip(places, triples, strict=True):
                axes.plot(drawn_ends(low, high, limits), [place, place], color=CYCLE[0], lw=2.5)
                axes.plot(value, place, "o" if math.isfinite(high - low) else "x", ms=4, color=ACCENT)
            axes.set_xlim(limits)
            axes.set_xlabel(axis_label(name, next(iter(fits.values())).units.get(name, "")))
            axes.locator_params(axis="x", nbins=4)
        panels[0].set_yticks(range(len(fits)), [plain(text) for text in [*fits][::-1]])
        panels[0].set_ylim(-0.6, len(fits) - 0.4)
        return figure


def interval_range(intervals: Sequence[tuple[float, float, float]]) -> tuple[float, float] | None:
    """Return the axis limits of one parameter.

    They include all values, and intervals up to twice the width of the narrower half of them to each side.
    intervals: low, value and high of each. A wide one runs out of its panel instead of flattening the others. None
    where no value is known.
    """
    known = [(low, value, high) for low, value, high in intervals if math.isfinite(high - low)]
    values = [value for _, value, _ in intervals if math.isfinite(value)]
    if not values:
        return None
    widths = sorted(high - low for low, _, high in known) or [0.0]
    reach = 2 * widths[(len(widths) - 1) // 2]
    low = min([*values, *(max(low, value - reach) for low, value, _ in known)])
    high = max([*values, *(min(high, value + reach) for _, value, high in known)])
    margin = 0.12 * (high - low) or 0.1 * abs(high) or 1.0
    return low - margin, high + margin


def drawn_ends(low: float, high: float, limits: tuple[float, float] | None) -> tuple[float, float]:
    """Return ends at which an interval is drawn: unknown and infinite ones are beyond the axis limits."""
    first, last = limits or (0.0, 0.0)
    return low if math.isfinite(low) else 2 * first - last, high if math.isfinite(high) else 2 * last - first


def plot_forces(estimate: Estimate) -> Figure:
    """Draw restoring and damping forces per mass.

    The errors of the parameters give the band.
    """
    curves = forces_of(estimate, motions_of(estimate)).curves
    if not curves:
        raise KapitzaError("This fit has no force curves: they need a motion and a measured second-order coordinate.")
    with styled():
        figure = new_figure(3.4 * len(curves) + 0.4, 3.2)
        panels = figure.subplots(1, len(curves), squeeze=False)[0]
        for axes, curve in zip(panels, curves, strict=True):
            axes.fill_between(curve.at, curve.low, curve.high, color=CYCLE[5], alpha=0.5, lw=0)
            axes.plot(curve.at, curve.force, color=CYCLE[0])
            axes.set_xlabel(greek(curve.state))
            axes.set_ylabel(f"{curve.kind} force / mass")
        return figure


def plot_force_surface(estimate: Estimate) -> Figure:
    """Draw force per mass over position and rate.

    There is one panel per coordinate, with the motion that supports it.
    """
    motions = motions_of(estimate)
    surfaces = forces_of(estimate, motions).surfaces
    if not surfaces:
        raise KapitzaError("This fit has no force surface: it needs a motion and a measured second-order coordinate.")
    motion = motions[0]
    with styled():
        figure = new_figure(4.8 * len(surfaces) + 0.4, 4.0)
        panels = figure.subplots(1, len(surfaces), squeeze=False)[0]
        for axes, surface in zip(panels, surfaces, strict=True):
            force, name = surface.force, surface.coordinate
            levels = np.linspace(-1, 1, 22) * (float(np.abs(force).max()) or 1.0)
            shown = axes.contourf(surface.positions, surface.rates, force, levels, cmap="RdBu_r")
            axes.contour(surface.positions, surface.rates, force, levels[::2], colors="black", linewidths=0.4)
            if name in motion.predicted:
                at, speed = motion.predicted[name], motion.rate(name)
                at = wrap(at) if name in motion.angles and np.ptp(at) > 2 * np.pi else at
                axes.plot(at, speed, ".", ms=1.5, color="black")
            axes.set_xlim(surface.positions[0], surface.positions[-1])
            axes.set_ylim(surface.rates[0], surface.rates[-1])
            axes.set_xlabel(greek(name))
            axes.set_ylabel(greek(f"{name}'"))
            figure.colorbar(shown, ax=axes, label="force / mass")
        return figure
