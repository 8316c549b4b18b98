"""The same recording in other units gives the same parameters; a unit of another kind is refused."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.data import Record
from kapitza.errors import DataError


@pytest.fixture(scope="module")
def decay() -> tuple[kz.Model, Record]:
    model = kz.Model.from_equations(
        "x'' + c*x' + k*x = 0", coordinates=[kz.Coordinate("x", 2, unit="m")], parameters={"c": 0.3, "k": 4.0}
    )
    record = kz.simulate(model, [0.02, 0.0], t=np.linspace(0, 10, 201))
    return model, kz.data.measure(record, noise={"x": 1e-5, "x'": 1e-5}, seed=1)


def test_states_know_their_units(decay):
    model, record = decay
    assert model.units == {"x": "m", "x'": "m/s"}
    assert record.units == {"x": "m", "x'": "m/s"}


def test_millimetres_give_the_same_parameters(decay):
    model, record = decay
    start = model.with_values(c=0.2, k=3.5)
    plain = kz.identify(start, record, free=["c", "k"], method=kz.ShootingFit())
    other = record.in_units({"x": "mm", "x'": "mm/min"})
    assert np.ptp(other["x"]) == pytest.approx(1000 * np.ptp(record["x"]))
    again = kz.identify(start, other, free=["c", "k"], method=kz.ShootingFit())
    for name in ("c", "k"):
        assert again.values[name] == pytest.approx(plain.values[name], rel=1e-6)
    assert again.covariance == pytest.approx(plain.covariance, rel=1e-4)
    listed = kz.identify(start, [other], free=["c", "k"], method=kz.ShootingFit())
    assert listed.values["k"] == pytest.approx(plain.values["k"], rel=1e-6)


def test_other_kinds_are_refused(decay):
    model, record = decay
    volts = Record.from_arrays(record.time, {"x": record["x"]}, units={"x": "V"})
    with pytest.raises(DataError, match='"x", a state of model "model", is in "V", which cannot be converted to "m"'):
        kz.identify(model, volts, free=["c", "k"], method=kz.ShootingFit())


def test_noise_of_the_method_needs_one_unit(decay):
    model, record = decay
    with pytest.raises(DataError, match=r'record\.in_units\(\{"x": "m"\}\)'):
        kz.identify(model, record.in_units({"x": "mm"}), free=["k"], method=kz.ShootingFit(noise={"x": 0.01}))
