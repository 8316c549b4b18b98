"""The covariance of weak rows against noise drawn again and again, and the intervals that follow from it."""

from dataclasses import replace

import numpy as np
import pytest

import kapitza as kz
from kapitza.data import as_parts
from kapitza.estimate.harmonic_fit.problem import pose, smooth
from kapitza.estimate.harmonic_fit.regressors import Smoothed, regressors_of
from kapitza.estimate.harmonic_fit.weak import row_covariance, whitener
from kapitza.estimate.request import make_request
from kapitza.flow import chaotic_record

RUCKLIDGE = kz.Model.from_equations(
    ["x' = -kappa*x + l*y - y*z", "y' = x", "z' = -z + y**2"], parameters={"kappa": 2.0, "l": 6.7}
)


@pytest.fixture(scope="module")
def rucklidge():
    run = kz.simulate(RUCKLIDGE, x0=[1.0, 0.0, 4.5], t=np.arange(2500) * 0.03)
    return {c: run[c][1000:] for c in run.channels}


def measured(clean, level, seed):
    rng, size = np.random.default_rng(seed), {c: level * float(v.std()) for c, v in clean.items()}
    noisy = {c: v + size[c] * rng.standard_normal(len(v)) for c, v in clean.items()}
    return kz.Record.from_arrays(np.arange(len(clean["x"])) * 0.03, noisy, noise=size)


def test_covariance_of_rows_holds_the_quadratic_noise(rucklidge):
    """At 80 % noise the products of noise make up much of a row; their variance must be in its weight."""
    settings = kz.HarmonicFit()
    request = make_request(RUCKLIDGE, as_parts(measured(rucklidge, 0.8, 0)), ["kappa", "l"], settings)
    problem = pose(settings, request)
    exact = make_request(RUCKLIDGE, as_parts(measured(rucklidge, 0.0, 0)), ["kappa", "l"], settings)
    states = smooth(pose(kz.HarmonicFit(half_width=problem.kernels.half_width), exact).measured, problem.kernels)
    theta = np.array([2.0, 6.7])
    linear, whole = (
        row_covariance(replace(problem, noise=noise), states[0], problem.values, memory=1.0).band[0]
        for noise in (None, problem.noise)
    )
    residuals = []
    for seed in range(100):
        shaken = pose(
            settings, make_request(RUCKLIDGE, as_parts(measured(rucklidge, 0.8, seed)), ["kappa", "l"], settings)
        )
        rows = replace(problem, states=smooth(shaken.measured, problem.kernels)).rows()
        residuals.append(rows[0].residual(theta).ravel())
    seen, functions = np.array(residuals).var(axis=0), problem.windows.functions
    curved = np.arange(seen.size) // functions % 3 == 2  # rows of z' = -z + y**2
    assert np.mean((seen / whole)[curved]) == pytest.approx(1.0, abs=0.06)
    assert np.mean((seen / linear)[curved]) > 1.12


def test_rows_of_a_long_chain_are_weighed_equation_by_equation_with_the_same_answer():
    """The narrower band belongs to the same covariance: the sizes of whitened rows and their products agree."""
    names = [f"x{i}" for i in range(14)]
    springs = [
        " + ".join(f"k*({x} - {o}) + 0.3*({x} - {o})**3" for o in (names[i - 1] if i else "0", *names[i + 1 : i + 2]))
        for i, x in enumerate(names)
    ]
    drive = ["cos(1.3*t)"] + ["0"] * 13
    model = kz.Model.from_equations(
        [f"{x}'' + c*{x}' + {s} = {f}" for x, s, f in zip(names, springs, drive, strict=True)],
        coordinates=names, parameters={"c": 0.2, "k": 1.0}, period="2*pi/1.3",
    )  # fmt: skip
    record = kz.simulate(model, np.zeros(28), periods=6, samples_per_period=40, noise=1e-3, seed=1).select(names)
    settings = kz.HarmonicFit()
    problem = pose(settings, make_request(model, as_parts(record), ["c", "k"], settings))
    (rows,) = problem.rows()
    given = problem, problem.calm[0], model.vector, 1.0
    narrow, wide = row_covariance(*given), row_covariance(*given, by_window=True)
    assert narrow.order is not None
    assert wide.order is None
    assert len(narrow.band) < len(wide.band)
    one, other = whitener(narrow), whitener(wide)
    assert one.variances == pytest.approx(other.variances, rel=1e-12)
    found = []
    for factor in (one, other):
        white = factor(rows)
        columns = np.column_stack([white.matrix.reshape(-1, 2), white.rest.ravel()])
        found.append(columns.T @ columns)
    assert np.abs(found[0] / found[1] - 1).max() < 1e-6


