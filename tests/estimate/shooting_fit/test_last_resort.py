"""An answer with a verdict where a model is a little wrong and states are not seen."""

import numpy as np
import pytest

import kapitza as kz


def test_a_hidden_length_begins_where_the_equations_are_defined():
    """r divides: zero, the start of a state that nothing sees, is outside the domain."""
    model = kz.Model.from_equations(
        ["r'' - r*p'**2 + k*(r - l) - g*cos(p) + c*r' = 0", "r*p'' + 2*r'*p' + g*sin(p) + d*p' = 0"],
        parameters={"k": 40.0, "l": 1.0, "g": 9.81, "c": 0.3, "d": 0.05},
    )
    clean = kz.simulate(model, x0=[1.3, 0.6, 0.0, 0.0], t=np.arange(400) * 0.02).select(["p"])
    record = kz.measure(clean, noise=0.005, seed=1)
    fit = kz.identify(model.with_values(k=44.0, c=0.4), record, ["k", "c", "d"], kz.ShootingFit())
    for name in fit.names:
        assert abs(fit[name] - model.values[name]) < 4 * fit.deviations[name]
    assert fit.misfit is not None
    assert fit.misfit.to_the_noise


@pytest.mark.parametrize("kicks", [False, True])
def test_a_wrong_chain_with_a_hidden_source_is_followed_as_far_as_it_can(kicks):
    """Saturating uptake fitted by a linear law: intervals between nodes do not close, a single motion is found."""
    truth = kz.Model.from_equations(
        ["a' = -k1*a/(0.3 + a)", "b' = k1*a/(0.3 + a) - k2*b"], parameters={"k1": 0.8, "k2": 0.4}
    )
    model = kz.Model.from_equations(["a' = -k1*a", "b' = k1*a - k2*b"], parameters={"k1": 0.3, "k2": 0.9})
    clean = kz.simulate(truth, x0=[2.0, 0.1], t=np.arange(200) * 0.05).select(["b"])
    record = kz.measure(clean, noise=0.01, seed=1)
    fit = kz.identify(model, record, ["k1", "k2"], kz.ShootingFit(process_noise=kicks))
    assert fit.status.ok
    assert fit.misfit is not None
    assert fit.misfit.misses
    assert 0.1 < fit.misfit.share < 0.3
    assert any("without kicks" in text for text in fit.warnings) == kicks
    # The best linear chain has two equal rates, so neither is known by itself.
    assert fit["k1"] == pytest.approx(fit["k2"], rel=1e-3)
    assert fit.interval(0.9).loc["k1", "low"] < 0.3 < fit.interval(0.9).loc["k1", "high"]


def test_states_at_lost_samples_begin_between_their_neighbours():
    """A level under a square root: at a lost sample it began at zero, the end of the domain."""
    model = kz.Model.from_equations("x' = q*(1 + 0.5*cos(t)) - a*sqrt(x)", parameters={"q": 1.0, "a": 0.9})
    record = kz.measure(kz.simulate(model, x0=[1.5], t=np.arange(300) * 0.06), noise=0.005, seed=1)
    values = record["x"].copy()
    values[[80, 150]] += [0.6, -0.5]
    spoiled = record.with_channel("x", values, "", False)
    fit = kz.identify(model.with_values(q=1.1), spoiled, ["q", "a"], kz.ShootingFit())
    assert any("2 spikes" in text for text in fit.warnings)
    for name in fit.names:
        assert abs(fit[name] - model.values[name]) < 4 * fit.deviations[name]


@pytest.mark.parametrize("noise", [6e-163, 1e-155, 1e-300])
def test_noise_whose_weights_overflow_is_refused(noise):
    """Weights 1/σ² beyond the largest number ended in an error of NumPy."""
    model = kz.Model.from_equations("x'' + 0.2*x' + k*x = 0", parameters={"k": 4.0})
    record = kz.measure(kz.simulate(model, x0=[1.0, 0.0], t=np.arange(100) * 0.1).select(["x"]), noise=0.01, seed=1)
    with pytest.raises(kz.errors.DataError, match="weights"):
        kz.identify(model.with_values(k=4.2), record, ["k"], kz.ShootingFit(noise=noise))
