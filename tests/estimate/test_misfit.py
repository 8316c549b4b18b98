"""The judge of misfit and the intervals that hold when pieces disagree, against their own theory."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.estimate import Misfit
from kapitza.estimate.disagreement import long_run, pieces_disagree, widening
from kapitza.estimate.faults import Fault
from kapitza.estimate.misfit import floor_of, place_of, scores_of, structure
from kapitza.signal import scatter


def test_white_noise_has_no_structure():
    rng = np.random.default_rng(1)
    chances = np.array([structure(rng.standard_normal(1500)) for _ in range(600)])
    assert (chances < 0.05).mean() <= 0.07
    assert (chances < 1e-3).mean() <= 0.005


@pytest.mark.parametrize("name", ["line", "slow", "autoregressive"])
def test_structure_far_below_the_noise_is_seen(name):
    rng, t = np.random.default_rng(2), np.arange(4000)
    noise = rng.standard_normal(t.size)
    if name == "line":
        left = noise + 0.15 * np.sin(0.37 * t)
    elif name == "slow":
        left = noise + 0.2 * np.convolve(rng.standard_normal(t.size), np.ones(50) / np.sqrt(50), "same")
    else:
        left = noise.copy()
        left[1:] += 0.3 * noise[:-1]
    assert structure(left) < 1e-3


def test_floor_of_noise_under_a_motion():
    rng, t = np.random.default_rng(3), np.arange(4000)
    assert floor_of(0.1 * rng.standard_normal(t.size) + np.sin(0.05 * t)) == pytest.approx(0.1, rel=0.05)


def test_scores_are_uniform_and_see_a_missing_column():
    rng = np.random.default_rng(4)
    used, columns = rng.standard_normal((500, 3)), rng.standard_normal((500, 40))
    chances = np.concatenate([scores_of(columns, used, rng.standard_normal(500)).chances for _ in range(50)])
    assert (chances < 0.1).mean() == pytest.approx(0.1, abs=0.02)
    missing = rng.standard_normal(500) + 0.5 * columns[:, 7]
    assert int(np.argmin(scores_of(columns, used, missing).chances)) == 7
    np.testing.assert_array_equal(scores_of(used, used, missing).chances, 1.0)


def test_place_is_named():
    rng = np.random.default_rng(5)
    speed, other = rng.standard_normal(2000), rng.standard_normal(2000)
    assert place_of(speed**4, {"x": other, "x'": speed}) == "at large |x'|"
    assert place_of(np.ones(2000), {"x": other}) == ""


def test_words_of_a_misfit():
    right = Misfit(0.1, 1e-3, 0.4)
    assert str(right) == "follows the data to the noise"
    assert list(right.warnings()) == []
    wrong = Misfit(12.0, 0.03, 0.0, "the equations", "equation 2 at large |phi'|", "high-frequency scatter")
    assert str(wrong) == "follows the data to 3 % of the signal"
    (text,) = wrong.warnings()
    assert text.startswith(
        "the equations miss the data by 12 times the noise (by high-frequency scatter), most in equation 2 at large "
        "|phi'|:"
    )
    assert str(Misfit(40.0, 0.8, 0.0)) == "does not follow the data"


def test_long_run_variance_of_an_autoregression():
    """Of x_i = a x_(i-1) + e the sum has the variance N/(1 - a)²."""
    rng, ratios = np.random.default_rng(6), []
    for _ in range(40):
        e, x = rng.standard_normal(2000), np.zeros(2000)
        for i in range(1, 2000):
            x[i] = 0.5 * x[i - 1] + e[i]
        ratios.append(long_run(x[:, None])[0][0, 0] / (2000 / 0.25))
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.15)


def test_pieces_that_agree_have_no_spread_and_others_theirs():
    rng = np.random.default_rng(7)
    covariances = np.broadcast_to(np.diag([0.01, 0.04]), (8, 2, 2))
    chances = [pieces_disagree(rng.standard_normal((8, 2)) * [0.1, 0.2], covariances)[1] for _ in range(400)]
    assert (np.array(chances) < 0.01).mean() <= 0.025
    found = [pieces_disagree(rng.standard_normal((8, 2)) * [1.0, 0.2], covariances)[0] for _ in range(200)]
    assert np.mean(np.square(found), axis=0)[0] == pytest.approx(0.99, rel=0.15)


def test_intervals_are_as_wide_as_pieces_disagree():
    steps = np.array([[-1.0], [1.0], [-1.2], [1.1], [0.9], [-0.8]])
    covariance, each = np.array([[0.01]]), np.full((6, 1, 1), 0.06)
    found = widening(covariance, None, steps, each, white=True, freedom=np.inf)
    assert found.factor[0] * 0.1 > 0.9
    assert found.freedom < 6
    agree = widening(covariance, None, 0.1 * steps, each, white=True, freedom=np.inf)
    assert agree.factor[0] == 1.0
    assert agree.freedom == np.inf


def test_noise_of_a_record_from_the_record_itself():
    rng, t = np.random.default_rng(8), np.arange(3000)
    smooth = np.sin(2 * np.pi * t / 100) + 0.01 * rng.standard_normal(t.size)
    seen = scatter(smooth[:, None])
    assert seen.level[0] == pytest.approx(0.01, rel=0.1)
    assert seen.source == ("high-frequency scatter",)
    # Four samples a period with strong harmonics: only periods that repeat tell noise from motion.
    coarse = np.sign(np.sin(2 * np.pi * t / 8 + 0.3)) + 0.01 * rng.standard_normal(t.size)
    seen = scatter(coarse[:, None], period=8.0)
    assert seen.level[0] == pytest.approx(0.01, rel=0.1)
    assert seen.source == ("repeated periods",)
    rounded = np.round(np.sin(2 * np.pi * t / 1000) / 0.05) * 0.05
    assert scatter(rounded[:, None]).level[0] >= 0.999 * 0.05 / np.sqrt(12.0)


DUFFING = kz.Model.from_equations(
    "x'' + c*x' + k1*x + k3*x**3 + q*x'*abs(x') = F*cos(omega*t)",
    parameters={"c": 0.1, "k1": -1.0, "k3": 1.0, "q": 0.15, "F": 0.38, "omega": 1.0},
    period="2*pi/omega",
)


def duffing_record(seed, noise=0.009):
    clean = kz.simulate(DUFFING, x0=[1.0, 0.0], t=np.arange(6000) * 0.05)
    x = clean["x"] + noise * np.random.default_rng(seed).standard_normal(clean.size)
    return kz.Record.from_arrays(clean.time, {"x": x}, period=clean.period, phase=0.0)


def test_weak_form_tells_of_a_term_left_out_though_nobody_stated_the_noise():
    fit = kz.identify(DUFFING.with_values(q=0.0), duffing_record(1), ["c", "k1", "k3"], kz.HarmonicFit())
    assert not fit.misfit.to_the_noise
    assert "of the signal" in fit.headline
    (text,) = [text for text in fit.warnings if "miss the data" in text]
    assert "times the noise (by high-frequency scatter), most at large |x'|" in text
    assert (fit.interval().high - fit.interval().low > fit.noise_interval().high - fit.noise_interval().low).all()


def test_weak_form_of_the_right_model_follows_to_the_noise():
    fit = kz.identify(DUFFING, duffing_record(2), ["c", "k1", "k3", "q"], kz.HarmonicFit())
    assert fit.misfit.to_the_noise
    assert str(fit).splitlines()[0].endswith("follows the data to the noise")
    assert not [text for text in fit.warnings if "miss" in text]


def test_shooting_tells_of_a_term_left_out_and_widens_its_intervals():
    record = duffing_record(3).samples(slice(0, 1500))
    fit = kz.identify(DUFFING.with_values(q=0.0), record, ["c", "k1", "k3"], kz.ShootingFit())
    (text,) = [text for text in fit.warnings if "misses the data" in text]
    assert "times the noise (by scatter of the samples)" in text
    stated, alone = fit.interval(), fit.noise_interval()
    assert ((stated.high - stated.low) > 2 * (alone.high - alone.low)).all()


def test_halves_of_a_decay_without_its_drag_overlap():
    """Damping that depends on amplitude: noise alone would keep the halves thirty intervals apart."""
    truth = kz.Model.from_equations(
        "p'' + c*p' + w*sin(p) + q*p'*abs(p') = 0", parameters={"c": 0.03, "w": 1.0, "q": 0.01}
    )
    run = kz.simulate(truth, x0=[2.0, 0.0], t=np.arange(3000) * 0.08)
    noisy = run["p"] + 0.01 * np.random.default_rng(5).standard_normal(run.size)
    record = kz.Record.from_arrays(run.time, {"p": noisy})
    halves = [record.samples(slice(0, 1500)), record.samples(slice(1500, 3000))]
    fits = [kz.identify(truth.with_values(q=0.0), half, ["c", "w"], kz.ShootingFit()) for half in halves]
    stated, alone = [f.interval().loc["c"] for f in fits], [f.noise_interval().loc["c"] for f in fits]
    assert max(i.low for i in stated) < min(i.high for i in stated)
    assert max(i.low for i in alone) > min(i.high for i in alone)


def test_a_fit_that_failed_states_no_intervals():
    """A quantity that only decays cannot follow a wave."""
    model = kz.Model.from_equations("x' = -a*x", parameters={"a": 1.0})
    time = np.arange(200) * 0.05
    fit = kz.identify(model, kz.Record.from_arrays(time, {"x": np.cos(3 * time)}), ["a"], kz.ShootingFit(throw=False))
    assert not fit.status.ok
    assert np.isnan(fit.interval().to_numpy()).all()
    assert fit.identifiable == ()
    assert fit.identifiability is None
    assert "(no interval)" in str(fit)


def test_a_worse_model_does_not_predict_longer():
    record = duffing_record(4).samples(slice(0, 1500))
    method = kz.ShootingFit(hold_back=0.3)
    right, wrong = (
        kz.identify(DUFFING.with_values(q=q), record, ["c", "k1", "k3"], method).motion.prediction.horizon
        for q in (0.15, 0.0)
    )
    assert wrong < right


def test_orbits_found_in_a_record_of_the_right_model_give_no_alarm():
    model = kz.Model.from_equations(
        "phi'' + c*phi' - a*sin(phi) + b*sin(2*phi) = F*cos(omega*t)",
        parameters={"c": 0.25, "a": 0.4, "b": 0.7, "F": 1.2, "omega": 1.0}, period="2*pi/omega", angles=["phi"],
    )  # fmt: skip
    clean = kz.simulate(model, x0=[0.9, 0.0], periods=8000)
    orbits = kz.find_orbits(kz.measure(clean, noise={"phi": 2e-3, "phi'": 3e-3}, seed=0), max_period=2)
    fit = kz.identify(model, orbits, ["c", "a", "b"])
    assert fit.misfit.to_the_noise
    assert not [text for text in fit.warnings if "miss the data" in text]


def test_structure_below_the_noise_is_not_a_miss():
    small = Misfit(size=0.74, share=0.004, chance=1e-9, what="the motion")
    assert not small.misses
    assert str(small).startswith("follows the data to the noise")
    (text,) = small.warnings()
    assert "misses" not in text
    assert "0.74 times the noise" in text
    large = Misfit(size=27.0, share=0.15, chance=0.0, what="the motion")
    assert large.misses
    assert large.verdict == "misses the data by 27 times the noise (15 % of the signal)"


def test_a_chance_disagreement_of_pieces_does_not_widen_where_residuals_are_white():
    """χ² of 8 pieces at 0.4 %: one right model in 250 has it, and its pieces know the parameter 20 times worse."""
    pieces, piece = 8, 20.0
    step = np.zeros((pieces, 1))
    step[0] = 1.0
    step *= piece * np.sqrt(21.0 / ((step - step.mean()) ** 2).sum())
    covariances = np.full((pieces, 1, 1), piece**2)
    assert 1e-3 < pieces_disagree(step, covariances)[1] < 1e-2
    white, wrong = (widening(np.eye(1), None, step, covariances, judged, np.inf) for judged in (True, False))
    assert white.factor[0] == 1.0
    assert not list(white.warnings())
    assert wrong.factor[0] > 10
    (text,) = wrong.warnings()
    assert "8 pieces" in text


def test_the_effect_of_a_small_fault_is_said():
    """An offset that moves nothing is not called a danger; what is not known may be one."""

    def said(moves: float | None) -> str:
        fault = Fault("offset", "x", 8e-4, 3e-4, 0.007, moves)
        (text,) = Misfit(0.0, 0.0, 0.5, "the motion", fault=fault).warnings()
        return text

    assert "moves no value by more than 0.1 standard errors" in said(0.13)
    assert "moves a value by 4.2 standard errors" in said(4.2)
    assert "may be far off" in said(None)


def test_the_effect_of_a_fault_is_that_of_a_fit_without_it():
    model = kz.Model.from_equations(
        "x'' + c*x' + k*x = F*cos(w*t)", parameters={"c": 0.2, "k": 4.0, "F": 1.0, "w": 1.3}, period="2*pi/w"
    )
    clean = kz.simulate(model, [1.0, 0.0], t=np.arange(1500) * 0.02).select(["x"])
    record = kz.measure(clean.with_channel("x", clean["x"] + 0.004), noise=0.01, seed=1)
    fit = kz.identify(model, record, ["c", "k", "F"], kz.ShootingFit())
    free = kz.identify(model, record, ["c", "k", "F"], kz.ShootingFit(outputs={"x": kz.Sensor("x", unknown="offset")}))
    assert fit.misfit.fault.kind == "offset"
    errors = np.sqrt(np.diag(fit.noise_alone.covariance))
    moved = max(abs(fit[n] - free[n]) / e for n, e in zip(fit.names, errors, strict=True))
    # The offset has taken a part of the noise with it, which is estimated anew.
    assert fit.misfit.fault.moves == pytest.approx(moved, rel=0.1)
