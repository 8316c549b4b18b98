"""suggest: left-out terms are named, complete models are left alone, friction laws may not feed energy in."""

import numpy as np
import pytest
from scipy.signal import lfilter

import kapitza as kz
from kapitza.estimate.missing.columns import Window
from kapitza.estimate.missing.dictionary import candidate_terms
from kapitza.estimate.missing.score import _normal_equations, effective_tests
from kapitza.estimate.missing.whitening import ORDER, autoregression
from kapitza.flow import Flow

RIG = {"c": 0.1, "k": 4.0}
TIME = np.arange(1500) * 0.02


def fit_of(truth: str, model: str = "x'' + c*x' + k*x = 0", seed: int = 1, free=("c", "k"), **noise):
    made = kz.Model.from_equations(truth, parameters=RIG)
    record = kz.measure(kz.simulate(made, [1.0, 0.0], t=TIME).select(["x"]), noise=0.01, seed=seed)
    return kz.identify(kz.Model.from_equations(model, parameters=RIG), record, free=list(free), method=kz.ShootingFit())


def test_a_complete_model_misses_nothing():
    alarms = sum(kz.suggest(fit_of("x'' + c*x' + k*x = 0", seed=seed)).missing for seed in range(20))
    # 5 % of 20 searches: more than 4 has a probability of 0.003
    assert alarms <= 4
    found = kz.suggest(fit_of("x'' + c*x' + k*x = 0", seed=3))
    assert not found.missing
    assert "Nothing is missing" in str(found)
    # what the model has already is not a candidate
    assert "viscous friction of x" not in found.table().index
    assert "linear stiffness of x" not in found.table().index


@pytest.mark.parametrize(
    ("term", "called", "coefficient"),
    [("0.1*x**3", "cubic stiffness of x", 0.1), ("0.02*sign(x')", "Coulomb friction of x", 0.02)],
)
def test_a_missing_term_is_named_with_its_size(term, called, coefficient):
    found = kz.suggest(fit_of(f"x'' + c*x' + k*x + {term} = 0"))
    assert found.missing
    assert found.terms[0].name == called
    named = {alternative.name: alternative for alternative in found.alternatives}
    assert called in named
    assert abs(named[called].coefficient - coefficient) < 4 * named[called].error + 0.05 * coefficient
    assert called in str(found)


def test_the_columns_are_the_derivatives_of_the_readings():
    # a term added with a small coefficient moves the prediction by its column
    from kapitza.estimate.missing.columns import windows_of

    fit = fit_of("x'' + c*x' + k*x = 0")
    terms = [t for t in candidate_terms(fit.model, np.array([1.0, 2.0])) if t.name == "cubic stiffness of x"]
    (window,) = windows_of(fit, terms, ())
    state = fit.motion.states[0]
    richer = kz.Model.from_equations("x'' + c*x' + k*x + q*x**3 = 0", parameters={**fit.values, "q": 0.0})
    exact = Flow(richer, wrt=("q",)).trajectory_tangents(state, fit.motion.sample_times)[2][:, 0, 0]
    seen = window.terms[:, 0, 0] * fit.noise["x"]
    assert np.abs(seen - exact).max() < 2e-3 * np.abs(exact).max()
    # the score of the free parameters vanishes at the fit
    pull = (window.free * window.residual[..., None]).sum(axis=(0, 1))
    power = np.sqrt((window.free**2).sum(axis=(0, 1)))
    assert np.abs(pull / power).max() < 1e-3


def test_friction_that_would_feed_energy_in_is_not_offered():
    found = kz.suggest(fit_of("x'' + c*x' + k*x - 0.02*sign(x') = 0"))
    assert found.missing
    assert all(term.physical for term in found.alternatives)
    strongest = found.table().loc["Coulomb friction of x"]
    assert strongest["coefficient"] < 0
    assert not strongest["physical"]


def test_where_no_single_term_suffices_pairs_are_tried():
    fit = fit_of("x'' + c*x' + k*x + 0.05*sign(x') + 0.4*x**3 = 0")
    found = kz.suggest(fit)
    assert not found.alternatives
    names = [{one.name, two.name} for one, two in found.pairs[:3]]
    assert {"Coulomb friction of x", "cubic stiffness of x"} in names
    assert "Pairs" in str(found)


