"""Orbits measured on a rig for identification: their errors are what their covariance says."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.errors import RigError
from kapitza.rig import Experiment, FourierSeries, OrbitSettings, RigStepping, Sensors, duffing_rig, measure_orbit


@pytest.fixture(scope="module")
def tracked():
    """A branch up to the upper fold of the Duffing rig, with noise, and some of its points measured."""
    rig = duffing_rig(sensors=Sensors(noise={"x": 2e-3, "x'": 2e-3}), delay=0.03, seed=1)
    test = Experiment(rig, frequency="omega", modes=6, values={"B": 0.3, "omega": 1.5}, scales={"x": 1.0})
    branch = test.follow(
        {"x": FourierSeries(1.5, [0.0, 1.35, 0.3])}, "omega", (0.5, 2.0),
        stepping=RigStepping(max_points=16), watch=lambda p: p.value < 1.7 and p.series("x").peak() < 1.6,
    )  # fmt: skip
    chosen = [i for i in range(2, len(branch), 2) if branch[i].value < 1.77]  # the fold is at 1.7797
    before = test.measurements
    points = {i: measure_orbit(test, branch[i], "omega") for i in chosen}
    spent = test.measurements - before
    return branch, branch.with_points(points), chosen, spent, test


def distances(branch, chosen):
    """Squared distance from the orbit of the model in the metric of the covariance, over its two degrees."""
    found = []
    for i in chosen:
        orbit = branch.orbits("x", indices=[i])[0]
        model = duffing_rig().plant.model.with_values(B=0.3, omega=branch[i].value)
        exact = kz.solve_orbit(model, orbit.points[0], period=1).points[0]
        error = orbit.points[0] - exact
        found.append((float(error @ np.linalg.solve(orbit.covariance, error)) / 2, float(np.abs(error).max())))
    return np.array(found)


def test_errors_of_measured_orbits_are_what_their_covariance_says(tracked):
    branch, measured, chosen, *_ = tracked
    assert len(chosen) >= 4
    assert max(branch[i].value for i in chosen) > 1.74
    ours, walked = distances(measured, chosen), distances(branch, chosen)
    assert ours[:, 0].max() < 3.0 * 2  # 99.7 % of a chi-square with two degrees lie below 11.6 / 2
    assert 0.05 < ours[:, 0].mean() < 2.0
    assert np.median(ours[:, 1]) < 0.5 * np.median(walked[:, 1])
    assert all(measured[i].refined for i in chosen)


def test_a_measured_orbit_says_what_it_cost(tracked):
    branch, measured, chosen, spent, _ = tracked
    assert sum(measured[i].measurements - branch[i].measurements for i in chosen) == spent
    assert all(measured[i].value == branch[i].value for i in chosen)


def test_a_correction_that_leads_elsewhere_is_refused(tracked, monkeypatch):
    branch, _, chosen, _, test = tracked
    monkeypatch.setattr("kapitza.rig.orbits.LARGEST_CORRECTION", 1e-6)
    with pytest.raises(RigError, match="too near a fold to be measured with omega held"):
        measure_orbit(test, branch[chosen[-1]], "omega")


def test_settings_are_refused_in_words():
    with pytest.raises(RigError, match="repeats = 1"):
        OrbitSettings(repeats=1)
