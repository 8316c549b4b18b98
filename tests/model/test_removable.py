"""Quotients that are 0/0 at a regular point, as in the rates of ion channels."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sympy as sp
from scipy.integrate import solve_ivp

import kapitza as kz
from kapitza.model.removable import without_removable_poles

V, c, k = (sp.Symbol(name, real=True) for name in "Vck")


def test_the_form_without_pole_is_the_quotient_for_every_argument():
    function = sp.lambdify(V, without_removable_poles(V / (sp.exp(V) - 1)), "numpy")
    sizes = np.logspace(-12, 6, 4000)
    u = np.concatenate([-sizes, sizes])
    # math.expm1 keeps its relative accuracy next to zero; u/expm1(u) vanishes where it would overflow.
    exact = np.array([x / math.expm1(x) if x < 700 else 0.0 for x in u])
    error = np.abs(function(u) - exact) / np.maximum(1.0, np.abs(u))
    assert error.max() < 3e-15
    assert function(0.0) == 1.0


@pytest.mark.parametrize(
    ("quotient", "at", "value"),
    [
        (sp.Float(0.1) * (25 - V) / (sp.exp((25 - V) / 10) - 1), {V: 25}, 1.0),
        ((sp.Float(2.5) - sp.Float(0.1) * V) / (sp.exp(sp.Float(2.5) - V / 10) - 1), {V: 25}, 1.0),
        ((V + c) / (1 - sp.exp(-(V + c) / k)), {V: -3, c: 3, k: 7}, 7.0),
        ((V - sp.log(2)) / (sp.exp(V) - 2), {V: sp.log(2)}, 0.5),
        (3 * V**2 / (2 * sp.exp(V) - 2) ** 2, {V: 0}, 0.75),
        (V**3 / (sp.exp(V) - 1), {V: 0}, 0.0),
    ],
)
def test_the_limit_is_taken(quotient: sp.Expr, at: dict[sp.Symbol, sp.Expr], value: float):
    assert float(without_removable_poles(quotient).xreplace(at)) == pytest.approx(value, abs=1e-14)


@pytest.mark.parametrize("other", [V / (sp.exp(V) + 1), V / (sp.exp(V) - 2), 1 / (sp.exp(V) - 1), (V - 1) / sp.exp(V)])
def test_other_quotients_stay_as_they_are(other: sp.Expr):
    assert without_removable_poles(other) == other


def test_a_motion_passes_the_removable_pole_as_with_scipy():
    """n' is 0/0 at V = 0, through which V = cos t passes in both directions."""
    equations = ["V' = -w", "w' = V", "n' = a*V/(1 - exp(-V/k))*(1 - n) - n"]
    model = kz.Model.from_equations(equations, parameters={"a": 2.0, "k": 0.5})
    run = kz.Flow(model).propagate([1.0, 0.0, 0.2], 0.0, 10.0)

    def rates(t: float, y: np.ndarray) -> list[float]:
        u = y[0] / 0.5
        alpha = 2.0 * 0.5 * (u / -math.expm1(-u) if u else 1.0)
        return [-y[1], y[0], alpha * (1 - y[2]) - y[2]]

    other = solve_ivp(rates, (0, 10), [1.0, 0.0, 0.2], "DOP853", rtol=1e-12, atol=1e-13)
    assert run.state == pytest.approx(other.y[:, -1], abs=1e-10)
    at_the_pole = kz.Flow(model).rates([0.0, 0.0, 0.2], 0.0)
    assert at_the_pole == pytest.approx([0.0, 0.0, 2.0 * 0.5 * 0.8 - 0.2])
