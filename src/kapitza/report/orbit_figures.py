"""Draw figures of one orbit.

They show its course in time, and its multipliers on the unit circle.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from kapitza.base.cures import Give
from kapitza.base.labels import CYCLE
from kapitza.errors import KapitzaError
from kapitza.orbits import OrbitSet, PeriodicOrbit
from kapitza.report.figures import orbit_label, orbit_title
from kapitza.report.style import ACCENT, FAINT, axes_for, axis_label, figure_of, new_figure, styled


def plot_profile(orbit: PeriodicOrbit, states: Iterable[str] | None = None) -> Figure:
    """Draw the states over one period.

    They are one below the other; angles are continuous, dots mark the section points.
    """
    if orbit.profile is None:
        raise KapitzaError(f"The orbit has no profile to draw: solve it with {Give(profile=True)}.")
    names = tuple(states or orbit.states)
    unknown = [name for name in names if name not in orbit.states]
    if unknown:
        raise KapitzaError(f"There is no state {', '.join(unknown)}; the orbit has {', '.join(orbit.states)}.")
    times, values = orbit.profile.times, orbit.profile.states
    count = orbit.points.shape[0]
    marks = np.arange(count) * orbit.period / count
    with styled():
        figure = new_figure(7.0, 1.2 + 1.4 * len(names))
        grid = figure.subplots(len(names), 1, sharex=True, squeeze=False)
        for axes, name in zip(grid[:, 0], names, strict=True):
            column = values[:, orbit.states.index(name)]
            axes.plot(times, column, color=CYCLE[0])
            axes.plot(marks, np.interp(marks, times, column), "o", ms=5, color=ACCENT, mec="white", mew=0.6)
            axes.set_ylabel(axis_label(name, ""))
        grid[-1, 0].set_xlabel("t [s]")
        grid[0, 0].set_title(orbit_title(orbit))
        return figure


def plot_multipliers(orbits: PeriodicOrbit | OrbitSet | Iterable[PeriodicOrbit], ax: Axes | None = None) -> Figure:
    """Draw Floquet multipliers with the unit circle.

    Multipliers far outside are drawn on the rim with their modulus beside them, so that the circle stays visible.
    """
    chosen = [orbits] if isinstance(orbits, PeriodicOrbit) else list(orbits)
    chosen = [orbit for orbit in chosen if orbit.multipliers is not None]
    if not chosen:
        raise KapitzaError("None of the orbits has multipliers.")
    rim = 2.0
    with styled():
        axes = axes_for(ax)
        angle = np.linspace(0, 2 * np.pi, 361)
        axes.fill(np.cos(angle), np.sin(angle), color=FAINT, alpha=0.35, zorder=0)
        axes.plot(np.cos(angle), np.sin(angle), color=FAINT, zorder=1)
        for number, orbit in enumerate(chosen):
            values = np.asarray(orbit.multipliers)
            size = np.maximum(np.abs(values), 1e-300)
            drawn: NDArray[np.complex128] = np.array(np.where(size > rim, values / size * rim, values), complex)
            label = orbit_label(orbit) if len(chosen) > 1 else None
            axes.plot(drawn.real, drawn.imag, "o", ms=6, color=CYCLE[number % len(CYCLE)], mec="white", label=label)
            for at, modulus in zip(drawn, size, strict=True):
                if modulus > rim:
                    axes.annotate(
                        f"{modulus:.3g}", (at.real, at.imag), textcoords="offset points", xytext=(0, 8), ha="center"
                    )
        axes.set_aspect("equal")
        axes.set_xlim(-1.25 * rim, 1.25 * rim)
        axes.set_ylim(-1.25 * rim, 1.25 * rim)
        axes.set_xlabel("Re μ")
        axes.set_ylabel("Im μ")
        if len(chosen) > 1:
            axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
        else:
            axes.set_title(orbit_title(chosen[0]))
        return figure_of(axes)