def test_coloured_noise_is_not_taken_for_a_missing_term():
    from scipy.signal import lfilter

    model = kz.Model.from_equations("x'' + c*x' + k*x = 0", parameters=RIG)
    clean = kz.simulate(model, [1.0, 0.0], t=TIME)
    alarms = 0
    for seed in range(12):
        white = np.random.default_rng(seed).standard_normal(1700)
        noise = 0.01 * lfilter([0.6], [1, -0.8], white)[200:]
        record = kz.Record.from_arrays(TIME, {"x": clean["x"] + noise})
        alarms += kz.suggest(kz.identify(model, record, free=["c", "k"], method=kz.ShootingFit())).missing
    assert alarms <= 3


def test_equal_tests_count_once_and_independent_ones_by_number():
    assert effective_tests(np.ones((6, 6))) == pytest.approx(1.0, abs=0.2)
    assert effective_tests(np.eye(6)) == pytest.approx(6.0, rel=0.15)


def test_what_cannot_be_asked_is_refused():
    fit = fit_of("x'' + c*x' + k*x = 0")
    harmonic = kz.identify(fit.model, fit.data, free=["c", "k"], method=kz.HarmonicFit())
    with pytest.raises(kz.KapitzaError, match="ShootingFit"):
        kz.suggest(harmonic)


def named(found) -> set[str]:
    pairs = {term.name for pair in found.pairs[:1] for term in pair}
    return {term.name for term in found.alternatives} | pairs


@pytest.mark.parametrize(("fault", "called"), [("drift", "drift of the sensor x"), ("lag", "delay of the sensor x")])
def test_faults_of_a_sensor_are_named(fault, called):
    """Two sensors of one mass: a drift or a lag of one of them is not a motion."""
    model = kz.Model.from_equations("x'' + c*x' + k*x = 0", parameters=RIG)
    late = kz.simulate(model, [1.0, 0.0], t=np.concatenate([[0.0], TIME + 0.99]))["x"][1:]
    seen = kz.simulate(model, [1.0, 0.0], t=np.concatenate([[0.0], TIME + 1.0])).samples(slice(1, None))
    x = seen["x"] + 0.003 * TIME if fault == "drift" else late
    noise = 0.005 * np.random.default_rng(5).standard_normal((2, TIME.size))
    record = kz.Record.from_arrays(TIME, {"x": x + noise[0], "x'": seen["x'"] + 2 * noise[1]})
    found = kz.suggest(kz.identify(model, record, ["c", "k"], kz.ShootingFit()))
    assert found.missing
    assert called in named(found)


def test_a_late_drive_is_named():
    text = "x'' + c*x' + k*x + x**3 = 2*cos(1.7*t - {lag})"
    truth, model = (
        kz.Model.from_equations(text.format(lag=lag), parameters=RIG, period="2*pi/1.7") for lag in (0.05, 0.0)
    )
    record = kz.measure(kz.simulate(truth, [1.0, 0.0], t=TIME).select(["x"]), noise=0.01, seed=2)
    found = kz.suggest(kz.identify(model, record, ["c", "k"], kz.ShootingFit()))
    assert found.missing
    assert "delay of the drive" in named(found)


def test_a_fit_that_misses_is_never_told_that_nothing_is_missing():
    """Dense samples of a decay: whitening takes the slow misfit for noise, the test of the fit does not."""
    truth = kz.Model.from_equations("x'' + c*x' + k*x + 0.15*sign(x') = 0", parameters={"c": 0.4, "k": 400.0})
    clean = kz.simulate(truth, [0.05, 0.0], t=np.arange(3000) * 0.001).select(["x"])
    record = kz.Record.from_arrays(clean.time, {"x": kz.measure(clean, noise=0.002, seed=1)["x"]})
    model = kz.Model.from_equations("x'' + c*x' + k*x = 0", parameters={"c": 0.4, "k": 400.0})
    fit = kz.identify(model, record, ["c", "k"], kz.ShootingFit())
    assert fit.misfit is not None
    assert not fit.misfit.to_the_noise
    assert str(kz.suggest(fit)).startswith("Something is missing")


