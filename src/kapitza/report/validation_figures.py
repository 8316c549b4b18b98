"""Draw the figure of a validation.

The figure shows errors against lead time, sections over each other, and spectra.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kapitza.base.labels import CYCLE
from kapitza.errors import KapitzaError
from kapitza.report.style import ACCENT, FAINT, INK, new_figure, styled
from kapitza.signal import power_spectrum

if TYPE_CHECKING:
    from kapitza.estimate import PredictionTest, SectionTest, Validation


def plot_validation(validation: Validation) -> Figure:
    """Draw one panel for each test."""
    panels = []
    if validation.prediction is not None and len(validation.prediction.starts):
        panels.append(lambda axes: _prediction(axes, validation.prediction))  # pyright: ignore[reportArgumentType]
    if validation.section is not None:
        panels.append(lambda axes: _section(axes, validation.section))  # pyright: ignore[reportArgumentType]
    if validation.frequencies and validation.simulated is not None:
        panels.append(lambda axes: _spectra(axes, validation))
    if not panels:
        raise KapitzaError("No test of this validation has a figure: " + "; ".join(validation.notes))
    with styled():
        figure = new_figure(1.0 + 4.2 * len(panels), 3.6)
        grid = figure.subplots(1, len(panels), squeeze=False)
        for axes, draw in zip(grid[0], panels, strict=True):
            draw(axes)
        return figure


def _prediction(axes: Axes, test: PredictionTest) -> None:
    """Draw prediction errors of every stretch.

    Stretches are faint; their root mean square and the levels at which a prediction ends are drawn too.
    """
    single = np.sqrt(((test.error / test.noise) ** 2).mean(axis=2))
    for row in single:
        axes.plot(test.lead, row, color=FAINT, lw=0.5, alpha=0.4)
    noises, _ = test.course
    axes.plot(test.lead, noises, color=CYCLE[0], lw=1.6, label="all stretches")
    axes.axhline(test.noises, color=INK, lw=0.8, ls="--", label=f"{test.noises:g} × noise")
    share = float(np.sqrt(((test.share * test.spread / test.noise) ** 2).mean()))
    axes.axhline(share, color=ACCENT, lw=0.8, ls=":", label=f"{test.share:g} × spread of the signal")
    axes.set_yscale("log")
    axes.set_xlabel("time since the last fitted sample [s]")
    axes.set_ylabel(f"error / {test.source}")
    axes.set_title("Prediction")
    axes.legend(fontsize="small", loc="lower right", frameon=True, framealpha=0.9)


def _section(axes: Axes, test: SectionTest) -> None:
    axes.plot(*test.modelled[:, :2].T, ".", ms=3.5, color=CYCLE[1], mec="none", label="model", zorder=1)
    axes.plot(*test.measured[:, :2].T, ".", ms=2.5, color=CYCLE[0], mec="none", label="record", zorder=2)
    axes.set_xlabel(test.names[0])
    axes.set_ylabel(test.names[1])
    verdict = "agree" if test.agrees else "differ"
    axes.set_title(f"Section {test.kind}: they {verdict}\ndistance {test.distance:.2g}, noise floor {test.floor:.2g}")
    axes.legend(fontsize="small")


def _spectra(axes: Axes, validation: Validation) -> None:
    channel, simulated = validation.frequencies[0].channel, validation.simulated
    assert simulated is not None
    step = float(np.median(np.diff(validation.record.time)))
    for record, colour, label in ((simulated, CYCLE[1], "model"), (validation.record, CYCLE[0], "record")):
        spectrum = power_spectrum(record.unwrapped()[channel], step, record.segments())
        axes.semilogy(spectrum.frequency[1:], spectrum.density[1:], color=colour, lw=1.0, label=label)
    axes.set_xlabel("frequency [Hz]")
    axes.set_ylabel(f"power density of {channel}")
    axes.set_title("Spectrum")
    axes.legend(fontsize="small")
