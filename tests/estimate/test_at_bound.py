"""A parameter that ends at its bound: a one-sided interval, and neighbours that do not take it for known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

import kapitza as kz
from kapitza.estimate.energy import takes_energy_out
from kapitza.estimate.intervals import draws_at_bounds, truncated_gaussian

TIME = np.arange(400) * 0.04
BASE = kz.Model.from_equations("x'' + c*x' + k*x = 0", parameters={"c": 0.2, "k": 9.0})
DRAG = kz.Model.from_equations(
    "x'' + c*x' + q*x'*abs(x') + k*x = 0",
    parameters=[kz.Parameter("c", 0.2), kz.Parameter("q", 0.05, bounds=(0.0, math.inf)), kz.Parameter("k", 9.0)],
)


def record(seed: int) -> kz.Record:
    return kz.measure(kz.simulate(BASE, [1.0, 0.0], t=TIME).select(["x"]), noise=0.01, seed=seed)


def bounded(seed: int) -> kz.Estimate:
    return kz.identify(DRAG, record(seed), ["c", "q", "k"], kz.ShootingFit())


def held_at_zero() -> kz.Estimate:
    return next(fit for fit in map(bounded, range(8)) if fit.values["q"] == 0.0)


def test_interval_at_a_bound_is_one_sided():
    fit = held_at_zero()
    low, high = fit.interval(0.95).loc["q"]
    assert low == 0.0
    # Without the bound q is known to 0.0024: 95 % of what lies above 0 ends within two of it, and the more the lower.
    assert 0.0005 < high < 2 * 0.0026
    assert any("one-sided" in text for text in fit.warnings)


def test_neighbours_of_a_parameter_at_its_bound_keep_their_uncertainty():
    """c and q are exchanged for each other: with q held at 0 exactly, c would seem five times better known."""
    fit = held_at_zero()
    alone = kz.identify(BASE, record(0), ["c", "k"], kz.ShootingFit())
    assert fit.deviations["c"] > 1.5 * alone.deviations["c"]
    low, high = fit.interval(0.95).loc["c"]
    assert low < fit.values["c"] <= high
    # More drag means less linear damping, not more.
    assert fit.values["c"] - low > 2 * (high - fit.values["c"])


def test_no_friction_is_as_likely_as_a_little():
    """On the side where q stays 0, c is as uncertain as in the fit without q: 90 % intervals held c in 60 %."""
    seed, fit = next((s, f) for s, f in enumerate(map(bounded, range(8))) if f.values["q"] == 0.0)
    alone = kz.identify(BASE, record(seed), ["c", "k"], kz.ShootingFit())
    assert fit["c"] == pytest.approx(alone["c"], abs=0.02 * alone.deviations["c"])
    reach = alone.interval(0.9).loc["c", "high"] - alone["c"]
    assert fit.interval(0.9).loc["c", "high"] - fit["c"] == pytest.approx(reach, rel=0.05)


def test_intervals_beside_a_bound_are_those_of_the_profile():
    """Closed form for two parameters of correlation r: D is ((v - m)/s)² where the other is free, else on its bound."""
    r, minimum = -0.9, np.array([0.3, -0.4])
    covariance, low, high = np.array([[1.0, r], [r, 1.0]]), np.array([-np.inf, 0.0]), np.full(2, np.inf)
    value = np.array([minimum[0] - r * minimum[1], 0.0])
    draws, moments = draws_at_bounds(value, minimum, covariance, low, high, np.array([False, True]))
    least, reach = minimum[1] ** 2, special.ndtri(0.95)
    ends = np.quantile(draws[:, 0], [0.05, 0.95])
    assert ends[1] == pytest.approx(value[0] + reach * np.sqrt(1 - r**2), abs=0.02)
    assert ends[0] == pytest.approx(minimum[0] - np.sqrt(reach**2 + least), abs=0.02)
    assert draws[:, 1].min() >= 0.0
    assert moments.shape == (2, 2)


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_intervals_hold_the_estimate(level):
    fit = held_at_zero()
    for name in fit.names:
        low, high = fit.interval(level).loc[name]
        assert low <= fit.values[name] <= high


def test_negative_damping_is_said():
    growing = kz.Model.from_equations("x'' + c*x' + k*x = 0", parameters={"c": -0.1, "k": 9.0})
    data = kz.measure(kz.simulate(growing, [0.2, 0.0], t=TIME).select(["x"]), noise=0.01, seed=1)
    fit = kz.identify(growing, data, ["c", "k"], kz.ShootingFit())
    assert any(text.startswith("c = ") and "feeds energy in" in text for text in fit.warnings)
    decaying = kz.identify(BASE, record(0), ["c", "k"], kz.ShootingFit())
    assert not any("energy" in text for text in decaying.warnings)


def test_frictions_are_told_from_other_laws():
    model = kz.Model.from_equations(
        "x'' + c*x' + f*sign(x') + q*x'*abs(x') - m*(1 - x**2)*x' + k*x + b*x**3 = F*cos(t)",
        parameters={"c": 0.1, "f": 0.1, "q": 0.1, "m": 0.1, "k": 1.0, "b": 0.1, "F": 1.0},
        period="2*pi",
    )
    assert [name for name in model.names if takes_energy_out(model, name)] == ["c", "f", "q"]


def test_warning_about_size_follows_the_final_error():
    fit = kz.identify(DRAG, record(1), ["c", "q", "k"], kz.ShootingFit())
    said = [text for text in fit.warnings if "smaller than its own standard error" in text]
    assert [text.split()[0] for text in said] == [n for n in fit.names if abs(fit.values[n]) < fit.deviations[n]]


def of_the_first(mean, covariance, x):
    """Density of the first of two parameters above zero, the second integrated, at points x; by quadrature."""
    inner = mean[1] + covariance[1, 0] / covariance[0, 0] * (x - mean[0])
    left = np.sqrt(covariance[1, 1] - covariance[1, 0] ** 2 / covariance[0, 0])
    log = -0.5 * (x - mean[0]) ** 2 / covariance[0, 0] + special.log_ndtr(inner / left)
    density = np.exp(log - log.max())
    return density / np.trapezoid(density, x)


@pytest.mark.parametrize("correlation", [0.9998, -0.9, -0.9998, -0.999999])
@pytest.mark.parametrize("mean", [(-0.06, 0.13), (0.9, -0.9), (-2.0, -0.5)])
def test_draws_of_exchanged_parameters_are_those_of_the_truncated_gaussian(mean, correlation):
    """Along the parameters alone the chains stayed where they began: errors and intervals were ten times too wide."""
    covariance, mean = np.array([[1.0, correlation], [correlation, 1.0]]), np.array(mean)
    drawn = truncated_gaussian(mean, covariance, np.zeros(2), np.full(2, np.inf))
    assert drawn.min() >= 0.0
    for i in (0, 1):
        order = [i, 1 - i]
        x = np.concatenate([[0.0], np.geomspace(1e-9, 8.0, 200_001)])
        density = of_the_first(mean[order], covariance, x)
        middle = np.trapezoid(density * x, x)
        spread = np.sqrt(np.trapezoid(density * (x - middle) ** 2, x))
        # 500 chains that are independent, so a mean is known to 0.045 of the spread.
        assert drawn[:, i].mean() == pytest.approx(middle, abs=0.15 * spread)
        assert drawn[:, i].std() == pytest.approx(spread, rel=0.12)


def test_frictions_that_are_exchanged_for_each_other_keep_finite_intervals():
    """Linear, dry and quadratic friction in one decay: with the first at zero the data still determine the others."""
    model = kz.Model.from_equations(
        "x'' + c*x' + d*sign(x') + q*x'*abs(x') + k*x = 0",
        parameters=[kz.Parameter(name, 0.02, bounds=(0.0, math.inf)) for name in ("c", "d", "q")]
        + [kz.Parameter("k", 64.0)],
    )
    truth = model.with_values(c=0.0, d=0.16, q=0.004)
    data = kz.simulate(truth, [1.6, 0.0], t=np.arange(1000) * 0.009).select(["x"])
    held = []
    for seed in range(6):
        fit = kz.identify(model, kz.measure(data, noise=2e-5, seed=seed), ["c", "d", "q", "k"], kz.ShootingFit())
        assert fit.identifiability.complete
        assert np.isfinite(fit.interval(0.95)).all(axis=None)
        ends = fit.interval(0.99)
        held += [ends.low[name] <= truth.values[name] <= ends.high[name] for name in fit.names]
    assert np.mean(held) > 0.9
