"""Draw figures of records and orbits.

Each function returns a Matplotlib Figure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from kapitza.base.angles import unwrap, wrap
from kapitza.base.arrays import Array
from kapitza.base.labels import CYCLE
from kapitza.data import Record
from kapitza.errors import KapitzaError
from kapitza.orbits import OrbitSet, PeriodicOrbit
from kapitza.report.style import ACCENT, FAINT, INK, axes_for, axis_label, figure_of, new_figure, plain, styled


def plot_attractor(
    record: Record, x: str | None = None, y: str | None = None, ax: Axes | None = None, colour: str = INK
) -> Figure:
    """Draw two channels of a record.

    One dot per sample; angles are in [-π, π).
    x, y: names of channels, by default the first and its rate (or the second channel).
    """
    first, second = chosen_pair(record.channels, x, y)
    with styled():
        axes = axes_for(ax)
        points = record.wrapped()
        # many dots: smaller and more transparent, so that the density stays visible
        size = float(np.clip(250 / np.sqrt(len(record)), 0.4, 5.0))
        axes.plot(
            points[first], points[second], ".", ms=size, color=colour, alpha=0.6, mec="none", rasterized=True, zorder=1
        )
        label_axes(axes, record.units, dict(zip(record.channels, record.angles, strict=True)), first, second)
        return figure_of(axes)


def plot_record(record: Record, channels: Sequence[str] | None = None) -> Figure:
    """Draw the channels of a record against time.

    They are one below the other; segments are not joined.
    """
    names = tuple(channels or record.channels)
    with styled():
        figure = new_figure(7.0, 1.2 + 1.4 * len(names))
        grid = figure.subplots(len(names), 1, sharex=True, squeeze=False)
        angles = dict(zip(record.channels, record.angles, strict=True))
        for axes, name in zip(grid[:, 0], names, strict=True):
            for piece in record.segments():
                time, values = record.time[piece], record[name][piece]
                if angles[name]:
                    values = np.where(jumps(values), np.nan, values)
                axes.plot(time, values, color=CYCLE[0], lw=0.8)
            axes.set_ylabel(axis_label(name, record.units[name]))
        grid[-1, 0].set_xlabel("t [s]")
        return figure


def plot_orbit(orbit: PeriodicOrbit, x: str | None = None, y: str | None = None, ax: Axes | None = None) -> Figure:
    """Draw one periodic orbit.

    Its course over a period is drawn where it is known, and its points on the section.
    Angles are drawn in [-π, π): a rotating orbit leaves on one side and enters on the other.
    """
    first, second = chosen_pair(orbit.states, x, y)
    with styled():
        axes = axes_for(ax)
        on_circle = circle_states(orbit)
        draw_orbit(axes, orbit, first, second, on_circle, CYCLE[0], orbit_label(orbit))
        label_axes(axes, {}, on_circle, first, second)
        axes.set_title(orbit_title(orbit))
        return figure_of(axes)


def plot_orbits(
    orbits: OrbitSet, x: str | None = None, y: str | None = None, record: Record | None = None, ax: Axes | None = None
) -> Figure:
    """Draw all orbits on the section.

    They are coloured by their number of periods, over the record they come from.
    """
    if not len(orbits):
        raise KapitzaError("There are no orbits to draw." + (f" {orbits.message}" if orbits.message else ""))
    if len(orbits[0].states) == 1:
        return plot_return_map(orbits, ax)
    first, second = chosen_pair(orbits[0].states, x, y)
    record = record if record is not None else (orbits.source if isinstance(orbits.source, Record) else None)
    with styled():
        axes = axes_for(ax)
        if record is not None and {first, second} <= set(record.channels):
            section = record.strobed() if record.period else record
            plot_attractor(section, first, second, axes, colour=FAINT)
        states = orbits[0].states
        cloud = orbits.section_points
        if cloud is not None and not (record is not None and {first, second} <= set(record.channels)):
            axes.plot(*(cloud[:, states.index(name)] for name in (first, second)), ",", color=FAINT, rasterized=True)
        on_circle = dict(zip(states, orbits.angles, strict=True)) if orbits.angles else circle_states(orbits[0])
        counts = sorted({len(orbit.points) for orbit in orbits})
        shown = set()
        for orbit in orbits:
            count = len(orbit.points)
            colour = CYCLE[counts.index(count) % len(CYCLE)]
            label = "" if count in shown else f"period {count} ({sum(len(o.points) == count for o in orbits)})"
            shown.add(count)
            draw_points(axes, orbit, first, second, on_circle, colour, label)
        label_axes(axes, {} if record is None else record.units, on_circle, first, second)
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=min(len(counts), 5))
        return figure_of(axes)


def plot_return_map(orbits: OrbitSet, ax: Axes | None = None) -> Figure:
    """Draw orbits on a section with one coordinate.

    Each value is drawn against the next, over those of the record.
    """
    name = orbits[0].states[0]
    with styled():
        axes = axes_for(ax)
        cloud = orbits.section_points
        whole = isinstance(orbits.source, Record) and cloud is not None and len(cloud) == len(orbits.source)
        if cloud is not None and whole and len(orbits.source.segments()) == 1:
            axes.plot(cloud[:-1, 0], cloud[1:, 0], ",", color=FAINT, rasterized=True)
        counts = sorted({len(orbit.points) for orbit in orbits})
        shown = set()
        for orbit in orbits:
            count = len(orbit.points)
            label = "" if count in shown else f"period {count} ({sum(len(o.points) == count for o in orbits)})"
            shown.add(count)
            values = orbit.points[:, 0]
            axes.plot(
                values, np.roll(values, -1), "o", ms=4, color=CYCLE[counts.index(count) % len(CYCLE)], label=label
            )
        axes.set_xlabel(name)
        axes.set_ylabel(f"next {name}")
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=min(len(counts), 5))
        return figure_of(axes)


def chosen_pair(names: Sequence[str], x: str | None, y: str | None) -> tuple[str, str]:
    """Return the two states to draw.

    They are the states requested, or the first and its rate.
    """
    if len(names) < 2:
        raise KapitzaError(f"A phase portrait needs two channels, there is only {', '.join(names)}.")
    first = x or names[0]
    rate = f"{first}'"
    second = y or (rate if rate in names else next(name for name in names if name != first))
    for name in (first, second):
        if name not in names:
            raise KapitzaError(f'There is no "{name}" to draw; there are {", ".join(names)}.')
    return first, second


def circle_states(orbit: PeriodicOrbit) -> dict[str, bool]:
    """Return which states are angles.

    These have a winding number; for orbits that come without a set.
    """
    winding = orbit.winding or (0,) * len(orbit.states)
    return {name: bool(turns) for name, turns in zip(orbit.states, winding, strict=True)}


def draw_orbit(
    axes: Axes, orbit: PeriodicOrbit, first: str, second: str, on_circle: dict[str, bool], colour: str, label: str
) -> None:
    if orbit.profile is not None:
        curves = []
        for name in (first, second):
            i = orbit.states.index(name)
            turns = 2 * np.pi * (orbit.winding[i] if orbit.winding else 0)
            states = orbit.profile.states[:, i]
            curves.append(np.append(states, states[0] + turns))  # closed
        course = [wrap(c) if on_circle[n] else c for n, c in zip((first, second), curves, strict=True)]
        seam = np.logical_or.reduce([jumps(c) for n, c in zip((first, second), course, strict=True) if on_circle[n]])
        course[0] = np.where(seam, np.nan, course[0])
        axes.plot(course[0], course[1], color=colour, zorder=2)
    draw_points(axes, orbit, first, second, on_circle, ACCENT if orbit.profile is not None else colour, label)


def draw_points(
    axes: Axes, orbit: PeriodicOrbit, first: str, second: str, on_circle: dict[str, bool], colour: str, label: str
) -> None:
    x, y = (
        wrap(orbit.points[:, orbit.states.index(n)]) if on_circle[n] else orbit.points[:, orbit.states.index(n)]
        for n in (first, second)
    )
    axes.plot(x, y, "o", ms=5.5, color=colour, mec="white", mew=0.6, label=label, zorder=3)


def jumps(angle: Array) -> NDArray[np.bool_]:
    """Return where a wrapped angle crosses the seam.

    The flags mark the samples before the crossing.
    """
    return np.append(np.abs(np.diff(angle) - np.diff(unwrap(angle))) > 1.0, False)


def orbit_label(orbit: PeriodicOrbit) -> str:
    return plain(orbit.code) or f"period {len(orbit.points)}"


def orbit_title(orbit: PeriodicOrbit) -> str:
    parts = [f"T = {orbit.period:.6g} s"]
    if orbit.code:
        parts.append(f"code {plain(orbit.code)}")
    if orbit.multipliers is not None:
        parts.append("multipliers " + ", ".join(format_multiplier(complex(m)) for m in orbit.multipliers[:4]))
    if orbit.stability != "unknown":
        parts.append(orbit.stability)
    return "; ".join(parts)


def format_multiplier(value: complex) -> str:
    if abs(value.imag) <= 1e-12 * max(1.0, abs(value)):
        return f"{value.real:.4g}"
    return f"{value.real:.4g}{value.imag:+.4g}i"


def label_axes(axes: Axes, units: Mapping[str, str], on_circle: Mapping[str, bool], first: str, second: str) -> None:
    """Label the axes with names and units.

    Angles are ticked in parts of π.
    """
    axes.set_xlabel(axis_label(first, units.get(first, "") or angle_unit(first, on_circle)))
    axes.set_ylabel(axis_label(second, units.get(second, "") or angle_unit(second, on_circle)))
    marks = np.arange(-2, 3) * np.pi / 2
    names = ["-π", "-π/2", "0", "π/2", "π"]
    if on_circle.get(first):
        axes.set_xlim(-np.pi, np.pi)
        axes.set_xticks(marks, names)
    if on_circle.get(second):
        axes.set_ylim(-np.pi, np.pi)
        axes.set_yticks(marks, names)


def angle_unit(name: str, on_circle: Mapping[str, bool]) -> str:
    """Return rad for angles, rad/s for their rates.

    The text is empty for other names.
    """
    if on_circle.get(name):
        return "rad"
    return "rad/s" if name.endswith("'") and on_circle.get(name[:-1]) else ""
