"""Figures of an estimate: intervals, correlations, residuals."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from kapitza.base.labels import CYCLE
from kapitza.estimate import Estimate
from kapitza.report.style import ACCENT, QUIET, greek, new_figure, styled


def plot_estimate(estimate: Estimate, level: float = 0.95) -> Figure:
    """Draw intervals, correlations and residuals of an estimate.

    Intervals are relative to each value; residuals are drawn against the normal distribution.
    """
    panels = ["intervals"]
    panels += ["correlation"] if len(estimate.names) > 1 and np.isfinite(estimate.covariance).all() else []
    panels += ["residuals"] if any(np.size(r) > 3 for r in estimate.residuals.values()) else []
    with styled():
        figure = new_figure(3.3 * len(panels) + 0.5, max(3.2, 1.4 + 0.35 * len(estimate.names)))
        for axes, panel in zip(np.ravel(figure.subplots(1, len(panels))), panels, strict=True):
            {"intervals": draw_intervals, "correlation": draw_correlation, "residuals": draw_residuals}[panel](
                axes, estimate, level
            )
        return figure


def draw_intervals(axes: Axes, estimate: Estimate, level: float) -> None:
    """Draw half-widths of intervals in per cent.

    They are in units of the parameter where the value is zero. Others than finite ones read "not determined".
    """
    interval = estimate.interval(level)
    position = np.arange(len(estimate.names))[::-1]
    for place, name in zip(position, estimate.names, strict=True):
        value = estimate.values[name]
        scale = 100 / abs(value) if value else 1.0
        low, high = (interval.loc[name].to_numpy(float) - value) * scale
        if np.isfinite([low, high]).all():
            axes.plot([low, high], [place, place], color=CYCLE[0], lw=2.5, solid_capstyle="butt")
        else:
            # A dot without a bar would look like a parameter that is known exactly.
            axes.annotate("not determined", (0, place), (0, 5), textcoords="offset points", ha="center", fontsize=7)
        axes.plot(0, place, "o", ms=4, color=ACCENT)
    axes.set_yticks(position, [greek(name) for name in estimate.names])
    axes.set_ylim(-0.7, len(position) - 0.3)
    axes.axvline(0, color=QUIET, lw=0.8, zorder=0)
    axes.set_xlabel("deviation from the estimate [%]")
    axes.set_title(f"{100 * level:g} % intervals")


def draw_correlation(axes: Axes, estimate: Estimate, level: float) -> None:
    del level
    spread = np.sqrt(np.clip(np.diag(estimate.covariance), 0, None))
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = np.nan_to_num(estimate.covariance / np.outer(spread, spread))
    image = axes.imshow(correlation, cmap="RdBu_r", vmin=-1, vmax=1)
    labels = [greek(name) for name in estimate.names]
    axes.set_xticks(range(len(labels)), labels)
    axes.set_yticks(range(len(labels)), labels)
    if len(labels) <= 8:
        for (row, column), value in np.ndenumerate(correlation):
            axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=7,
                      color="white" if abs(value) > 0.6 else "black")  # fmt: skip
    for side in axes.spines.values():
        side.set_visible(False)
    axes.figure.colorbar(image, ax=axes, shrink=0.8)
    axes.set_title("correlation of the errors")


def draw_residuals(axes: Axes, estimate: Estimate, level: float) -> None:
    """Draw ordered residuals against normal quantiles.

    They are on the line when they are Gaussian with deviation 1.
    """
    del level
    for number, (name, residual) in enumerate(estimate.residuals.items()):
        ordered = np.sort(np.ravel(residual)[np.isfinite(np.ravel(residual))])
        if ordered.size < 4:
            continue
        # a few hundred quantiles show the same curve as a million residuals
        chance = (np.arange(min(ordered.size, 400)) + 0.5) / min(ordered.size, 400)
        axes.plot(stats.norm.ppf(chance), np.quantile(ordered, chance), ".", ms=3,
                  color=CYCLE[number % len(CYCLE)], label=greek(name))  # fmt: skip
    reach = np.array([-3.0, 3.0])
    axes.plot(reach, reach, color=QUIET, lw=0.8, zorder=0)
    axes.set_xlabel("quantile of the normal distribution")
    axes.set_ylabel("residual / standard deviation")
    axes.legend()
    axes.set_title("residuals")