@pytest.mark.parametrize("level", [0.01, 0.03])
def test_intervals_of_a_short_chaotic_record(rucklidge, level):
    """Coverage of 90 % intervals was 28-63 % on such records."""
    hits = []
    for seed in range(20):
        fit = kz.identify(RUCKLIDGE, measured(rucklidge, level, seed), method=kz.HarmonicFit())
        interval = fit.interval(0.9)
        hits += [interval.loc[n, "low"] <= RUCKLIDGE.values[n] <= interval.loc[n, "high"] for n in fit.names]
    assert 0.8 <= np.mean(hits) <= 0.98


STEADY = kz.Model.from_equations(
    "x'' + c*x' + k*x + h*x**3 = F*cos(omega*t)",
    parameters={"c": 0.2, "k": 1.0, "h": 0.5, "F": 1.5, "omega": 1.4},
    period="2*pi/omega",
)


def steady_fit(level, seed):
    """Four parameters from a steady motion: one combination of them it hardly determines."""
    run = kz.simulate(STEADY, x0=[1.0, 0.0], t=np.arange(3500) * 0.06)
    x = run["x"][1500:]
    noisy = x + level * x.std() * np.random.default_rng(seed).standard_normal(x.size)
    record = kz.Record.from_arrays(run.time[1500:], {"x": noisy}, period=run.period, phase=run.time[1500] % run.period)
    return kz.identify(STEADY, record, ["c", "k", "h", "F"], kz.HarmonicFit())


def test_noise_that_passes_for_information_is_told():
    (text,) = [text for text in steady_fit(0.05, 0).warnings if "Noise makes up" in text]
    assert "weakest combination of c, k, h, F" in text
    assert not [text for text in steady_fit(0.01, 0).warnings if "Noise makes up" in text]


def test_noise_of_the_regressors_is_taken_off():
    fits = [steady_fit(0.01, seed) for seed in range(16)]
    errors = [(fit["F"] - 1.5) / fit.deviations["F"] for fit in fits]
    assert abs(np.mean(errors)) < 0.75  # -1 without


def test_encoders_of_a_double_pendulum_do_not_bias_its_coupling():
    """Draws of the noise that left in the mean of its own squares moved B21 and B22 by a standard error and more.

    Errors under a noise and its negative are averaged: what is odd in it drops out, and few records show a bias.
    """
    model = kz.library.base_excited_double_pendulum().with_values(C11=1.02e-3)
    run = chaotic_record(model, 240, 100, seed=100)
    clean, level = np.stack([run["phi1"], run["phi2"] - run["phi1"]]), 0.002
    off = []
    for seed in (50, 51):
        noise = level * np.random.default_rng(seed).standard_normal(clean.shape)
        for sign in (1, -1):
            angles = dict(zip(("theta1", "theta2"), clean + sign * noise, strict=True))
            record = kz.Record.from_arrays(
                run.time, angles, angles=list(angles), segment=run.dataset["segment"].values, period=run.period,
                noise=dict.fromkeys(angles, level),
            )  # fmt: skip
            fit = kz.identify(model, record, model.names, kz.HarmonicFit())
            off.append([(fit[n] - model.values[n]) / fit.deviations[n] for n in model.names])
    bias = dict(zip(model.names, np.mean(off, axis=0), strict=True))
    assert abs(bias["B21"]) < 0.6  # -1.4 before
    assert abs(bias["B22"]) < 0.5  # -0.85 before
    assert max(map(abs, bias.values())) < 0.6


