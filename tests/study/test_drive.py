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
        assert period == pytest.approx(2 * np.pi, rel=1e-3)
    # a frequency that is to be found needs no warning
    assert drive_warning(model.with_values(omega=1.01), record, ("c", "omega")) == ""
