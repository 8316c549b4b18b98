"""A false minimum of a model with an unseen state: found out, or reported."""

import numpy as np
import pytest

import kapitza as kz

TRUTH = {"p": 0.08, "q": 0.15, "s": 0.03}


def glucose(**values: float) -> kz.Model:
    """Glucose G after an injection; the action X of insulin is not measured. p and q are nearly exchangeable."""
    equations = ["G' = -(p + X)*G + p*4.5", "X' = -q*X + s*exp(-0.25*t)"]
    return kz.Model.from_equations(equations, parameters={**TRUTH, **values})


def record_of(noise: float, seed: int) -> kz.Record:
    clean = kz.simulate(glucose(), x0=[14.0, 0.0], t=np.arange(400) * 0.2).select(["G"])
    rng = np.random.default_rng(seed)
    values = clean["G"] + noise * clean["G"].std() * rng.standard_normal(clean.size)
    return clean.with_channel("G", values, "", False)


@pytest.mark.parametrize("seed", [0, 1, 2, 4])
def test_a_misfit_of_unseen_states_is_no_false_minimum(seed: int) -> None:
    # Soft links end at p = 0.15, q = 0.08, where the residuals are 1.6 times the noise.
    fit = kz.identify(glucose(p=0.072, q=0.165), record_of(0.003, seed), list(TRUTH))
    assert all(abs(fit[n] - TRUTH[n]) < 4 * fit.deviations[n] for n in TRUTH)
    assert fit.misfit is not None
    assert fit.misfit.to_the_noise
    assert fit.deviations["p"] < 0.01


def test_a_minimum_that_is_nearly_as_likely_is_reported() -> None:
    texts = [
        text
        for seed in range(3)
        for text in kz.identify(glucose(), record_of(0.03, seed), list(TRUTH)).warnings
        if "follows the data nearly as well (-2 log L is larger by" in text
    ]
    assert texts
    assert all("p = " in text and "q = " in text for text in texts)


def reactions(a: float, b: float) -> kz.Model:
    """A decays to B, which decays a little faster where there is more of it; only B is measured."""
    return kz.Model.from_equations(["A' = -a*A", "B' = a*A - b*B*(1 + 0.005*B)"], parameters={"a": a, "b": b})


@pytest.mark.parametrize(("a", "b"), [(0.6, 0.25), (0.25, 0.6)])
def test_exchanged_rates_are_found_or_reported(a: float, b: float) -> None:
    # Without the term in B² both orders give the same output: a fit from exchanged rates ends in the other minimum,
    # hundreds of standard errors off.
    clean = kz.simulate(reactions(a, b), x0=[4.0, 0.5], t=np.arange(200) * 0.1).select(["B"])
    fit = kz.identify(reactions(b, a), kz.measure(clean, noise=0.005, seed=1), ["a", "b"])
    assert abs(fit["a"] - a) < 4 * fit.deviations["a"]
    assert abs(fit["b"] - b) < 4 * fit.deviations["b"]
    (text,) = [text for text in fit.warnings if "follows the data nearly as well" in text]
    words = text.split(" follows")[0].replace(",", "").split()
    other = dict(zip(words[::3], map(float, words[2::3]), strict=True))
    assert other == pytest.approx({"a": b, "b": a}, rel=0.05)


def test_an_unmeasured_level_starts_inside_its_domain() -> None:
    # An unmeasured state starts at zero, where the root has no slope.
    truth = {"k1": 0.545, "k2": 0.49, "k3": 0.475}
    equations = ["h1' = -k1*sqrt(h1) + 0.4*(3 + sin(0.11*t))", "h2' = k2*sqrt(h1) - k3*sqrt(h2)"]
    tanks = kz.Model.from_equations(equations, parameters=truth)
    record = kz.measure(kz.simulate(tanks, x0=[4.0, 5.0], t=np.arange(150) * 2.0).select(["h2"]), noise=0.02, seed=1)
    fit = kz.identify(tanks.with_values(k1=0.3, k2=0.3, k3=0.3), record, list(truth))
    assert all(abs(fit[n] - truth[n]) < 4 * fit.deviations[n] for n in truth)


def test_a_record_that_begins_where_another_ends_starts_inside_the_domain() -> None:
    # Two samples of one time, with other signs, have an infinite slope between them.
    truth = {"k1": 0.545, "k2": 0.49}
    equations = ["h' = -k1*sqrt(h) + 0.4*(3 + sin(0.11*t))", "x' = k2*sqrt(h) - 1 - 0.3*x"]
    tank = kz.Model.from_equations(equations, parameters=truth)
    records, time = [], np.arange(30) * 2.0
    for begin, x in ((0.0, 0.5), (58.0, 0.5)):
        clean = kz.simulate(tank, x0=[4.0, x], t=begin + time).select(["x"])
        records.append(kz.measure(clean, noise=0.02, seed=1))
    assert records[0].time[-1] == records[1].time[0]
    assert records[0]["x"][-1] < 0 < records[1]["x"][0]
    fit = kz.identify(tank.with_values(k1=0.3, k2=0.3), records, list(truth))
    assert all(abs(fit[n] - truth[n]) < 4 * fit.deviations[n] for n in truth)
