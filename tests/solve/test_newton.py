"""The corrector on equations with known roots, and the reasons it gives when there are none."""

import numpy as np
import pytest

from kapitza.errors import FlowError, Status
from kapitza.solve import DenseSystem, NewtonSettings, newton


def atan_system(shift=0.0):
    return DenseSystem(lambda x: np.arctan(x) - shift, lambda x: np.diag(1 / (1 + x**2)))


def test_converges_quadratically_near_the_root():
    system = DenseSystem(lambda x: x**2 - 2, lambda x: np.diag(2 * x))
    result = newton(system, np.array([1.5]))
    assert result.status is Status.CONVERGED
    assert result.x[0] == pytest.approx(np.sqrt(2), abs=1e-15)
    steps = [row.step for row in result.history]
    assert steps[2] < 2 * steps[1] ** 2


def test_damping_reaches_a_root_that_full_steps_overshoot():
    """Newton on arctan diverges from |x| > 1.39; the damped iteration does not."""
    result = newton(atan_system(), np.array([20.0]))
    assert result.status is Status.CONVERGED
    assert abs(result.x[0]) < 1e-12
    assert result.history[0].damping < 1


def test_no_root_is_reported_as_such():
    result = newton(DenseSystem(lambda x: x**2 + 1, lambda x: np.diag(2 * x)), np.array([0.8]))
    assert result.status in (Status.STALLED, Status.SINGULAR, Status.ITERATION_LIMIT)
    assert result.message


def test_singular_start_is_named():
    result = newton(DenseSystem(lambda x: x**2 - 1, lambda x: np.diag(0 * x)), np.array([0.0]))
    assert result.status is Status.SINGULAR


def test_failed_evaluations_shorten_the_step():
    def guarded(x):
        if abs(x[0]) > 3:
            raise FlowError("left the domain")
        return np.arctan(x)

    result = newton(DenseSystem(guarded, lambda x: np.diag(1 / (1 + x**2))), np.array([2.9]))
    assert result.status is Status.CONVERGED


def test_failure_at_the_start_is_a_status():
    def broken(x):
        raise FlowError("no trajectory from here")

    result = newton(DenseSystem(broken, lambda x: np.eye(1)), np.array([0.0]))
    assert result.status is Status.PROPAGATION_FAILED
    assert "no trajectory" in result.message


def test_jacobians_are_reused_while_they_contract():
    calls = []

    def derivative(x):
        calls.append(1)
        return np.diag(2 * x)

    system = DenseSystem(lambda x: x**2 - 2, derivative)
    fresh = newton(system, np.array([1.45]))
    often = len(calls)
    calls.clear()
    reused = newton(system, np.array([1.45]), NewtonSettings(reuse=True))
    assert len(calls) < often
    assert reused.x[0] == pytest.approx(fresh.x[0], abs=1e-12)


def test_step_limit_is_respected():
    result = newton(
        DenseSystem(lambda x: x - 100, lambda x: np.eye(1)), np.array([0.0]), NewtonSettings(largest_step=30.0)
    )
    assert result.status is Status.CONVERGED
    assert max(row.step * row.damping for row in result.history[:2]) <= 30.0 + 1e-9