def test_power_is_said_where_nothing_is_missing():
    found = kz.suggest(fit_of("x'' + c*x' + k*x = 0", seed=3))
    assert "Would have been seen:" in str(found)
    cubic = next(term for term in found.terms if term.name == "cubic stiffness of x")
    assert f"{cubic.detectable:.2g}" in str(found) or cubic.share > min(term.share for term in found.terms)


def test_recordings_shorter_than_the_filter_of_the_noise_take_part():
    model = kz.Model.from_equations(
        "x'' + c*x' + k*x = 0", parameters={"c": 0.1, "k": 4.0}, start={"x": 1.5, "x'": 0.0}
    )
    t = np.arange(400) * 0.05
    white = np.random.default_rng(0).normal(size=t.size + 5)
    coloured = 0.02 * np.convolve(white, np.ones(6) / 3, "valid")
    segment = np.repeat([0, 1], [398, 2])
    record = kz.Record.from_arrays(t, {"x": kz.simulate(model, t=t)["x"] + coloured}, segment=segment)
    fit = kz.identify(model, record, ["c", "k"], method=kz.ShootingFit())
    assert kz.suggest(fit) is not None


def test_a_term_too_small_to_be_seen_moves_values_as_far_as_suggest_says():
    linear = kz.Model.from_equations("x'' + c*x' + k*x = 0", parameters={"c": 0.1, "k": 4.0})

    def fitted(q):
        truth = kz.Model.from_equations("x'' + c*x' + k*x + q*x**3 = 0", parameters={"c": 0.1, "k": 4.0, "q": q})
        record = kz.measure(kz.simulate(truth, [1, 0], t=np.arange(800) * 0.04).select(["x"]), noise=0.01, seed=3)
        return kz.identify(linear, record, ["c", "k"], kz.ShootingFit())

    plain = fitted(0.0)
    found = kz.suggest(plain)
    assert not found.missing
    term = next(t for t in found.terms if t.name == "cubic stiffness of x")
    moved = fitted(term.detectable)
    seen = abs(moved[term.moves] - plain[term.moves]) / plain.deviations[term.moves]
    # The same noise in both fits: the shift is that of the term alone, but for its square.
    assert seen == pytest.approx(term.errors, rel=0.1)
    assert {shift.parameter for shift in found.shifts} == {"c", "k"}
    assert next(s for s in found.shifts if s.parameter == term.moves).errors >= term.errors
    assert all(str(shift) in str(found) for shift in found.shifts if shift.errors >= 2.0)


def test_noise_that_a_filter_cannot_keep_bounded_is_not_filtered():
    """Residuals that grow: least squares finds x_t = 2.5 x_(t-1), whose covariance is infinite."""
    growing = 2.5 ** np.arange(60.0)
    rows = np.lib.stride_tricks.sliding_window_view(growing, ORDER + 1)
    found = autoregression(rows)
    roots = np.abs(np.roots(np.r_[1.0, -found]))
    assert roots.max(initial=0.0) < 1.0


def test_terms_of_the_model_itself_are_not_candidates():
    """The quadrature of k3*x**3/0.35 leaves a remainder of "cubic stiffness", which is not a term that is missing."""
    model = kz.Model.from_equations(
        "0.35*x'' + c*x' + k*x + k3*x**3 = 3*sin(7*t)", parameters={"c": 1.1, "k": 70.0, "k3": 900.0}, period="2*pi/7"
    )
    record = kz.measure(kz.simulate(model, [0.1, 0.0], t=np.arange(600) * 0.01).select(["x"]), noise=0.001, seed=1)
    found = kz.suggest(kz.identify(model, record, ["c", "k", "k3"], kz.ShootingFit()))
    names = {term.name for term in found.terms}
    assert names.isdisjoint({"cubic stiffness of x", "linear stiffness of x", "viscous friction of x"})
    assert "quintic stiffness of x" in names


