"""Linear terms in parameters, and linear motions near an equilibrium."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sympy as sp

from kapitza import library
from kapitza.errors import ModelError
from kapitza.model import Model, symbol
from kapitza.model.symbols import vanishes


@pytest.mark.parametrize(
    ("model", "free"),
    [
        (library.base_excited_double_pendulum(), None),
        (library.parametric_pendulum(), ["k1", "k2", "k3", "A"]),
        (library.oleo(), ["theta3", "theta4", "theta7", "theta8", "theta10", "theta11", "theta13"]),
        (library.henon_heiles(), ["a", "b", "c", "d"]),
        (library.lorenz(), None),
    ],
    ids=lambda v: getattr(v, "name", ""),
)
def test_terms_add_up_to_the_residuals(model, free):
    free = list(model.names) if free is None else free
    terms = model.linear_terms(free)
    for equation, (rest, coefficients) in zip(model.equations, terms, strict=True):
        total = rest + sum(symbol(name) * c for name, c in coefficients.items())
        assert vanishes(equation - total)
        fixed = set().union(rest.free_symbols, *(c.free_symbols for c in coefficients.values()))
        assert not fixed & {symbol(name) for name in free}


def test_the_double_pendulum_is_linear_in_all_its_parameters():
    first, second = library.base_excited_double_pendulum().linear_terms([])
    assert first[1] == second[1] == {}
    terms = library.base_excited_double_pendulum().linear_terms(library.base_excited_double_pendulum().names)
    assert set(terms[0][1]) == {"B11", "B12", "B13", "B14", "C11", "C12"}
    assert set(terms[1][1]) == {"B21", "B22", "B23", "B24", "C2"}
    assert terms[0][0] == symbol("phi1''")


def test_nonlinear_parameters_are_named_with_the_term():
    pendulum = library.parametric_pendulum()
    with pytest.raises(ModelError, match=r"not linear in \"m\".*term .*\*m\)"):
        pendulum.linear_terms(["m"])
    with pytest.raises(ModelError, match=r"not linear in \"theta1\" together with theta2: see the term theta1\*theta2"):
        library.oleo().linear_terms(["theta1", "theta2"])
    with pytest.raises(ModelError, match=r'no parameter "omga"\. Did you mean "omega"'):
        pendulum.linear_terms(["omga"])


def test_a_derived_parameter_may_be_freed():
    model = Model.from_equations(
        "x'' + d*x' + s*x = 0", parameters={"m": 2.0, "c": 1.0, "k": 8.0, "d": "c/m", "s": "k/m"}
    )
    ((rest, coefficients),) = model.linear_terms(["d", "s"])
    assert rest == symbol("x''")
    assert coefficients == {"d": symbol("x'"), "s": symbol("x")}
    with pytest.raises(ModelError, match='not linear in "m"'):
        model.linear_terms(["m"])
    assert model.linear_terms(["c", "k"])[0][1]["k"] == symbol("x") / symbol("m")


def test_combinations_that_occur():
    pendulum = library.parametric_pendulum().with_values(k1=6.88e-4)
    ((rest, terms),) = pendulum.linear_combinations(["m", "l", "k1", "k2", "k3"])
    names = {sp.sstr(c) for c in terms}
    assert names == {"1/l", "k1/(l**2*m)", "k2/(l**2*m)", "k3/(l**2*m)"}
    assert vanishes(pendulum.equations[0] - rest - sum(c * e for c, e in terms.items()))
    with pytest.raises(ModelError, match="omega do not separate"):
        pendulum.linear_combinations(["omega"])


def test_natural_frequencies_of_the_double_pendulum():
    """Values of HARMONIC's Table 3 in its equation 33: 1.348 and 2.912 Hz; time counts 2π per 1/5 s."""
    model = library.base_excited_double_pendulum().with_values(C12=0.0, C2=0.0)
    result = model.linearise()
    np.testing.assert_allclose(5.0 * result.frequencies, [1.348, 2.912], atol=5e-4)
    np.testing.assert_allclose(result.damping_ratios, 0.0, atol=1e-12)


def test_damped_oscillator():
    model = Model.from_equations(
        "m*x'' + c*x' + k*x = F*cos(t)", parameters={"m": 2, "c": 0.4, "k": 18, "F": 5}, period="2*pi"
    )
    result = model.linearise()
    np.testing.assert_allclose(result.frequencies, [3.0], rtol=1e-12)
    np.testing.assert_allclose(result.damping_ratios, [0.4 / (2 * 2 * 3)], rtol=1e-12)
    np.testing.assert_allclose(result.matrix, [[0, 1], [-9, -0.2]], atol=1e-12)


def test_parametric_excitation_averages_out():
    pendulum = library.parametric_pendulum()
    p = pendulum.values
    assert pendulum.linearise().frequencies[0] == pytest.approx(math.sqrt(p["g"] / p["l"]), rel=1e-6)
    upright = pendulum.linearise({"phi": math.pi})
    assert upright.frequencies.size == 0
    assert upright.eigenvalues.real.max() == pytest.approx(math.sqrt(p["g"] / p["l"]), rel=1e-2)


def test_equilibrium_of_the_landing_gear_balances_the_mean_force():
    model = library.oleo()
    found = model.equilibrium({"u": 0.1, "T": 290.0})
    p = model.values
    gas = p["theta4"] * 293.0 / (1 + p["theta5"] * found["u"] + p["theta6"] * 293.0)
    assert model.excitation is not None
    mean = model.excitation.signals[0].values.mean()
    assert found["T"] == pytest.approx(293.0)
    assert p["theta1"] * p["theta2"] + gas + p["theta10"] == pytest.approx(mean, rel=1e-6)
    assert (model.linearise(found).eigenvalues.real < 0).all()


def test_contact_is_seen_on_its_own_side():
    cart = library.colliding_cart()
    inside = cart.linearise({"x": 0.2})
    np.testing.assert_allclose(inside.matrix, [[0, 1], [0, 0]], atol=1e-12)
    pressed = Model.from_equations("x'' + x' + k*max(x - 1, 0) = 2", parameters={"k": 4.0})
    found = pressed.equilibrium({"x": 2.0})
    assert found["x"] == pytest.approx(1.5)
    assert pressed.linearise(found).frequencies[0] == pytest.approx(2.0)


def test_states_that_are_no_equilibrium_are_refused():
    with pytest.raises(ModelError, match=r"not at rest.* mean rate of phi' is"):
        library.parametric_pendulum().linearise({"phi": 1.0})
    with pytest.raises(ModelError, match="no equilibrium found"):
        Model.from_equations("x' = 1 + x**2").equilibrium()
    with pytest.raises(ModelError, match="is a map"):
        library.trace_map().linearise()
    with pytest.raises(ModelError, match='no state "fi"'):
        library.parametric_pendulum().linearise({"fi": 1.0})
