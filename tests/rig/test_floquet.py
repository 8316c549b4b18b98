"""Multipliers measured around motions of simulated rigs, against those of the model; orbits of a rig in a fit."""

import numpy as np
import pytest
from rich.console import Console

import kapitza as kz
from kapitza.rig import (
    Experiment,
    FloquetSettings,
    FourierSeries,
    GrowingPlot,
    LiveTable,
    RigStepping,
    Sensors,
    duffing_rig,
    measure_multipliers,
    watching,
)
from kapitza.rig.floquet import MOST_NOISE, with_multipliers


@pytest.fixture(scope="module")
def duffing():
    """A branch of the Duffing rig through its upper fold: stable points, then unstable ones."""
    rig = duffing_rig(sensors=Sensors(noise={"x": 3e-3}), seed=3)
    test = Experiment(rig, frequency="omega", modes=5, values={"B": 0.3, "omega": 1.5}, scales={"x": 1.0})
    branch = test.follow(
        {"x": FourierSeries(1.5, [0.0, 1.3, 0.4])}, "omega", (1.0, 2.0), stepping=RigStepping(max_points=40),
        watch=lambda p: p.value < 1.6 and p.arclength > 1.5,
    )  # fmt: skip
    assert len(branch.folds) == 1
    return test, branch


def model_multipliers(point):
    model = duffing_rig().plant.model.with_values(omega=point.value, B=0.3)
    series = point.series("x")
    orbit = kz.solve_orbit(model, [float(series(0.0)), float(series(0.0, 1))], period=1)
    return orbit.multipliers


@pytest.mark.parametrize("index", [1, -1])
def test_measured_multipliers_are_those_of_the_model(duffing, index):
    test, branch = duffing
    point = branch.points[index]
    # The experiment still stands at 1.5 rad/s.
    found = measure_multipliers(test, point, FloquetSettings(periods=40, angle=0.06, highest=6.0, window=1.2))
    exact = model_multipliers(point)
    assert abs(np.abs(found.multipliers[0]) - np.abs(exact[0])) < 2.5 * found.deviation[0]
    assert found.deviation[0] < 0.08 * np.abs(exact[0])
    assert found.trusted
    assert found.inertia == pytest.approx(1.0, abs=0.03)
    stable = bool(np.abs(exact[0]) < 1)
    assert found.stable in (stable, None)
    assert (index == 1) == stable
    labelled = with_multipliers(point, found)
    assert labelled.stability in ("stable" if stable else "unstable", "unknown")


def test_noise_in_the_regressors_does_not_bias_the_multipliers(duffing):
    """Noise of a tenth of the multisine: four runs within three deviations of the model, none called stable."""
    _, branch = duffing
    point = branch.points[-1]
    exact = float(np.abs(model_multipliers(point)[0]))
    errors = []
    for seed in range(4):
        rig = duffing_rig(sensors=Sensors(noise={"x": 5e-3}), seed=20 + seed)
        test = Experiment(rig, frequency="omega", modes=5, values={"B": 0.3, "omega": point.value}, scales={"x": 1.0})
        settings = FloquetSettings(periods=40, angle=0.05, highest=6.0, window=1.2, seed=seed)
        found = measure_multipliers(test, point, settings)
        errors.append((float(np.abs(found.multipliers[0])) - exact) / float(found.deviation[0]))
        assert found.stable in (False, None)
        assert found.noise < MOST_NOISE
    assert np.max(np.abs(errors)) < 3
    # Too much noise is said, not hidden.
    rig = duffing_rig(sensors=Sensors(noise={"x": 0.05}), seed=1)
    test = Experiment(rig, frequency="omega", modes=5, values={"B": 0.3, "omega": point.value}, scales={"x": 1.0})
    found = measure_multipliers(test, point, FloquetSettings(periods=8, angle=0.02, highest=6.0, window=1.2))
    assert not found.trusted
    assert found.stable is None


def test_control_recorded_late_is_found_out(duffing):
    test, branch = duffing
    point = branch.points[1]
    test.values["omega"] = point.value
    rig, run = test.rig, test.rig.run

    def late(samples):
        found = run(samples)
        found.control[:] = np.roll(found.control, 5, axis=0)  # as if the torque had been recorded 0.1 s late
        return found

    rig.run = late
    try:
        found = measure_multipliers(test, point, FloquetSettings(periods=40, angle=0.03, highest=6.0, window=1.2))
    finally:
        rig.run = run
    assert not found.trusted
    assert found.stable is None
    assert abs(found.timing) == pytest.approx(0.1, rel=0.3)


def test_orbits_of_the_rig_stable_and_unstable_give_the_parameters(duffing, tmp_path):
    _, branch = duffing
    fold = branch.folds[0].position
    model = kz.Model.from_equations(
        "x'' + d*x' + k1*x + k3*x**3 = B*cos(omega*t)",
        parameters={"d": 0.12, "k1": 1.0, "k3": 0.95, "B": 0.3, "omega": 1.5},
        period="2*pi/omega",
        start={"x": 0.0, "x'": 0.0},
    )
    orbits = branch.orbits("x")
    values = [p.value for p in branch]
    chosen = [0, 2, 4], [0, 2, 4, len(branch) - 1, len(branch) - 3]
    assert chosen[1][-1] > fold + 1
    fits = [kz.identify(model, [(orbits[i], {"omega": values[i]}) for i in some], free=["d", "k3"]) for some in chosen]
    for fit in fits:
        spread = np.sqrt(np.diag(fit.covariance))
        assert np.abs(fit.values["d"] - 0.1) < 4 * spread[0]
        assert np.abs(fit.values["k3"] - 1.0) < 4 * spread[1]
    kz.save(orbits, tmp_path / "orbits.nc")
    again = kz.load(tmp_path / "orbits.nc")
    assert np.array_equal(again[0].covariance, orbits[0].covariance)


def test_live_view_and_growing_picture(duffing, tmp_path):
    _, branch = duffing
    console = Console(record=True, width=100)
    table = LiveTable("omega", "x", console=console)
    picture = GrowingPlot(tmp_path / "branch.png", "omega", "x", every=2)
    both = watching(table, picture, lambda p: p is branch.points[3])
    assert [both(p) for p in branch.points[:4]] == [False, False, False, True]
    assert console.export_text().count("σ") == 4
    assert (tmp_path / "branch.png").stat().st_size > 1000
