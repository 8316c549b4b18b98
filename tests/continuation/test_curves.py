"""Curves of bifurcations in two parameters, against closed forms and one-parameter branches."""

import numpy as np
import pytest
from tests.continuation.systems import duffing

import kapitza as kz
from kapitza.continuation import End, Kind


@pytest.fixture(scope="module")
def fold():
    return kz.follow(duffing(1.2), None, "omega", (1.0, 2.0), direction=1).bifurcations[0]


def test_fold_curve_of_duffing_through_its_cusp(fold):
    """Near (1.0910, .0518); every point of the curve is a fold, |μ - 1| at rounding."""
    curve = kz.follow(fold, ("omega", "B"), ((0.9, 2.5), (0.01, 0.4)))
    # Both ends lie on the bound of the second parameter, to rounding.
    assert curve.values[[0, -1], 1] == pytest.approx([0.4, 0.4], abs=1e-12)
    assert curve.ends == (End.BOUND, End.BOUND)
    assert curve.end_messages == ("B = 0.4", "B = 0.4")
    (cusp,) = curve.of(Kind.CUSP)
    assert cusp.value == pytest.approx(1.0910, abs=2e-3)
    assert float(cusp.note.split("=")[1]) == pytest.approx(0.0518, abs=1e-3)
    assert np.abs(curve.multipliers - 1).min(axis=1).max() < 1e-6
    # Both folds of the branch at B = 0.3 lie on it, one on each side of the cusp.
    omega, force = curve.values.T
    middle = int(np.argmin(force))
    upper = np.interp(0.3, force[middle:], omega[middle:])
    lower = np.interp(0.3, force[middle::-1], omega[middle::-1])
    assert sorted([lower, upper]) == pytest.approx([1.3242362007706, 1.7797195242986], abs=2e-3)


def test_hopf_curve_of_lorenz_is_the_closed_form():
    """ρ_H = σ(σ + β + 3)/(σ - β - 1)."""
    model = kz.library.lorenz().with_values(rho=20.0)
    x = np.sqrt(8 / 3 * 19)
    rest = kz.follow(model, {"x": x, "y": x, "z": 19.0}, "rho", (15, 30), equilibrium=True)
    curve = kz.follow(rest.of(Kind.HOPF)[0], ("sigma", "rho"), ((6.0, 20.0), (10.0, 60.0)))
    sigma, rho = curve.values.T
    beta = 8 / 3
    assert len(curve) > 10
    assert rho == pytest.approx(sigma * (sigma + beta + 3) / (sigma - beta - 1), rel=1e-9)


def test_torus_curve_of_the_forced_van_der_pol_oscillator():
    model = kz.Model.from_equations(
        "x'' + mu*(x**2 - 1)*x' + x = F*cos(omega*t)",
        parameters={"mu": 0.3, "F": 1.2, "omega": 1.0},
        period="2*pi/omega",
        start={"x": 2.0, "x'": 0.0},
        name="forced van der Pol",
    )
    branch = kz.follow(model, None, "omega", (0.9, 1.6))
    (torus,) = branch.of(Kind.NEIMARK_SACKER)
    assert abs(torus.critical) == pytest.approx(1.0, abs=1e-12)
    curve = kz.follow(torus, ("omega", "F"), ((0.5, 2.0), (0.1, 1.5)))
    assert np.abs(np.abs(curve.multipliers).max(axis=1) - 1).max() < 1e-6
    (resonance,) = curve.of(Kind.RESONANCE_1_1)
    assert np.abs(resonance.multipliers - 1).max() < 1e-3
    with pytest.raises(kz.KapitzaError, match="two parameters"):
        kz.follow(torus, ("omega",))
    with pytest.raises(kz.KapitzaError, match="no parameter"):
        kz.follow(torus, ("omega", "G"))


def test_doubling_curve_of_the_hanging_pendulum():
    """HYBRID figure 3: at Ω = 13 the doubling is at 0.01320818105, at Ω = 10 near 0.0926."""
    model = kz.library.pendulum_on_spring()
    hanging = kz.follow(model, {"y": 0, "theta": 0, "y'": 0, "theta'": 0}, "a", (1.5, 3.0), direction=1)
    curve = kz.follow(hanging.of(Kind.DOUBLING)[0], ("Omega", "a"), ((10.0, 14.0), (0.1, 40.0)))
    omega, force = curve.values.T
    quoted = force / np.hypot(0.1 * omega, 200.0)
    assert quoted[np.argmin(omega)] == pytest.approx(0.0926, abs=1e-4)
    assert np.abs(curve.multipliers + 1).min(axis=1).max() < 1e-6


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"omgea": (0.5, 2.0)}, "bounds names 'omgea'"),
        ({"omega": (float("nan"), 2.0)}, "not a range for omega"),
        ((3.0, 4.0), r"starts at omega = 1\.77972, outside"),
        (((1.0, 2.0), (0.5, 0.6)), r"starts at B = 0\.3, outside"),
        ((1.0, 2.0, 3.0), "more than 2 entries"),
        ("wide", "give a list"),
    ],
)
def test_ranges_of_a_curve_that_make_no_sense_are_named(fold, bounds, message):
    with pytest.raises(kz.KapitzaError, match=message):
        kz.follow(fold, ("omega", "B"), bounds)


def test_a_curve_begins_at_the_bound_it_is_given(fold):
    """The range of B ends at the fold's own: one direction has nowhere to go, the other does."""
    curve = kz.follow(fold, ("omega", "B"), {"B": (0.28, 0.3), "omega": (1.0, 2.0)})
    assert curve.values[:, 1].max() == pytest.approx(0.3, abs=1e-12)
    assert curve.values[:, 1].min() == pytest.approx(0.28, abs=1e-12)
    assert sorted(curve.end_messages) == ["B = 0.28", "B = 0.3"]
