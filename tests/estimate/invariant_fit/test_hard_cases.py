"""Readings near the border of an invariant's domain, friction laws in balances, and balances that do not close."""

import numpy as np
import pytest

import kapitza as kz

ENERGY = "x'**2/2 + k*x**2/2 + k3*x**4/4"
TIMES = np.arange(2000) * 0.02


def test_logarithms_of_noisy_readings_near_zero():
    model = kz.Model.from_equations(
        ["x' = a*x - b*x*y", "y' = d*x*y - g*y"],
        parameters={"a": 1.0, "b": 0.5, "d": 0.3, "g": 0.7},
        start={"x": 1.0, "y": 0.5},
        invariants={"V": "d*x - g*log(x) + b*y - a*log(y)"},
    )
    clean = kz.simulate(model, t=np.arange(400) * 0.1)
    noise = {c: 0.05 * clean[c].std() for c in clean.channels}
    inside = []
    for seed in range(16):
        fit = kz.identify(model, kz.measure(clean, noise=noise, seed=seed), ["b", "d", "g"], kz.InvariantFit())
        assert "has no value" in fit.warnings[0]
        assert "surface" in fit.method
        interval = fit.interval(0.9)
        inside.append([interval.loc[n, "low"] < model.values[n] < interval.loc[n, "high"] for n in fit.names])
    # 16 draws of a probability of 0.9: 10 or fewer in 0.3 % of all cases
    assert (np.sum(inside, axis=0) > 10).all()


def test_readings_that_all_lie_at_the_border_are_refused():
    model = kz.Model.from_equations(
        "x'' + k*x = 0", parameters={"k": 1.0}, invariants={"H": "x'**2/2 + k*x**2/2 + log(x + 3)*0 + k*log(x)"}
    )
    time = np.arange(300) * 0.05
    record = kz.Record.from_arrays(
        time, {"x": 0.1 + 0.05 * np.sin(time), "x'": np.cos(time)}, noise={"x": 0.1, "x'": 0.1}
    )
    with pytest.raises(kz.KapitzaError, match="standard deviations of the noise of that border"):
        kz.identify(model, record, ["k"], kz.InvariantFit())


@pytest.mark.parametrize(
    ("law", "name", "value"), [("q*x'*abs(x')", "q", 0.1), ("mu*sign(x')", "mu", 0.05)], ids=["drag", "dry friction"]
)
def test_friction_laws_in_a_balance(law, name, value):
    model = kz.Model.from_equations(
        f"x'' + c*x' + {law} + k*x + k3*x**3 = 0",
        parameters={"c": 0.02, name: value, "k": 1.0, "k3": 0.4},
        start={"x": 2.0, "x'": 0.0},
    )
    clean = kz.simulate(model, t=TIMES)
    scores = []
    for seed in range(6):
        record = kz.measure(clean, noise=0.01, seed=seed)
        fit = kz.identify(model, record, ["c", name, "k", "k3"], kz.InvariantFit("balance", invariant=ENERGY))
        scores.append([(fit[n] - model.values[n]) / fit.deviations[n] for n in fit.names])
    assert np.abs(scores).max() < 4.5
    assert np.sqrt(np.mean(np.square(scores))) < 1.6


def test_a_drain_that_the_equations_lack_is_named_with_its_strength():
    truth = kz.Model.from_equations(
        "x'' + c*x' + q*x'*abs(x') + k*x + k3*x**3 = 0",
        parameters={"c": 0.02, "q": 0.1, "k": 1.0, "k3": 0.4},
        start={"x": 2.0, "x'": 0.0},
    )
    record = kz.measure(kz.simulate(truth, t=TIMES), noise=0.01, seed=1)
    model = kz.Model.from_equations("x'' + c*x' + k*x + k3*x**3 = 0", parameters={"c": 0.02, "k": 1.0, "k3": 0.4})
    fit = kz.identify(model, record, method=kz.InvariantFit("balance", invariant=ENERGY))
    warning = next(text for text in fit.warnings if "energy balance is missed" in text)
    assert "abs(x')**3" in warning
    assert "0.1*" in warning
    # From positions alone it is told too, and a right model is not doubted.
    fit = kz.identify(model, record.select(["x"]), method=kz.InvariantFit("balance", invariant=ENERGY))
    assert any("energy balance is missed" in text for text in fit.warnings)
    for noise in (0.001, 0.01, 0.05):
        right = kz.measure(kz.simulate(truth, t=TIMES).select(["x"]), noise=noise, seed=2)
        fit = kz.identify(truth, right, method=kz.InvariantFit("balance", invariant=ENERGY))
        assert not any("energy balance is missed" in text for text in fit.warnings)
