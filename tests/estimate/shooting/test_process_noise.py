"""Motion that is really kicked: rigid links cannot follow it, soft ones tell the size of the kicks."""

import numpy as np
import pytest

import kapitza as kz

FREE = ["sigma", "rho", "beta"]
KICK = 0.02


@pytest.fixture(scope="module")
def kicked():
    """Lorenz motion with a Gaussian kick of 0.02 spreads at every sample, read with 1 % noise."""
    model, rng = kz.library.lorenz(), np.random.default_rng(11)
    flow, spread = kz.Flow(model), np.array([7.9, 9.0, 8.6])
    states = [np.array([1.0, 2.0, 20.0])]
    for _ in range(1500):
        states.append(flow.propagate(states[-1], 0.0, 0.02, tangents=False).state + KICK * spread * rng.normal(size=3))
    readings = np.array(states) + 0.01 * spread * rng.normal(size=(1501, 3))
    noise = dict(zip("xyz", 0.01 * spread, strict=True))
    return kz.Record.from_arrays(np.arange(1501) * 0.02, dict(zip("xyz", readings.T, strict=True)), noise=noise)


def test_size_of_kicks_and_parameters_are_recovered(kicked):
    start = kz.library.lorenz().with_values(sigma=7.0, rho=35.0, beta=2.0)
    fit = kz.identify(start, kicked, FREE, kz.ShootingFit(process_noise=True))
    spread = kicked.values().std(axis=0)
    relative = np.array(list(fit.details["process_noise"].values())) / spread
    assert relative == pytest.approx(KICK, rel=0.2)
    truth = np.array([10.0, 28.0, 8 / 3])
    errors = np.array([fit.values[n] for n in FREE]) - truth
    assert (np.abs(errors) < 4 * np.array(list(fit.deviations.values()))).all()


def test_given_kicks_are_used(kicked):
    sizes = {"x": 0.158, "y": 0.18, "z": 0.172}
    fit = kz.identify(kz.library.lorenz().with_values(rho=35.0), kicked, FREE, kz.ShootingFit(process_noise=sizes))
    assert abs(fit.values["rho"] - 28) < 4 * fit.deviations["rho"]
    assert fit.details["process_noise"] == sizes
    with pytest.raises(kz.KapitzaError, match="not a state"):
        kz.identify(kz.library.lorenz(), kicked, FREE, kz.ShootingFit(process_noise={"w": 1.0}))