@pytest.mark.parametrize("from_start", [False, True])
def test_lost_samples_are_no_evidence(from_start):
    """The information of coloured rows is that of the samples left: a Schur complement of the precision FᵀF."""
    rng = np.random.default_rng(3)
    count, taps = 120, np.array([0.7, -0.2, 0.0, 0.1, 0.0, 0.0, 0.0, 0.0])
    lost = rng.random((count, 1)) < 0.3
    lost[: taps.size] = from_start
    rows = np.where(lost[..., None], 0.0, rng.standard_normal((count, 1, 6)))
    window = Window(lost, rows[..., 0], rows[..., 1:2], rows[..., 2:4], rows[..., 4:])
    found = _normal_equations([window], taps[None])
    whole = sum(np.diag(np.full(count - lag, v), -lag) for lag, v in enumerate([1.0, *-taps]))[taps.size :]
    precision, there = whole.T @ whole, ~lost[:, 0]
    # Samples before the reach of the filter have no precision: the inverse is a generalised one.
    left = (
        precision[np.ix_(there, there)]
        - precision[np.ix_(there, ~there)]
        @ np.linalg.pinv(precision[np.ix_(~there, ~there)])
        @ precision[np.ix_(~there, there)]
    )
    columns, initial = rows[there, 0][:, [2, 3, 4, 5, 0]], rows[there, 0][:, 1:2]
    across = initial.T @ left @ columns
    exact = columns.T @ left @ columns - across.T @ np.linalg.solve(initial.T @ left @ initial, across)
    assert np.allclose(found.whole, exact, rtol=1e-9, atol=1e-9)
    assert found.rows == len(whole) - np.linalg.matrix_rank(whole[:, ~there]) - 1


@pytest.mark.parametrize("seed", [6, 8, 10])
def test_a_saturated_record_with_coloured_noise_raises_no_alarm(seed):
    """Counted as samples of 0, the lost ones made the noise look small and white: 19 alarms of 60."""
    model = kz.Model.from_equations("x'' + c*x' + k*x + a*x**3 = 0", parameters={"c": 0.1, "k": 4.0, "a": 0.5})
    clean = kz.simulate(model, [1, 0], t=np.arange(1000) * 0.03).select(["x"])
    noise = lfilter([0.6], [1, -0.8], np.random.default_rng([seed, 5]).standard_normal(1000))
    x = clean["x"] + 0.01 * clean["x"].std() * noise
    record = kz.Record.from_arrays(clean.time, {"x": np.clip(x, *np.quantile(x, [0.1, 0.9]))})
    fit = kz.identify(model, record, free=["c", "k", "a"], method=kz.ShootingFit())
    assert any("saturated" in w for w in fit.warnings)
    assert not kz.suggest(fit).missing


PARAMETRIC = "x'' + c*x' + k*x + F*x*cos(w*t) = 0"
DRIVEN = {"c": 0.1, "k": 4.0, "F": 1.0, "w": 1.3}


def test_a_gain_that_a_free_parameter_is_is_no_candidate():
    model = kz.Model.from_equations(PARAMETRIC, parameters=DRIVEN, period="2*pi/w")
    record = kz.measure(kz.simulate(model, [1, 0], t=np.arange(800) * 0.04).select(["x"]), noise=0.01, seed=3)
    names = {}
    for free in (["c", "k", "F"], ["c", "k"]):
        names[len(free)] = {t.name for t in kz.suggest(kz.identify(model, record, free, kz.ShootingFit())).terms}
    assert "gain of the drive" in names[2]
    assert "gain of the drive" not in names[3]
    assert "delay of the drive" in names[3]


def test_a_gain_of_a_measured_drive_scales_its_mean_too():
    time = np.arange(800) * 0.04
    force = kz.Signal("u", time, 2.0 + np.sin(1.3 * time), degree=3)
    model = kz.Model.from_equations(
        "x'' + c*x' + k*x = g*u", parameters={"c": 0.1, "k": 4.0, "g": 1.0}, signals=[force]
    )
    record = kz.measure(kz.simulate(model, [0.5, 0], t=time).select(["x"]), noise=0.01, seed=3)
    names = {}
    for free in (["c", "k", "g"], ["c", "k"]):
        names[len(free)] = {t.name for t in kz.suggest(kz.identify(model, record, free, kz.ShootingFit())).terms}
    assert "gain of the drive" in names[2]
    assert "gain of the drive" not in names[3]
