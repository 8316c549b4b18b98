"""Time profiles of orbits from a dense record: the closest stretch, where a periodic solver can start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kapitza.data import Record
from kapitza.orbit import OrbitSet, PeriodicOrbit, Profile

Array = NDArray[np.float64]


def with_profiles(orbits: OrbitSet, record: Record, channels: Sequence[str] | None = None) -> OrbitSet:
    """The orbits with the stretch of the record that follows each best, where the record is dense enough to show it.

    Profiles hold the channels asked for; they are attached when these are the states of the orbits.
    """
    names = tuple(channels or record.channels)
    dense = [orbit for orbit in orbits if _length(orbit) >= 8 * len(orbit.points)]
    if not dense or any(orbit.states != names for orbit in dense):
        return orbits
    values = record.select(names).unwrapped()
    return replace(orbits, orbits=tuple(_with_profile(orbit, values) for orbit in orbits))


def _length(orbit: PeriodicOrbit) -> int:
    """Samples in the closest stretch."""
    return int(orbit.details.get("last_sample", 0)) - int(orbit.details.get("sample", 0))


def _with_profile(orbit: PeriodicOrbit, record: Record) -> PeriodicOrbit:
    first, last = int(orbit.details["sample"]), int(orbit.details["last_sample"])
    states = record.values()[first:last]
    times = record.time[first:last] - record.time[first]
    circle = np.asarray(record.angles, bool)
    end = record.values()[last]
    turns = np.where(circle, np.round((end - states[0]) / (2 * np.pi)), 0).astype(int)
    states = states - 2 * np.pi * np.where(circle, np.round((states[0] - orbit.points[0]) / (2 * np.pi)), 0.0)
    # Dense angles know their turns; a strobed guess gives way to them.
    notes = tuple(note for note in orbit.notes if "winding" not in note)
    return orbit.with_(profile=Profile(times, states), winding=tuple(int(t) for t in turns), notes=notes)
