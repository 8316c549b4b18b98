"""The verb: a periodic orbit of a model, by any method, with multipliers and a certificate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza.circle import difference, wrap_states
from kapitza.errors import ConvergenceError, FlowError, KapitzaError, Status
from kapitza.model import Model
from kapitza.orbit import Loop, PeriodicOrbit, Profile, Sensitivity, minimal_period
from kapitza.orbits_of_models.codes import symbolic_code
from kapitza.orbits_of_models.floquet import certificate, log_determinant, monodromy, stability
from kapitza.orbits_of_models.guesses import loop_from
from kapitza.orbits_of_models.loop import FlowLoop
from kapitza.orbits_of_models.phase import PhaseCondition
from kapitza.orbits_of_models.problem import SIZE_GRID, Method, Problem, Solution, pose
from kapitza.orbits_of_models.sensitivity import multiplier_sensitivity
from kapitza.orbits_of_models.shooting import Shooting
from kapitza.orbits_of_models.surfaces import grazing_note, grids, volume_change

Array = NDArray[np.float64]

PROFILE_GRID = np.arange(200) / 200
"""Fractions of the period at which the profile of an orbit is given."""

MINIMAL_GRID = np.arange(60) / 60
"""Fractions at which a free motion is compared with itself a half, third, fourth or fifth of its period later."""

CURES = {
    Status.ITERATION_LIMIT: "Raise max_iterations, or start nearer: from a stretch of data, or by homotopy.",
    Status.STALLED: "There may be no such orbit near the guess: try another guess, MultipleShooting, or homotopy.",
    Status.DIVERGED: "Start nearer, or limit the steps by largest_step=0.3.",
    Status.SINGULAR: "The orbit sits at a bifurcation or is not isolated: change a parameter slightly.",
    Status.PROPAGATION_FAILED: "The guess leaves the region where the model makes sense: start nearer.",
    Status.WRONG_PERIOD: "Ask for that shorter period, or start from another guess.",
    Status.UNRESOLVED: "Raise the number of points, elements or harmonics, or use Shooting.",
}


def solve_orbit(
    model: Model,
    guess: Any = None,
    period: float | None = None,
    method: Method | None = None,
    *,
    wrt: Sequence[str] = (),
    phase: PhaseCondition | None = None,
    throw: bool = True,
    profile: bool = True,
) -> PeriodicOrbit:
    """A periodic orbit of `model`, whatever its stability.

    Parameters
    ----------
    model : Model
        A flow; for maps there is `find_orbits`.
    guess : optional
        A PeriodicOrbit, a Record of one period, rows of states (N, n) equally spaced over the period, a Fourier series
        (or any loop), one state (by name or as an array), or None (the motion settles from the model's start).
    period : float, optional
        Excitation periods for forced models (default 1); for autonomous ones a time in seconds, as a guess.
    method : periodic solver, optional
        Shooting() by default; MultipleShooting(), Collocation(), Differences(), HarmonicBalance().
    wrt : list of str
        Parameters by which the orbit and its multipliers are differentiated (`orbit.sensitivity`).
    phase : optional
        What fixes the phase of an autonomous orbit; by default its first point moves at right angles to the flow.
    throw : bool
        False returns the failed orbit with its status instead of raising ConvergenceError.
    profile : bool
        Sample the motion over one period (200 rows).

    Returns
    -------
    PeriodicOrbit
        Section points, period, winding, multipliers with their certificate, stability, profile.

    Examples
    --------
    >>> import kapitza as kz
    >>> orbit = kz.solve_orbit(kz.library.lorenz(), [-13.76, -19.58, 27.0], period=1.5587)
    >>> round(orbit.period, 9)
    1.558652211
    """
    problem = pose(model, guess, period, phase, tuple(wrt))
    method = method or Shooting()
    if not hasattr(method, "solve"):
        raise KapitzaError(f"{method!r} is not a periodic solver: pass settings such as Shooting() or Collocation().")
    solution = method.solve(problem, loop_from(problem, guess))
    orbit = described(problem, solution, type(method).__name__, profile)
    if orbit.status not in (Status.CONVERGED, Status.GRAZING) and throw:
        reason = solution.message or orbit.status.value
        raise ConvergenceError(
            f'No orbit of "{model.name}" with period {_said(problem)} by {orbit.method}: {orbit.status.value}. '
            f"{reason} {CURES.get(orbit.status, '')}".strip(),
            orbit,
        )
    return orbit


def _said(problem: Problem) -> str:
    return f"near {problem.period:.6g} s" if problem.autonomous else f"{problem.repeats} × {problem.model.period:.6g} s"


def described(problem: Problem, solution: Solution, method: str, profile: bool = True) -> PeriodicOrbit:
    """Multipliers, certificate, winding, closure, code and checks around what a method found."""
    model, loop = problem.model, solution.loop
    if isinstance(loop, FlowLoop) and solution.status.ok:
        # One run along the orbit serves all that looks at it below.
        looked_at = [SIZE_GRID, problem.section_fractions, grids(problem, loop)]
        looked_at += [PROFILE_GRID] * profile + [MINIMAL_GRID] * problem.autonomous
        loop.visit(np.concatenate(looked_at))
    points = loop(problem.section_fractions)
    status, notes = solution.status, list(solution.notes)
    if not status.ok and solution.report.gap < 1e-6 * problem.scale(loop).max():
        # It closes, yet Newton stopped: where the orbit grazes there is no Jacobian to go on with.
        graze = grazing_note(problem, loop, problem.scale(loop))
        if graze:
            status, solution = Status.GRAZING, replace(solution, message=graze)
    if not status.ok:
        return PeriodicOrbit(
            model.states, points, loop.period, problem.repeats, _turns(loop), status=status, method=method,
            parameters=dict(model.values), notes=(solution.message,) if solution.message else (),
            loop=loop, solver=solution.report,
        )  # fmt: skip
    floquet = monodromy(solution.segments)
    change = volume_change(problem, loop, solution.report.events)
    contraction = float("nan") if solution.report.stiff else log_determinant(solution.segments)
    trust = certificate(floquet.multipliers, contraction, change, problem.autonomous)
    size = problem.scale(loop)
    closure = closing_error(problem, loop, points, size, solution)
    graze = grazing_note(problem, loop, size)
    if graze:
        status = Status.GRAZING
        notes.append(graze)
    shorter = _shorter_period(problem, loop, points, size)
    if shorter and status.ok:
        status = Status.WRONG_PERIOD
        notes.append(shorter)
    sensitivity = None
    if solution.sensitivity is not None:
        by_parameter = multiplier_sensitivity(problem, loop, floquet, solution)
        sensitivity = Sensitivity(problem.wrt, solution.sensitivity, solution.period_sensitivity, by_parameter)
    return PeriodicOrbit(
        states=model.states,
        points=wrap_states(points, problem.angles),
        period=loop.period,
        repeats=problem.repeats,
        winding=_turns(loop),
        multipliers=floquet.multipliers,
        closure=closure,
        code=symbolic_code(model, points),
        stability="unknown" if graze else stability(floquet.multipliers, trust.defect, problem.autonomous),
        status=status,
        profile=_profile(loop) if profile else None,
        parameters=dict(model.values),
        certificate=trust,
        method=method,
        notes=tuple(notes),
        loop=loop,
        sensitivity=sensitivity,
        solver=solution.report,
    )


def _turns(loop: Loop) -> tuple[int, ...]:
    return tuple(round(float(w)) for w in loop.winding)


def _profile(loop: Loop) -> Profile:
    return Profile(PROFILE_GRID * loop.period, loop(PROFILE_GRID))


def closing_error(problem: Problem, loop: Loop, points: Array, size: Array, solution: Solution) -> float:
    """Largest gap, relative to the orbit, when the flow runs from node to node: an independent check of any method."""
    if np.isfinite(solution.report.gap) and isinstance(loop, FlowLoop):
        return float(solution.report.gap / size.max())
    count = points.shape[0]
    begins = np.arange(count) * loop.period / count
    try:
        ends = problem.flow.propagate_many(points, begins, begins + loop.period / count, problem.parameters).state
    except FlowError:
        return float("nan")
    gaps = difference(ends, np.roll(points, -1, axis=0), problem.angles)
    return float(np.abs(gaps).max() / size.max())


def _shorter_period(problem: Problem, loop: Loop, points: Array, size: Array) -> str:
    """A sentence when the orbit found closes earlier than asked for."""
    if not problem.autonomous:
        least = minimal_period(points, tuple(problem.angles), 1e-7 * float(size.max()))
        if least < (problem.repeats or 1):
            return (
                f"The orbit found repeats after {least} excitation periods already, {problem.repeats} were asked for."
            )
        return ""
    states = loop(MINIMAL_GRID)
    if np.ptp(states[:, ~problem.angles], axis=0).max(initial=0.0) <= 1e-8 * size.max() and not any(_turns(loop)):
        return "The iteration ended on an equilibrium."
    for parts in (2, 3, 4, 5):
        gaps = difference(states[60 // parts :][: 60 // parts], states[: 60 // parts], problem.angles)
        if np.abs(gaps / size).max() < 1e-7:
            return (
                f"The orbit found repeats after {loop.period / parts:.9g} s already, 1/{parts} of what was asked for."
            )
    return ""
