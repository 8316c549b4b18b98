"""A drive that the recording contradicts is named with the frequency that fits."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.study.drive import drive_warning

DUFFING = "x'' + c*x' + k1*x + k3*x**3 = F*cos(omega*t)"
VALUES = {"c": 0.25, "k1": -1.0, "k3": 1.0, "F": 0.3, "omega": 1.0}


@pytest.fixture(scope="module", params=["chaotic", "periodic"])
def case(request):
    values = VALUES if request.param == "chaotic" else {**VALUES, "k1": 1.0}
    model = kz.Model.from_equations(DUFFING, parameters=values, period="2*pi/omega")
    clean = kz.simulate(model, [1.0, 0.0], periods=100, samples_per_period=30)
    return model, kz.measure(clean.select(["x"]), noise=0.01, seed=1)


def test_the_right_drive_is_not_talked_about(case):
    model, record = case
    assert drive_warning(model, record, ("c",)) == ""


def test_one_per_cent_off_is_named_with_the_value_that_fits(case):
    model, record = case
    for factor in (0.99, 1.01):
        said = drive_warning(model.with_values(omega=factor), record, ("c",))
        assert "driven at" in said
        period = float(said.split("A period of ")[1].split(" s")[0])
        # a fifth of the resolution of 100 periods, 3 standard deviations over chaotic motions
        assert period == pytest.approx(2 * np.pi, rel=2e-3)
    # a frequency that is to be found needs no warning
    assert drive_warning(model.with_values(omega=1.01), record, ("c", "omega")) == ""


def test_an_angle_that_turns_over_and_over_is_no_other_drive():
    time = np.arange(30_000) * 0.01
    rng = np.random.default_rng(1)
    # turns at random on top of a small motion at the drive's frequency
    angle = np.cumsum(rng.choice([-2.0, 2.0], 300).repeat(100)) * 0.01 + 0.3 * np.cos(2 * np.pi * time)
    assert np.ptp(angle) > 4 * np.pi
    model = kz.Model.from_equations(
        "phi'' + c*phi' + sin(phi) = F*cos(omega*t)",
        parameters={"c": 0.1, "F": 1.0, "omega": 2 * np.pi},
        period="2*pi/omega",
        angles=["phi"],
    )
    record = kz.Record.from_arrays(time, {"phi": angle}, angles=["phi"])
    assert drive_warning(model, record, ("c",)) == ""
    off = drive_warning(model.with_values(omega=2 * np.pi * 1.01), record, ("c",))
    assert "line at 1" in off or "line at 0.99" in off


def test_a_drift_over_the_whole_recording_is_no_line():
    time = np.arange(3000) * 0.1
    values = 5 * np.sin(2 * np.pi * time / 300) + 0.1 * np.random.default_rng(2).standard_normal(time.size)
    model = kz.Model.from_equations(DUFFING, parameters=VALUES, period="2*pi/omega")
    assert drive_warning(model, kz.Record.from_arrays(time, {"x": values}), ("c",)) == ""
