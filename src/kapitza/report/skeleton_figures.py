"""Figures of an inspection."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kapitza.base.labels import CYCLE
from kapitza.report.style import ACCENT, new_figure, styled

if TYPE_CHECKING:
    from kapitza.orbits.in_records import Inspection


def plot_inspection(inspection: Inspection) -> Figure:
    """Draw what an inspection found.

    Spectra, mutual information, dimension tests, return times and divergence, as far as the record allows.
    """
    panels = []
    if inspection.spectra:
        panels.append(_spectra)
    if inspection.delays:
        panels.append(_delays)
    if inspection.dimension is not None:
        panels.append(_dimension)
    if inspection.returns is not None:
        panels.append(_returns)
    if inspection.lyapunov is not None:
        panels.append(_divergence)
    with styled():
        rows = max((len(panels) + 1) // 2, 1)
        figure = new_figure(8.5, 2.9 * rows)
        grid = figure.subplots(rows, 2, squeeze=False)
        for axes, draw in zip(grid.flat, panels, strict=False):
            draw(axes, inspection)
        for axes in grid.flat[len(panels) :]:
            axes.axis("off")
        return figure


def _spectra(axes: Axes, inspection: Inspection) -> None:
    for (name, spectrum), colour in zip(inspection.spectra.items(), CYCLE * 3, strict=False):
        inside = spectrum.frequency > 0
        axes.semilogy(spectrum.frequency[inside], spectrum.density[inside], color=colour, lw=0.9, label=name)
    axes.set_xlabel("frequency [Hz]")
    axes.set_ylabel("power density")
    axes.legend()


def _delays(axes: Axes, inspection: Inspection) -> None:
    for (name, curve), colour in zip(inspection.delays.items(), CYCLE * 3, strict=False):
        axes.plot(curve.lags, curve.information, color=colour, label=name)
    if inspection.delay is not None:
        axes.axvline(inspection.delay, color=ACCENT, lw=0.8, ls="--", label=f"delay {inspection.delay}")
    axes.set_xlabel("lag [samples]")
    axes.set_ylabel("mutual information [bit]")
    axes.legend()


def _dimension(axes: Axes, inspection: Inspection) -> None:
    curve = inspection.dimension
    if curve is None:
        return
    axes.plot(curve.dimensions, curve.false_share, "o-", color=CYCLE[0], label="false neighbours (share)")
    axes.plot(curve.dimensions, curve.saturation, "s-", color=CYCLE[1], label="Cao E1")
    axes.plot(curve.dimensions, curve.randomness, "^-", color=CYCLE[2], label="Cao E2")
    axes.axhline(1.0, color="0.7", lw=0.7, zorder=0)
    axes.set_xlabel("dimension")
    axes.set_xticks(curve.dimensions)
    axes.legend()


def _returns(axes: Axes, inspection: Inspection) -> None:
    if inspection.returns is None:
        return
    steps, counts = inspection.returns
    axes.bar(steps, counts, color=CYCLE[0], width=0.7)
    axes.set_xlabel("return after steps of the section")
    axes.set_ylabel("returns within 1 %")
    axes.set_xticks(steps)


def _divergence(axes: Axes, inspection: Inspection) -> None:
    result = inspection.lyapunov
    if result is None:
        return
    axes.plot(result.times, result.growth, ".-", color=CYCLE[0], ms=3)
    begin, end = result.fitted
    inside = result.times[begin : end + 1]
    line = result.growth[begin] + result.value * (inside - inside[0])
    axes.plot(inside, line, color=ACCENT, lw=2, label=f"{result.value:.3g} 1/s")
    axes.set_xlabel("time [s]")
    axes.set_ylabel("mean log distance")
    axes.set_xlim(0, float(np.max(result.times)))
    axes.legend()
