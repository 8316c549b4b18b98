"""Orbits through switches, impacts and measured forces: closed forms, two methods, grazing."""

import numpy as np
import pytest
from reproductions._pin_joint_closed_form import two_impact_orbits

import kapitza as kz
from kapitza.errors import Status

METHODS = [kz.Shooting(), kz.MultipleShooting(nodes=3), kz.Collocation()]


@pytest.mark.parametrize("r", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)
def test_pin_joint_equals_its_closed_form(r, method):
    exact = two_impact_orbits(1.0, r)[0]
    state = np.array(exact.state_at(2 * np.pi))
    model = kz.library.pin_joint().with_values(gamma=1.0, r=r)
    orbit = kz.solve_orbit(model, 1.001 * state, method=method)
    np.testing.assert_allclose(orbit.points[0], state, atol=1e-10)
    known = np.sort_complex(exact.multipliers.astype(complex))
    np.testing.assert_allclose(np.sort_complex(orbit.multipliers), known, atol=1e-8)


def test_closed_form_multipliers_equal_differences_of_the_impact_map():
    """The reference itself: the half map (t0, v) → (t1, v1) solved to rounding from shifted starts."""
    from scipy.optimize import brentq

    orbit = two_impact_orbits(1.0, 0.5)[0]

    def half(t0, v):
        def height(t):
            tau = t - t0
            return 2 - v * tau + tau * np.cos(t0) - np.sin(t) + np.sin(t0)

        t1 = brentq(height, t0 + 2.0, t0 + 4.5, xtol=1e-15)
        return np.array([t1, 0.5 * (v - np.cos(t0) + np.cos(t1))])

    h = 1e-6
    columns = [
        (half(orbit.time + h, orbit.speed) - half(orbit.time - h, orbit.speed)) / (2 * h),
        (half(orbit.time, orbit.speed + h) - half(orbit.time, orbit.speed - h)) / (2 * h),
    ]
    np.testing.assert_allclose(np.column_stack(columns), orbit.half_map(), atol=1e-8)


@pytest.mark.parametrize("k", [5.0, 30.0, 1e3, 1e6])
def test_cart_orbit_by_shooting_and_collocation(k):
    """One contact per wall and period; Σ log det = -b × time in contact, the switches leaving the volume as it is."""
    model = kz.library.colliding_cart().with_values(k=k)
    starts = {5.0: (-1.4555, 0.6389), 30.0: (-0.50327, 0.48999), 1e3: (-0.08148, 0.31313), 1e6: (-0.002548, 0.274513)}
    shot = kz.solve_orbit(model, starts[k])
    near = kz.solve_orbit(model, shot, method=kz.Collocation())
    assert np.abs(shot.points - near.points).max() < 1e-9
    np.testing.assert_allclose(np.sort(np.abs(shot.multipliers)), np.sort(np.abs(near.multipliers)), rtol=1e-7)
    times = near.solver.switching_times
    assert times.size == 4
    inside = np.abs(shot.loop(np.array([0.0]))[0, 0]) < 1
    between = times[1] - times[0] + times[3] - times[2]
    contact = between if inside else 2 * np.pi - between
    assert np.log(np.abs(np.prod(shot.multipliers))) == pytest.approx(-2 * contact, abs=1e-7)


@pytest.mark.parametrize("k", [1.0, 30.0, 1e6])
def test_grazing_orbit_of_the_cart_is_named(k):
    """x = -sin t touches both walls and solves the equation for every stiffness."""
    orbit = kz.solve_orbit(kz.library.colliding_cart().with_values(k=k), (0.0, -1.0))
    assert orbit.status is Status.GRAZING
    assert orbit.stability == "unknown"
    assert "grazes" in orbit.notes[0]
    np.testing.assert_allclose(orbit.points[0], [0.0, -1.0], atol=1e-8)


def test_oleo_by_shooting_and_collocation_agree():
    """Friction slope 1e4, force sampled at 200 points with a step."""
    model = kz.library.oleo()
    shot = kz.solve_orbit(model, model.start)
    near = kz.solve_orbit(model, shot, method=kz.Collocation(tolerance=1e-8))
    size = np.ptp(shot.profile.states, axis=0)
    assert (np.abs(near.profile.states - shot.profile.states) / size).max() < 1e-6
    np.testing.assert_allclose(near.multipliers[0], shot.multipliers[0], rtol=1e-6)
    assert shot.stability == "stable"


def test_homotopy_reaches_a_slope_that_collocation_cannot_start_at():
    model = kz.library.oleo_simple()
    walked = kz.solve_orbit(model, model.start, method=kz.Homotopy("theta10", 10.0))
    shot = kz.solve_orbit(model, model.start)
    np.testing.assert_allclose(walked.points, shot.points, rtol=1e-8)


def test_dry_friction_oscillator_against_den_hartog():
    """x'' + x + F sign x' = cos ωt without stops: amplitude after J. P. Den Hartog, Trans. ASME 53 (1931) 107.

    x_max = sqrt(V² - (F H)²), V = 1/(1 - ω²), H = sin(π/ω) / (ω (1 + cos(π/ω))).
    """
    rate, friction = 0.7, 0.2
    model = kz.Model.from_equations(
        "x'' + x + F*sign(x') = cos(omega*t)",
        coordinates=["x"],
        parameters={"F": friction, "omega": rate},
        period="2*pi/omega",
    )
    response = 1 / (1 - rate**2)
    halt = np.sin(np.pi / rate) / (rate * (1 + np.cos(np.pi / rate)))
    amplitude = np.sqrt(response**2 - (friction * halt) ** 2)
    for method in (kz.Shooting(), kz.Collocation()):
        orbit = kz.solve_orbit(model, (1.9, 0.1), method=method)
        times = np.linspace(0, 1, 20001)
        assert orbit.loop(times)[:, 0].max() == pytest.approx(amplitude, abs=1e-6)
