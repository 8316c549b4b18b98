"""Division of time into pieces for the integrator.

Time is cut by periods and by the knots of measured signals.
The accuracy of sin(ωt) is that of t, so time is wrapped by the excitation period: a piece is given in local time,
t = local + origin with a whole number of periods in the origin.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, floor, inf

import numpy as np
import sympy as sp

from kapitza.base.arrays import Array
from kapitza.errors import ModelError
from kapitza.flow.engine import ManyStretches, Stretches
from kapitza.model import Model, Signal, compile_expressions, in_base, symbol

SAME_INSTANT = 1e-12
"""Relative to the period: knots closer than this are one."""


@dataclass
class Piece:
    """A stretch of local time from start to end.

    Time is t = local + origin. turns: whole periods inside the origin.
    stretches: between the knots of measured signals, one or more; None without such signals.
    """

    start: float
    end: float
    origin: float
    turns: int
    stretches: Stretches | None = None

    @property
    def coefficients(self) -> Array | None:
        """Return the run-time values (m,) of the first stretch."""
        return None if self.stretches is None else self.stretches.coefficients[0]

    def cut(self, longest: int) -> Iterator[Piece]:
        """Yield parts of at most `longest` stretches."""
        if self.stretches is None or len(self.stretches.ends) <= longest:
            yield self
            return
        start = self.start
        for first in range(0, len(self.stretches.ends), longest):
            part = self.stretches.part(first, first + longest)
            end = float(part.ends[-1])
            yield Piece(start, end, self.origin, self.turns, part)
            start = end


@dataclass(frozen=True)
class Clock:
    """How time is cut for one set of parameters.

    period: of the excitation, or None. timeless: the equations do not contain t, so each piece starts at zero.
    knots: (K+1,) merged knots of all piecewise-polynomial signals over one period, or over the time in which all are
    known where one has no period; coefficients: (K, m) run-time values on each interval (knot, constant, slope, ...
    of each signal); first: place of these among the run-time parameters.
    """

    period: float | None
    timeless: bool = False
    knots: Array | None = None
    coefficients: Array | None = None
    first: int = 0

    def pieces(self, t0: float, t1: float, longest: float, off_beat: float = 0.0) -> Iterator[Piece]:
        """Cut [t0, t1] into pieces, forwards or backwards.

        A piece has at most `longest` periods; with knots it ends with the period.
        off_beat: periods in the first piece, if other than the rest, so that the later borders have another phase.
        """
        if self.period is None and self.knots is not None:
            yield from self._within_reach(t0, t1)
            return
        if self.period is None:
            origin = t0 if self.timeless else 0.0
            yield Piece(t0 - origin, t1 - origin, origin, 0)
            return
        # sin(ωt) has the accuracy of t: a period started at period 2^20 without wrapping is off by 1.7e-9.
        turns = floor(t0 / self.period)
        local, left = t0 - turns * self.period, t1 - t0
        if self.knots is not None:
            yield from self._between_knots(local, left, turns)
            return
        direction = 1 if left >= 0 else -1
        if 0.0 < off_beat * self.period < abs(left):
            first = direction * off_beat * self.period
            yield Piece(local, local + first, turns * self.period, turns)
            local, left = local + first, left - first
        step = longest * self.period * direction
        while abs(left) > abs(step) * (1 + 1e-9):
            yield Piece(local, local + step, turns * self.period, turns)
            turns += int(longest) if left >= 0 else -int(longest)
            left = t1 - (local + turns * self.period)
        yield Piece(local, local + left, turns * self.period, turns)

    def _within_reach(self, t0: float, t1: float) -> Iterator[Piece]:
        """Yield the piece of nonrepeating signals.

        [t0, t1] is inside the known time of all signals.
        """
        assert self.knots is not None
        assert self.coefficients is not None
        low, high = sorted((t0, t1))
        first = max(int(np.searchsorted(self.knots, low, side="right")) - 1, 0)
        last = max(int(np.searchsorted(self.knots, high, side="left")) - 1, first)
        # Borders that nearly coincide with an end would make pieces of no length.
        near = SAME_INSTANT * float(self.knots[-1] - self.knots[0])
        inner = self.knots[first + 1 : last + 1]
        keep = (inner > low + near) & (inner < high - near)
        borders = np.concatenate([[low], inner[keep], [high]])
        middles = (borders[:-1] + borders[1:]) / 2
        index = np.clip(np.searchsorted(self.knots, middles, side="right") - 1, 0, len(self.coefficients) - 1)
        if t1 < t0:
            borders, index = borders[::-1], index[::-1]
        stretches = Stretches(borders[1:], self.coefficients[index], self.first)
        yield Piece(float(borders[0]), float(borders[-1]), 0.0, 0, stretches)

    def many_within_reach(self, t0: Array, t1: Array) -> ManyStretches:
        """Return the stretches of many runs of nonrepeating signals.

        [t0, t1] (B,) are inside the known time of all signals, t1 not before t0.
        """
        assert self.knots is not None
        assert self.coefficients is not None
        near = SAME_INSTANT * float(self.knots[-1] - self.knots[0])
        # Knots within rounding of an end make no stretch; knots are farther apart than that.
        begin = np.searchsorted(self.knots, t0 + near, side="right")
        counts = np.maximum(np.searchsorted(self.knots, t1 - near, side="left") - begin, 0) + 1
        starts = np.cumsum(counts) - counts
        place = np.arange(counts.sum()) - np.repeat(starts - begin, counts)
        ends = self.knots[np.minimum(place, self.knots.size - 1)]
        ends[starts + counts - 1] = t1
        rows = np.clip(begin - 1, 0, len(self.coefficients) - counts)
        return ManyStretches(ends, counts, rows, self.coefficients, self.first)

    def _between_knots(self, local: float, left: float, turns: int) -> Iterator[Piece]:
        """Yield pieces that end with the period.

        local: time at which they begin; left: time to go, negative backwards; turns: whole periods before.
        """
        assert self.period is not None
        assert self.knots is not None
        assert self.coefficients is not None
        end, sign = local + left, 1 if left >= 0 else -1
        # A knot within rounding of an end does not make a stretch of its own.
        near = SAME_INSTANT * self.period
        last = self.knots.size - 2
        while True:
            if sign > 0:
                first = min(int(np.searchsorted(self.knots, local + near, side="right")) - 1, last)
                index = np.arange(first, max(min(int(np.searchsorted(self.knots, end)) - 1, last), first) + 1)
                ends = self.knots[index + 1]
            else:
                first = max(int(np.searchsorted(self.knots, local - near)) - 1, 0)
                index = np.arange(first, min(max(int(np.searchsorted(self.knots, end, "right")) - 1, 0), first) - 1, -1)
                ends = self.knots[index]
            reached = np.flatnonzero(sign * (end - ends) <= near)
            if reached.size:
                index = index[: reached[0] + 1]
                ends = np.append(ends[: reached[0]], end)
            stretches = Stretches(ends, self.coefficients[index], self.first)
            yield Piece(local, float(ends[-1]), turns * self.period, turns, stretches)
            if reached.size:
                return
            local = 0.0 if sign > 0 else self.period
            end, turns = end - sign * self.period, turns + sign


def merge_signals(signals: tuple[Signal, ...], begin: float, end: float) -> tuple[Array, Array]:
    """Merge the knots of all signals in an interval.

    [begin, end] is one excitation period. Returns the knots (K + 1,) and the run-time values on each interval.
    """
    repeated: list[Array] = []
    for signal in signals:
        every = signal.period or 0.0
        # Without the margin rounding would repeat a signal once too often.
        turns = range(floor(begin / every), ceil(end / every - 1e-9)) if every else (0,)
        repeated += [signal.knots + turn * every for turn in turns]
    knots = np.unique(np.clip(np.concatenate([*repeated, [begin, end]]), begin, end))
    knots = knots[np.append(np.diff(knots) > SAME_INSTANT * (end - begin), True)]
    knots[0], knots[-1] = begin, end
    # A middle is inside one polynomial of every signal; a knot is on the border of two.
    middles = (knots[:-1] + knots[1:]) / 2
    columns: list[Array] = []
    for signal in signals:
        origin = np.floor(middles / signal.period) * signal.period if signal.period else np.zeros_like(middles)
        index = np.searchsorted(signal.knots, middles - origin, side="right") - 1
        index = np.clip(index, 0, signal.knots.size - 2)
        columns.append((signal.knots[index] + origin)[:, None])
        columns.append(signal.coefficients[index])
    return knots, np.concatenate(columns, axis=1)


@lru_cache(maxsize=256)
def _differentiated(
    expression: sp.Expr, wrt: tuple[str, ...], names: tuple[str, ...]
) -> tuple[tuple[sp.Expr, ...], list[int]]:
    """Return slopes of the period and its parameter places.

    Kept, because a flow is made more often than its law changes.
    """
    used = {s.name for s in expression.free_symbols}
    return tuple(sp.diff(expression, symbol(name)) for name in wrt), [i for i, n in enumerate(names) if n in used]


class PeriodLaw:
    """Excitation period T(θ) with its derivatives.

    θ are the independent parameters.
    """

    def __init__(self, model: Model, wrt: tuple[str, ...]):
        self.name, self.expression, self.varies = model.name, None, False
        if model.excitation is None or model.excitation.period is None:
            return
        self.expression = in_base(model, model.excitation.period)
        slopes, self._used = _differentiated(self.expression, wrt, model.names)
        self.varies = any(slope != 0 for slope in slopes)
        self._evaluate = compile_expressions([self.expression, *slopes], (), model.names)
        self._last: tuple[bytes | None, Array] = (None, np.empty(0))

    def __call__(self, vector: Array) -> float | None:
        if self.expression is None:
            return None
        period = float(self._values(vector)[0])
        if not 0 < period < inf:
            raise self._refusal(period)
        return period

    def many(self, vectors: Array) -> Array | None:
        """Return the periods (B,) at rows of parameters.

        vectors: (B, npar).
        """
        if self.expression is None:
            return None
        periods = self._evaluate(np.empty((0, len(vectors))), np.ascontiguousarray(vectors.T))[0]
        bad = ~((periods > 0) & (periods < inf))
        if bad.any():
            raise self._refusal(float(periods[np.argmax(bad)]))
        return periods

    def _refusal(self, period: float) -> ModelError:
        return ModelError(
            f'Model "{self.name}": the excitation period {self.expression} is {period:g}; it must be positive and '
            "finite. Check the parameters in it."
        )

    def slopes(self, vectors: Array) -> Array:
        """Return ∂T/∂θ, (..., k), at vectors (..., npar).

        θ are the parameters of interest.
        """
        if vectors.ndim == 1:
            return self._values(vectors)[1:]
        return self._evaluate(np.empty((0, len(vectors))), np.ascontiguousarray(vectors.T))[1:].T

    def _values(self, vector: Array) -> Array:
        # Thousands of runs in a row have the same period, while other parameters change.
        key = vector[self._used].tobytes()
        known, result = self._last  # read at once: another thread may put its own here
        if known != key:
            result = self._evaluate(np.empty((0, 1)), vector)[:, 0]
            self._last = key, result
        return result
