"""Twins of parameters: other values with exactly the same outputs."""

import itertools

import numpy as np
import pytest

import kapitza as kz
from kapitza.estimate.redundancy.equivalents import equivalents
from kapitza.model import symbol

CHAIN = kz.Model.from_equations(
    ["a' = -k*a", "b' = k*a - l*b"], parameters={"k": 1.0, "l": 0.4}, start={"a": 2.0, "b": 0.3}
)
"""B of A → B → C is a sum of exp(-k t) and exp(-l t), and does not say which is which."""


def test_rates_of_a_chain_can_be_exchanged():
    found = kz.identifiability(CHAIN, ["b"])
    assert found.complete
    (twin,) = found.equivalents
    assert twin == pytest.approx({"k": 0.4, "l": 1.0}, rel=1e-4)
    assert "k = 0.4, l = 1" in found.message()
    assert kz.identifiability(CHAIN, ["a", "b"]).equivalents == ()


@pytest.mark.parametrize("values", [(1.4, 0.35), (0.3, 2.7), (0.9, 0.7), (1.2, 4.1)])
def test_exchanged_rates_are_found_whatever_their_values(values):
    k, l = values
    (twin,) = kz.identifiability(CHAIN.with_values(k=k, l=l), ["b"]).equivalents
    assert twin == pytest.approx({"k": l, "l": k}, rel=1e-4)


def test_rates_of_three_tanks_can_be_exchanged_in_six_ways():
    """Of the transfer function k l m/((s + k)(s + l)(s + m)) and free states every permutation is a twin."""
    rates = {"k": 0.3, "l": 0.8, "m": 2.0}
    tanks = kz.Model.from_equations(["a' = -k*a", "b' = k*a - l*b", "c' = l*b - m*c"], parameters=rates)
    found = kz.identifiability(tanks, ["c"]).equivalents
    seen = {tuple(float(f"{one[name]:.5g}") for name in rates) for one in found}
    assert seen == set(itertools.permutations(rates.values())) - {tuple(rates.values())}


def test_bounds_and_equal_values_leave_no_twin():
    bounded = kz.Model.from_equations(
        ["a' = -k*a", "b' = k*a - l*b"], parameters={"k": kz.Parameter("k", 1.0, bounds=(0.6, 9.0)), "l": 0.4}
    )
    assert kz.identifiability(bounded, ["b"]).equivalents == ()
    assert kz.identifiability(CHAIN.with_values(l=1.0), ["b"]).equivalents == ()
    # The same equations at other values have theirs.
    assert len(kz.identifiability(CHAIN.with_values(l=0.2), ["b"]).equivalents) == 1


def test_a_sign_that_only_a_square_shows():
    model = kz.Model.from_equations("x' = -a*x + b", parameters={"a": 1.0, "b": 0.4}, outputs={"power": "x**2"})
    (twin,) = kz.identifiability(model).equivalents
    assert twin == pytest.approx({"a": 1.0, "b": -0.4}, rel=1e-6)


def test_an_angle_that_is_mirrored_and_turned_has_one_twin():
    model = kz.Model.from_equations("p'' + c*p' + sin(p - d) = 0", parameters={"c": 0.1, "d": 0.9})
    (twin,) = kz.identifiability(model, ["acc"], outputs={"acc": "cos(p)"}).equivalents
    assert twin["d"] == pytest.approx(-0.9, rel=1e-6)


@pytest.mark.parametrize("seen", [["x"], ["z"]])
def test_lorenz_has_no_twin(seen):
    # z keeps the sign of x and y hidden, but no parameter changes with it.
    assert kz.identifiability(kz.library.lorenz(), seen).equivalents == ()


def test_a_fit_gives_both_solutions_and_both_fit_alike():
    record = kz.measure(kz.simulate(CHAIN, t=np.arange(200) * 0.05).select(["b"]), noise=0.01, seed=1)
    fit = kz.identify(CHAIN, record, ["k", "l"], kz.ShootingFit())
    (twin,) = fit.identifiability.equivalents
    assert any("2 sets of values" in text for text in fit.warnings)
    other = kz.identify(CHAIN.with_values(**twin), record, ["k", "l"], kz.ShootingFit())
    assert other.values == pytest.approx(dict(twin), rel=1e-3)
    assert other.chi2 == pytest.approx(fit.chi2, rel=1e-6)


def test_a_large_term_hides_no_small_one():
    """With k3 x³ a million times as large as c x' at x = 1, values of c near the true one were called equivalent."""
    time = np.arange(0.0, 10.0, 0.01)
    model = kz.Model.from_equations(
        "m*x'' + c*x' + k*x + k3*x**3 = gain*U",
        parameters={"m": 0.8, "c": 3.0, "k": 3500.0, "k3": 5e6, "gain": 6.0},
        signals=[kz.Signal("U", time, np.sin(5 * time), degree=3)],
    )
    assert equivalents(model, [symbol("x")], ["c", "k", "k3", "gain"]) == ()
    # A mirrored sensor shows the same motion under the mirrored drive.
    (twin,) = equivalents(model, [symbol("x") ** 2], ["c", "k", "k3", "gain"])
    assert twin == pytest.approx({"c": 3.0, "k": 3500.0, "k3": 5e6, "gain": -6.0}, rel=1e-5)
