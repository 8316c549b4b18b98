"""Draw convergence, certainty and free decays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from kapitza.base.argument_checks import Count
from kapitza.base.labels import CYCLE
from kapitza.data import Record
from kapitza.errors import ArgumentError, KapitzaError, refuse_unknown
from kapitza.estimate import Estimate, ProfileCurve, profile_curve
from kapitza.report.style import ACCENT, QUIET, axis_label, greek, new_figure, styled
from kapitza.signal import half_cycles


def plot_likelihood(estimate: Estimate, names: Sequence[str] | None = None, points: Count = 11) -> Figure:
    """Draw the profile likelihood of each parameter.

    Beside it is the parabola of its standard error.
    The line crosses the horizontal one at the ends of the 95 % interval: bent where the Gaussian interval is wrong.
    """
    curves = [profile_curve(estimate, name, points) for name in names or estimate.names]
    return draw_profiles(curves, estimate)


def draw_profiles(curves: Sequence[ProfileCurve], estimate: Estimate) -> Figure:
    """Draw profile likelihoods side by side.

    Each is drawn with the parabola of the estimate.
    """
    if not curves:
        raise ArgumentError("curves is empty; give one or more of `profile_curve`.")
    refuse_unknown("The estimate", [curve.name for curve in curves], estimate.values, "parameter")
    with styled():
        figure = new_figure(2.7 * len(curves) + 0.4, 2.9)
        panels = figure.subplots(1, len(curves), sharey=True, squeeze=False)[0]
        for axes, curve in zip(panels, curves, strict=True):
            centre, width = estimate.values[curve.name], estimate.deviations[curve.name]
            fine = np.linspace(curve.values[0], curve.values[-1], 101)
            axes.plot(fine, ((fine - centre) / width) ** 2, "--", color=QUIET, lw=1, label="Gaussian")
            axes.plot(curve.values, curve.rise, "o-", ms=3.5, color=CYCLE[0], label="profile")
            axes.axhline(curve.threshold, color=ACCENT, lw=0.8)
            axes.set_xlabel(axis_label(curve.name, estimate.units.get(curve.name, "")))
            axes.locator_params(axis="x", nbins=4)
            axes.ticklabel_format(axis="x", useOffset=False)
        panels[0].set_ylabel("2 Δ log likelihood")
        panels[0].set_ylim(-0.3, 2.2 * curves[0].threshold)
        panels[0].legend(loc="upper center")
        return figure


def plot_convergence(estimate: Estimate) -> Figure:
    """Draw each parameter's distance from its end value.

    The distance is in its standard errors, iteration by iteration.
    """
    path = estimate.path
    if not path:
        raise KapitzaError(f"{estimate.method} keeps no iterations: there is no convergence to draw.")
    with styled():
        figure = new_figure(6.0, 3.2)
        axes = figure.add_subplot()
        for number, (name, values) in enumerate(path.items()):
            spread = estimate.deviations[name]
            scale = spread if np.isfinite(spread) and spread > 0 else abs(values[-1]) or 1.0
            # The axis is logarithmic, and the last iterate has distance zero.
            away = np.maximum(np.abs(values - estimate.values[name]) / scale, 1e-6)
            axes.semilogy(np.arange(1, values.size + 1), away, "o-", ms=3, color=CYCLE[number % len(CYCLE)],
                          label=greek(name))  # fmt: skip
        axes.axhline(1.0, color=QUIET, lw=0.8)
        axes.set_xlabel("iteration")
        axes.set_ylabel("distance from the end / standard error")
        axes.legend()
        return figure


def plot_decay(record: Record, channel: str | None = None) -> Figure:
    """Draw a free decay.

    The panels show the envelope of the amplitude against time, frequency (backbone) and damping against amplitude.
    They cover every segment, half cycle by half cycle; see `kapitza.signal.half_cycles`.
    """
    name = channel or record.channels[0]
    values, unit = record.unwrapped()[name], record.units[name]
    decays = [half_cycles(record.time[piece], values[piece]) for piece in record.segments()]
    found = [decay for decay in decays if decay is not None]
    if not found:
        raise KapitzaError(f'"{name}" has fewer than eight half cycles in every segment: there is no decay to draw.')
    amplitude = "amplitude of " + axis_label(name, unit)
    with styled():
        figure = new_figure(9.4, 3.0)
        envelope, backbone, damping = figure.subplots(1, 3)
        for number, decay in enumerate(found):
            style: dict[str, Any] = {"marker": "o", "ms": 3, "lw": 1, "color": CYCLE[number % len(CYCLE)]}
            envelope.semilogy(decay.time - decay.time[0], decay.amplitude, **style)
            backbone.plot(decay.amplitude, decay.frequency, **style)
            damping.plot(decay.amplitude, 100 * decay.damping, **style)
        envelope.set_xlabel("time [s]")
        envelope.set_ylabel(amplitude)
        for axes, text in ((backbone, "frequency [Hz]"), (damping, "damping [% of critical]")):
            axes.set_xlabel(amplitude)
            axes.set_ylabel(text)
        return figure
