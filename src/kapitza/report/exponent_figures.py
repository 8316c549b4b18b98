"""Draw figures of Lyapunov exponents.

One spectrum has bars, one parameter gives curves, two give a chart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure

from kapitza.base.labels import CYCLE
from kapitza.report.style import INK, axis_label, new_figure, styled

if TYPE_CHECKING:
    from kapitza.orbits.of_models import LyapunovSpectrum

SHARE = 0.995
"""Share of the points whose exponents the colours of a chart span: a few far ones would leave it in one colour."""


def plot_exponents(spectrum: LyapunovSpectrum) -> Figure:
    """Draw Lyapunov exponents.

    One spectrum has error bars; there are curves over one parameter, and a chart of the largest exponent over two.
    """
    with styled():
        figure = new_figure(6.0, 4.2)
        axes = figure.add_subplot()
        names = list(spectrum.axes)
        if not names:
            finite = np.isfinite(spectrum.values)
            number = np.arange(1, spectrum.values.size + 1)
            axes.errorbar(number[finite], spectrum.values[finite], spectrum.errors[finite], fmt="o", color=CYCLE[0])
            axes.set_xticks(number)
            axes.set_xlabel("number")
        elif len(names) == 1:
            along = spectrum.axes[names[0]]
            for i in range(spectrum.values.shape[-1]):
                axes.plot(along, spectrum.values[:, i], lw=0.9, color=CYCLE[i % len(CYCLE)], label=f"λ{i + 1}")
            axes.set_xlabel(axis_label(names[0]))
            axes.legend()
        if len(names) < 2:
            axes.axhline(0.0, color=INK, lw=0.6)
            axes.set_ylabel(f"Lyapunov exponent per {spectrum.per}")
            axes.set_title(spectrum.name)
            return figure
        values = spectrum.values[..., 0]
        finite = values[np.isfinite(values)]
        low, high = np.quantile(finite, (1 - SHARE, SHARE)) if finite.size else (-1.0, 1.0)
        # The norm needs limits on both sides of zero.
        norm = TwoSlopeNorm(0.0, min(float(low), -1e-12), max(float(high), 1e-12))
        first, second = spectrum.axes.values()
        shown = axes.pcolormesh(first, second, values.T, norm=norm, cmap="RdBu_r", shading="nearest", rasterized=True)
        axes.set_facecolor("0.6")
        axes.set_xlabel(axis_label(names[0]))
        axes.set_ylabel(axis_label(names[1]))
        axes.set_title(f"{spectrum.name}: largest Lyapunov exponent per {spectrum.per}")
        figure.colorbar(shown, ax=axes)
        return figure
