"""Derived properties of an orbit, computed on demand.

Each part is computed once, when it is first needed.
"""

from __future__ import annotations

import numpy as np

from kapitza.base.angles import difference
from kapitza.base.arrays import Array
from kapitza.base.lazy_fields import Later, to_come
from kapitza.errors import FlowError
from kapitza.orbits import Certificate, Profile, Sensitivity
from kapitza.orbits.of_models.floquet import Monodromy, certificate, log_determinant, monodromy, stability
from kapitza.orbits.of_models.loop import FlowLoop
from kapitza.orbits.of_models.problem import SIZE_GRID, Problem, Solution
from kapitza.orbits.of_models.sensitivity import multiplier_sensitivity
from kapitza.orbits.of_models.surfaces import grids, volume_change

PROFILE_GRID = np.arange(200) / 200
"""Fractions of the period at which the profile of an orbit is given."""

MINIMAL_GRID = np.arange(60) / 60
"""Fractions at which a free motion is compared with itself a half, third, fourth or fifth of its period later."""

TELLING = np.array([0.0, 1 / 5, 1 / 3, 1 / 2])
"""Fractions of which one is like the start if the motion repeats after a half, third, fourth or fifth of its period."""


class Portrait:
    """Deferred parts of a `PeriodicOrbit`.

    A sweep may not need them.
    """

    def __init__(self, problem: Problem, solution: Solution, profile: bool):
        self._problem, self._solution, self._with_profile = problem, solution, profile
        self._floquet = Later(self._monodromy)
        self._seen = Later(lambda: self._visit(self._all_grids()))
        self._trust = Later(self._certificate)
        self.multipliers = to_come(lambda: self._floquet().multipliers)
        self.certificate = to_come(self._trust)
        self.stability = to_come(self._stability)
        self.closure = to_come(self._closure)
        self.profile = to_come(self._profile) if profile else None
        self.sensitivity = None if solution.sensitivity is None else to_come(self._sensitivity)
        self.solver = to_come(lambda: solution.report)

    @property
    def points(self) -> Array:
        """(p, n) on the section, angles continuous."""
        return self._solution.loop(self._problem.section_fractions)

    def look_for_checks(self) -> None:
        """Run along the orbit for the immediate checks.

        One run is enough; models with events need all grids.
        """
        problem = self._problem
        if not problem.smooth:
            self._seen()
        elif problem.autonomous:
            self._visit(TELLING)
        elif problem.repeats != 1:
            self._visit(problem.section_fractions)

    def _all_grids(self) -> Array:
        problem = self._problem
        looked_at = [SIZE_GRID, problem.section_fractions, grids(problem, self._solution.loop)]
        return np.concatenate([*looked_at, *[PROFILE_GRID] * self._with_profile, *[MINIMAL_GRID] * problem.autonomous])

    def _visit(self, fractions: Array) -> None:
        if isinstance(self._solution.loop, FlowLoop):
            self._solution.loop.visit(fractions)

    def _monodromy(self) -> Monodromy:
        return monodromy(self._solution.segments)

    def _certificate(self) -> Certificate:
        self._seen()
        problem, solution = self._problem, self._solution
        change = volume_change(problem, solution.loop, solution.report.events)
        # Where the fastest decay is not resolved, the determinants cannot be checked.
        contraction = float("nan") if solution.report.stiff else log_determinant(solution.segments)
        return certificate(self._floquet().multipliers, contraction, change, problem.autonomous)

    def _stability(self) -> str:
        return stability(self._floquet().multipliers, self._trust().defect, self._problem.autonomous)

    def _profile(self) -> Profile:
        self._seen()
        loop = self._solution.loop
        return Profile(PROFILE_GRID * loop.period, loop(PROFILE_GRID))

    def _sensitivity(self) -> Sensitivity:
        problem, solution = self._problem, self._solution
        by_parameter = multiplier_sensitivity(problem, solution.loop, self._floquet(), solution)
        assert solution.sensitivity is not None
        return Sensitivity(problem.wrt, solution.sensitivity, solution.period_sensitivity, by_parameter)

    def _closure(self) -> float:
        """Return the largest gap relative to the orbit.

        The flow runs from node to node: a check of any method.
        """
        self._seen()
        problem, loop, gap = self._problem, self._solution.loop, self._solution.report.gap
        size = problem.scale(loop)
        if np.isfinite(gap) and isinstance(loop, FlowLoop):
            return float(gap / size.max())
        points = self.points
        count = points.shape[0]
        begins = np.arange(count) * loop.period / count
        try:
            ends = problem.flow.propagate_many(points, begins, begins + loop.period / count, problem.parameters).state
        except FlowError:
            return float("nan")
        gaps = difference(ends, np.roll(points, -1, axis=0), problem.angles)
        return float(np.abs(gaps).max() / size.max())
