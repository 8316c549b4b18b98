"""States of an orbit that sensors measure partly.

The states come from samples where these show them, else from the model's orbits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from kapitza.base.angles import unwrap
from kapitza.base.arrays import Array
from kapitza.base.cures import Code, Fit
from kapitza.errors import DataError, KapitzaError
from kapitza.flow import Flow
from kapitza.model import Model
from kapitza.orbits import Loop, PeriodicOrbit
from kapitza.orbits.of_models.solve_orbit import solve_orbit
from kapitza.solve import Halving, Outcome, walk_to

SOLVABLE = 24
"""Parameter sets tried to find one at which the model has the requested orbit."""


SIZES = (0.0, 0.3, 0.3, 1.0, 1.0, 0.1)
"""Hidden states from which the model is followed, in units of the spread of the measured states."""

SETTLING = 20
"""Periods for which it is followed."""

TURNS = 64
"""Points of a free orbit at which it may begin."""

WALKS = 3
"""Continuations from solvable cases before the nearest of their orbits is taken."""


def folded_states(
    setting: Model, channels: Mapping[str, Array], angles: Mapping[str, bool], times: Array, grid: Array, period: float,
    count: int, free: Sequence[str], starts: Sequence[Any] = (),
) -> Array:  # fmt: skip
    """Return the states of a folded motion.

    States (J, n) at the instants `grid` of a motion whose samples were folded into one period.
    Measured states and their rates come from a Fourier series through the samples; unmeasured states come from an
    orbit of the model.
    """
    start = np.zeros((grid.size, len(setting.states)))
    hidden = []
    for i, name in enumerate(setting.states):
        base = name.rstrip("'")
        if name in channels:
            start[:, i] = _folded(times, channels[name], angles.get(name, False), period, count, grid, 0)
        elif base in channels and name == base + "'":
            start[:, i] = _folded(times, channels[base], angles.get(base, False), period, count, grid, 1)
        else:
            hidden.append(i)
    if hidden:
        seen = [i for i in range(len(setting.states)) if i not in hidden]
        start[:, hidden] = hidden_states(setting, count, period, grid, start, seen, free, starts)[:, hidden]
    return start


def _folded(times: Array, values: Array, angle: bool, period: float, count: int, grid: Array, order: int) -> Array:
    """Return a folded channel or its rate.

    A Fourier series, with the number of harmonics of least AIC, is evaluated on the grid.
    """
    rows = np.argsort(times, kind="stable")
    t, y = times[rows], values[rows]
    turns = 0.0
    if angle:
        y = unwrap(y)
        turns = np.round((y[-1] - y[0]) / (2 * np.pi) * period / max(t[-1] - t[0], 1e-300)) if t.size > 3 else 0.0
    y = y - 2 * np.pi * turns * t / period
    # At least three samples for each pair of coefficients.
    most = int(min(12 * count, (t.size - 2) // 3))
    best: tuple[float, Array] | None = None
    for harmonics in range(0, max(most, 0) + 1):
        columns = _harmonics(t, period, harmonics, 0)
        solved = np.linalg.lstsq(columns, y, rcond=None)[0]
        rest = float(((y - columns @ solved) ** 2).sum()) + 1e-28 * float((y**2).sum()) + 1e-300
        # Corrected AIC: with few samples the plain criterion chooses too many harmonics.
        score = float(t.size * np.log(rest) + 2 * columns.shape[1] * t.size / max(t.size - columns.shape[1] - 1, 1))
        if best is None or score < best[0]:
            best = (score, np.asarray(solved, np.float64))
    assert best is not None
    result = _harmonics(grid, period, (best[1].size - 1) // 2, order) @ best[1]
    return result + 2 * np.pi * turns / period * (grid if order == 0 else np.ones_like(grid))


def _harmonics(t: Array, period: float, count: int, order: int) -> Array:
    """Return columns 1, cos, sin, … or their derivatives."""
    rate = 2 * np.pi / period * np.arange(1, count + 1)
    phase = np.multiply.outer(t, rate) + order * np.pi / 2
    constant = np.full((t.size, 1), 0.0 if order else 1.0)
    return np.hstack([constant, rate**order * np.cos(phase), rate**order * np.sin(phase)])


def hidden_states(
    setting: Model, repeats: int | None, period: float, grid: Array, near: Array, seen: Sequence[int],
    free: Sequence[str], starts: Sequence[Any] = (),
) -> Array:  # fmt: skip
    """Return the model's orbit closest to measured states.

    The result (J, n) on the grid is closest to the states `seen` in `near` (J, n).
    Tried in turn are the orbits (or states) given by `starts`, the orbit near the model's start, the motion it settles
    on, orbits on which runs from the measured states settle, and, where the model has none of these at the starting
    values, parameter continuation from a case that can be solved. A free motion may begin anywhere on its orbit: it is
    shifted to where it comes closest to the measured states.
    """
    best: tuple[float, Array] | None = None
    wanted = period if setting.period is None else repeats
    every = chain(
        _given(setting, starts, wanted),
        _orbits_of(setting, wanted),
        _followed(setting, wanted, period, near, seen),
        (loop_of(orbit) for orbit in continued(setting, wanted, free)),
    )
    for loop in every:
        states = _turned(loop, grid / period, near, seen) if setting.period is None else loop(grid / period)
        gap = float(np.abs(states[:, seen] - near[:, seen]).max(initial=0.0))
        if best is None or gap < best[0]:
            best = (gap, states)
        if not seen or gap <= 0.3 * float(np.ptp(near[:, seen], axis=0).max(initial=0.0)):
            break
    if best is None:
        raise DataError(
            f"The data do not give every state of {setting.name}, and no orbit of the model could be found to start "
            f"from, neither at its starting values nor by continuation from {SOLVABLE} others. Give one by "
            f"{Fit('orbits', start_orbits=Code('[solve_orbit(model, state)]'))}, change the starting values, or "
            "measure the missing states."
        )
    return best[1]


def _given(setting: Model, starts: Sequence[Any], wanted: float | None) -> Iterator[Loop]:
    """Return orbits near given orbits or states."""
    for start in starts:
        if isinstance(start, PeriodicOrbit) and start.loop is not None:
            yield start.loop
        else:
            state = setting.state(start) if isinstance(start, Mapping) else start
            near = _solved(setting, state, wanted)
            if near is not None:
                yield loop_of(near)


def _followed(setting: Model, wanted: float | None, period: float, near: Array, seen: Sequence[int]) -> Iterator[Loop]:
    """Return orbits that the model settles on.

    Runs start at the measured states, with hidden states of several sizes and both signs.
    """
    if not seen:
        return
    hidden = [i for i in range(near.shape[1]) if i not in seen]
    size = float(np.ptp(near[:, seen], axis=0).max(initial=0.0)) or 1.0
    flow, rng = Flow(setting), np.random.default_rng(0)
    for factor in SIZES:
        state = near[0].copy()
        state[hidden] = factor * size * rng.choice([-1.0, 1.0], len(hidden)) if factor else 0.0
        try:
            settled = flow.propagate(state, 0.0, SETTLING * period, tangents=False).state
        except KapitzaError:
            continue
        if not np.isfinite(settled).all():
            continue
        orbit = _solved(setting, settled, wanted)
        if orbit is not None:
            yield loop_of(orbit)


def _turned(loop: Loop, fractions: Array, near: Array, seen: Sequence[int]) -> Array:
    """Return the loop shifted closest to measured states.

    The shift minimises the distance to the states `seen` in `near` (J, n).
    """
    if not seen:
        return loop(fractions)
    best: tuple[float, Array] | None = None
    for begin in np.arange(TURNS) / TURNS:
        ahead = fractions + begin
        states = loop(ahead % 1.0) + 2 * np.pi * np.asarray(loop.winding) * np.floor(ahead)[:, None]
        gap = float(((states[:, seen] - near[:, seen]) ** 2).sum())
        if best is None or gap < best[0]:
            best = (gap, states)
    assert best is not None
    return best[1]


def _orbits_of(setting: Model, wanted: float | None) -> Iterator[Loop]:
    if setting.start:
        near = _solved(setting, setting.state(), wanted)
        if near is not None:
            yield loop_of(near)
    settled = _solved(setting, None, wanted)
    if settled is not None:
        yield loop_of(settled)


def loop_of(orbit: PeriodicOrbit) -> Loop:
    """Return the curve that a solver found.

    Orbits found in data have none.
    """
    if orbit.loop is None:
        raise KapitzaError("An orbit without its curve cannot start a fit: solve it with solve_orbit first.")
    return orbit.loop


def continued(setting: Model, wanted: float | None, free: Sequence[str]) -> Iterator[PeriodicOrbit]:
    """Continue orbits from solvable parameter values.

    They are continued towards the values of `setting`.
    Each continuation goes straight, with steps that halve on failure and grow on success; where the orbit ends on the
    way (a fold), its last member is returned: near enough to start a fit in which the parameters move anyway.
    """
    from scipy.stats import qmc

    goal = np.array([setting.values[name] for name in free])
    size = np.where(goal != 0, goal, 0.1)
    low, high = np.array([setting.parameter(name).bounds for name in free]).T
    shape = qmc.Sobol(goal.size, rng=np.random.default_rng(0)).random(1 << (SOLVABLE - 1).bit_length())[:SOLVABLE]
    # From small changes to a factor of three: the nearest solvable case comes first.
    shape = shape[np.argsort(np.abs(shape - 0.5).max(axis=1), kind="stable")]
    points = size * 3.0 ** (2 * shape - 1)
    if (goal < 0).any():
        # A motion that cannot settle often has a damping of the wrong sign.
        points = np.concatenate([np.abs(points[::2]), points[1::2]])
    given = 0
    for theta in np.clip(points, low, high):
        orbit = _solved(_at(setting, free, theta), None, wanted)
        if orbit is not None:
            yield _walk(setting, free, theta, goal, orbit, wanted)
            given += 1
        if given == WALKS:
            return


def _walk(
    setting: Model, free: Sequence[str], begin: Array, goal: Array, orbit: PeriodicOrbit, wanted: float | None
) -> PeriodicOrbit:
    def attempt(last: PeriodicOrbit, ahead: float) -> Outcome[PeriodicOrbit]:
        return Outcome(_solved(_at(setting, free, begin + ahead * (goal - begin)), last, wanted))

    return walk_to(orbit, attempt, Halving(0.25, 0.03))[0]


def _at(setting: Model, free: Sequence[str], theta: Array) -> Model:
    return setting.with_values(**dict(zip(free, theta.tolist(), strict=True)))


def _solved(setting: Model, guess: object, wanted: float | None) -> PeriodicOrbit | None:
    try:
        orbit = solve_orbit(setting, guess, wanted, throw=False, profile=False)
    except KapitzaError:
        return None
    return orbit if orbit.status.ok else None
