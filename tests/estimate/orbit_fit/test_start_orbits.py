"""Where the data do not show every state: start orbits that are given, or that the model is followed to."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.orbits import Profile

LIENARD = kz.Model.from_equations(["x' = m*(x - x**3/3 - y)", "y' = k*x/m"], parameters={"m": 1.5, "k": 1.0})
NOISE = 0.005


@pytest.fixture(scope="module")
def seen():
    """The limit cycle as a sensor of x alone gives it, beginning anywhere on it."""
    orbit = kz.solve_orbit(LIENARD, [2.0, 0.0], period=7.0)
    times = np.arange(60) / 60 * orbit.period
    begin = 0.37
    states = orbit.loop((times / orbit.period + begin) % 1.0)
    values = states[:, 0] + NOISE * np.random.default_rng(1).normal(size=60)
    return kz.PeriodicOrbit(("x",), values[:1, None], orbit.period, profile=Profile(times, values[:, None]))


def assert_right(fit):
    for name, value in LIENARD.values.items():
        assert abs(fit[name] - value) < 4 * fit.deviations[name]
        assert fit.deviations[name] < 0.02


def test_limit_cycle_with_a_hidden_state_is_found_by_following_the_model(seen):
    fit = kz.identify(LIENARD.with_values(m=1.3), [seen], ["m", "k"], kz.OrbitFit(profiles=True, noise={"x": NOISE}))
    assert_right(fit)


@pytest.mark.parametrize("kind", ["orbit", "state", "names"])
def test_start_orbits_can_be_given(seen, kind):
    model = LIENARD.with_values(m=1.3)
    orbit = kz.solve_orbit(model, [2.0, 0.0], period=7.0)
    start = {"orbit": orbit, "state": [2.0, 0.0], "names": {"x": 2.0, "y": 0.0}}[kind]
    method = kz.OrbitFit(profiles=True, noise={"x": NOISE}, start_orbits=[start])
    assert_right(kz.identify(model, [seen], ["m", "k"], method))
