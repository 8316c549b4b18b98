"""Lagrangian, Hamiltonian, map and SymPy input give the equations known from theory."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

from kapitza import library
from kapitza.errors import ModelError
from kapitza.model import Model, Signal, compile_expressions, rate, symbol
from kapitza.model.symbols import vanishes


def assert_same_rates(first: Model, second: Model, samples: int = 100):
    """The two models give the same rates at random states, times and their own parameters, to 1e-10."""
    rng = np.random.default_rng(5)
    values = np.vstack([rng.uniform(-2, 2, (len(first.states), samples)), rng.uniform(0, 9, samples)])
    results = []
    for model in (first, second):
        f = compile_expressions(model.structure.rates, [*first.states, "t"], model.names)
        results.append(f(values, model.vector))
    np.testing.assert_allclose(results[0], results[1], rtol=1e-10, atol=1e-10)


def test_lagrangian_gives_the_planar_double_pendulum():
    """T and V of INVARIANT, equations 16-17, with physical parameters, against its dimensionless equations."""
    physical = {"m1": 0.7, "m2": 0.4, "l1": 0.9, "l2": 0.5, "g": 9.81}
    kinetic = "(m1 + m2)*l1**2*phi1'**2/2 + m2*l2**2*phi2'**2/2 + m2*l1*l2*phi1'*phi2'*cos(phi1 - phi2)"
    potential = "-(m1 + m2)*g*l1*cos(phi1) - m2*g*l2*cos(phi2)"
    derived = Model.from_lagrangian(
        f"{kinetic} - ({potential})", ["phi1", "phi2"], angles=["phi1", "phi2"], parameters=physical
    )
    known = library.planar_double_pendulum().with_values(
        lambda_=0.9 / 0.5, mu=1 + 0.7 / 0.4, omega1=float(np.sqrt(9.81 / 0.9))
    )
    assert_same_rates(derived, known)


def test_lagrangian_gives_the_base_excited_double_pendulum():
    """Arms with eccentric masses on the base y = a cos τ; friction by Rayleigh function and a generalised force.

    Time is τ = w t (w = 2π f_e), so with T ∝ w² every equation is divided by w² and the inertia of its arm.
    """
    p = {"m1": 0.1362, "m2": 0.040, "e1": 0.0127, "e2": 0.0267, "l1": 0.0635, "J1": 5.99e-4, "J2": 4.033e-5}
    p |= {"a": 0.0115, "w": 2 * np.pi * 5, "g": 9.81, "mu1": 3e-4, "c": 2e-5}
    first = "J1*phi1'**2/2 + J2*phi2'**2/2 + m2*l1*e2*phi1'*phi2'*cos(phi2 - phi1)"
    moving = "-a*sin(t)*((m1*e1 + m2*l1)*phi1'*sin(phi1) + m2*e2*phi2'*sin(phi2))"
    height = "-g/w**2*((m1*e1 + m2*l1)*cos(phi1) + m2*e2*cos(phi2))"
    derived = Model.from_lagrangian(
        f"{first} + {moving} - ({height})",
        ["phi1", "phi2"],
        parameters=p,
        period="2*pi",
        dissipation="c/w*(phi2' - phi1')**2/2",
        forces={"phi1": "-mu1/w**2*sign(phi1')"},
    )
    arm1, arm2, cross = p["m1"] * p["e1"] + p["m2"] * p["l1"], p["m2"] * p["e2"], p["m2"] * p["l1"] * p["e2"]
    w = p["w"]
    values = {
        "B11": cross / p["J1"],
        "B12": p["g"] * arm1 / (p["J1"] * w**2),
        "B13": -p["a"] * arm1 / p["J1"],
        "B21": cross / p["J2"],
        "B22": p["g"] * arm2 / (p["J2"] * w**2),
        "B23": -p["a"] * arm2 / p["J2"],
        "C11": p["mu1"] / (p["J1"] * w**2),
        "C12": p["c"] / (p["J1"] * w),
        "C2": p["c"] / (p["J2"] * w),
    }
    assert_same_rates(derived, library.base_excited_double_pendulum().with_values(**values))
    table1 = library.base_excited_double_pendulum("table1").values
    for name in ("B11", "B12", "B13", "B21", "B22", "B23"):
        assert table1[name] == pytest.approx(values[name], rel=2e-3)


def test_hamiltonian_gives_henon_heiles():
    model = library.henon_heiles()
    q1, q2, p1, p2 = (symbol(n) for n in ("q1", "q2", "p1", "p2"))
    expected = (p1, p2, -q1 - 2 * q1 * q2, -q2 - q1**2 + q2**2)
    # Exact values of the classical system; the stored d is the double nearest to -1/3.
    values = {"m1": 1, "m2": 1, "omega1": 1, "omega2": 1, "a": 0, "b": 1, "c": 0, "d": -sp.Rational(1, 3)}
    point = {symbol(n): sp.sympify(v) for n, v in values.items()}
    assert all(vanishes(r.xreplace(point) - e) for r, e in zip(model.structure.rates, expected, strict=True))
    assert list(model.invariants) == ["H"]


def test_hamiltonian_with_force_or_time_has_no_invariant():
    damped = Model.from_hamiltonian("p**2/2 + q**2/2", ["q"], ["p"], parameters={"c": 0.1}, forces={"q": "-c*p"})
    assert damped.invariants == {}
    assert damped.structure.rates == (symbol("p"), -symbol("q") - symbol("c") * symbol("p"))
    driven = Model.from_hamiltonian("p**2/2 + q*cos(t)", ["q"], ["p"], period="2*pi")
    assert driven.invariants == {}


def test_sympy_functions_of_time_are_understood():
    t, m, k = sp.symbols("t m k")
    x, y = sp.Function("x")(t), sp.Function("y")(t)
    model = Model.from_equations(
        [sp.Eq(m * x.diff(t, 2) + k * sp.Abs(x.diff(t)), sp.cos(t) - y), y.diff(t) + x * y],
        coordinates=["x", "y"],
        parameters={"m": 2.0, "k": 1.0},
        period="2*pi",
    )
    text = Model.from_equations(
        ["m*x'' + k*abs(x') = cos(t) - y", "y' + x*y = 0"], parameters={"m": 2.0, "k": 1.0}, period="2*pi"
    )
    assert model.states == ("x", "y", "x'")
    assert model.structure.key == text.structure.key


def test_sympy_lagrangian_in_our_symbols():
    q, v, m, k = symbol("q"), rate("q"), symbol("m"), symbol("k")
    model = Model.from_lagrangian(m * v**2 / 2 - k * q**2 / 2, ["q"], parameters={"m": 1, "k": 4}, dissipation=v**2 / 2)
    assert model.structure.rates == (v, (-k * q - v) / m)


def test_map_keeps_states_in_order():
    model = library.trace_map()
    assert model.states == ("x", "y", "z")
    assert model.is_map
    assert model.period is None
    assert model.structure.rates[1:] == (symbol("x"), symbol("y"))


def test_period_of_a_signal_is_the_default():
    force = Signal("F", np.linspace(0, 0.75, 4), [0.0, 1.0, 0.0, -1.0], 1.5)
    model = Model.from_equations("x'' + x = F", signals=[force])
    assert model.period == 1.5
    with pytest.raises(ModelError, match="whole multiple"):
        _ = Model.from_equations("x'' + x = F", signals=[force], period="2").period
    assert Model.from_equations("x'' + x = F", signals=[force], period="3").period == 3.0


def test_forces_and_angles_must_name_coordinates():
    with pytest.raises(ModelError, match='A force acts on "p"'):
        Model.from_lagrangian("q'**2", ["q"], forces={"p": "1"})
    with pytest.raises(ModelError, match='"fi" is declared an angle'):
        Model.from_equations("phi'' = 0", angles=["fi"])
    with pytest.raises(ModelError, match="2 positions and 1 momenta"):
        Model.from_hamiltonian("p**2", ["q", "r"], ["p"])
