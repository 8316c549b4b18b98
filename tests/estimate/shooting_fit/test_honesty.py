"""Errors and intervals that say no more than the data: unidentifiable sets, bounds, priors, profiles."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize, stats

import kapitza as kz

FREE = ["sigma", "rho", "beta"]


@pytest.fixture(scope="module")
def record():
    run = kz.simulate(kz.library.lorenz(), x0=[1, 1, 1], t=np.arange(1300) * 0.01)
    rng = np.random.default_rng(0)
    return kz.Record.from_arrays(
        np.arange(800) * 0.01, {c: run[c][500:] + 0.1 * rng.normal(size=800) for c in run.channels}
    )


def with_parameter(model, parameter):
    return replace(model, parameters=tuple(parameter if p.name == parameter.name else p for p in model.parameters))


# Of m x'' + c x' + k x = 0 only c/m and k/m are seen.
SCALED = kz.Model.from_equations("m*x'' + c*x' + k*x = 0", parameters={"m": 2.0, "c": 0.4, "k": 8.0})


def ringing(noise=0.01):
    time = np.arange(500) * 0.05
    rng = np.random.default_rng(1)
    return kz.Record.from_arrays(time, {"x": np.exp(-0.1 * time) * np.cos(1.997 * time) + noise * rng.normal(size=500)})


def test_what_is_not_determined_has_infinite_errors():
    fit = kz.identify(SCALED, ringing(), ["m", "c", "k"], kz.ShootingFit(throw=False))
    assert all(np.isinf(error) for error in fit.deviations.values())
    assert np.isinf(fit.interval(0.95).to_numpy()).all()
    assert "inf" in str(fit)
    with pytest.raises(kz.KapitzaError, match="not determined"):
        kz.profile_interval(fit, "m")


def test_what_is_determined_beside_it_keeps_its_error():
    model = kz.Model.from_equations("x'' + d*x' + w2*x + q*x*0 = 0", parameters={"d": 0.2, "w2": 4.0, "q": 1.0})
    both = kz.identify(model, ringing(), ["d", "w2"], kz.ShootingFit(noise=0.01))
    fit = kz.identify(model, ringing(), ["d", "w2", "q"], kz.ShootingFit(noise=0.01, throw=False))
    assert np.isinf(fit.deviations["q"])
    assert fit.deviations["d"] == pytest.approx(both.deviations["d"], rel=1e-3)


def test_bound_of_an_unidentifiable_design_is_refused():
    states = kz.simulate(SCALED, x0=[1.0, 0.0], t=np.arange(200) * 0.05)
    with pytest.raises(kz.KapitzaError, match="The bound is infinite"):
        kz.cramer_rao(SCALED, states, {"x": 0.01}, ["m", "c", "k"])


def test_all_parameters_of_a_pendulum_free_is_refused_in_words():
    model = kz.library.parametric_pendulum()
    clean = kz.simulate(model, periods=30, samples_per_period=20, seed=1)
    readings = clean["phi"] + 0.01 * np.random.default_rng(2).normal(size=clean.size)
    record = kz.Record.from_arrays(clean.time, {"phi": readings}, angles=["phi"], period=clean.period, phase=0.0)
    with pytest.raises(kz.KapitzaError, match=r"The data determine|exchangeable"):
        kz.identify(model, record, None, kz.ShootingFit())


def test_parameter_at_its_bound_has_a_one_sided_interval(record):
    model = with_parameter(kz.library.lorenz(), kz.Parameter("rho", 27.0, bounds=(0.0, 27.9)))
    fit = kz.identify(model, record, FREE, kz.ShootingFit())
    assert fit.values["rho"] == pytest.approx(27.9)
    low, high = fit.interval(0.9).loc["rho"]
    assert low < high == fit.values["rho"]
    assert np.isfinite(fit.deviations["sigma"])


def decay(time, rate):
    return np.exp(-rate * time)


FIRST_ORDER = kz.Model.from_equations("x' + r*x = 0", parameters={"r": 1.0})


def decaying(deviation, seed, **marks):
    time = np.arange(200) * 0.02
    rng = np.random.default_rng(seed)
    return kz.Record.from_arrays(time, {"x": decay(time, 1.0) + deviation * rng.normal(size=time.size)}, **marks)


def unlikelihood(record, noise, rate):
    """-2 log likelihood of x = A exp(-r t) with the best A."""
    shape = decay(record.time, rate)
    amplitude = shape @ record["x"] / (shape @ shape)
    return float((((record["x"] - amplitude * shape) / noise) ** 2).sum())


def crossing(function, inside, outside):
    return optimize.brentq(function, inside, outside)


@pytest.mark.parametrize("prior", [None, kz.Prior(1.1, 0.05)])
def test_profile_is_that_of_the_posterior(prior):
    record = decaying(0.05, 3, noise={"x": 0.05})
    model = with_parameter(FIRST_ORDER, kz.Parameter("r", 1.3, prior=prior))
    fit = kz.identify(model, record, ["r"], kz.ShootingFit())

    def minus_two_log(rate):
        extra = 0.0 if prior is None else ((rate - prior.mean) / prior.deviation) ** 2
        return unlikelihood(record, 0.05, rate) + extra

    level = stats.chi2.ppf(0.9, 1)
    best = fit.values["r"]
    expected = [
        crossing(lambda r: minus_two_log(r) - minus_two_log(best) - level, best, best + side * 0.5) for side in (-1, 1)
    ]
    assert kz.profile_interval(fit, "r", 0.9) == pytest.approx(tuple(expected), abs=0.01 * fit.deviations["r"])


def test_profile_ends_at_a_bound():
    record = decaying(0.05, 3, noise={"x": 0.05})
    free = kz.identify(FIRST_ORDER, record, ["r"], kz.ShootingFit())
    bound = free.values["r"] - 0.5 * free.deviations["r"]
    model = with_parameter(FIRST_ORDER, kz.Parameter("r", bound - 0.1, bounds=(0.0, bound)))
    fit = kz.identify(model, record, ["r"], kz.ShootingFit())
    low, high = kz.profile_interval(fit, "r", 0.9)
    assert high == bound
    level = unlikelihood(record, 0.05, bound) + stats.chi2.ppf(0.9, 1)
    assert low == pytest.approx(crossing(lambda r: unlikelihood(record, 0.05, r) - level, bound, 0.5), abs=1e-3)


def test_profile_of_a_robust_fit_is_that_of_its_loss():
    """Far outliers leave the profile as wide as the curvature says, where a sum of squares would be dominated."""
    record = decaying(0.05, 4)
    wild = record["x"].copy()
    wild[::20] += 3.0
    spoilt = kz.Record.from_arrays(record.time, {"x": wild})
    fit = kz.identify(FIRST_ORDER, spoilt, ["r"], kz.ShootingFit(robust=True, noise=0.05))
    low, high = kz.profile_interval(fit, "r", 0.68)
    assert low < fit.values["r"] < high
    assert high - low == pytest.approx(2 * 0.9945 * fit.deviations["r"], rel=0.25)


@pytest.mark.parametrize("level", [0.0, 1.5, "high"])
def test_level_of_a_profile(record, level):
    fit = kz.identify(kz.library.lorenz(), record, ["rho"], kz.ShootingFit())
    with pytest.raises(kz.KapitzaError, match=r"between 0 and 1|give a number"):
        kz.profile_interval(fit, "rho", level)


def test_prior_that_the_data_contradict_is_told(record):
    wrong = with_parameter(kz.library.lorenz(), kz.Parameter("rho", 28.0, prior=kz.Prior(30.0, 0.003)))
    fit = kz.identify(wrong, record, FREE, kz.ShootingFit(noise=0.1))
    told = [text for text in fit.warnings if "prior" in text]
    assert told
    assert "rho" in told[0]
    right = with_parameter(kz.library.lorenz(), kz.Parameter("rho", 28.0, prior=kz.Prior(28.0, 0.01)))
    assert not any("prior" in t for t in kz.identify(right, record, FREE, kz.ShootingFit(noise=0.1)).warnings)


def test_known_initial_state_holds_once_not_after_a_gap():
    time = np.concatenate([np.arange(200) * 0.02, 6.0 + np.arange(100) * 0.02])
    x = 2.0 * decay(time, 0.3) + 0.01 * np.random.default_rng(5).normal(size=time.size)
    model = FIRST_ORDER.with_values(r=0.5)
    fit = kz.identify(model, kz.Record.from_arrays(time, {"x": x}), ["r"], kz.ShootingFit(initial={"x": 2.0}))
    assert abs(fit.values["r"] - 0.3) < 4 * fit.deviations["r"]
    assert fit.motion.states[0, 0] == pytest.approx(2.0, abs=1e-6)


def test_each_record_may_start_from_its_own_state():
    time = np.arange(200) * 0.02
    rng = np.random.default_rng(6)
    runs = [
        kz.Record.from_arrays(time, {"x": start * decay(time, 0.7) + 0.01 * rng.normal(size=200)})
        for start in (1.0, 3.0)
    ]
    method = kz.ShootingFit(initial=[{"x": 1.0}, {"x": 3.0}])
    fit = kz.identify(FIRST_ORDER, runs, ["r"], method)
    assert abs(fit.values["r"] - 0.7) < 4 * fit.deviations["r"]
    with pytest.raises(kz.KapitzaError, match="1 states for 2 records"):
        kz.identify(FIRST_ORDER, runs, ["r"], kz.ShootingFit(initial=[{"x": 1.0}]))
    with pytest.raises(kz.KapitzaError, match="give a table"):
        kz.identify(FIRST_ORDER, runs, ["r"], kz.ShootingFit(initial=[1.0, 3.0]))


def test_end_of_each_record_is_held_back():
    first, second = decaying(0.01, 7), decaying(0.01, 8)
    later = kz.Record.from_arrays(second.time + 40.0, {"x": second["x"]})
    fit = kz.identify(FIRST_ORDER, [first, later], ["r"], kz.ShootingFit(hold_back=0.5))
    prediction = fit.motion.prediction
    assert prediction.error.shape == (200, 1)
    assert prediction.horizon == pytest.approx(100 * 0.02)
    assert np.sqrt((prediction.error**2).mean()) == pytest.approx(1.0, abs=0.2)


def test_prediction_that_is_not_possible_is_told():
    time = np.concatenate([np.arange(200) * 0.02, 16.0 + np.arange(200) * 0.02])
    x = decay(time, 0.1) + 0.01 * np.random.default_rng(5).normal(size=time.size)
    record = kz.Record.from_arrays(time, {"x": x})
    fit = kz.identify(FIRST_ORDER, record, ["r"], kz.ShootingFit(hold_back=0.5))
    assert fit.motion.prediction is None
    assert any("held back" in text for text in fit.warnings)


def test_free_parameter_set_by_a_record_is_refused():
    with pytest.raises(kz.KapitzaError, match="r is free and also given as 2 with record 0"):
        kz.identify(FIRST_ORDER, [(decaying(0.01, 1), {"r": 2.0})], ["r"], kz.ShootingFit())


def test_kicks_on_some_states_leave_the_others_rigid():
    """Rates that are kicked, positions that are not: the links of the positions close to rounding."""
    model = kz.Model.from_equations("x'' + d*x' + k*x = 0", parameters={"d": 0.3, "k": 4.0})
    flow, rng = kz.Flow(model), np.random.default_rng(9)
    states = [np.array([1.0, 0.0])]
    for _ in range(400):
        kick = np.array([0.0, 0.05 * rng.normal()])
        states.append(flow.propagate(states[-1], 0.0, 0.05, tangents=False).state + kick)
    x = np.array(states)[:, 0] + 0.002 * rng.normal(size=401)
    record = kz.Record.from_arrays(np.arange(401) * 0.05, {"x": x}, noise={"x": 0.002})
    fit = kz.identify(model, record, ["d", "k"], kz.ShootingFit(process_noise={"x'": 0.05}))
    assert fit.status.ok
    assert np.isfinite(fit.history["cost"]).all()
    assert abs(fit.values["k"] - 4.0) < 5 * fit.deviations["k"]
