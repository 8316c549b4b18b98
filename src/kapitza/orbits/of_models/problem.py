"""Problem, solution and method of periodic solvers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from kapitza.base import checks
from kapitza.base.arrays import Array
from kapitza.base.cures import Give
from kapitza.base.lazy_fields import deferrable
from kapitza.errors import KapitzaError, ModelError, Status
from kapitza.flow import Flow, PeriodLaw
from kapitza.model import Model
from kapitza.orbits import Loop, PeriodicOrbit, SolverReport
from kapitza.orbits.of_models.field import VectorField
from kapitza.orbits.of_models.phase import OrthogonalPhase, PhaseCondition
from kapitza.solve import NewtonResult

SIZE_GRID = np.arange(32) / 32
"""Fractions of a loop at which the sizes of its states are taken."""

MOST_PERIODS = 10_000
"""Excitation periods of an orbit; longer ones are a slip of the keyboard."""


class Compiled:
    """Compiled equations of a problem.

    They are made on demand unless given, and shared between problems.
    law: the excitation period as a function of the parameters, `law(vector)`, with `slopes` by those in `wrt`.
    """

    def __init__(self, model: Model, wrt: tuple[str, ...], flow: Flow | None = None, field: VectorField | None = None):
        self._model, self._wrt, self._flow, self._field = model, wrt, flow, field

    @cached_property
    def flow(self) -> Flow:
        return Flow(self._model) if self._flow is None else self._flow

    @cached_property
    def field(self) -> VectorField:
        return VectorField(self._model, self._wrt) if self._field is None else self._field

    @cached_property
    def law(self) -> PeriodLaw:
        flow = Flow(self._model, wrt=self._wrt) if self._flow is None else self._flow
        return flow.core.period_law


@dataclass(frozen=True)
class Problem:
    """Periodic orbit problem.

    The orbit closes after `repeats` excitation periods, or after an unknown time near `period`.
    compiled, values: the compiled equations and the parameters (npar,), where they are not those of the model.
    """

    model: Model
    repeats: int | None
    period: float
    phase: PhaseCondition = field(default_factory=OrthogonalPhase)
    wrt: tuple[str, ...] = ()
    compiled: Compiled | None = field(default=None, repr=False, compare=False)
    values: Array | None = field(default=None, repr=False, compare=False)

    @property
    def autonomous(self) -> bool:
        return self.repeats is None

    @cached_property
    def _parts(self) -> Compiled:
        return Compiled(self.model, self.wrt) if self.compiled is None else self.compiled

    @property
    def flow(self) -> Flow:
        return self._parts.flow

    @cached_property
    def smooth(self) -> bool:
        """Whether the model is smooth at these values.

        Without walls and jumps no orbit can graze.
        """
        return self.flow.core.is_smooth_at(self.parameters)

    @property
    def field(self) -> VectorField:
        return self._parts.field

    @property
    def law(self) -> PeriodLaw:
        return self._parts.law

    @cached_property
    def parameters(self) -> Array:
        return self.model.vector if self.values is None else self.values

    def at(self, parameters: Array, period: float) -> Problem:
        """Return the same problem at other values (npar,).

        It shares the compiled equations; the model keeps its own values.
        """
        values = np.asarray(parameters, float)
        return Problem(self.model, self.repeats, period, self.phase, self.wrt, self._parts, values)

    @cached_property
    def angles(self) -> NDArray[np.bool_]:
        return np.array(self.model.angles, bool)

    @property
    def section_fractions(self) -> Array:
        """Fractions of the section points.

        They are at every excitation period, or at the start.
        """
        return np.arange(self.repeats or 1) / (self.repeats or 1)

    def sizes_at(self, point: Array) -> Array:
        """Return the nonzero size of states at a point."""
        size = np.maximum(np.abs(point), max(1e-3 * np.abs(point).max(), 1e-3))
        size[self.angles] = np.maximum(size[self.angles], 1.0)
        return size

    def scale(self, loop: Loop) -> Array:
        """Return the size of each state on the loop.

        Never zero; relative errors refer to it.
        """
        straight = loop(SIZE_GRID) - 2 * np.pi * np.multiply.outer(SIZE_GRID, loop.winding)
        size = np.abs(straight).max(axis=0)
        size[self.angles] = np.maximum(size[self.angles], 1.0)
        # A state that stays at zero would make every error of it infinite.
        floor = 1e-3 * max(size.max(), 1e-3)
        return np.maximum(size, floor)


@dataclass(frozen=True)
class FreeParameters:
    """Parameters that are unknowns of a discretisation.

    `names` are the last entries of its vector x.
    """

    problem: Problem
    names: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def places(self) -> list[int]:
        return [self.problem.model.names.index(name) for name in self.names]

    def vector(self, x: Array) -> Array:
        """Return all parameters (npar,).

        The free ones are taken from the unknowns.
        """
        if not self.names:
            return self.problem.parameters
        vector = self.problem.parameters.copy()
        vector[self.places] = x[-len(self.names) :]
        return vector

    def forced_period(self, x: Array) -> float:
        """Return the forced period at the values in x."""
        if not self.names:
            return self.problem.period
        return (self.problem.repeats or 1) * float(self.problem.law(self.vector(x)) or self.problem.period)


def _period_of(guess: Any) -> float | None:
    """Return the period [s] of a guess.

    A loop has one, and a record may state one.
    """
    if isinstance(guess, Loop):
        return float(guess.period)
    if guess is None or isinstance(guess, (np.ndarray, list, tuple, Mapping)):
        return None
    # Loaded here: workers of a census, which never see a record, start in half the time without it.
    from kapitza.data import Record

    return guess.period if isinstance(guess, Record) else None


def pose(model: Model, guess: Any, period: float | None, phase: PhaseCondition | None, wrt: tuple[str, ...]) -> Problem:
    """Make a problem from the user's arguments.

    Contradicting arguments are refused.
    """
    if model.is_map:
        raise ModelError(f'"{model.name}" is a map: use find_orbits, or Map.iterate and Map.jacobian.')
    if model.delays:
        raise ModelError(
            f'Model "{model.name}" has delays ({model.delays[0].symbol.name}): its state is a piece of its past, so '
            "periodic orbits, monodromy and multipliers by a state do not exist. Use Flow(model).trajectory(x, times)."
        )
    model.needs_period("periodic orbits")
    excitation = model.period
    if period is None and isinstance(guess, PeriodicOrbit):
        period = guess.period if excitation is None or guess.repeats is None else float(guess.repeats)
    if excitation is None:
        if period is None:
            period = _period_of(guess)
            if period is None:
                raise KapitzaError(
                    f'"{model.name}" is autonomous: give an approximate period in seconds, such as {Give(period=1.5)}.'
                )
        period = checks.number("period", period, finite=False, error=KapitzaError)
        if not (np.isfinite(period) and period > 0):
            raise KapitzaError(f"The period must be positive, not {period}.")
        return Problem(model, None, float(period), phase or OrthogonalPhase(), wrt)
    repeats = 1 if period is None else checks.number("period", period, error=KapitzaError)
    if repeats != int(repeats) or not 1 <= repeats <= MOST_PERIODS:
        raise KapitzaError(
            f'"{model.name}" is forced: period counts excitation periods (1, 2, 3, … {MOST_PERIODS}), not {period}. '
            f"One excitation period is {excitation:.6g} s."
        )
    return Problem(model, int(repeats), int(repeats) * excitation, phase or OrthogonalPhase(), wrt)


@dataclass(frozen=True)
class Solution:
    """Result of a method before multipliers and checks.

    loop: the curve; segments: (J, n, n) propagators from node to node around the orbit. Both they and the report may
    be computed when they are first needed. sensitivity: (p, n, k) derivative of the section points by `wrt`, and
    period_sensitivity (k,).
    """

    loop: Loop
    status: Status
    newton: NewtonResult | None
    segments: Array = deferrable()
    message: str = ""
    sensitivity: Array | None = None
    period_sensitivity: Array | None = None
    notes: tuple[str, ...] = ()
    report: SolverReport = deferrable(SolverReport())


@runtime_checkable
class Method(Protocol):
    """Periodic solver.

    Its settings are a frozen dataclass with the verb `solve`.
    """

    def solve(self, problem: Problem, guess: Loop) -> Solution: ...
