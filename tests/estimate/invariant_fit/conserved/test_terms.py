"""Libraries of candidate functions have the sizes that combinatorics says, and stencils their order."""

from math import comb

import numpy as np
import pytest

from kapitza.errors import KapitzaError
from kapitza.estimate.invariant_fit.conserved.stencils import difference_rates, estimated_noise, local_polynomial
from kapitza.estimate.invariant_fit.conserved.terms import (
    candidate_terms,
    complexity,
    logarithms,
    polynomials,
    products,
    trigonometric,
)


@pytest.mark.parametrize(("names", "degree"), [("x", 4), ("xy", 3), ("xyz", 2)])
def test_monomials_are_as_many_as_there_are_ways_to_choose_their_powers(names, degree):
    found = polynomials(list(names), degree)
    assert len(found) == len(set(found)) == comb(len(names) + degree, degree) - 1
    with pytest.raises(KapitzaError, match="constants"):
        polynomials(list(names), 0)
    with pytest.raises(KapitzaError, match="whole number"):
        polynomials(list(names), 1.5)


@pytest.mark.parametrize(("count", "harmonics"), [(1, 1), (2, 1), (2, 2)])
def test_every_wave_is_there_once(count, harmonics):
    found = trigonometric([f"phi{i}" for i in range(count)], harmonics)
    # Of each pair ± of sums one is kept, with its cosine and its sine.
    assert len(found) == len(set(found)) == (2 * harmonics + 1) ** count - 1


def test_products_and_logarithms():
    first, second = polynomials(["x"], 2), trigonometric(["phi"])
    assert len(products(first, second)) == 4
    assert [str(each) for each in logarithms(["p", "q"])] == ["log(p)", "log(q)"]


def test_terms_of_angles_are_periodic_and_simple_ones_come_first():
    found = candidate_terms(["phi", "w"], [True, False], None, 2)
    turned = [each.subs("phi", 0.7) - each.subs("phi", 0.7 + 2 * np.pi) for each in found]
    for symbolic in found:
        name = next((s for s in symbolic.free_symbols if s.name == "phi"), None)
        if name is not None:
            value = symbolic.subs({s: 0.4 for s in symbolic.free_symbols if s.name != "phi"})
            assert float(value.subs(name, 0.7)) == pytest.approx(float(value.subs(name, 0.7 + 2 * np.pi)), abs=1e-12)
    assert len(turned) == len(found) == 2 + 2 + 4
    weights = [complexity(each) for each in found]
    assert weights == sorted(weights)


@pytest.mark.parametrize(("accuracy", "order"), [(2, 2), (4, 4), (6, 6)])
def test_central_differences_have_their_order(accuracy, order):
    errors = []
    for count in (40, 80):
        times = np.linspace(0, 3, count + 1)
        rates = difference_rates(times, np.sin(times), accuracy)
        errors.append(np.abs(rates.rate - np.cos(times[rates.inside])).max())
        assert rates.reach == accuracy // 2
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.5)


def test_local_polynomials_are_exact_for_polynomials_and_noise_is_seen_in_differences():
    times = np.linspace(0, 1, 41)
    values = 1 - 2 * times + 3 * times**3
    slope, _ = local_polynomial(times, values, 4, 4, 1)
    assert slope == pytest.approx((-2 + 9 * times**2)[4:-4], abs=1e-9)
    dense = np.sin(np.linspace(0, 20, 20001))
    noisy = dense + 1e-3 * np.random.default_rng(3).standard_normal(dense.size)
    assert estimated_noise(noisy) == pytest.approx(1e-3, rel=0.05)
