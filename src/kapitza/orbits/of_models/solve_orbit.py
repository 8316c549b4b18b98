"""Solution for a periodic orbit of a model.

Any method may be used; the orbit carries multipliers and a certificate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kapitza.base.angles import difference, wrap_states
from kapitza.base.arrays import Array
from kapitza.base.cures import Give
from kapitza.base.lazy_fields import to_come
from kapitza.errors import ConvergenceError, KapitzaError, Status
from kapitza.model import Model
from kapitza.orbits import Loop, OrbitSolution, PeriodicOrbit, minimal_period
from kapitza.orbits.of_models.codes import symbolic_code
from kapitza.orbits.of_models.guesses import Guess, loop_from
from kapitza.orbits.of_models.phase import PhaseCondition
from kapitza.orbits.of_models.portrait import MINIMAL_GRID, TELLING, Portrait
from kapitza.orbits.of_models.problem import Method, Problem, Solution, pose
from kapitza.orbits.of_models.shooting import Shooting
from kapitza.orbits.of_models.surfaces import grazing_note

CLOSED = 1e-6
"""Gap, relative to the orbit, below which Newton stopped because a Jacobian was missing, not an orbit."""

DIFFERENT = 1e-3
"""Distance, relative to the size of a state, from which two section points are certainly different."""

SAME = 1e-7
"""Distance, relative to the size of a state, below which points are one and the orbit repeats. Solvers reach 1e-10."""

AT_REST = 1e-8
"""Extent, relative to the size of a state, below which a motion that does not turn is an equilibrium."""

CURES = {
    Status.ITERATION_LIMIT: "Raise max_iterations, or start nearer: from a stretch of data, or by homotopy.",
    Status.STALLED: "There may be no such orbit near the guess: try another guess, MultipleShooting, or homotopy.",
    Status.DIVERGED: f"Start nearer, or limit the steps by {Give(largest_step=0.3)}.",
    Status.SINGULAR: "The orbit sits at a bifurcation or is not isolated: change a parameter slightly.",
    Status.PROPAGATION_FAILED: "The guess leaves the region where the model makes sense: start nearer.",
    Status.WRONG_PERIOD: "Ask for that shorter period, or start from another guess.",
    Status.UNRESOLVED: "Raise the number of points, elements or harmonics, or use Shooting.",
}


def solve_orbit(
    model: Model,
    guess: Guess = None,
    period: float | None = None,
    method: Method | None = None,
    *,
    wrt: Sequence[str] = (),
    phase: PhaseCondition | None = None,
    throw: bool = True,
    profile: bool = True,
) -> PeriodicOrbit:
    """Solve for a periodic orbit, stable or not.

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
    if not isinstance(method, Method) or isinstance(method, type):
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
    """Make an orbit from a method's solution.

    Checked for grazing and shorter periods; other properties are computed on demand.
    """
    model, loop, status, notes = problem.model, solution.loop, solution.status, list(solution.notes)
    portrait = Portrait(problem, solution, profile)
    if status.ok:
        portrait.look_for_checks()
    points = portrait.points
    if not status.ok and solution.report.gap < CLOSED * problem.scale(loop).max():
        # It closes, yet Newton stopped: where the orbit grazes there is no Jacobian for another step.
        graze = grazing_note(problem, loop)
        if graze:
            status, solution = Status.GRAZING, replace(solution, message=graze)
    if not status.ok:
        return PeriodicOrbit(
            model.states, points, loop.period, problem.repeats, _turns(loop), status=status, method=method,
            parameters=dict(model.values), notes=(solution.message,) if solution.message else (),
            solution=OrbitSolution(loop, solver=solution.report),
        )  # fmt: skip
    graze = grazing_note(problem, loop)
    if graze:
        status = Status.GRAZING
        notes.append(graze)
    shorter = _shorter_period(problem, loop, points)
    if shorter and status.ok:
        status = Status.WRONG_PERIOD
        notes.append(shorter)
    return PeriodicOrbit(
        states=model.states,
        points=wrap_states(points, problem.angles),
        period=loop.period,
        repeats=problem.repeats,
        winding=to_come(lambda: _turns(loop)),
        multipliers=portrait.multipliers,
        closure=portrait.closure,
        code=to_come(lambda: symbolic_code(model, points)),
        stability="unknown" if graze else portrait.stability,
        status=status,
        profile=portrait.profile,
        parameters=dict(model.values),
        method=method,
        notes=tuple(notes),
        solution=OrbitSolution(loop, portrait.certificate, portrait.sensitivity, portrait.solver),
    )


def _turns(loop: Loop) -> tuple[int, ...]:
    return tuple(round(float(w)) for w in loop.winding)


def _clearly_minimal(problem: Problem, loop: Loop, points: Array) -> bool:
    """Test by a few states for a minimal period.

    If it is true, the sizes along the orbit need not be computed.
    """
    different = DIFFERENT * float(problem.sizes_at(points[0]).max())
    if not problem.autonomous:
        return minimal_period(points, tuple(problem.angles), different) == problem.repeats
    states = loop(TELLING)
    return bool(np.abs(difference(states[1:], states[0], problem.angles)).max(axis=1).min() > different)


def _shorter_period(problem: Problem, loop: Loop, points: Array) -> str:
    """Report that the orbit closes early, if so.

    A sentence when the orbit found closes earlier than requested.
    """
    if _clearly_minimal(problem, loop, points):
        return ""
    size = problem.scale(loop)
    if not problem.autonomous:
        least = minimal_period(points, tuple(problem.angles), SAME * float(size.max()))
        if least < (problem.repeats or 1):
            return (
                f"The orbit found repeats after {least} excitation periods already, {problem.repeats} were requested."
            )
        return ""
    states = loop(MINIMAL_GRID)
    if np.ptp(states[:, ~problem.angles], axis=0).max(initial=0.0) <= AT_REST * size.max() and not any(_turns(loop)):
        return "The iteration ended on an equilibrium."
    for parts in (2, 3, 4, 5):
        gaps = difference(states[60 // parts :][: 60 // parts], states[: 60 // parts], problem.angles)
        if np.abs(gaps / size).max() < SAME:
            return (
                f"The orbit found repeats after {loop.period / parts:.9g} s already, 1/{parts} of the requested period."
            )
    return ""
