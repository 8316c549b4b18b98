"""Foreign units: nothing runs without consent, and wrong requests are refused before anything runs."""

import importlib

import numpy as np
import pytest

import kapitza as kz
from kapitza.errors import ArgumentError, FlowError, ModelError


class Master:
    """Stands for FMPy: an oscillator x = cos(w t) with w as its parameter."""

    def simulate_fmu(self, path, start_time, stop_time, output_interval, start_values, output, **_):
        if start_values.get("w") == 0.0:
            raise RuntimeError("w must not be zero")
        n = round((stop_time - start_time) / output_interval) + 1
        times = start_time + output_interval * np.arange(n)
        found = np.zeros(n, [("time", float), *((name, float) for name in output)])
        found["time"] = times
        for name in output:
            found[name] = np.cos(start_values.get("w", 2.0) * times)
        return found


@pytest.fixture
def unit(monkeypatch, tmp_path):
    monkeypatch.setattr("kapitza.flow.unit._fmpy", Master)
    return kz.Unit(tmp_path / "osc.fmu", "osc", "", ("x",), values={"w": 2.0}, units={"x": "m"})


def test_a_unit_is_simulated_by_its_names(unit):
    times = np.arange(101) * 0.05
    record = kz.simulate(unit, x0={"w": 3.0}, t=times)
    assert record.channels == ("x",)
    assert record.units == {"x": "m"}
    assert np.allclose(record.values()[:, 0], np.cos(3.0 * times))
    noisy = kz.simulate(unit, t=times, noise=0.1, seed=1).values()[:, 0] - np.cos(2.0 * times)
    assert 0.05 < noisy.std() < 0.2


@pytest.mark.parametrize(
    ("settings", "message", "kind"),
    [
        ({"x0": {"v": 1.0}, "t": [0.0, 1.0]}, '"v" cannot be set', ArgumentError),
        ({"t": [0.0, 1.0, 3.0]}, "even grid", ArgumentError),
        ({"periods": 3}, "is a unit; say t=times", ArgumentError),
        ({"x0": {"w": 0.0}, "t": [0.0, 1.0]}, 'The unit "osc" failed: w must not be zero', FlowError),
    ],
)
def test_wrong_requests_are_refused(unit, settings, message, kind):
    with pytest.raises(kind, match=message):
        kz.simulate(unit, **settings)


def test_nothing_is_opened_without_consent(tmp_path, monkeypatch):
    path = tmp_path / "rig.fmu"
    path.write_bytes(b"no zip")

    def refuse(name):
        raise AssertionError(name)

    monkeypatch.setattr(importlib, "import_module", refuse)
    with pytest.raises(ModelError, match="pass trusted=True"):
        kz.open_unit(path)
    with pytest.raises(ModelError, match="is not a unit"):
        kz.open_unit(path, trusted=True)
