"""Every estimator on every fit problem it applies to: known parameters must be recovered."""

from collections.abc import Mapping

import pytest

import kapitza as kz
import methods
import problems


@pytest.mark.parametrize(("problem", "method"), methods.cases(problems.FIT_PROBLEMS, methods.FIT_METHODS))
def test_estimator_recovers_known_parameters(problem, method):
    fit = kz.identify(problem.start(), problem.data(), free=list(problem.truth), method=method.settings())
    for name, true in problem.truth.items():
        allowed = problem.tolerance[name] if isinstance(problem.tolerance, Mapping) else problem.tolerance
        assert abs(fit.values[name] - true) <= allowed * (abs(true) or 1.0), f"{name}: {fit.values[name]} for {true}"
