"""Systems beyond the first: nonlinear parameters, maps, positions only, energy balance, hand-over."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.errors import DataError, IdentifiabilityError
from kapitza.estimate.invariant_fit.conserved.stencils import difference_rates, rates_of, smoothed_rates

PENDULUM_ENERGY = "phi'**2/2 - omega0**2*cos(phi)"


def damped_pendulum(**values):
    model = kz.Model.from_equations(
        ["phi'' + c*phi' + omega0**2*sin(phi) = 0"],
        coordinates=["phi"],
        angles=["phi"],
        parameters={"c": 0.05, "omega0": 3.0},
    )
    return model.with_values(**values)


@pytest.mark.parametrize("count", [10, 50])
def test_double_pendulum_from_a_far_start(count):
    model = kz.library.planar_double_pendulum()
    record = kz.simulate(model, t=0.25 * np.arange(count))
    fit = kz.identify(model.with_values(lambda_=4.0, mu=6.0, omega1=0.5), record, method=kz.InvariantFit())
    for name, truth in {"lambda_": 1.0, "mu": 2.0, "omega1": np.sqrt(9.81)}.items():
        assert fit[name] == pytest.approx(truth, rel=1e-6)


def test_parameter_inside_a_function_is_found_too():
    # H = p²/2 - cos(k q)/k is not a sum of coefficients times functions
    model = kz.Model.from_hamiltonian("p**2/2 - cos(k*q)/k", positions=["q"], momenta=["p"], parameters={"k": 1.7})
    record = kz.simulate(model, x0=[1.2, 0.3], t=np.arange(0, 30, 0.3))
    fit = kz.identify(model.with_values(k=1.2), record, method=kz.InvariantFit())
    assert fit["k"] == pytest.approx(1.7, rel=1e-8)
    noisy = kz.measure(record, relative_noise=0.01, seed=1)
    for objective in ("variance", "surface"):
        fit = kz.identify(model.with_values(k=1.2), noisy, method=kz.InvariantFit(objective))
        assert abs(fit["k"] - 1.7) < 4 * fit.deviations["k"]


def test_map_from_its_scalar_series():
    # x[n] = cos 2πθ[n] with θ[n+1] = θ[n] + θ[n-1], exact for rational θ
    turns = [123456789, 987654321]
    while len(turns) < 32:
        turns.append((turns[-1] + turns[-2]) % 2147483647)
    x = np.cos(2 * np.pi * np.array(turns) / 2147483647)
    record = kz.Record.from_arrays(np.arange(32), {"x": x})
    fit = kz.identify(kz.library.trace_map().with_values(a=1.0, b=-1.0, c=0.3), record, method=kz.InvariantFit())
    for name, truth in {"a": 0.0, "b": 0.0, "c": 2.0}.items():
        assert fit[name] == pytest.approx(truth, abs=1e-7)


def test_surface_of_delays_displaces_every_sample_once():
    turns = [123456789, 987654321]
    while len(turns) < 202:
        turns.append((turns[-1] + turns[-2]) % 2147483647)
    clean = kz.Record.from_arrays(np.arange(202), {"x": np.cos(2 * np.pi * np.array(turns) / 2147483647)})
    noisy = kz.measure(clean, relative_noise=0.01, seed=1)
    model = kz.library.trace_map()
    alone = kz.identify(model, noisy, method=kz.InvariantFit())
    fit = kz.identify(model, noisy, method=kz.InvariantFit("surface"))
    for name, truth in {"a": 0.0, "b": 0.0, "c": 2.0}.items():
        assert abs(fit[name] - truth) < 4 * fit.deviations[name]
        assert fit.deviations[name] < alone.deviations[name]
    # 200 constraints on 202 samples: the sum of squared displacements is chi-squared with 196 degrees of freedom
    assert fit.residuals["I"].size == 202
    assert fit.chi2 == pytest.approx(196, abs=4 * np.sqrt(2 * 196))
    for asked in ({"bootstrap": 20}, {"loss": "cauchy"}, {"solver": "odrpack"}):
        with pytest.raises(DataError, match=f"{next(iter(asked))}=.* does not apply"):
            kz.identify(model, noisy, method=kz.InvariantFit("surface", **asked))


@pytest.mark.parametrize(("accuracy", "order"), [(2, 2), (4, 4), (6, 6), (8, 8)])
def test_differences_have_their_order(accuracy, order):
    def worst(step):
        t = np.arange(-1, 1, step)
        rates = difference_rates(t, np.sin(3 * t), accuracy)
        return np.abs(rates.rate - 3 * np.cos(3 * t[rates.inside])).max()

    assert np.log2(worst(0.1) / worst(0.05)) == pytest.approx(order, abs=0.3)


def test_rates_on_an_uneven_grid_are_exact_for_polynomials():
    t = np.sort(np.random.default_rng(0).uniform(0, 2, 40))
    rates = difference_rates(t, t**4 - t, 4)
    np.testing.assert_allclose(rates.rate, 4 * t[rates.inside] ** 3 - 1, atol=1e-8)


def test_smoothing_reports_an_error_that_is_safe_but_not_idle():
    t, sigma = np.arange(0, 400, 0.02), 0.01
    noisy = np.sin(t) + sigma * np.random.default_rng(1).standard_normal(t.size)
    rates = smoothed_rates(t, noisy, sigma**2)
    error = rates.rate - np.cos(t[rates.inside])
    # truncation cannot be negative, so what noise leaves in its estimate makes the sum somewhat too large, never small
    assert 0.6 < np.mean(error**2 / (sigma**2 * rates.rate_noise + rates.truncation)) < 1.05
    assert np.mean(error**2) < 0.1 * np.mean((np.gradient(noisy, t) - np.cos(t)) ** 2)


@pytest.mark.parametrize("noise", [0.01, 0.05])
def test_smoothing_never_wipes_out_the_motion(noise):
    # seven samples a period: every window is too wide, so differences must be chosen
    clean = kz.simulate(kz.library.henon_heiles(), t=np.arange(200.0))
    noisy = kz.measure(clean, relative_noise=noise, seed=1)
    rates = rates_of(noisy.time, noisy["q1"], noisy.noise["q1"] ** 2, "auto")
    error = rates.rate - clean["p1"][rates.inside]
    assert np.sqrt(np.mean(error**2)) < 0.1 * np.std(clean["p1"])


def test_momenta_follow_from_positions():
    model = kz.library.henon_heiles()
    record = kz.simulate(model, t=np.arange(0, 60, 0.1))
    positions = kz.Record(record.dataset[["q1", "q2"]])
    fit = kz.identify(model.with_values(m2=2.0, b=0.5), positions, method=kz.InvariantFit(scale="m1"))
    for name, truth in {"m2": 1.0, "omega1": 1.0, "omega2": 1.0, "b": 1.0, "d": -1 / 3}.items():
        assert fit[name] == pytest.approx(truth, rel=2e-4)
    assert any("differences of positions" in w for w in fit.warnings)


def test_what_cannot_be_reconstructed_is_named():
    model = kz.library.henon_heiles()
    record = kz.simulate(model, t=np.arange(50.0))
    with pytest.raises(DataError, match="p2"):
        kz.identify(model, kz.Record(record.dataset[["q1", "p1"]]), method=kz.InvariantFit())


@pytest.mark.parametrize("channels", [("phi", "phi'"), ("phi",)])
def test_energy_balance_gives_friction(channels):
    record = kz.simulate(damped_pendulum(), x0=[2.5, 0.0], t=np.arange(0, 30, 0.01))
    seen = kz.Record(kz.measure(record, relative_noise=1e-3, seed=1).dataset[list(channels)])
    method = kz.InvariantFit("balance", invariant=PENDULUM_ENERGY)
    fit = kz.identify(damped_pendulum(c=1.0, omega0=1.0), seen, method=method)
    assert fit["omega0"] == pytest.approx(3.0, rel=0.005)
    assert fit["c"] == pytest.approx(0.05, rel=0.01)


def test_energy_balance_counts_the_work_of_a_drive():
    model = kz.Model.from_equations(
        ["x'' + d*x' + k*x + b*x**3 - f*cos(1.2*t) = 0"],
        coordinates=["x"],
        parameters={"d": 0.1, "k": 1.0, "b": 0.5, "f": 0.6},
    )
    record = kz.simulate(model, x0=[1.0, 0.0], t=np.arange(0, 80, 0.02))
    method = kz.InvariantFit("balance", invariant="x'**2/2 + k*x**2/2 + b*x**4/4")
    fit = kz.identify(model.with_values(d=0.3, k=2.0, b=0.1, f=0.1), record, method=method)
    for name, truth in {"d": 0.1, "k": 1.0, "b": 0.5, "f": 0.6}.items():
        assert fit[name] == pytest.approx(truth, rel=1e-6)


def test_dependent_parameters_are_refused_with_their_combination():
    model = kz.Model.from_hamiltonian(
        "p**2/(2*m) + (k1 + k2)*q**2/2", positions=["q"], momenta=["p"], parameters={"m": 1.0, "k1": 2.0, "k2": 1.0}
    )
    record = kz.simulate(model, x0=[1.0, 0.0], t=np.arange(0, 20, 0.3))
    with pytest.raises(IdentifiabilityError, match="k1"):
        kz.identify(model, record, free=["k1", "k2"], method=kz.InvariantFit())


def test_hand_over_starts_a_fit_of_the_motion():
    model = kz.library.henon_heiles()
    noisy = kz.measure(kz.simulate(model, t=np.arange(60.0)), relative_noise=0.01, seed=3)
    start = model.with_values(m2=3.0, omega1=0.4, omega2=2.0, b=-1.0, d=1.0)
    free = ["m2", "omega1", "omega2", "b", "d"]
    alone = kz.identify(start, noisy, free=free, method=kz.InvariantFit())
    handed = kz.identify(start, noisy, free=free, method=kz.InvariantFit(then=kz.ShootingFit()))
    for name in free:
        assert handed[name] == pytest.approx(model.values[name], abs=5 * handed.deviations[name] + 1e-6)
        assert handed.deviations[name] < alone.deviations[name]
