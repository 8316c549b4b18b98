"""Steps of a sensor: found in residuals, fitted with the parameters, named; motions and wrong models have none."""

import numpy as np
import pytest

import kapitza as kz

FREE = ["c", "k", "q", "F"]
RIG = {"c": 0.1, "k": 4.0, "q": 0.5, "F": 1.0, "w": 1.5}
MODEL = kz.Model.from_equations("x'' + c*x' + k*x + q*x**3 = F*cos(w*t)", parameters=RIG, period="2*pi/w")
NOISE = 0.004
"""About 1 % of the spread of x."""


def record_of(seed: int, steps: dict[int, float]) -> kz.Record:
    """steps: sizes in noise widths by their sample."""
    record = kz.measure(kz.simulate(MODEL, [1.0, 0.0], t=np.arange(800) * 0.04).select(["x"]), noise=NOISE, seed=seed)
    values = record["x"].copy()
    for sample, size in steps.items():
        values[sample:] += size * NOISE
    return record.with_channel("x", values, "", False)


def fit_of(record: kz.Record) -> kz.Estimate:
    return kz.identify(MODEL, record, FREE, kz.ShootingFit())


@pytest.mark.parametrize("steps", [{300: 12.0}, {250: -60.0, 500: 20.0}, {400: 300.0}])
def test_steps_are_named_and_cost_little(steps):
    clean, spoiled = fit_of(record_of(1, {})), fit_of(record_of(1, steps))
    named = [text for text in spoiled.warnings if "jumps by" in text]
    assert len(named) == len(steps)
    for sample in steps:
        assert any(f"at {0.04 * sample:.6g} s" in text for text in named)
    for name in FREE:
        assert spoiled.deviations[name] == pytest.approx(clean.deviations[name], rel=0.3)
        assert abs(spoiled[name] - clean[name]) < clean.deviations[name]
    assert spoiled.misfit is not None
    assert spoiled.misfit.to_the_noise


def test_a_step_larger_than_the_motion_does_not_stop_the_fit():
    """Three spreads of the motion, from a poor value: before the step is taken off the gaps never close."""
    true = {"m": 1.0, "c": 1.0, "k": 300.0}
    times = np.arange(1600) * 0.004
    drive = kz.Signal("F", times, 3.0 * np.sin(2 * np.pi * (1.0 + 0.2 * times) * times), degree=3)
    model = kz.Model.from_equations("m*x'' + c*x' + k*x = F", parameters=true, signals=[drive])
    record = kz.measure(kz.simulate(model, [0.0, 0.0], t=times).select(["x"]), noise=6e-5, seed=1)
    jump = np.where(times >= times[700], 3.0 * record["x"].std(), 0.0)
    spoiled = record.with_channel("x", record["x"] + jump, "", False)
    fit = kz.identify(model.with_values(k=1.0), spoiled, list(true))
    assert fit.misfit is not None
    assert fit.misfit.to_the_noise
    assert any(f"at {times[700]:.6g} s and stays there" in text for text in fit.warnings)
    assert all(abs(fit[name] - value) < 4 * fit.deviations[name] for name, value in true.items())
    assert fit.deviations["k"] < 1.0


def test_a_method_that_takes_no_steps_off_names_them():
    """A tenth of a spread and three; a clean record has none."""
    for size in (0.0, 25.0, 750.0):
        fit = kz.identify(MODEL, record_of(1, {400: size}), FREE, kz.HarmonicFit())
        named = [text for text in fit.warnings if "jumps by" in text]
        assert [f"at {0.04 * 400:.6g} s" in text for text in named] == ([True] if size else [])


def test_the_size_of_a_step_is_known_as_well_as_its_error_says():
    """Fitted together with the parameters the step and they are unbiased: squares of z have the mean 1."""
    squares = []
    for seed in range(12):
        fit = fit_of(record_of(seed, {400: 25.0}))
        (text,) = [text for text in fit.warnings if "jumps by" in text]
        size, error = float(text.split("jumps by ")[1].split(" ")[0]), float(text.split("± ")[1].split(")")[0])
        squares.append(((size - 25.0 * NOISE) / error) ** 2)
        squares += [((fit[n] - RIG[n]) / fit.deviations[n]) ** 2 for n in ("c", "F")]
    # 36 numbers, those of one fit hardly correlated: the mean of χ²/36 is beyond 1.8 with 0.2 %.
    assert 0.3 < np.mean(squares) < 1.8


def test_clean_records_and_a_missing_term_have_no_steps():
    truth = kz.Model.from_equations("x'' + c*x' + k*x + 0.02*sign(x') = 0", parameters={"c": 0.1, "k": 4.0})
    record = kz.measure(kz.simulate(truth, [1.0, 0.0], t=np.arange(800) * 0.03).select(["x"]), noise=0.002, seed=1)
    linear = kz.Model.from_equations("x'' + c*x' + k*x = 0", parameters={"c": 0.1, "k": 4.0})
    fits = [kz.identify(linear, record, ["c", "k"], kz.ShootingFit()), *(fit_of(record_of(s, {})) for s in range(5))]
    assert fits[0].misfit is not None
    assert not fits[0].misfit.to_the_noise
    assert not any("jumps by" in text for fit in fits for text in fit.warnings)


def test_a_step_that_is_to_be_kept_is_kept():
    kept = record_of(1, {300: 30.0}).with_attributes(bad_samples="keep")
    fit = fit_of(kept)
    assert not any("jumps by" in text for text in fit.warnings)
    assert fit.misfit is not None
    assert not fit.misfit.to_the_noise


def test_a_fit_from_a_file_keeps_its_warnings_and_verdict(tmp_path):
    fit = fit_of(record_of(1, {300: 30.0}))
    kz.save(fit, tmp_path / "fit.nc")
    again = kz.load(tmp_path / "fit.nc")
    assert again.warnings == fit.warnings
    assert again.headline == fit.headline
    assert str(again) == str(fit)
    # What follows from the fit is made again without the steps too.
    assert str(kz.suggest(again)) == str(kz.suggest(fit))
