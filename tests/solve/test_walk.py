"""The one walk, on curves known in closed form."""

import numpy as np
import pytest

from kapitza.errors import KapitzaError
from kapitza.solve import (
    Bordered,
    ByEffort,
    DensePoint,
    DenseSolver,
    Halving,
    Measured,
    MeasuredBordered,
    NewtonSettings,
    Outcome,
    StepCollapse,
    newton,
    walk,
    walk_to,
)


class Circle:
    """x² + y² = 1 as a family of one equation for two unknowns."""

    scale = np.ones(2)

    def residual(self, z):
        return np.array([z @ z - 1])

    def linearise(self, z):
        return DensePoint(self.residual(z), 2 * z[None])


def around(points, step):
    tangent = np.array([-points[-1][1], points[-1][0]])
    return points[-1] + step * tangent, tangent


def corrected(guess):
    z, tangent = guess
    result = newton(Bordered(Circle(), tangent[None], np.array([tangent @ z])), z)
    return Outcome(result.x if result.status.ok else None, result.iterations, result.message)


def test_the_walk_passes_the_folds_of_a_circle():
    points = [np.array([1.0, 0.0])]
    for stride in walk(points, around, corrected, ByEffort(0.1, largest=0.4)):
        points.append(stride.point)
        if len(points) > 30:
            break
    points = np.array(points)
    assert np.abs((points**2).sum(axis=1) - 1).max() < 1e-12
    assert np.ptp(points[:, 0]) > 1.9  # both folds of x are behind it


def test_steps_grow_after_little_effort_and_shrink_after_much():
    rule = ByEffort(wanted=4)
    assert rule.following(0.1, 1) == pytest.approx(0.15)
    assert rule.following(0.1, 4) == pytest.approx(0.1)
    assert rule.following(0.1, 20) == pytest.approx(0.06)
    assert rule.following(0.1, None) < 0.04


def test_a_walk_that_cannot_go_on_says_why():
    steps = walk([0.0], lambda known, step: known[-1] + step, lambda x: Outcome(None, message="wall"), Halving(1.0))
    with pytest.raises(StepCollapse, match="wall") as caught:
        next(steps)
    assert caught.value.step < 1e-3


def test_walk_to_halves_until_it_arrives_or_gives_the_last_point():
    def jumps(last, ahead):
        return Outcome(ahead if ahead - last < 0.1 else None, message="too far")

    assert walk_to(0.0, jumps, Halving(0.5, 1e-3)) == (1.0, 1.0, "")
    point, reached, reason = walk_to(0.0, lambda _, ahead: Outcome(ahead if ahead < 0.6 else None), Halving(0.25))
    assert 0.59 < reached < 0.6
    assert point == reached
    assert reason == ""


def test_an_experiment_is_corrected_on_the_border_by_broyden():
    class Rig:
        scale = np.ones(2)
        random = np.random.default_rng(3)

        def measure(self, z):
            return Measured(np.array([z @ z - 1 + 1e-4 * self.random.standard_normal()]), np.array([1e-4]))

        def jacobian(self, z):
            return 2 * z[None]

    tangent = np.array([0.0, 1.0])
    system = MeasuredBordered(Rig(), tangent[None], np.array([0.3]))
    start = np.array([1.0, 0.3])
    begin = system.beside(Rig().jacobian(np.array([1.0, 0.0])))
    result = newton(system, start, NewtonSettings(update="broyden"), begin=begin)
    assert result.status.ok
    assert result.x[1] == pytest.approx(0.3, abs=1e-5)
    assert result.x[0] == pytest.approx(np.sqrt(1 - 0.09), abs=5e-4)


def test_dense_factors_solve_both_ways_and_know_the_sign():
    random = np.random.default_rng(0)
    for _ in range(5):
        matrix, right = random.standard_normal((5, 5)), random.standard_normal(5)
        factors = DenseSolver(matrix)
        assert factors.solve(right) == pytest.approx(np.linalg.solve(matrix, right))
        assert factors.solve_transposed(right) == pytest.approx(np.linalg.solve(matrix.T, right))
        assert factors.sign == np.sign(np.linalg.det(matrix))
    with pytest.raises(np.linalg.LinAlgError):
        DenseSolver(np.zeros((2, 2)))


def test_efforts_beyond_any_corrector_are_refused():
    with pytest.raises(KapitzaError, match="wanted"):
        ByEffort(wanted=10**400)
