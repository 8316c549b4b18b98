"""Every estimator on every fit problem it applies to: known parameters must be recovered."""

from collections.abc import Mapping
from functools import cache

import pytest

import kapitza as kz
import methods
import problems

CASES = methods.cases(problems.FIT_PROBLEMS, methods.FIT_METHODS)


@cache
def made(make):
    """Data are made once for all methods."""
    return make()


def test_every_estimator_and_every_problem_takes_part():
    pairs = [case.values for case in CASES]
    assert {method.name for _, method in pairs} == {method.name for method in methods.FIT_METHODS}
    assert {problem.name for problem, _ in pairs} == {problem.name for problem in problems.FIT_PROBLEMS}
    kinds = {type(method.settings()) for _, method in pairs}
    assert {kz.HarmonicFit, kz.InvariantFit, kz.OrbitFit, kz.ShootingFit, kz.Automatic} <= kinds


@pytest.mark.parametrize(("problem", "method"), CASES)
def test_estimator_recovers_known_parameters(problem, method):
    fit = kz.identify(problem.start(), made(problem.data), free=list(problem.truth), method=method.settings())
    assert fit.status.ok
    assert fit.names == tuple(problem.truth)
    assert fit.settings is not None
    for name, true in problem.truth.items():
        allowed = problem.tolerance[name] if isinstance(problem.tolerance, Mapping) else problem.tolerance
        assert abs(fit.values[name] - true) <= allowed * (abs(true) or 1.0), f"{name}: {fit.values[name]} for {true}"
        if "exact" not in problem.offers:
            assert abs(fit.values[name] - true) <= 5 * fit.deviations[name], f"{name} ± {fit.deviations[name]}"
