"""Figures of experiments: stability of hybrid tests with delay."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from kapitza.base.argument_checks import Count
from kapitza.base.labels import CYCLE
from kapitza.errors import ArgumentError, RigError
from kapitza.report.branch_figures import branch_legend
from kapitza.report.style import ACCENT, FAINT, axes_for, axis_label, figure_of, new_figure, styled
from kapitza.rig import DelayStability, RigBranch


def plot_delay_stability(test: DelayStability, points: Count = 40) -> Figure:
    """Draw characteristic roots and growth against delay.

    The left panel shows the rightmost characteristic roots, the right one the growth rate against the delay, up to the
    critical one.
    """
    spacing, critical = test.compensation.spacing, test.critical_delay
    turns = 0.0 < critical < math.inf
    if spacing is None:
        last = max(3.0 * test.delay, 1.3 * critical if turns else 0.0)
        delays = np.linspace(min(0.25 * test.delay, 0.02 * last), last, points)
    else:
        delays = spacing * np.arange(1, max(3, round(2 * test.delay / spacing)))
    rates = [test.at_delay(float(d)).rate for d in delays]
    with styled():
        figure = new_figure(8.4, 3.6)
        plane, curve = figure.subplots(1, 2)
        both = np.concatenate([test.roots, test.roots.conj()])
        plane.axvline(0.0, color=FAINT, lw=0.8)
        if np.isfinite(test.essential_rate):
            plane.axvline(test.essential_rate, color=ACCENT, ls="--", lw=1.0, label="essential rate")
            plane.legend()
        plane.plot(both.real, both.imag, "o", ms=4, color=CYCLE[0])
        plane.set_xlabel("Re λ [1/s]")
        plane.set_ylabel("Im λ [rad/s]")
        plane.set_title(f"roots at a delay of {1e3 * test.delay:g} ms")
        curve.plot(1e3 * delays, rates, color=CYCLE[0])
        curve.axhline(0.0, color=FAINT, lw=0.8)
        curve.plot([1e3 * test.delay], [test.rate], "o", color=ACCENT)
        if turns:
            curve.axvline(
                1e3 * critical, color=ACCENT, ls="--", lw=1.0, label=f"critical delay {1e3 * critical:.3g} ms"
            )
            curve.legend()
        curve.set_xlabel("delay [ms]")
        curve.set_ylabel("rate of the leading root [1/s]")
        curve.set_title("unstable" if not test.stable else "stable")
        return figure


def plot_rig_branch(branch: RigBranch, output: str | None = None, ax: Axes | None = None, scale: float = 1.0) -> Figure:
    """Draw the largest |output| against the parameter.

    Point by point; folds are marked with their uncertainty.
    output: the first one by default; scale: divides the parameter (to quote a forcing in another unit).
    """
    name = output or branch.outputs[0]
    if name not in branch.outputs:
        raise RigError(f'The branch has no output "{name}"; it has: {", ".join(branch.outputs)}.')
    values = np.array([p.value for p in branch]) / scale
    peaks = np.array([p.series(name).peak() for p in branch])
    stability = np.array([p.stability for p in branch])
    with styled():
        axes = axes_for(ax)
        axes.plot(values, peaks, "-", color=FAINT, lw=0.8, zorder=1)
        marks = (("stable", "o", CYCLE[0]), ("unstable", "o", "white"), ("unknown", "s", FAINT))
        for word, mark, fill in marks:
            chosen = stability == word
            if chosen.any():
                label = {"stable": "measured, stable", "unstable": "measured, unstable", "unknown": "measured"}[word]
                axes.plot(values[chosen], peaks[chosen], mark, ms=4, mfc=fill, mec=CYCLE[0], ls="", label=label)
        if branch.folds:
            axes.errorbar(
                [fold.value / scale for fold in branch.folds], [peaks[fold.position] for fold in branch.folds],
                xerr=[2 * fold.deviation / scale for fold in branch.folds], fmt="D", ms=5, color=ACCENT, capsize=3,
                label="measured fold",
            )  # fmt: skip
        axes.set_xlabel(axis_label(branch.parameter))
        axes.set_ylabel(f"max |{axis_label(name)}|")
        # A model's branch may be on the same axes, with a line for each piece.
        branch_legend(axes)
        return figure_of(axes)


def plot_growing_branch(points: NDArray[np.float64], parameter: str, output: str) -> Figure:
    """Draw points (N, 2) of a growing branch.

    The last one is marked.
    """
    if points.ndim != 2 or points.shape[1] != 2:
        raise ArgumentError(f"points has the shape {points.shape}; give (N, 2): parameter and peak of each point.")
    with styled():
        axes = axes_for(None)
        axes.plot(points[:, 0], points[:, 1], "o-", ms=3, lw=0.8, color=CYCLE[0])
        axes.plot(points[-1:, 0], points[-1:, 1], "o", ms=7, mfc="none", color=ACCENT)
        axes.set_xlabel(axis_label(parameter))
        axes.set_ylabel(f"max |{axis_label(output)}|")
        axes.set_title(f"{len(points)} points")
        return figure_of(axes)
