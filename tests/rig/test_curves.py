"""Curves of bifurcations on rigs against those of the models, and the advice on gains."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.errors import RigError
from kapitza.rig import (
    Experiment,
    Feedback,
    FourierSeries,
    RigStepping,
    Sensors,
    SimulatedRig,
    advise_gains,
    doubling_curve,
    duffing_rig,
    find_doubling,
    fold_curve,
    pendulum_rig,
    pendulum_test,
)


def model_fold(B):
    """Upper fold of the Duffing oscillator in ω by continuation of the model."""
    model = duffing_rig().plant.model.with_values(B=B, omega=0.8)
    orbit = kz.solve_orbit(model, [0.4, 0.0], period=1)
    branch = kz.follow(model, orbit, "omega", bounds=(0.7, 2.0))
    return max(b.value for b in branch.bifurcations if b.kind.value == "fold")


def test_fold_curve_of_the_duffing_rig():
    rig = duffing_rig(sensors=Sensors(noise={"x": 2e-3, "x'": 2e-3}), seed=2)
    test = Experiment(rig, frequency="omega", modes=5, values={"B": 0.3, "omega": 1.5}, scales={"x": 1.0})
    branch = test.follow(
        {"x": FourierSeries(1.5, [0.0, 1.35, 0.3])}, "omega", (0.5, 2.0),
        stepping=RigStepping(max_points=20), watch=lambda p: p.value < 1.7 and p.series("x").peak() < 1.6,
    )  # fmt: skip
    curve = fold_curve(test, branch, "B", (0.27, 0.24, 0.21))
    assert [b.values["B"] for b in curve.points] == [0.27, 0.24, 0.21]
    for point in curve.points:
        assert point.value == pytest.approx(model_fold(point.values["B"]), rel=5e-3)
    assert test.values["B"] == 0.3
    assert list(curve.table()["B"]) == [0.27, 0.24, 0.21]
    with pytest.raises(RigError, match="has 1 folds; there is no number 4"):
        fold_curve(test, branch, "B", (0.2,), fold=4)


def test_doubling_curve_by_the_amplitude_condition():
    test = pendulum_test(pendulum_rig(sample_time=2e-3), modes=3)
    scale = np.hypot(13 * 0.1, 200.0)
    start = find_doubling(test, "a", (0.0125 * scale, 0.0140 * scale), points=2)
    curve = doubling_curve(test, start, "Omega", (12.5, 12.0))
    # Of the emulated system: multiplier -1 of the hanging state, by its flow.
    exact = {12.5: 0.0197916, 12.0: 0.0282208}
    for point in curve.points:
        omega = point.values["Omega"]
        assert point.value / np.hypot(0.1 * omega, 200.0) == pytest.approx(exact[omega], rel=0.01)
    assert test.values["Omega"] == 13.0


def oscillator(damping):
    model = kz.Model.from_equations("x'' + 0.1*x' + 4*x = 0")
    return Experiment(
        SimulatedRig(model, feedback=[Feedback("x", (0.0, damping))], sample_time=0.005),
        frequency=2.0, modes=1, scales={"x": 1.0},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("damping", "words"), [(0.3, "Raise the derivative gain"), (1.2, "leave the gains as they are")]
)
def test_contraction_is_that_of_the_loop(damping, words):
    found = advise_gains(oscillator(damping))
    # The envelope of x'' + (0.1 + k2) x' + 4 x decays at (0.1 + k2)/2 over a period of π seconds.
    assert found.contraction == pytest.approx(np.exp(-(0.1 + damping) / 2 * np.pi), rel=0.1)
    assert found.resolved
    assert words in found.verdict
    assert found.effort == 0.0


def test_noise_that_hides_the_contraction_is_said():
    sensors = Sensors(noise={"theta": 5e-3, "y": 1e-4, "F": 8e-3})
    demands = {"y": FourierSeries(6.5, [0, 0, 0, 0.012, 0]), "theta": FourierSeries(6.5, [0, 0.8, 0.2])}
    hidden = advise_gains(pendulum_test(pendulum_rig(gains=(4.0, 2.0), sensors=sensors)), demands)
    assert not hidden.resolved
    assert "noise hides it" in str(hidden)
    shown = advise_gains(pendulum_test(pendulum_rig(gains=(4.0, 2.0), sensors=sensors)), demands, step=0.2)
    assert shown.resolved
    assert "Raise the derivative gain" in str(shown)
    with pytest.raises(RigError, match="periods = 3"):
        advise_gains(oscillator(1.0), periods=3)
