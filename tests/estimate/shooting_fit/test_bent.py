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
    (text,) = [text for text in fit.warnings if "is not a parabola" in text]
    assert "F" in text.split("can be traded")[0]
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


UPTAKE = kz.Model.from_equations("s' = -V*s/(K + s)", parameters={"V": 1.0, "K": 0.5}, start={"s": 1.0})
"""Michaelis-Menten kinetics, for which the exact likelihood is known: s solves s + K log s = s0 + K log s0 - V t."""


def _exact_rise(record, noise, name, value, best):
    """Rise of the profile of one parameter, the others (and s0) fitted by SciPy to the closed form."""
    from scipy.optimize import least_squares
    from scipy.special import lambertw

    t, y = record.time, record["s"]

    def residual(p, held):
        v, k, s0 = (held, *p) if name == "V" else (p[0], held, p[1])
        return ((k * lambertw(s0 / k * np.exp((s0 - v * t) / k))).real - y) / noise

    start = [best["K"], 1.0] if name == "V" else [best["V"], 1.0]
    return 2 * least_squares(residual, start, args=(value,), x_scale=start).cost


def test_intervals_end_where_the_exact_likelihood_does():
    noise, steps = 0.03, np.linspace(0.0, 2.5, 60)
    record = kz.measure(kz.simulate(UPTAKE, t=steps), noise=noise, seed=2)
    fit = kz.identify(UPTAKE, record, ["V", "K"], kz.ShootingFit(noise=noise))
    assert fit.draws is not None
    for name in ("V", "K"):
        low, high = fit.interval(0.9).loc[name]
        least = _exact_rise(record, noise, name, fit[name], fit.values)
        # A two-sided 90 % interval ends where the profile has risen by 1.645².
        for end in (low, high):
            assert abs(np.sqrt(_exact_rise(record, noise, name, end, fit.values) - least) - 1.645) < 0.12
        assert high - fit[name] > 1.3 * (fit[name] - low)


def test_a_side_without_end_is_reported():
    record = kz.measure(kz.simulate(UPTAKE, t=np.linspace(0.0, 1.5, 40)), noise=0.05, seed=1)
    fit = kz.identify(UPTAKE, record, ["V", "K"], kz.ShootingFit())
    (text,) = [text for text in fit.warnings if "is not a parabola" in text]
    assert "Towards larger values nothing bounds" in text
