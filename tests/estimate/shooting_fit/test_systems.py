"""Forced, Hamiltonian, frictional and impacting systems: recovery within the stated errors."""

import numpy as np
import pytest

import kapitza as kz


def readings(clean, noise, seed):
    rng = np.random.default_rng(seed)
    angles = [c for c, angle in zip(clean.channels, clean.angles, strict=True) if angle and c in noise]
    return kz.Record.from_arrays(
        clean.time,
        {c: clean[c] + deviation * rng.normal(size=clean.size) for c, deviation in noise.items()},
        angles=angles,
        period=clean.period,
        phase=clean.dataset.attrs.get("phase"),
    )


def started(model, free, spread, seed):
    factors = 1 + np.random.default_rng(100 + seed).uniform(-spread, spread, len(free))
    return model.with_values(**{name: model.values[name] * f for name, f in zip(free, factors, strict=True)})


def deviations_from_truth(model, fit):
    return np.array([(fit.values[n] - model.values[n]) / fit.deviations[n] for n in fit.names])


CASES = {
    "henon_heiles": (
        kz.library.henon_heiles(),
        {"t": np.arange(800) * 0.25},
        0.05,
        ["m2", "omega1", "omega2", "b", "d"],
    ),
    "planar_double_pendulum": (
        kz.library.planar_double_pendulum(),
        {"t": np.arange(1000) * 0.02},
        0.02,
        ["lambda_", "mu", "omega1"],
    ),
    "rossler": (kz.library.rossler(), {"t": np.arange(2000) * 0.1}, 0.05, ["a", "b", "c"]),
}


@pytest.mark.parametrize("case", CASES)
def test_all_states_seen(case):
    model, run, level, free = CASES[case]
    clean = kz.simulate(model, **run)
    noise = {c: level * clean[c].std() for c in clean.channels}
    fit = kz.identify(started(model, free, 0.3, 1), readings(clean, noise, 1), free, kz.ShootingFit())
    assert np.abs(deviations_from_truth(model, fit)).max() < 4
    bound = kz.cramer_rao(model, clean, noise, free)
    assert (np.array(list(fit.deviations.values())) < 1.3 * np.sqrt(np.diag(bound))).all()


def test_double_pendulum_from_two_encoders():
    """Angles alone, the second one relative, rounded to 1024 counts a turn: rates are never measured."""
    model = kz.library.base_excited_double_pendulum()
    free = ["B11", "B12", "B13", "B21", "B22", "B23", "C12", "C2"]
    clean = kz.simulate(model, periods=40, samples_per_period=100)
    count = 2 * np.pi / 1024
    angles = {"theta1": clean["phi1"], "theta2": clean["phi2"] - clean["phi1"]}
    encoders = kz.Record.from_arrays(
        clean.time,
        {name: count * np.round(angle / count) for name, angle in angles.items()},
        angles=list(angles),
        period=clean.period,
        phase=0.0,
    )
    method = kz.ShootingFit(outputs={"theta1": "phi1", "theta2": "phi2 - phi1"})
    fit = kz.identify(started(model, free, 0.3, 2), encoders, free, method)
    assert np.abs(deviations_from_truth(model, fit)).max() < 4
    assert fit.noise["theta1"] == pytest.approx(count / np.sqrt(12), rel=0.1)


def test_dry_friction_from_the_angle_alone():
    model = kz.library.parametric_pendulum(experiment=True)
    clean = kz.simulate(model, periods=60, samples_per_period=20, seed=1)
    free = ["l", "k1", "k3"]
    fit = kz.identify(started(model, free, 0.2, 3), readings(clean, {"phi": 0.01}, 3), free, kz.ShootingFit())
    assert np.abs(deviations_from_truth(model, fit)).max() < 4


def test_impacts_with_a_stiff_wall():
    model = kz.library.colliding_cart().with_values(k=30.0, gamma=2.0)
    clean = kz.simulate(model, periods=20, samples_per_period=40)
    free = ["k", "b", "gamma"]
    fit = kz.identify(started(model, free, 0.3, 4), readings(clean, {"x": 0.01}, 4), free, kz.ShootingFit())
    assert np.abs(deviations_from_truth(model, fit)).max() < 4


def test_records_with_their_own_excitation_share_the_parameters():
    model = kz.library.duffing()
    free = ["k"]
    parts = []
    for i, force in enumerate((0.2, 7.5)):
        setting = model.with_values(B=force, k=0.1)
        clean = kz.simulate(setting, periods=20, samples_per_period=40, x0=[1.0, 0.0])
        parts.append((readings(clean, {"x": 0.01}, i), {"B": force}))
    fit = kz.identify(model.with_values(k=0.2), parts, free, kz.ShootingFit())
    assert abs(fit.values["k"] - 0.1) < 4 * fit.deviations["k"]


def test_parameters_that_cannot_be_told_apart_are_named():
    model = kz.library.parametric_pendulum()
    clean = kz.simulate(model, periods=20, samples_per_period=20, seed=1)
    with pytest.raises(kz.KapitzaError, match="k2/m"):
        kz.identify(model, readings(clean, {"phi": 0.001}, 0), ["m", "k2", "k3"], kz.ShootingFit())


def test_a_model_that_cannot_follow_is_told_in_words():
    """A limit cycle is not a motion of a damped linear oscillator."""
    wrong = kz.Model.from_equations("x'' + d*x' + w**2*x = 0", parameters={"d": 0.3, "w": 1.0})
    time = np.arange(400) * 0.1
    square = kz.Record.from_arrays(time, {"x": np.sign(np.sin(time**1.5))})
    with pytest.raises(kz.KapitzaError, match=r"cannot follow|flat line|out of step"):
        kz.identify(wrong, square, ["d", "w"], kz.ShootingFit())


def test_channels_that_mean_nothing_to_the_model():
    model = kz.library.lorenz()
    record = kz.Record.from_arrays(np.arange(50) * 0.1, {"u": np.random.default_rng(0).normal(size=50)})
    with pytest.raises(kz.KapitzaError, match="say what they measure"):
        kz.identify(model, record, ["rho"], kz.ShootingFit())
    with pytest.raises(kz.KapitzaError, match='no parameter "roh"'):
        kz.identify(model, record, ["roh"], kz.ShootingFit())


@pytest.mark.parametrize("seed", [1, 2])
def test_one_sample_a_period_is_enough(seed):
    """The strobed pendulum folds between samples: full steps overshoot there, yet the fit must settle.

    Its likelihood is far from Gaussian, so closeness is asked in per cent, not in standard errors.
    """
    model = kz.library.parametric_pendulum()
    clean = kz.simulate(model, periods=300, seed=1)
    free = ["l", "k2", "k3"]
    record = readings(clean, {"phi": 0.01, "phi'": 0.05}, seed)
    fit = kz.identify(started(model, free, 0.2, seed), record, free, kz.ShootingFit())
    assert fit.values["l"] == pytest.approx(model.values["l"], rel=1e-3)
    assert fit.values["k3"] == pytest.approx(model.values["k3"], rel=0.05)
    assert fit.noise["phi"] == pytest.approx(0.01, rel=0.15)
