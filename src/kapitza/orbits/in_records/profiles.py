"""Time profiles of orbits from a dense record.

The closest stretch, where a periodic solver can start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kapitza.base.angles import TURN, turns
from kapitza.data import Record
from kapitza.orbits import OrbitSet, PeriodicOrbit, Profile


def with_profiles(orbits: OrbitSet, record: Record, channels: Sequence[str] | None = None) -> OrbitSet:
    """Attach the closest stretch of the record to orbits.

    A stretch is attached where the record is dense enough to show it.
    Profiles hold the states of the orbits, the requested channels and their delays, and start on the section; they are
    attached when there are at least four samples per period. (Orbits of autonomous records keep the path of the
    recorded channels as `crossings.path_values` instead.)
    """
    names = tuple(channels or record.channels)
    dense = [orbit for orbit in orbits if _length(orbit) >= 4 * len(orbit.points)]
    if not dense or record.period is None:
        return orbits
    values = record.select(names).unwrapped()
    delayed = _with_delays(values, names, dense[0].states)
    if delayed is None:
        return orbits
    return replace(orbits, orbits=tuple(_with_profile(orbit, delayed) for orbit in orbits))


def _with_delays(record: Record, names: tuple[str, ...], states: tuple[str, ...]) -> Record | None:
    """Return the record with one column per state.

    "x(t+7)" is x seven samples later; None where a state is not a delay.
    The last samples of a segment have no later ones: they keep the last value, and no orbit ends there.
    """
    if states == names:
        return record
    whole = record
    for state in states:
        name, _, rest = state.partition("(t+")
        if name not in names or (rest and not rest[:-1].isdigit()):
            return None
        if rest:
            values = record[name].copy()
            for piece in record.segments():
                part = record[name][piece]
                values[piece] = part[np.minimum(np.arange(len(part)) + int(rest[:-1]), len(part) - 1)]
            angle = bool(record.content.channels[name].attrs.get("angle", False))
            whole = whole.with_channel(state, values, record.units[name], angle)
    return whole.select(states)


def _length(orbit: PeriodicOrbit) -> int:
    """Return the number of samples in the stretch."""
    return 0 if orbit.stretch is None else orbit.stretch.last - orbit.stretch.first


def _with_profile(orbit: PeriodicOrbit, record: Record) -> PeriodicOrbit:
    from scipy.interpolate import CubicSpline

    if orbit.stretch is None:
        return orbit
    first, last = orbit.stretch.first, orbit.stretch.last
    states, end = record.values()[first:last], record.values()[last]
    times = record.time[first:last] - record.time[first]
    late = _after_section(orbit, record, first)
    if late > 0:
        # Samples straddle the section: the stretch is read where the section was, one part of a step earlier.
        around = slice(first - 1, last + 1)
        spline = CubicSpline(record.time[around], record.values()[around])
        states, end = spline(record.time[first:last] - late), spline(record.time[last] - late)
    circle = np.asarray(record.angles, bool)
    turned = turns(end - states[0], circle)
    states = states - TURN * turns(states[0] - orbit.points[0], circle)
    # Dense angles know their turns; a strobed guess gives way to them.
    notes = tuple(note for note in orbit.notes if "winding" not in note)
    return orbit.with_(profile=Profile(times, states), winding=tuple(int(t) for t in turned), notes=notes)


def _after_section(orbit: PeriodicOrbit, record: Record, sample: int) -> float:
    """Return the time from section to next sample.

    The time is in seconds; 0 where the sample is on the section.
    """
    if record.period is None or orbit.section_phase is None or sample == 0:
        return 0.0
    late = float(record.time[sample]) - record.excitation_start - orbit.section_phase
    step = float(record.time[sample] - record.time[sample - 1])
    late %= record.period
    return late if 0.02 * step < late < step else 0.0
