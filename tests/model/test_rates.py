"""First-order rates of mixed-order and coupled models against right-hand sides written by hand in NumPy."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import sympy as sp

from kapitza import library
from kapitza.errors import ModelError
from kapitza.model import Model, compile_expressions, rate, symbol

SAMPLES = 200


def compiled_rates(model: Model, states, times, signals=()):
    """(n, N) rates through the compiled structure."""
    structure = model.structure
    inputs = [*structure.states, *structure.signals, "t"]
    f = compile_expressions(structure.rates, inputs, structure.parameters, structure.steps)
    return f(np.vstack([states, *signals, times]), model.vector)


def by_hand_oleo(p, x, t, force):
    u, temperature, v = x
    spring = p["theta4"] * temperature / (1 + p["theta5"] * u + p["theta6"] * temperature)
    friction = (p["theta7"] + p["theta8"] * u**2) * np.arctan(p["theta9"] * v)
    total = force - p["theta3"] * np.abs(v) * v - spring - friction - p["theta10"]
    heat = -p["theta11"] * (temperature + p["theta12"]) - p["theta13"] * temperature * v / (1 + p["theta5"] * u)
    return np.stack([v, heat, total / p["theta1"] - p["theta2"]])


def by_hand_base_excited(p, x, t):
    a, b, va, vb = x
    c, s = np.cos(b - a), np.sin(b - a)
    one = np.ones_like(a)
    mass = np.moveaxis(np.array([[one, p["B11"] * c], [p["B21"] * c, one]]), 2, 0)
    drive1 = p["B12"] + p["B13"] * np.cos(t) + p["B14"] * np.sin(t)
    drive2 = p["B22"] + p["B23"] * np.cos(t) + p["B24"] * np.sin(t)
    first = p["B11"] * vb**2 * s - drive1 * np.sin(a) - p["C11"] * np.sign(va) + p["C12"] * (vb - va)
    second = -p["B21"] * va**2 * s - drive2 * np.sin(b) - p["C2"] * (vb - va)
    w = np.linalg.solve(mass, np.stack([first, second], axis=1)[..., None])[..., 0].T
    return np.stack([va, vb, *w])


def by_hand_planar(p, x, t):
    """Equations 18 and 19 of INVARIANT, the determinants written out."""
    a, b, va, vb = x
    lam, mu, om = p["lambda_"], p["mu"], p["omega1"]
    c, s = np.cos(a - b), np.sin(a - b)
    first = -s * vb**2 - mu * lam * om**2 * np.sin(a)
    second = s * va**2 - om**2 * np.sin(b)
    den = mu - c**2
    return np.stack([va, vb, (first / lam - c * second) / den, (mu * lam * second - c * first) / den])


def by_hand_pendulum_on_spring(p, x, t):
    y, th, vy, vth = x
    one = np.ones_like(y)
    ml = p["m"] * p["l"]
    mass = np.moveaxis(np.array([[(p["M"] + p["m"]) * one, ml * np.sin(th)], [np.sin(th) / p["l"], one]]), 2, 0)
    first = p["a"] * np.cos(p["Omega"] * t) - ml * vth**2 * np.cos(th) - p["C"] * vy - p["K"] * y
    second = -p["kappa"] / (ml * p["l"]) * vth - p["g"] / p["l"] * np.sin(th)
    w = np.linalg.solve(mass, np.stack([first, second], axis=1)[..., None])[..., 0].T
    return np.stack([vy, vth, *w])


def by_hand_parametric(p, x, t):
    phi, v = x
    e, o = p["epsilon"], p["omega"]
    shape = np.cos(o * t) + e * (np.cos(2 * o * t) + e**2 * np.sin(o * t) ** 4) / (1 - e**2 * np.sin(o * t) ** 2) ** 1.5
    friction = (p["k1"] * np.sign(v) + p["k2"] * v + p["k3"] * v * abs(v)) / (p["m"] * p["l"] ** 2)
    return np.stack([v, -friction - (p["g"] - p["A"] * o**2 * shape) / p["l"] * np.sin(phi)])


def by_hand_cart(p, x, t):
    x, v = x
    right = p["k"] * (x - 1) + p["b"] * v
    left = p["k"] * (x + 1) + p["b"] * v
    buffer = np.where(x > 1, right, np.where(x < -1, left, 0.0))
    return np.stack([v, p["gamma"] * np.sin(p["omega"] * t) - buffer])


BY_HAND = {
    "base_excited_double_pendulum": by_hand_base_excited,
    "planar_double_pendulum": by_hand_planar,
    "pendulum_on_spring": by_hand_pendulum_on_spring,
    "parametric_pendulum": by_hand_parametric,
    "colliding_cart": by_hand_cart,
}


@pytest.mark.parametrize("name", BY_HAND)
def test_library_rates_agree_with_hand_written_ones(name):
    model = getattr(library, name)()
    rng = np.random.default_rng(3)
    model = model.with_values(**{n: v * rng.uniform(0.7, 1.2) for n, v in zip(model.names, model.vector, strict=True)})
    x = rng.uniform(-2, 2, (len(model.states), SAMPLES))
    t = rng.uniform(0, 20, SAMPLES)
    expected = BY_HAND[name](model.values, x, t)
    result = compiled_rates(model, x, t)
    np.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


def test_oleo_mixes_orders_and_a_measured_force():
    model = library.oleo()
    rng = np.random.default_rng(4)
    x = np.stack([rng.uniform(0, 0.2, SAMPLES), rng.uniform(250, 400, SAMPLES), rng.uniform(-1, 1, SAMPLES)])
    t, force = rng.uniform(0, 5, SAMPLES), rng.uniform(2500, 4500, SAMPLES)
    assert model.states == ("u", "T", "u'")
    expected = by_hand_oleo(model.values, x, t, force)
    np.testing.assert_allclose(compiled_rates(model, x, t, [force]), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("size", [2, 3, 4, 6])
def test_full_mass_matrices_are_solved(size):
    rng = np.random.default_rng(size)
    matrix = rng.integers(-3, 4, (size, size)) + 6 * np.eye(size, dtype=int)
    names = [f"q{i}" for i in range(size)]
    equations = [
        sum(int(matrix[i, j]) * rate(names[j], 2) for j in range(size)) + symbol(names[i]) ** 2 for i in range(size)
    ]
    model = Model.from_equations(equations, coordinates=names)
    x = rng.uniform(-1, 1, (2 * size, 7))
    expected = -np.linalg.solve(matrix, x[:size] ** 2)
    np.testing.assert_allclose(compiled_rates(model, x, np.zeros(7))[size:], expected, rtol=1e-10, atol=1e-12)


def test_mass_matrix_entry_that_vanishes_somewhere_is_no_pivot():
    """[[cos q, 1], [-1, cos r]] is regular everywhere although its corner vanishes at q = π/2."""
    model = Model.from_equations(["cos(q)*q'' + r'' = 1", "-q'' + cos(r)*r'' = 2"], coordinates=["q", "r"])
    result = compiled_rates(model, np.array([np.pi / 2, 0.3, 0, 0])[:, None], np.zeros(1))[2:, 0]
    matrix = np.array([[np.cos(np.pi / 2), 1.0], [-1.0, np.cos(0.3)]])
    np.testing.assert_allclose(result, np.linalg.solve(matrix, [1.0, 2.0]), rtol=1e-14)


def test_equations_may_come_in_any_order_and_in_triangular_form():
    model = Model.from_equations(["z' = x'' + y'", "y' = x'' - 1", "x'' = -x"], coordinates=["x", "y", "z"])
    x, xv = symbol("x"), rate("x")
    assert model.states == ("x", "y", "z", "x'")
    assert [sp.simplify(a - b) for a, b in zip(model.structure.rates, (xv, -x - 1, -2 * x - 1, -x), strict=True)] == [
        0
    ] * 4


def test_outputs_may_hold_accelerations():
    model = Model.from_equations("m*x'' + k*x = 0", parameters={"m": 2.0, "k": 8.0}, outputs={"a": "x'' + x'"})
    assert model.structure.outputs["a"] == -symbol("k") * symbol("x") / symbol("m") + rate("x")


def test_derived_parameters_are_replaced_in_the_rates():
    model = Model.from_equations(
        "x'' + w2*x = 0", parameters={"k": 8.0, "m": 2.0, "w2": "w**2", "w": "sqrt(k/m)"}, outputs={"f": "w*x"}
    )
    assert model.names == ("k", "m")
    assert model.values == pytest.approx({"k": 8.0, "m": 2.0, "w": 2.0, "w2": 4.0})
    assert model.structure.rates[1].free_symbols == {symbol("x"), symbol("k"), symbol("m")}
    assert model.with_values(k=18.0).values["w"] == pytest.approx(3.0)


def test_structure_is_shared_between_values_and_told_apart_between_equations():
    model = library.duffing()
    assert model.with_values(k=0.3).structure is model.structure
    assert library.duffing().structure is model.structure
    assert library.lorenz().structure.key != library.rossler().structure.key
    other = Model.from_equations("x'' + k*x' + x**3 = 2*B*cos(t)", parameters={"k": 0.08, "B": 0.2}, period="2*pi")
    assert other.structure.key != model.structure.key


def describe_structures() -> str:
    models = (library.colliding_cart(), library.base_excited_double_pendulum(), library.pendulum_on_spring())
    return "\n".join(f"{s.key} {s.rates} {s.switches} {s.smooth_rates}" for s in (m.structure for m in models))


def test_structure_does_not_depend_on_the_hash_seed():
    """Hashes of text differ from process to process; nothing derived may follow them."""
    code = "import test_rates; print(test_rates.describe_structures())"
    path = os.pathsep.join([os.path.dirname(__file__), *sys.path])
    other = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONHASHSEED": "12345", "PYTHONPATH": path},
        check=True,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert other.stdout.strip() == describe_structures()


def test_autonomous_or_not():
    assert library.lorenz().structure.is_autonomous
    assert not library.duffing().structure.is_autonomous
    assert not library.oleo().structure.is_autonomous


def test_singular_mass_matrix_by_form():
    with pytest.raises(ModelError, match="determines q''"):
        _ = Model.from_equations(["p'' = 1", "p'' + p = 2"], coordinates=["p", "q"]).structure
    with pytest.raises(ModelError, match="p'', q'' hold the same combination"):
        _ = Model.from_equations(["p'' + q'' = 1", "2*p'' + 2*q'' + p = 2"], coordinates=["p", "q"]).structure


def test_singular_mass_matrix_by_values():
    model = Model.from_equations("m*x'' + x = 0", parameters={"m": 1.0})
    with pytest.raises(ModelError, match="singular at m = 0"):
        model.with_values(m=0.0)
    with pytest.raises(ModelError, match="singular at m = 0"):
        _ = Model.from_equations("m*x'' + x = 0", parameters={"m": 0.0}).structure
    coupled = Model.from_equations(["p'' + a*q'' = 1", "a*p'' + q'' + p = 2"], parameters={"a": 0.5})
    with pytest.raises(ModelError, match="singular at a = 1"):
        coupled.with_values(a=1.0)
    assert coupled.with_values(a=-0.5).values["a"] == -0.5


def test_highest_derivative_must_be_linear():
    with pytest.raises(ModelError, match=r"Equation 1 is not linear in x'' \(its coefficient is 2\*x''\)"):
        _ = Model.from_equations("x''**2 + x = 1").structure
