"""Small faults of the measurement: their leverage is what they really do, and a stated one enters the interval."""

from __future__ import annotations

import numpy as np
import pytest

import kapitza as kz
from kapitza.errors import DataError
from kapitza.estimate.faults import Leverage

PARAMETERS = {"c": 0.2, "k": 1.0, "q": 1.0, "F": 0.5, "w": 1.2}
MODEL = kz.Model.from_equations("x'' + c*x' + k*x + q*x**3 = F*cos(w*t)", parameters=PARAMETERS, period="2*pi/w")
TIME = 20.0 + np.arange(600) * 0.1
FREE = ["c", "k", "F"]


def record(delay: float = 0.0, gain: float = 1.0, noise: float = 0.002, seed: int = 1) -> kz.Record:
    """A sensor that is late and has a gain; the same noise for the same seed."""
    x = kz.simulate(MODEL, x0=[0.5, 0.1], t=np.concatenate([[0.0], TIME - delay]))["x"][1:]
    drawn = noise * np.random.default_rng(seed).standard_normal(TIME.size)
    return kz.Record.from_arrays(TIME, {"x": gain * x + drawn}, period=MODEL.period)


@pytest.mark.parametrize("kind", ["phase", "gain"])
def test_leverage_is_the_bias_of_the_fault(kind):
    right = kz.identify(MODEL, record(), FREE, kz.ShootingFit())
    told = next(one for one in right.leverage if one.kind == kind)
    faulty = record(delay=told.size) if kind == "phase" else record(gain=1 + told.size)
    wrong = kz.identify(MODEL, faulty, FREE, kz.ShootingFit())
    moved = abs(wrong.values[told.name] - right.values[told.name])
    assert moved == pytest.approx(told.bias, rel=0.1)
    assert told.errors == pytest.approx(told.bias / right.deviations[told.name], rel=1e-6)
    assert str(told) in str(right)


def test_stated_delay_widens_the_interval_and_moves_the_estimate():
    late = 0.01
    plain = kz.identify(MODEL, record(late), FREE, kz.ShootingFit())
    stated = kz.identify(MODEL, record(late), FREE, kz.ShootingFit(outputs={"x": kz.Sensor("x", delay=(0.0, late))}))
    off = {n: abs(plain[n] - PARAMETERS[n]) / plain.deviations[n] for n in FREE}
    name = max(off, key=lambda n: off[n])
    assert off[name] > 3
    assert abs(stated[name] - PARAMETERS[name]) < 2.5 * stated.deviations[name]
    in_time = kz.identify(MODEL, record(0.0), FREE, kz.ShootingFit())
    assert stated.deviations[name] > 1.5 * in_time.deviations[name]
    assert stated.model.parameter("x_delay").prior == kz.Prior(0.0, late)


def test_priors_of_sensors_are_checked_and_saved(tmp_path):
    sensor = kz.Sensor("x", "offset", gain=(1.02, 0.01))
    assert sensor.unknown == ("offset", "gain")
    assert (sensor.gain, sensor.priors) == (1.02, {"gain": 0.01})
    with pytest.raises(DataError, match="standard deviation"):
        kz.Sensor("x", delay=(0.0, -1.0))
    fit = kz.identify(MODEL, record(), FREE, kz.ShootingFit(outputs={"x": kz.Sensor("x", gain=(1.0, 0.01))}))
    kz.save(fit, tmp_path / "fit.nc")
    again = kz.load(tmp_path / "fit.nc")
    assert again.leverage == fit.leverage
    assert again.sensors == fit.sensors


def test_fitted_errors_are_in_the_intervals_and_not_listed():
    def listed(unknown: str) -> set[str]:
        sensor = kz.Sensor("x", unknown)
        fit = kz.identify(MODEL, record(), FREE, kz.ShootingFit(outputs={"x": sensor}))
        return {one.kind for one in fit.leverage}

    assert {"gain", "phase"} <= listed("")
    # With an offset of 1 % of the spread as a fault, the fitted offset itself would move most.
    assert "offset" not in listed("offset")
    assert "gain" not in listed("gain")
    assert "phase" not in listed("delay")


def test_a_fault_counts_in_plain_numbers():
    fault = Leverage("offset", "phi", 0.01, "k", 3.0, 1.5, 1040.0)
    assert "move k by 150 % (1000 standard errors)" in str(fault)
