"""Every periodic solver on every orbit problem it applies to."""

import numpy as np
import pytest

import kapitza as kz
import methods
import problems
from kapitza.base.angles import difference


@pytest.mark.parametrize(("problem", "method"), methods.cases(problems.ORBIT_PROBLEMS, methods.ORBIT_METHODS))
def test_solver_finds_the_known_orbit(problem, method):
    model = problem.model()
    guess = np.array([problem.guess[name] for name in model.states])
    orbit = kz.solve_orbit(model, guess, period=problem.period, method=method.settings())
    assert orbit.status.ok
    assert orbit.closure < 1e-10
    point = dict(zip(orbit.states, orbit.points[0], strict=True))
    for name, value in problem.point.items():
        on_circle = [model.angles[model.states.index(name)]]
        gap = difference(np.array([point[name]]), np.array([value]), on_circle)[0]
        assert abs(gap) < problem.point_tolerance
    for name, turns in problem.winding.items():
        assert orbit.winding[orbit.states.index(name)] == turns
    if problem.multipliers:
        found, known = (np.sort_complex(np.asarray(m, complex)) for m in (orbit.multipliers, problem.multipliers))
        assert np.all(np.abs(found - known) <= problem.multiplier_tolerance * np.maximum(1, np.abs(known)))
