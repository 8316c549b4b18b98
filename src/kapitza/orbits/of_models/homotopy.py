"""Homotopy from an easy parameter value.

Each orbit is the guess of the next.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from kapitza.base.argument_checks import Positive
from kapitza.errors import KapitzaError, Status
from kapitza.orbits import Loop
from kapitza.orbits.of_models.collocation import Collocation
from kapitza.orbits.of_models.guesses import with_period
from kapitza.orbits.of_models.problem import Method, Problem, Solution
from kapitza.solve import Halving, Outcome, walk_to


@dataclass(frozen=True)
class Homotopy:
    """Solve at another parameter value first.

    At `parameter` = start, then by continuation to the model's own value.
    Steps are geometric when both ends have one sign, otherwise even; a step that fails is halved, one that succeeds
    lets the next grow. steps: at first; smallest: share of the path below which it is given up. method: the solver
    used at every value. A friction law with a steep slope needs such a continuation in collocation:
    Homotopy("theta9", 10.0, Collocation()).

    Examples
    --------
    >>> import kapitza as kz
    >>> orbit = kz.solve_orbit(kz.library.duffing(), method=kz.Homotopy("B", 0.1, kz.Shooting()))
    >>> orbit.parameters["B"]
    0.2
    """

    parameter: str
    start: float
    method: Method = field(default_factory=Collocation)
    steps: int = 4
    smallest: Positive = 1e-3

    def __post_init__(self):
        if self.steps < 1:
            raise KapitzaError(f"A homotopy needs at least one step, not {self.steps}.")

    def solve(self, problem: Problem, guess: Loop) -> Solution:
        problem.model.check(self.parameter)
        goal = problem.model.values[self.parameter]
        value, first = self.start, self._at(problem, self.start)
        loop = with_period(guess, first, guess.period)
        solution = self._rough().solve(first, loop)
        if not solution.status.ok:
            return self._failed(solution, value)
        failed = solution

        def attempt(last: Solution, ahead: float) -> Outcome[Solution]:
            nonlocal failed, value
            value = self._value(goal, ahead)
            trial = self._at(problem, value)
            method = self.method if ahead == 1.0 else self._rough()
            found = method.solve(trial, with_period(last.loop, trial, last.loop.period))
            if found.status.ok:
                return Outcome(found)
            failed = found
            return Outcome(None, message=found.message)

        solution, done, _ = walk_to(solution, attempt, Halving(1.0 / self.steps, self.smallest))
        return solution if done == 1.0 else self._failed(failed, value)

    def _rough(self) -> Method:
        """Return a less accurate method for intermediate values."""
        return replace(self.method, tolerance=1e-5) if isinstance(self.method, Collocation) else self.method

    def _value(self, goal: float, fraction: float) -> float:
        if fraction >= 1.0:
            return goal
        # Geometric steps suit parameters that span orders of magnitude, such as a slope of friction.
        if self.start * goal > 0:
            return float(self.start * (goal / self.start) ** fraction)
        return self.start + fraction * (goal - self.start)

    def _at(self, problem: Problem, value: float) -> Problem:
        model = problem.model.with_values(**{self.parameter: value})
        period = problem.period
        if problem.repeats is not None and model.period is not None:
            period = problem.repeats * model.period
        return Problem(model, problem.repeats, period, problem.phase, problem.wrt)

    def _failed(self, solution: Solution, value: float) -> Solution:
        message = f"The homotopy stopped at {self.parameter} = {value:.6g}. {solution.message}"
        status = Status.STALLED if solution.status.ok or np.isnan(value) else solution.status
        return replace(solution, status=status, message=message)
