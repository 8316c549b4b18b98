"""Stretches of a record that nearly close after whole excitation periods, as the document takes them (HARMONIC 24).

`kz.ReturnSearch` is the search to use: it also asks how many such returns chance gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza.base.angles import turns, unwrap_states, wrap_states
from kapitza.data import Record
from kapitza.errors import DataError
from kapitza.orbits import OrbitSet, PeriodicOrbit, Profile, Stretch

Array = NDArray[Any]

CANDIDATES = 400
"""Returns looked at per period, closest first."""


def close_stretches(
    record: Record,
    tolerance: float = 0.05,
    max_period: int = 15,
    delay: int | None = None,
    channels: Sequence[str] | None = None,
    most: int = 200,
    closest_first: bool = True,
) -> OrbitSet:
    """Orbits as the raw stretches that return within `tolerance` after k periods, one per distinct orbit.

    Every channel s(t) and its delayed copy s(t + delay) must satisfy |s(t) - s(t + kT)| < tolerance x size, the size
    being 2π for angles and the range for others. delay: in samples, a quarter of the period when left out.
    The profile of an orbit is the stretch itself, unchanged; `stretch` holds its first sample, the first one after it
    and the model time at its beginning; the set keeps the record as its source. most: so many orbits at most, per
    period the closest returns first, or (closest_first=False) in the order of the record.
    """
    names = tuple(channels or record.channels)
    if record.period is None:
        raise DataError(
            "The record has no excitation period: set it, so that returns after whole periods can be found."
        )
    step = float(np.median(np.diff(record.time)))
    per_period = round(record.period / step)
    if abs(per_period * step - record.period) > 1e-3 * step * per_period:
        raise DataError(
            f"The period {record.period:.6g} is not a whole number of sampling intervals ({record.period / step:.4f}): "
            "resample the record first."
        )
    shift = per_period // 4 if delay is None else delay
    values, angle = record.values(names), np.array([record.angles[record.channels.index(n)] for n in names])
    size = np.where(angle, 2 * np.pi, np.ptp(values, axis=0))
    search = _Search(values, angle, size, record.segments(), per_period, shift)
    found: list[PeriodicOrbit] = []
    codes: dict[int, list[Array]] = {}
    for period in range(1, max_period + 1):
        for start, closure in search.candidates(period, tolerance, closest_first):
            strobe = search.strobe(start, period)
            if any(search.same(strobe, np.array(known), tolerance) for p, known in codes.items() if period % p == 0):
                continue
            codes.setdefault(period, []).append(strobe)
            stretch = search.stretch(start, period)
            found.append(
                PeriodicOrbit(
                    states=names,
                    points=strobe[:, : len(names)],
                    period=period * record.period,
                    repeats=period,
                    winding=search.winding(start, period),
                    closure=closure,
                    profile=Profile(np.asarray(np.arange(len(stretch)) * step, np.float64), stretch),
                    visits=1,
                    method="close return",
                    stretch=Stretch(
                        start, start + len(stretch), start=float(record.time[start]) - record.excitation_start
                    ),
                )
            )
            if len(found) >= most:
                return OrbitSet(tuple(found), tuple(angle.tolist()), source=record)
    return OrbitSet(tuple(found), tuple(angle.tolist()), source=record)


class _Search:
    """Distances between a record and itself k periods later."""

    def __init__(self, values, angle, size, segments, per_period: int, shift: int):
        self.angle, self.size, self.per_period, self.shift = angle, size, per_period, shift
        self.values = values
        self.label = np.concatenate([np.full(s.stop - s.start, i) for i, s in enumerate(segments)])

    def gap(self, difference: Array) -> Array:
        return np.abs(wrap_states(difference, self.angle) / self.size).max(axis=-1)

    def candidates(self, period: int, tolerance: float, closest_first: bool) -> list[tuple[int, float]]:
        """Starts whose return is the closest within its own period of the record."""
        lag = period * self.per_period
        usable = len(self.values) - lag - self.shift
        if usable <= 0:
            return []
        now = self.gap(self.values[:usable] - self.values[lag : lag + usable])
        later = self.gap(
            self.values[self.shift : self.shift + usable] - self.values[lag + self.shift : lag + self.shift + usable]
        )
        distance = np.maximum(now, later)
        distance[self.label[:usable] != self.label[lag + self.shift : lag + self.shift + usable]] = np.inf
        blocks = distance[: usable // self.per_period * self.per_period].reshape(-1, self.per_period)
        best = blocks.argmin(axis=1)
        starts = best + self.per_period * np.arange(len(blocks))
        good = starts[distance[starts] < tolerance]
        if closest_first:
            good = good[np.argsort(distance[good])]
        return [(int(i), float(distance[i])) for i in good[:CANDIDATES]]

    def strobe(self, start: int, period: int) -> Array:
        """(k, 2 c) the stretch once per period at the phase of the record's first sample, with its delayed copy."""
        first = -(-start // self.per_period) * self.per_period
        index = (first + np.arange(period) * self.per_period) % len(self.values)
        delayed = np.minimum(index + self.shift, len(self.values) - 1)
        return np.hstack([self.values[index], self.values[delayed]])

    def stretch(self, start: int, period: int) -> Array:
        return unwrap_states(self.values[start : start + period * self.per_period], self.angle)

    def winding(self, start: int, period: int) -> tuple[int, ...]:
        piece = unwrap_states(self.values[start : start + period * self.per_period + 1], self.angle)
        return tuple(int(t) for t in turns(piece[-1] - piece[0], self.angle))

    def same(self, strobe: Array, known: Array, tolerance: float) -> bool:
        """Whether a stretch visits the points of one of the known orbits (o, q, 2 c), q dividing its own period.

        All starting points are tried at once; three times the tolerance of a return counts as the same.
        """
        repeated = np.tile(known, (1, len(strobe) // known.shape[1], 1))
        turned = np.stack([np.roll(repeated, turn, axis=1) for turn in range(known.shape[1])])
        count = len(self.size)
        difference = (turned - strobe).reshape(*turned.shape[:-1], 2, count)
        return bool((self.gap(difference).max(axis=(-1, -2)) < 3.0 * tolerance).any())
