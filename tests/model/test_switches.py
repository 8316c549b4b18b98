"""Nonsmooth terms become modes; continuous ones are recognised."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

from kapitza import library
from kapitza.errors import ModelError
from kapitza.model import Model, compile_expressions, rate, symbol

# Right-hand side of x'', number of switches, which are continuous (in the order of the switches).
CASES = {
    "sign(x')": [False],
    "x'*abs(x')": [True],
    "abs(x')": [True],
    "k*sign(x') + x'*abs(x')": [False],
    "Heaviside(x - 1)": [False],
    "(x - 1)*Heaviside(x - 1)": [True],
    "max(x - 1, 0)": [True],
    "max(x - 1, 0)**1.5": [True],
    "min(x, k)*x'": [True],
    "max(x, x', k)": [True, True],
    "Piecewise((k*(x - 1), x > 1), (0, True))": [True],
    "Piecewise((x', x > 1), (0, True))": [False],
    "Piecewise((x', x > 1), (-x', x < -1), (0, True))": [False, False],
    "Piecewise((1, x > 0 and x' < 0), (2, True))": [False, False],
    "Piecewise((1, x > 0 or x' < 0), (2, True))": [False, False],
    "Piecewise((sqrt(x), x > 0), (0, True))": [True],
    "abs(x - sign(x'))": [False, True],
    "sign(x) + sign(-2*x) + abs(3*x)": [True],
    "sign(sin(t))": [False],
    "k*sign(sin(t))": [False],
    "k*sign(sin(k*t))": [False],
    "k*abs(sin(k*t))/(1 + k**2)": [True],
    "sin(t)*sign(sin(t))": [True],
    "abs(x*x')": [True],
    "abs(k)*x": [],
    "max(k, 2)*x": [],
    "max(k, 2, x)": [True],
    "Piecewise((1, max(x, 0) >= 0), (2, True))": [],
    "Piecewise((1, sign(max(abs(x) - 1, 0)) >= 0), (2, True))": [],
    "sign(max(x, 0))": [False],
    "abs(sign(max(x, 0)))": [False],
    "sign(max(x, 0)*max(x', 0))": [False, False],
    "Piecewise((1, sign(max(x, 0)) > k), (2, True))": [False],
    "sin(x)": [],
}


@pytest.mark.parametrize("text", CASES)
def test_modes_reproduce_the_rates(text):
    model = Model.from_equations(f"x'' = {text}", parameters={"k": 0.3})
    structure = model.structure
    assert [s.continuous for s in structure.switches] == CASES[text]
    rng = np.random.default_rng(0)
    values = np.vstack([rng.uniform(-3, 3, (2, 500)), rng.uniform(0, 10, 500)])
    names = [*structure.states, "t"]
    expected = compile_expressions(structure.rates, names, ["k"])(values, [0.3])
    modes = []
    for switch in structure.switches:
        function = compile_expressions([switch.function], [*names, *modes], ["k"])
        values = np.vstack([values, np.sign(function(values, [0.3]))])
        modes.append(switch.mode)
    smooth = compile_expressions(structure.smooth_rates, [*names, *modes], ["k"])(values, [0.3])
    np.testing.assert_allclose(smooth, expected, rtol=1e-13, atol=1e-13)


def test_equal_surfaces_are_one_switch_and_order_is_fixed():
    cart = library.colliding_cart().structure
    assert [str(s.function) for s in cart.switches] == ["x + 1", "x - 1"]
    assert [s.mode.name for s in cart.switches] == ["mode:1", "mode:2"]


def test_dry_friction_is_a_switch_and_air_friction_is_continuous():
    assert [s.continuous for s in library.parametric_pendulum().structure.switches] == [False]
    assert [s.continuous for s in library.oleo().structure.switches] == [True]


def test_inactive_branches_without_a_value_stay_out_of_the_rates():
    model = Model.from_equations("x'' = -max(x - 1, 0)**1.5")
    (switch,) = model.structure.switches
    f = compile_expressions(model.structure.smooth_rates, ["x", "x'", switch.mode])
    assert f(np.array([0.5, 0.0, -1.0]))[1] == 0.0
    assert f(np.array([5.0, 0.0, 1.0]))[1] == pytest.approx(-8.0)


def test_piecewise_must_say_what_holds_elsewhere():
    x = symbol("x")
    model = Model.from_equations(rate("x", 2) - sp.Piecewise((x, x > 1)), coordinates=["x"])
    with pytest.raises(ModelError, match="elsewhere"):
        _ = model.structure.switches
