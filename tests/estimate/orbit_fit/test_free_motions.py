"""Orbits that find_orbits sees in a dense record of a free motion: crossings of a section, unknown period."""

import numpy as np
import pytest

import kapitza as kz

FREE = ["sigma", "rho", "beta"]


@pytest.fixture(scope="module")
def lorenz():
    return kz.library.lorenz()


@pytest.fixture(scope="module")
def orbits(lorenz):
    record = kz.simulate(lorenz, x0=[1, 1, 20], t=np.arange(0, 500, 0.01))
    return kz.find_orbits(kz.measure(record, noise=0.02, seed=1), max_period=3, channels=["x"])


def test_crossings_lie_on_the_orbits_of_the_model(lorenz, orbits):
    """Each crossing, in all three channels, within a few standard errors of the orbit computed from it."""
    assert {"AB", "AAB", "ABB"} <= {orbit.code for orbit in orbits}
    for orbit in orbits:
        values = orbit.crossings.values
        true = kz.solve_orbit(lorenz, values[0], orbit.period)
        covariance = orbit.crossings.covariance
        assert abs(orbit.period - true.period) < 5 * np.sqrt(covariance[-1, -1])
        curve = true.loop(np.linspace(0, 1, 4001))
        for k, point in enumerate(values):
            spread = np.sqrt(np.diag(covariance)[3 * k : 3 * k + 3].max())
            assert np.linalg.norm(curve - point, axis=1).min() < 5 * spread + 2e-3


def test_parameters_of_the_lorenz_system_from_its_orbits(lorenz, orbits):
    fit = kz.identify(lorenz.with_values(sigma=6.0, rho=38.0, beta=1.5), orbits, FREE)
    assert not fit.matches.unmatched
    for name in FREE:
        assert abs(fit[name] - lorenz.values[name]) < 4 * fit.deviations[name]
        assert fit.deviations[name] < 2e-3 * lorenz.values[name]
    periods = [orbit.period for orbit in fit.matches.orbits if len(orbit.points) == 2]
    assert periods[0] == pytest.approx(1.5586522, abs=5e-3)  # Viswanath 2003, at the true values


def test_whole_averaged_paths_are_an_alternative(lorenz, orbits):
    """Their errors are correlated along each orbit, so every orbit counts as one observation."""
    fit = kz.identify(lorenz.with_values(sigma=8.0, rho=30.0, beta=3.0), orbits, FREE, kz.OrbitFit(profiles=True))
    for name in FREE:
        assert fit[name] == pytest.approx(lorenz.values[name], rel=2e-3)
    assert fit.dof == max(len(orbits) - 3, 1) or len(orbits) <= 3


def test_orbits_survive_being_saved(lorenz, orbits, tmp_path):
    kz.save(orbits, tmp_path / "orbits.nc")
    again = kz.load(tmp_path / "orbits.nc")
    first, second = (kz.identify(lorenz, data, FREE) for data in (orbits, again))
    assert first.values == second.values
    assert np.array_equal(first.covariance, second.covariance)


def test_limit_cycle_of_a_record_gives_its_parameters():
    """Passes of a stable motion are averaged, states and all, whether the rate was recorded or not."""
    model = kz.Model.from_equations(
        "x'' - mu*(1 - x**2)*x' + k*x = 0", parameters={"mu": 1.0, "k": 1.0}, start={"x": 2.0, "x'": 0.0}
    )
    clean = kz.simulate(model, t=np.arange(4000) * 0.05)
    scores = []
    for seed, channels in enumerate((["x", "x'"], ["x", "x'"], ["x"], ["x"])):
        orbits = kz.find_orbits(kz.measure(clean, noise=0.01, seed=seed).select(channels), max_period=4)
        fit = kz.identify(model.with_values(mu=1.2, k=0.9), orbits, ["mu", "k"])
        scores += [(fit[n] - 1.0) / fit.deviations[n] for n in fit.names]
        assert max(fit.deviations.values()) < 0.01
    assert np.abs(scores).max() < 4