def test_a_regressor_of_noise_alone_is_told():
    """y moves less than its noise: columns of noise look independent (condition 1.5), and k was 90 errors off."""
    model = kz.Model.from_equations(
        ["x'' + c*x' + x + x**3 = 2.0*cos(1.3*t)", "y'' + d*y' + k*y = e*x"],
        coordinates=["x", "y"], parameters={"c": 0.2, "d": 0.3, "k": 2.5, "e": 0.01}, period="2*pi/1.3",
    )  # fmt: skip
    for drive, told in ((0.01, True), (0.3, False)):
        run = kz.simulate(model.with_values(e=drive), x0=[1.0, 0.0, 0.0, 0.0], t=np.arange(3000) * 0.05)
        record = kz.measure(run.select(["x", "y"]), noise=0.05, seed=0)
        fit = kz.identify(model, record, ["c", "d", "k", "e"], kz.HarmonicFit())
        assert fit.rows.condition < 20
        assert any("Noise makes up" in text for text in fit.warnings) == told


@pytest.mark.parametrize("big", [1.0, 1e9])
def test_intervals_of_a_wrong_model_do_not_hang_on_the_units(big):
    """In units far apart pieces of the record were not compared, and the interval lost two thirds of its width."""
    truth = kz.Model.from_equations(
        "x'' + c*x' + k*x + h*x**3 + 0.05*x*x' = 2.0*cos(1.3*t)",
        parameters={"c": 0.2, "k": 1.0, "h": 0.5}, period="2*pi/1.3",
    )  # fmt: skip
    wrong = kz.Model.from_equations(
        f"x'' + c*x'*{big!r} + k*x/{big!r} + h*x**3 = 2.0*cos(1.3*t)",
        parameters={"c": 0.2 / big, "k": 1.0 * big, "h": 0.5}, period="2*pi/1.3",
    )  # fmt: skip
    record = kz.simulate(truth, x0=[1.0, 0.0], t=np.arange(6000) * 0.05, noise=0.01, seed=0).select(["x"])
    fit = kz.identify(wrong, record, ["c", "k", "h"], kz.HarmonicFit())
    low, high = fit.interval(0.9).loc["k"] / big
    assert low < 1.0 < high
    assert not fit.misfit.to_the_noise


def test_regressors_that_are_nearly_one_are_named():
    model = kz.Model.from_equations(
        "x'' + c*x' + k*x + d*x*(1 + 0.0001*x**2) = F*cos(1.3*t)",
        parameters={"c": 0.2, "k": 0.5, "d": 0.5, "F": 2.0}, period="2*pi/1.3",
    )  # fmt: skip
    record = kz.simulate(model, x0=[1.0, 0.0], t=np.arange(3000) * 0.05, noise=0.01, seed=0).select(["x"])
    fit = kz.identify(model, record, ["c", "k", "d", "F"], kz.HarmonicFit())
    (text,) = [text for text in fit.warnings if "nearly dependent" in text]
    assert text.startswith("The regressors of k, d are")
    assert "Fix one of them" in text
    assert abs(fit["k"] - 0.5) < 4 * fit.deviations["k"]


def test_modes_follow_the_parameters_of_their_switches():
    """Modes are kept with a piece; another value in a switching function, or other noise, asks for new ones."""
    model = kz.Model.from_equations(
        "x'' + c*x' + x + f*sign(x' - v) = cos(1.3*t)", parameters={"c": 0.1, "f": 0.2, "v": 0.1}, period="2*pi/1.3"
    )
    regressors = regressors_of(model, ["c", "f"], ())
    times = np.linspace(0.0, 20.0, 400)
    derivatives = np.stack([np.sin(times), np.cos(times), -np.sin(times)])[..., None]
    noise = 1e-4 * np.eye(len(regressors.noisy))

    def fresh() -> Smoothed:
        return Smoothed(times, derivatives, np.empty((times.size, 0)), float(times[1]))

    kept, modes = fresh(), []
    for values in ([0.1, 0.2, 0.1], [0.3, 0.5, 0.1], [0.1, 0.2, 0.6]):
        for spread in (noise, None):
            for unbiased in (False, True):
                found = regressors.columns(kept, np.array(values), spread, unbiased)
                assert np.array_equal(found, regressors.columns(fresh(), np.array(values), spread, unbiased))
                modes.append(found[-1])
    assert len({m.tobytes() for m in modes}) > 4
    assert len(kept.modes) <= 2
