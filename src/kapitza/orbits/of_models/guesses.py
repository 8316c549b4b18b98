"""Conversion of any guess to a closed curve.

A guess is an orbit, a record, samples, a Fourier series, a point, or nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from kapitza.base import checks
from kapitza.base.angles import difference, turns, unwrap, unwrap_states
from kapitza.base.argument_checks import Check
from kapitza.base.arrays import Array
from kapitza.base.cures import IDENTIFY, Give
from kapitza.base.lazy_fields import to_come
from kapitza.errors import ConvergenceError, DataError, FlowError, Status
from kapitza.orbits import Loop, PeriodicOrbit
from kapitza.orbits.of_models.loop import (
    FlowLoop,
    FourierSeries,
    PiecewiseLoop,
    SampledLoop,
    as_point,
    fourier_series,
)
from kapitza.orbits.of_models.problem import SIZE_GRID, Problem

if TYPE_CHECKING:
    from kapitza.data import Record


TRANSIENT, PIECE = 300, 32
"""Excitation periods (or guessed periods) that a start from nothing lets pass before it looks for a return, and periods
after which it looks whether the motion grows."""

GROWN = 1e3
"""Largest size of a motion, in that of its first periods and at least 1, up to which it is followed: one that leaves an
unstable rest by a hair reaches its attractor."""


Guess = Annotated[Any, Check("an orbit, a Record, a state or states", lambda value: True, lambda what, value: value)]
"""A start for an orbit; `loop_from` lists the types."""


def loop_from(problem: Problem, guess: Guess) -> Loop:
    """Return a loop from a guess.

    Its period is that of the problem (forced) or of the guess (autonomous).
    """
    if guess is None:
        return _from_nothing(problem)
    if isinstance(guess, PeriodicOrbit):
        return _from_orbit(problem, guess)
    if isinstance(guess, (FourierSeries, SampledLoop, PiecewiseLoop, FlowLoop)):
        return guess
    if not isinstance(guess, (np.ndarray, list, tuple, Mapping)):
        # Loaded here: workers of a census, which never see a record, start in half the time without it.
        from kapitza.data import Record

        if isinstance(guess, Record):
            return _from_record(problem, guess)
    if isinstance(guess, Mapping):
        return _from_points(problem, as_point(problem.model.states, guess)[None])
    samples = checks.array("The guess", guess, error=DataError)
    if not np.isfinite(samples).all():
        raise DataError("The guess holds values that are not finite.")
    if samples.shape == (len(problem.model.states),):
        return _from_points(problem, samples[None])
    if samples.ndim == 2 and samples.shape[1] == len(problem.model.states):
        if samples.shape[0] == (problem.repeats or 1):
            return _from_points(problem, samples)
        return _from_samples(problem, samples)
    raise DataError(
        f"A guess of shape {samples.shape} does not fit the states {problem.model.states}: give one state, or rows of "
        "states equally spaced over the period."
    )


def _from_points(problem: Problem, points: Array) -> FlowLoop:
    """Join section points by the flow.

    Angles are made continuous along it.
    """
    count = points.shape[0]
    if count == 1:
        return _from_point(problem, points)
    nodes = points.copy()
    step = problem.period / count
    winding = np.zeros(points.shape[1])
    if problem.angles.any():
        begins = np.arange(count) * step
        ends = problem.flow.propagate_many(points, begins, begins + step, problem.parameters, throw=False).state
        ends = np.where(np.isfinite(ends), ends, points)
        for k in range(1, count):
            gap = difference(points[k], ends[k - 1], problem.angles)
            nodes[k] = nodes[k - 1] + (ends[k - 1] - points[k - 1]) + gap
        last = nodes[-1] + (ends[-1] - points[-1]) - nodes[0]
        winding = turns(last, problem.angles)
    return FlowLoop(problem.flow, np.arange(count) / count, nodes, problem.period, problem.parameters, winding)


def _from_point(problem: Problem, point: Array) -> FlowLoop:
    """Return the flow from one point (1, n).

    Its turns are counted when a method needs them.
    """

    def counted() -> Array:
        try:
            # One run also gives the sizes, which the same methods need.
            loop.visit(np.append(SIZE_GRID, 1.0))
        except FlowError:
            return np.zeros(point.size)
        return turns(loop(np.ones(1))[0] - point[0], problem.angles)

    winding = to_come(counted) if problem.angles.any() else np.zeros(point.size)
    loop = FlowLoop(problem.flow, np.zeros(1), point.copy(), problem.period, problem.parameters, winding)
    return loop


def _from_samples(problem: Problem, samples: Array) -> Loop:
    """Return a loop through equidistant samples, angles unwrapped."""
    angles = problem.angles
    samples = unwrap_states(samples, angles)
    closing = samples[-1] - samples[0]
    winding = turns(closing * samples.shape[0] / max(samples.shape[0] - 1, 1), angles)
    # A Fourier series through so few samples holds at most one harmonic.
    if samples.shape[0] < 4:
        return SampledLoop(np.arange(samples.shape[0]) / samples.shape[0], samples, problem.period, winding)
    return fourier_series(samples, problem.period, winding)


def _from_orbit(problem: Problem, orbit: PeriodicOrbit) -> Loop:
    if orbit.states != problem.model.states:
        return _from_measured_path(problem, orbit)
    loop = orbit.loop
    same = orbit.repeats == problem.repeats
    if loop is not None and same:
        return with_period(loop, problem, orbit.period)
    if same and orbit.points.shape[0] == (problem.repeats or 1):
        return _from_points(_at_period(problem, orbit.period), _at_phase_zero(problem, orbit))
    if orbit.profile is not None and same:
        winding = np.array(orbit.winding or np.zeros(len(orbit.states)), float)
        period = orbit.period if problem.autonomous else problem.period
        return SampledLoop(orbit.profile.times / orbit.period, orbit.profile.states, period, winding)
    if problem.repeats and orbit.repeats and problem.repeats % orbit.repeats == 0:
        points = _at_phase_zero(problem, orbit)
        return _from_points(problem, np.tile(points, (problem.repeats // orbit.repeats, 1)))
    raise DataError(
        f"The guess repeats after {orbit.repeats} excitation periods, the requested orbit after {problem.repeats}."
    )


def _at_phase_zero(problem: Problem, orbit: PeriodicOrbit) -> Array:
    """Return points at the start of the excitation period.

    Orbits found in data may be on another section; `orbit.section_phase` gives its phase.
    The model carries the points to the nearer start of a period.
    """
    points = np.asarray(orbit.points, float)
    late = orbit.section_phase or 0.0
    excitation = problem.model.period
    if excitation is None or min(late % excitation, -late % excitation) < 1e-9 * excitation:
        return points
    late %= excitation
    ahead = late > 0.5 * excitation
    begin = late + excitation * np.arange(len(points))
    end = excitation * (np.arange(len(points)) + float(ahead))
    moved = problem.flow.propagate_many(points, begin, end, problem.parameters, throw=False).state
    if not np.isfinite(moved).all():
        raise DataError(
            f"The guess lies {late:.6g} s after the start of the excitation period, and the model cannot carry it to "
            f"the start: cut the record at {Give(phase=0)}."
        )
    return np.roll(moved, 1, axis=0) if ahead else moved


def _from_measured_path(problem: Problem, orbit: PeriodicOrbit) -> Loop:
    """Return the measured path along an orbit.

    The path is that of the recorded channels of an autonomous record, whose section has separate coordinates.
    """
    states = problem.model.states
    known = list(orbit.crossings.channels) if orbit.crossings else []
    if orbit.crossings is None or not problem.autonomous or not set(states) <= set(known):
        recorded = f", recorded were {tuple(known)}" if known else ""
        raise DataError(
            f"The guess has the states {orbit.states}{recorded}; the model has {states}: a start needs every one of "
            f"them. Record them, or fit the record with {IDENTIFY}, which estimates the unmeasured states."
        )
    path = orbit.crossings.path_values[:, [known.index(name) for name in states]]
    return SampledLoop(orbit.crossings.path_times / orbit.period, path, orbit.period, np.zeros(len(states)))


def _at_period(problem: Problem, period: float) -> Problem:
    if not problem.autonomous:
        return problem
    return Problem(problem.model, None, period, problem.phase, problem.wrt)


def with_period(loop: Loop, problem: Problem, period: float) -> Loop:
    """Return the same curve in the problem's period.

    A loop of a flow keeps its flow.
    """
    wanted = period if problem.autonomous else problem.period
    if isinstance(loop, FlowLoop):
        return FlowLoop(problem.flow, loop.fractions, loop.nodes, wanted, problem.parameters, loop.winding)
    if isinstance(loop, FourierSeries):
        return FourierSeries(loop.cosines, loop.sines, wanted, loop.winding)
    if isinstance(loop, PiecewiseLoop):
        return PiecewiseLoop(loop.mesh, loop.knots, loop.values, wanted, loop.winding)
    return loop


def _from_record(problem: Problem, record: Record) -> Loop:
    """Return samples of one period, resampled.

    A missing rate is the derivative of its coordinate.
    """
    states, angles = problem.model.states, problem.angles
    known = [name for name in states if name in record.channels]
    if not known:
        raise DataError(f"The record has the channels {record.channels}, none of the states {states}.")
    time = record.time - record.time[0]
    inside = time < problem.period * (1 - 1e-9)
    if inside.sum() < 4:
        raise DataError(
            f"The record has {int(inside.sum())} samples in the period {problem.period:.4g} s: give 4 or more."
        )
    columns, winding = {}, np.zeros(len(states))
    for name in known:
        values, index = record[name][inside].copy(), states.index(name)
        if angles[index]:
            values = unwrap(values)
            winding[index] = turns(values[-1] - values[0])
        columns[name] = SampledLoop(time[inside] / problem.period, values[:, None], problem.period, winding[[index]])
    grid = np.arange(256) / 256
    samples = np.zeros((grid.size, len(states)))
    for index, name in enumerate(states):
        if name in columns:
            samples[:, index] = columns[name](grid)[:, 0]
        elif name.endswith("'") and name[:-1] in columns:
            # 32 harmonics: the derivative of a measured signal amplifies its noise.
            source = fourier_series(columns[name[:-1]](grid), problem.period, winding[[states.index(name[:-1])]], 32)
            samples[:, index] = source(grid, derivative=1)[:, 0] / problem.period
    return SampledLoop(grid, samples, problem.period, winding)


def _from_nothing(problem: Problem) -> Loop:
    """Settle from the model's start to a return.

    Takes the best return; finds attractors only.
    """
    start = as_point(problem.model.states, {k: v for k, v in problem.model.start.items() if k in problem.model.states})
    if problem.autonomous:
        return _settled_autonomous(problem, start)
    repeats = problem.repeats or 1
    states = _transient(problem, start, (TRANSIENT + 1) * repeats)
    gaps = difference(states[repeats:], states[:-repeats], problem.angles)
    # Only the second half of the run: the first still holds the transient. Of a motion that grows it is the nearest.
    settled = len(states) == (TRANSIENT + 1) * repeats + 1
    size = np.linalg.norm(gaps[-(len(gaps) // 2) :] if settled else gaps, axis=1)
    best = states.shape[0] - repeats - size.size + int(np.argmin(size))
    return _from_points(problem, states[best : best + repeats])


def _transient(problem: Problem, start: Array, periods: int) -> Array:
    """Return the states (N, n) of the motion from a start once a period.

    It ends early where the motion grows without limit, as with a negative damping: a hardening spring makes it faster
    and faster, and the last periods of such a run would take minutes.
    """
    made = [start[None]]
    for done in range(0, periods, PIECE):
        path = problem.flow.strobe(made[-1][-1], min(PIECE, periods - done), parameters=problem.parameters)
        made.append(np.asarray(path.states)[1:])
        if np.abs(made[-1]).max() > GROWN * (1.0 + np.abs(made[1]).max()):
            break
    return np.concatenate(made)


def _settled_autonomous(problem: Problem, start: Array) -> Loop:
    settled = problem.flow.propagate(start, 0.0, 50 * problem.period, problem.parameters, tangents=False).state
    times = np.linspace(0.0, 3 * problem.period, 3001)
    states = problem.flow.trajectory(settled, times, problem.parameters)
    gaps = difference(states, states[:1], problem.angles) / np.maximum(np.ptp(states, axis=0), 1e-12)
    distance = np.linalg.norm(gaps, axis=1)
    # The given period is a guess: take the best return between half of it and one and a half.
    window = (times > 0.5 * problem.period) & (times < 1.5 * problem.period)
    if np.ptp(states, axis=0).max() <= 1e-9 * (1 + np.abs(states).max()):
        raise ConvergenceError(
            f'"{problem.model.name}" comes to rest from its start: give a guess near the orbit.', Status.DIVERGED
        )
    back = int(np.flatnonzero(window)[np.argmin(distance[window])])
    return _from_points(_at_period(problem, float(times[back])), settled[None])
