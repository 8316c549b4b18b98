"""Parameters that can be traded for each other: intervals by the profile of the valley, not by its curvature."""

import numpy as np
import pytest

import kapitza as kz

TWO = kz.Model.from_equations(
    [
        "x'' + c*x' + k*x + h*x**3 + l*(x - y) = F*cos(1.1*t)",
        "y'' + 0.1*y' + 1.2*y - l*(x - y) = 0",
    ],
    parameters={"c": 0.1, "k": 0.8, "h": 0.5, "l": 0.3, "F": 0.9},
    period="2*pi/1.1",
)
FREE = ["c", "k", "h", "l", "F"]


@pytest.fixture(scope="module")
def steady():
    """A steady motion that is nearly harmonic: c, k and F grow together."""
    run = kz.simulate(TWO, x0=[0.2, 0.0, 0.1, 0.0], t=np.arange(2000) * 0.08)
    return run.samples(slice(1000, 2000)).select(["x", "y"])


def test_intervals_follow_the_valley(steady):
    rng = np.random.default_rng(504)
    noisy = {c: steady[c] + 0.05 * steady[c].std() * rng.standard_normal(1000) for c in "xy"}
    record = kz.Record.from_arrays(steady.time, noisy)
    fit = kz.identify(TWO, record, FREE, kz.ShootingFit())
    assert fit.draws is not None
    (text,) = [text for text in fit.warnings if "can be traded for each other" in text]
    assert "F" in text.split("can be")[0]
    interval = fit.interval(0.95)
    truth = np.array([TWO.values[n] for n in FREE])
    assert ((interval.low <= truth) & (truth <= interval.high)).all()
    # Curvature alone would make them far too narrow.
    curvature = np.sqrt(np.diag(fit.workings.found.solution.covariance))
    assert fit.deviations["F"] > 1.3 * curvature[FREE.index("F")]


def test_a_parabola_keeps_its_gaussian_errors(steady):
    rng = np.random.default_rng(7)
    noisy = {c: steady[c] + 1e-4 * steady[c].std() * rng.standard_normal(1000) for c in "xy"}
    fit = kz.identify(TWO, kz.Record.from_arrays(steady.time, noisy), FREE, kz.ShootingFit())
    assert fit.draws is None
    assert not fit.warnings
