"""The corrector on equations with known roots, and the reasons it gives when there are none."""

import numpy as np
import pytest

from kapitza.errors import FlowError, Status
from kapitza.solve import DenseLinearised, DenseSystem, Measured, MeasuredSystem, NewtonSettings, newton


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


def circle_and_line():
    """x² + y² = 1, x = 2y: the root is (2, 1)/√5."""
    return DenseSystem(
        lambda x: np.array([x[0] ** 2 + x[1] ** 2 - 1, x[0] - 2 * x[1]]),
        lambda x: np.array([[2 * x[0], 2 * x[1]], [1.0, -2.0]]),
    )


@pytest.mark.parametrize("update", ["chord", "broyden"])
def test_a_matrix_from_nearby_serves_without_another(update):
    system, calls = circle_and_line(), []
    begin = system.linearise(np.array([0.8, 0.5]))
    counted = DenseSystem(system.function, lambda x: calls.append(x) or system.derivative(x))
    result = newton(counted, np.array([0.8, 0.5]), NewtonSettings(1e-12, 60, update=update), begin=begin)
    assert result.status is Status.CONVERGED
    assert result.x == pytest.approx(np.array([2, 1]) / np.sqrt(5), abs=1e-11)
    assert not calls


def test_broyden_takes_fewer_steps_than_the_chord():
    counts = {}
    for update in ("chord", "broyden"):
        begin = circle_and_line().linearise(np.array([1.2, 0.8]))
        result = newton(circle_and_line(), np.array([1.2, 0.8]), NewtonSettings(1e-11, 80, update=update), begin=begin)
        assert result.status is Status.CONVERGED
        counts[update] = result.iterations
    assert counts["broyden"] < counts["chord"]


def test_a_matrix_that_is_too_old_is_said_to_be():
    begin = DenseLinearised(np.zeros(1), np.array([[-1.0]]))
    result = newton(atan_system(), np.array([0.5]), NewtonSettings(update="chord"), begin=begin)
    assert result.status is Status.DIVERGED
    assert "too old" in result.message


class NoisyCircle(MeasuredSystem):
    """The same equations read with noise of a known size."""

    def __init__(self, deviation, seed):
        self.random, self.deviation, self.count = np.random.default_rng(seed), np.array(deviation), 0

    def measure(self, x):
        self.count += 1
        noise = self.deviation * self.random.standard_normal(2)
        return Measured(circle_and_line().function(x) + noise, self.deviation)


def test_a_measured_residual_is_solved_to_its_noise_and_no_further():
    errors = []
    for seed in range(20):
        system = NoisyCircle([1e-3, 1e-2], seed)
        begin = DenseLinearised(np.zeros(2), circle_and_line().derivative(np.array([0.8, 0.5])))
        result = newton(system, np.array([0.8, 0.5]), NewtonSettings(update="broyden"), begin=begin)
        assert result.status is Status.CONVERGED
        assert system.count <= 8
        errors.append(np.abs(result.x - np.array([2, 1]) / np.sqrt(5)).max())
    # Accepted at two deviations: the root is known to a few of them, a hundred times better than the start.
    assert 1e-5 < np.median(errors) < 1e-2


def test_a_measured_system_must_be_given_a_matrix():
    with pytest.raises(TypeError, match="begin"):
        newton(NoisyCircle([1e-3, 1e-3], 0), np.array([0.8, 0.5]))


def test_an_observer_sees_each_iteration_and_may_end_it():
    seen = []

    def observe(row, x):
        seen.append((row.step, x.copy()))
        return len(seen) == 2

    result = newton(atan_system(), np.array([1.3]), observe=observe)
    assert result.status is Status.INTERRUPTED
    assert len(seen) == 2


@pytest.mark.parametrize("settings", [NewtonSettings(reuse=True), NewtonSettings(update="chord"), NewtonSettings()])
@pytest.mark.parametrize("trouble", [FlowError("no flow here"), np.linalg.LinAlgError("singular")])
def test_whatever_a_trial_point_raises_ends_in_a_status(settings, trouble):
    class Trap:
        calls = 0

        def residual(self, x):
            self.calls += 1
            if self.calls > 1:
                raise trouble
            return x - 0.1 * np.cos(3 * x)

        def linearise(self, x):
            return DenseLinearised(self.residual(x), np.eye(1))

    result = newton(Trap(), np.array([5.0]), settings)
    assert result.status in (Status.PROPAGATION_FAILED, Status.SINGULAR, Status.STALLED)
