"""Section points of positions alone: the rates follow from the way between one point and the next."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.orbits.of_models import chained_rates


def test_the_rate_of_a_linear_oscillator_is_that_of_its_steady_state():
    """x'' + c x' + k x = cos t: X = 1/(k - 1 + i c), x(0) = Re X, x'(0) = -Im X; there is no other rate to choose."""
    model = kz.Model.from_equations("x'' + c*x' + k*x = cos(t)", parameters={"c": 0.2, "k": 2.3}, period="2*pi")
    response = 1 / (2.3 - 1 + 0.2j)
    rates = chained_rates(model, np.array([response.real]), np.zeros(1), angle=False, span=1.0)
    assert rates == pytest.approx([-response.imag], rel=1e-6)


def test_rates_of_orbits_of_the_pendulum_come_back(pendulum, exact):
    found = 0
    for orbit in exact:
        times = np.arange(len(orbit.points)) * pendulum.period
        rates = chained_rates(pendulum, orbit.points[:, 0], times, angle=True, span=1.0)
        found += rates == pytest.approx(orbit.points[:, 1], rel=1e-5)
    assert found == len(exact)


def test_positions_at_the_section_are_enough(pendulum, noisy):
    """φ alone, once per period, from 16 % and 5 % off: every orbit has its own start, not one for all."""
    orbits = [
        o.with_(
            states=("phi",),
            points=o.points[:, :1],
            covariance=o.covariance[::2, ::2],
            multipliers=None,
            winding=(),
            code="",
        )
        for o in noisy(0)
    ]
    fit = kz.identify(pendulum.with_values(m=0.1, l=0.3), orbits, ["m", "l"])
    assert not fit.matches.unmatched
    for name in ("m", "l"):
        assert abs(fit[name] - pendulum.values[name]) < 4 * fit.deviations[name]
