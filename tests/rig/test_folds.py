"""Folds measured on a rig against those of its model."""

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
    duffing_rig,
    measure_fold,
)

UPPER, LOWER = 1.7797195242986, 1.3242362007706
"""x'' + 0.1 x' + x + x³ = 0.3 cos ωt, by Fourier collocation with 129 points."""


@pytest.fixture(scope="module")
def walked():
    rig = duffing_rig(sensors=Sensors(noise={"x": 3e-3}), seed=1)
    test = Experiment(rig, frequency="omega", modes=5, values={"B": 0.3, "omega": 1.5}, scales={"x": 1.0})
    start = {"x": FourierSeries(1.5, [0.0, 1.3, 0.4])}
    return test, test.follow(start, "omega", (1.0, 2.0), stepping=RigStepping(max_points=60))


def test_a_measured_fold_is_known_to_its_noise(walked):
    test, branch = walked
    found = [measure_fold(test, branch, i) for i in range(2)]
    for fold, exact, most in zip(found, (UPPER, LOWER), (1e-3, 3e-4), strict=True):
        assert fold.deviation < most  # the walk alone: 4e-3
        assert abs(fold.value - exact) < 3.5 * fold.deviation
        assert fold.measurements < 40
    assert branch.with_folds({1: found[1]}).folds == (branch.folds[0], found[1])
    with pytest.raises(RigError, match="there is no number 5"):
        measure_fold(test, branch, 5)


def test_folds_of_the_walk_bound_their_error(walked):
    _, branch = walked
    assert len(branch.folds) == 2
    for fold, exact in zip(branch.folds, (UPPER, LOWER), strict=True):
        assert abs(fold.value - exact) < 2 * fold.deviation < 0.02
    assert all(np.isfinite(p.deviation) for p in branch)


def test_a_branch_of_a_rig_is_data_for_a_fit(walked):
    """Amplitude and phase over ω, each point with its own noise: the damping of the rig comes back."""
    _, branch = walked
    data = branch.measured("x", indices=range(1, len(branch), 3))
    point = branch[1]
    a, b = point.series("x").coefficients[1:3]
    assert data.values[0] == pytest.approx(point.value, abs=5 * point.deviation)
    assert data.amplitudes[0] == pytest.approx(np.hypot(a, b), rel=0.05)
    assert data.phases[0] == pytest.approx(np.angle(a - 1j * b), abs=5 * data.phase_noise[0])
    assert data.value_noise.shape == data.amplitude_noise.shape == data.phase_noise.shape == (len(data),)
    model = kz.Model.from_equations(
        "x'' + d*x' + x + x**3 = B*cos(omega*t)", parameters={"d": 0.12, "B": 0.3, "omega": 1.0}, period="2*pi/omega",
        start={"x": 0.1, "x'": 0.0},
    )  # fmt: skip
    fit = kz.identify(model, data, free=["d"], method=kz.BranchFit(bounds=(0.9, 2.0)))
    assert fit.status.ok
    assert abs(fit["d"] - 0.1) < 3.5 * fit.deviations["d"] < 0.01
    # The noise of each point counts how far the free motion is from one that is held by a little control.
    assert fit.misfit.to_the_noise
    with pytest.raises(RigError, match='no output "y"'):
        branch.measured("y")


def test_a_fold_at_a_sharp_tip_is_measured_without_bias():
    """x'' + 0.08x' + sin x = 0.12 cos ωt: one-sided differences put it 3.5e-3 low, more modes alone do not help."""
    model = kz.Model.from_equations(
        "x'' + 0.08*x' + sin(x) = B*cos(omega*t)", parameters={"B": 0.12, "omega": 1.2}, period="2*pi/omega",
        start={"x": 0.1, "x'": 0.0},
    )  # fmt: skip
    loop = Feedback("x", (1.0, 0.8), limit=10.0, rate_limit=100.0)
    rig = SimulatedRig(model, feedback=[loop], adjustable=("B", "omega"), sample_time=0.02, ramp=1.0, seed=901)
    test = Experiment(rig, frequency="omega", modes=5, values={"B": 0.12, "omega": 1.2}, scales={"x": 1.0})
    branch = test.follow(None, "omega", (0.7, 1.3), direction=-1, watch=lambda p: p.value > 0.81 and p.arclength > 2.5)
    fold = measure_fold(test, branch, 0)
    exact = kz.follow(model, None, "omega", (0.7, 1.2), direction=-1).of("fold")[0].value
    assert abs(fold.value - exact) < 2e-4
