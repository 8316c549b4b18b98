"""Pieces that all solvers of orbits share: quadrature, interpolation, loops, windings."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.orbits.of_models import (
    FourierSeries,
    PiecewiseLoop,
    Problem,
    SampledLoop,
    fourier_series,
    gauss_rule,
    integrated_basis,
    monodromy,
    total_winding,
)
from kapitza.orbits.of_models.loop import lagrange_weights


@pytest.mark.parametrize("degree", [1, 2, 3, 5, 7])
def test_gauss_points_integrate_polynomials_of_twice_their_number(degree):
    rule = gauss_rule(degree)
    for power in range(2 * degree):
        assert rule.weights @ rule.points**power == pytest.approx(1 / (power + 1), rel=1e-12)
    wrong = rule.weights @ rule.points ** (2 * degree)
    assert abs(wrong - 1 / (2 * degree + 1)) > 1e-9
    for power in range(degree):
        # Rows of the Runge-Kutta matrix integrate from 0 to each point, `ends` extrapolates to 1.
        assert rule.matrix @ rule.points**power == pytest.approx(rule.points ** (power + 1) / (power + 1), abs=1e-11)
        assert rule.ends @ np.linalg.solve(rule.points[:, None] ** np.arange(degree), rule.points**power) == (
            pytest.approx(rule.ends[power], abs=1e-9)
        )


@pytest.mark.parametrize("degree", [2, 4])
def test_the_integrated_basis_is_exact_for_polynomials(degree):
    rule = gauss_rule(degree)
    knots, matrix = integrated_basis(degree, degree + 1)
    assert (knots[0], knots[-1]) == (0.0, 1.0)
    for power in range(degree):
        assert matrix @ rule.points**power == pytest.approx(knots ** (power + 1) / (power + 1), abs=1e-11)


def test_lagrange_weights_reproduce_polynomials_and_their_knots():
    knots, points = np.array([0.0, 0.2, 0.7, 1.0]), np.linspace(-0.3, 1.2, 11)
    weights = lagrange_weights(knots, points)
    for power in range(4):
        assert weights @ knots**power == pytest.approx(points**power, abs=1e-12)
    assert lagrange_weights(knots, knots) == pytest.approx(np.eye(4), abs=1e-15)


def test_a_series_of_samples_is_the_function_behind_them_with_its_derivatives():
    s, grid = np.arange(16) / 16, np.linspace(0, 1, 7)
    winding = np.array([1.0])

    def wave(s):
        return 2 * np.pi * s + 0.3 + 0.5 * np.cos(2 * np.pi * s) - 0.2 * np.sin(6 * np.pi * s)

    series = fourier_series(wave(s)[:, None], 2.0, winding)
    assert series(grid)[:, 0] == pytest.approx(wave(grid), abs=1e-13)
    slope = 2 * np.pi * (1 - 0.5 * np.sin(2 * np.pi * grid) - 0.6 * np.cos(6 * np.pi * grid))
    assert series(grid, 1)[:, 0] == pytest.approx(slope, abs=1e-11)
    assert series(grid + 1)[:, 0] == pytest.approx(wave(grid) + 2 * np.pi, abs=1e-12)
    wider = series.resized(12)
    assert wider(grid) == pytest.approx(series(grid), abs=1e-13)
    assert wider.harmonics == 12


def test_loops_agree_on_a_circle_to_their_order():
    def circle(s):
        return np.stack([np.cos(2 * np.pi * s), np.sin(2 * np.pi * s)], axis=1)

    errors, grid, none = [], np.linspace(0, 1, 301), np.zeros(2)
    for count in (16, 32):
        s = np.arange(count) / count
        errors.append(np.abs(SampledLoop(s, circle(s), 1.0, none)(grid) - circle(grid)).max())
    assert np.log2(errors[0] / errors[1]) == pytest.approx(4.0, abs=0.4)  # a cubic spline
    knots = np.linspace(0, 1, 5)
    for count in (8, 16):
        mesh = np.linspace(0, 1, count + 1)
        values = circle((mesh[:-1, None] + knots / count).ravel()).reshape(count, 5, 2)
        errors.append(np.abs(PiecewiseLoop(mesh, knots, values, 1.0, none)(grid) - circle(grid)).max())
    assert np.log2(errors[2] / errors[3]) == pytest.approx(5.0, abs=0.6)  # polynomials of degree 4
    exact = FourierSeries(np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([[0.0, 1.0]]), 1.0, none)
    assert exact(grid) == pytest.approx(circle(grid), abs=1e-14)


def test_turns_are_counted_along_the_flow_and_not_from_the_angles_alone():
    angles = np.array([True, False])
    nodes = np.array([[0.0, 1.0], [2.0, 1.0], [-2.2, 1.0]])  # the third is 4.08 on the circle
    arrivals = np.array([[2.0, 1.0], [4.0832, 1.0], [0.0, 1.0]])
    continuous, winding = total_winding(nodes, arrivals, angles)
    assert winding[1] == 0.0
    assert np.diff(continuous[:, 0])[0] == pytest.approx(2.0)
    plain, none = total_winding(nodes, arrivals, np.array([False, False]))
    assert plain is nodes
    assert not none.any()


def test_multipliers_of_a_product_keep_digits_that_the_product_loses():
    large, small = 1e9, 1e-9
    first, second = np.diag([large, small]), np.array([[0.0, 1.0], [1.0, 0.0]])
    found = monodromy(np.array([first, second, first, second]))
    # diag(a, b) · swap twice is diag(ab, ab): both multipliers are exactly 1.
    assert found.multipliers == pytest.approx([1.0, 1.0], abs=1e-12)


def test_a_problem_at_other_values_shares_what_is_compiled():
    model = kz.library.duffing()
    problem = Problem(model, 1, model.period, wrt=("B",))
    other = problem.at(2 * model.vector, 3.0)
    assert other.field is problem.field
    assert other.flow is problem.flow
    assert other.parameters == pytest.approx(2 * model.vector)
    assert problem.parameters == pytest.approx(model.vector)
    assert problem.law(model.vector) == pytest.approx(model.period)
