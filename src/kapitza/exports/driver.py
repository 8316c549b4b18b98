"""Integrate motion with events by SciPy.

The part of an exported Python file that is the same for all models.
The text of this module is written into every file; it uses NumPy and SciPy alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.integrate import DOP853
from scipy.optimize import brentq

# --- driver: from here on the text is written into exported files ---

NEAR = 1e-12
"""A surface this close to zero, relative to the states, may still be the one that was just left."""

LOST = 1e-8
"""A surface just left that is this far on the wrong side was not left at all: the motion is refused."""

zero: Callable[..., Any] = brentq

HALVES = 0.5 ** np.arange(1, 21)
"""Where in a step a surface just left is looked for on its new side."""


class Functions(NamedTuple):
    """Hold the functions of a model.

    The numbers of its switches and walls are held too.
    """

    rates: Callable[..., Any]
    surfaces: Callable[..., Any]
    reset: Callable[..., Any]
    drives: Callable[..., Any]
    can_stick: tuple[bool, ...]
    can_vanish: tuple[bool, ...]
    walls: tuple[str, ...]
    knots: Any
    repeats: bool
    longest_step: float


class Motion:
    """Integrate motion between events.

    Modes of the switches, which of them stick, which surfaces were just left.
    """

    def __init__(self, functions: Functions, parameters: Any, tolerance: float):
        self.f, self.p, self.tolerance = functions, parameters, tolerance
        self.count = len(functions.can_stick)
        self.modes = np.ones(self.count)
        self.stuck = np.zeros(self.count, bool)
        self.held = np.zeros(self.count)
        self.left: set[int] = set()
        self.at = 0.0

    def rates(self, t: float, x: Any) -> Any:
        """Return the rates of the states.

        Those of stuck switches keep s = 0.
        """
        u, du = self.f.drives(t, self.at)
        if not self.stuck.any():
            return self.f.rates(t, x, u, self.p, self.modes)
        held = np.flatnonzero(self.stuck)
        modes = np.where(self.stuck, 1.0, self.modes)
        base = self.f.rates(t, x, u, self.p, modes)
        slope = self.f.surfaces(t, x, u, du, self.p, modes, base)[self.count : 2 * self.count][held]
        halves, gains = np.empty((held.size, base.size)), np.empty((held.size, held.size))
        for j, i in enumerate(held):
            modes[i] = -1.0
            other = self.f.rates(t, x, u, self.p, modes)
            halves[j] = (base - other) / 2
            gains[:, j] = (slope - self.f.surfaces(t, x, u, du, self.p, modes, other)[self.count + held]) / 2
            modes[i] = 1.0
        change = np.linalg.solve(gains, -slope)
        self.held[held] = 1.0 + change
        return base + change @ halves

    def surfaces(self, t: float, x: Any) -> tuple[Any, Any, Any]:
        """Return surfaces, their rates and watched functions.

        Returned are switching functions and walls, their rates along the motion, and the functions watched for a fall
        to zero.
        """
        n = self.count
        rates = self.rates(t, x)
        u, du = self.f.drives(t, self.at)
        modes = np.where(self.stuck, self.held, self.modes)
        found = self.f.surfaces(t, x, u, du, self.p, modes, rates)
        walls = (found.size - 2 * n) // 2
        values = np.append(found[:n], found[2 * n : 2 * n + walls])
        slopes = np.append(found[n : 2 * n], found[2 * n + walls :])
        signs = np.append(self.modes, np.ones(walls))
        watched = np.where(signs == 0.0, 1.0, signs * values)
        watched[:n] = np.where(self.stuck, 1.0 - np.abs(self.held), watched[:n])
        return values, signs * slopes, watched

    def sides(self, t: float, x: Any, switch: int) -> tuple[float, float]:
        """Return a switching function's rates.

        The mode is +1 in the first and -1 in the second.
        """
        was, stuck = self.modes[switch], self.stuck[switch]
        self.stuck[switch] = False
        found = []
        for side in (1.0, -1.0):
            self.modes[switch] = side
            found.append(float(self.surfaces(t, x)[1][switch]) * side)
        self.modes[switch], self.stuck[switch] = was, stuck
        return found[0], found[1]

    def begin(self, t: float, x: Any) -> None:
        """Modes at the first instant."""
        scale = NEAR * (1.0 + float(np.abs(x).max()))
        for i in range(self.count):
            value = float(self.surfaces(t, x)[0][i])
            if abs(value) > scale:
                self.modes[i] = np.sign(value)
                continue
            above, below = self.sides(t, x, i)
            if self.f.can_stick[i] and above < 0.0 < below:
                self.stuck[i] = True
            else:
                self.left.add(i)
                self.modes[i] = 1.0 if above > 0.0 or (above == 0.0 and below >= 0.0) else -1.0
        self.settle(t, x)

    def settle(self, t: float, x: Any) -> None:
        """Settle modes that follow from others.

        These are releases, functions that jumped with a mode inside, and functions that vanish.
        """
        scale = NEAR * (1.0 + float(np.abs(x).max()))
        for _ in range(4 * self.count + 4):
            values, slopes, _ = self.surfaces(t, x)
            for i in range(self.count):
                value = float(values[i])
                if self.stuck[i]:
                    if abs(self.held[i]) <= 1.0 + NEAR and abs(value) <= LOST * (1.0 + float(np.abs(x).max())):
                        continue
                    self.stuck[i], self.modes[i] = False, np.sign(self.held[i])
                    self.left.add(i)
                    break
                if self.f.can_vanish[i] and value == 0.0 and slopes[i] == 0.0 and self.sides(t, x, i) == (0.0, 0.0):
                    if self.modes[i] != 0.0:
                        self.modes[i] = 0.0
                        break
                elif self.modes[i] == 0.0:
                    self.modes[i] = np.sign(value) or (1.0 if self.sides(t, x, i)[0] > 0.0 else -1.0)
                    break
                elif self.modes[i] * value < -scale:
                    self.modes[i] = np.sign(value)
                    break
            else:
                return
        raise ArithmeticError(f"The modes of the switches do not settle at t = {t:.9g}.")

    def happen(self, surface: int, t: float, x: Any) -> Any:
        """The state after an event."""
        i = surface
        if i >= self.count:
            return self._impact(i, t, x)
        if self.stuck[i]:
            self.stuck[i], self.modes[i] = False, np.sign(self.held[i])
        else:
            above, below = self.sides(t, x, i) if self.f.can_stick[i] else (1.0, 1.0)
            if above < 0.0 < below:
                self.stuck[i] = True
            else:
                self.modes[i] = -self.modes[i]
        # What sticks is watched by its control, which does not start at zero.
        self.left = self.left - {i} if self.stuck[i] else self.left | {i}
        self.settle(t, x)
        return x

    def _impact(self, i: int, t: float, x: Any) -> Any:
        u, _ = self.f.drives(t, self.at)
        before = float(self.surfaces(t, x)[1][i])
        x = np.array(self.f.reset(i - self.count, t, x, u, self.p, self.modes), float)
        after = float(self.surfaces(t, x)[1][i])
        if after <= 1e-9 * (1.0 + abs(before)):
            name = self.f.walls[i - self.count]
            raise ArithmeticError(f"Impacts at {name} die out at t = {t:.9g}: lasting contact is not exported.")
        self.left.add(i)
        self.settle(t, x)
        return x

    def first_event(self, dense: Any, start: float, end: float, before: Any) -> tuple[float, int] | None:
        """Return the first event in a step.

        It is the time and number of the first surface that falls through zero.
        """
        _, slopes, after = self.surfaces(end, dense(end))

        def value(t: float, i: int) -> float:
            return float(self.surfaces(t, dense(t))[2][i])

        def slope(t: float, i: int) -> float:
            return float(self.surfaces(t, dense(t))[1][i])

        found = []
        for i in np.flatnonzero((after < 0.0) | ((before[1] < 0.0) & (slopes > 0.0))).tolist():
            low, high = start, end
            if i in self.left:
                low = next((t for t in start + (end - start) * HALVES if value(t, i) > 0.0), np.nan)
                if np.isnan(low):
                    if after[i] < -LOST * (1.0 + float(np.abs(dense(end)).max())):
                        raise ArithmeticError(f"Surface {i + 1} was lost at t = {start:.9g}; use a smaller tolerance.")
                    continue
            elif before[2][i] <= 0.0:
                if after[i] < 0.0:
                    found.append((start, i))
                continue
            if after[i] >= 0.0:
                # A dip within the step: its lowest point is where the slope changes sign.
                if (i < self.count and self.stuck[i]) or slope(low, i) >= 0.0:
                    continue
                high = float(zero(slope, low, high, args=(i,), xtol=1e-14))
                if value(high, i) >= 0.0:
                    continue
            found.append((float(zero(value, low, high, args=(i,), xtol=1e-15, rtol=1e-15)), i))
        return min(found) if found else None


def run(functions: Functions, times: Any, x0: Any, parameters: Any, tolerance: float) -> Any:
    """Return states (N, n) at times (N,).

    The times increase; the motion begins at x0 at the first of them.
    """
    times, x = np.asarray(times, float), np.array(x0, float)
    motion = Motion(functions, parameters, tolerance)
    states = np.empty((times.size, x.size))
    states[0], done, t = x, 1, float(times[0])
    motion.at = just_after(functions, t)
    motion.begin(t, x)
    while done < times.size:
        stop = min(next_knot(functions, t), float(times[-1]))
        if stop - t > 0.0:
            motion.at = (t + stop) / 2
        t, x, done = _piece(motion, t, x, stop, (times, states, done))
        if t >= stop:
            motion.left.clear()
            if functions.can_stick:
                motion.at = just_after(functions, t)
                motion.settle(t, x)
    return states


def next_knot(functions: Functions, t: float) -> float:
    """Return the first knot after t.

    The knots (K+1,) are those of the measured drives, from 0 to their common period. Where they do not repeat there is
    none after the last.
    """
    knots = functions.knots
    if knots is None:
        return float(np.inf)
    if not functions.repeats:
        at = int(np.searchsorted(knots, t + 1e-12 * float(knots[-1] - knots[0]), side="right"))
        return float(knots[at]) if at < len(knots) else float(np.inf)
    period = float(knots[-1])
    turns = np.floor(t / period)
    local, near = t - turns * period, 1e-12 * period
    at = int(np.searchsorted(knots, local + near, side="right"))
    return float(knots[at] + turns * period) if at < len(knots) else float(knots[1] + (turns + 1) * period)


def just_after(functions: Functions, t: float) -> float:
    """A time shortly after t, before the next knot."""
    knot = next_knot(functions, t)
    return t + 1e-3 * (knot - t) if np.isfinite(knot) else t


def _piece(motion: Motion, t: float, x: Any, stop: float, out: tuple[Any, Any, int]) -> tuple[float, Any, int]:
    """Integrate to the next event or `stop`.

    The samples that are passed are filled in.
    """
    times, states, done = out
    longest = min(motion.f.longest_step, stop - t)
    solver = DOP853(motion.rates, t, x, stop, rtol=motion.tolerance, atol=motion.tolerance, max_step=longest)
    before = motion.surfaces(t, x)
    while solver.status == "running":
        message = solver.step()
        if solver.status == "failed":
            raise ArithmeticError(f"Integration stopped at t = {solver.t:.9g}: {message}")
        start, end, dense = float(solver.t_old or t), float(solver.t), solver.dense_output()
        event = motion.first_event(dense, start, end, before) if before[2].size else None
        reached = end if event is None else event[0]
        passed = int(np.searchsorted(times, reached, side="right"))
        if passed > done:
            states[done:passed] = dense(times[done:passed]).T
            done = passed
        if event is not None:
            return reached, motion.happen(event[1], reached, np.array(dense(reached))), done
        before = motion.surfaces(end, np.asarray(solver.y))
        scale = NEAR * (1.0 + float(np.abs(solver.y).max()))
        motion.left = {i for i in motion.left if before[2][i] <= scale}
    return stop, np.array(solver.y), done
