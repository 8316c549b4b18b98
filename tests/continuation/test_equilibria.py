"""Equilibria: other branches at branch points, Lyapunov coefficients, what non-smooth models are told."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.continuation import End, Kind


def line(equation, **parameters):
    return kz.Model.from_equations(f"x' = {equation}", parameters=parameters, name="line")


@pytest.mark.parametrize("side", [1, -1])
def test_a_pitchfork_of_equilibria_is_left_to_both_sides(side):
    """x' = px - x³: x = ±√p leave x = 0 at p = 0."""
    rest = kz.follow(line("p*x - x**3", p=-0.5), {"x": 0.0}, "p", (-1.0, 1.0), equilibrium=True)
    (point,) = rest.bifurcations
    assert point.verified
    assert point.value == pytest.approx(0.0, abs=1e-8)
    other = kz.switch_branch(point, (-1.0, 1.0), side=side)
    assert other.subject == "equilibrium"
    assert other.ends[1] is End.BOUND
    assert other.points[:, 0] ** 2 == pytest.approx(other.values[:, 0], abs=1e-9)
    assert np.sign(other.points[-1, 0]) == side * np.sign(point.vector[0])
    assert set(other.stability[2:]) == {"stable"}


@pytest.mark.parametrize(("start", "left"), [(0.0, lambda p: p), (-0.5, lambda p: 0 * p)])
def test_a_transcritical_point_is_left_from_either_branch(start, left):
    """x' = px - x²: the branches x = 0 and x = p cross, and each leads to the other."""
    rest = kz.follow(line("p*x - x**2", p=-0.5), {"x": start}, "p", (-1.0, 1.0), equilibrium=True)
    (point,) = rest.of(Kind.BRANCH_POINT)
    assert point.verified
    assert point.value == pytest.approx(0.0, abs=1e-7)
    for side in (1, -1):
        other = kz.switch_branch(point, (-1.0, 1.0), side=side)
        assert other.points[:, 0] == pytest.approx(left(other.values[:, 0]), abs=1e-9)


def test_folds_of_one_state_are_verified_and_meet_in_their_cusp():
    """x' = a + bx - x³: 27a² = 4b³. The only eigenvalue vanishes at a fold, so that none other says what is small."""
    branch = kz.follow(line("a + b*x - x**3", a=0.0, b=1.0), {"x": 1.0}, "a", (-1.0, 1.0), equilibrium=True)
    assert [fold.verified for fold in branch.of(Kind.FOLD)] == [True, True]
    assert [fold.value for fold in branch.of(Kind.FOLD)] == pytest.approx([(4 / 27) ** 0.5, -((4 / 27) ** 0.5)])
    curve = kz.follow(branch.bifurcations[0], ("a", "b"), {"a": (-1.0, 1.0), "b": (-1.0, 2.0)})
    assert 27 * curve.values[:, 0] ** 2 == pytest.approx(4 * curve.values[:, 1] ** 3, abs=1e-9)
    (cusp,) = curve.bifurcations
    assert (cusp.kind, cusp.verified) == (Kind.CUSP, True)


@pytest.mark.parametrize(
    ("rates", "arms"),
    [
        # Symmetric like a square: x² = p or x² = y² = p/3.
        (
            ("p*x - x**3 - 2*x*y**2", "p*y - y**3 - 2*y*x**2"),
            lambda x, y, p: [x**2 + y**2 - p, x**2 + y**2 - 2 * p / 3],
        ),
        # Symmetric like a triangle: p ± r = r² in three directions.
        (
            ("p*x + x**2 - y**2 - x*(x**2 + y**2)", "p*y - 2*x*y - y*(x**2 + y**2)"),
            lambda x, y, p: [p + s * np.hypot(x, y) - x**2 - y**2 for s in (1, -1)],
        ),
    ],
)
def test_eigenvalues_that_vanish_together_are_one_branch_point(rates, arms):
    """By symmetry both eigenvalues are p, and no product of them changes its sign."""
    model = kz.Model.from_equations([f"x' = {rates[0]}", f"y' = {rates[1]}"], parameters={"p": -1.0})
    rest = kz.follow(model, {"x": 0.0, "y": 0.0}, "p", (-2.0, 2.0), equilibrium=True)
    (point,) = rest.bifurcations
    assert (point.kind, point.verified) == (Kind.BRANCH_POINT, True)
    assert point.value == pytest.approx(0.0, abs=1e-8)
    assert "2 eigenvalues" in point.note
    other = kz.switch_branch(point, (-2.0, 2.0))
    x, y, p = *other.points.T, other.values[:, 0]
    assert np.hypot(x, y)[-1] > 0.5
    assert np.abs(arms(x, y, p)).max(axis=1).min() < 1e-8


def test_cycles_leave_a_hopf_point_that_is_at_zero_to_rounding():
    """x' = y, y' = b + cx + x² - xy with c = -1 has its Hopf point at b = 0, found as about 1e-15."""
    model = kz.Model.from_equations(["x' = y", "y' = b + c*x + x**2 - x*y"], parameters={"b": -0.05, "c": -1.0})
    (hopf,) = kz.follow(model, {"x": -0.05, "y": 0.0}, "b", (-1.0, 0.1), equilibrium=True).of(Kind.HOPF)
    assert abs(hopf.value) < 1e-12
    cycles = kz.switch_branch(hopf)
    assert cycles.values[-1, 0] == pytest.approx(-0.045)
    assert kz.follow(hopf, ("b", "c")).ends[0] is End.CODIMENSION_TWO


def test_the_origin_of_lorenz_leads_to_both_wings():
    model = kz.library.lorenz().with_values(rho=0.5)
    rest = kz.follow(model, {"x": 0.0, "y": 0.0, "z": 0.0}, "rho", (0.1, 30.0), equilibrium=True)
    (point,) = rest.of(Kind.PITCHFORK)
    wing = kz.switch_branch(point, (0.1, 30.0))
    rho = wing.values[:, 0]
    assert wing.points[:, 0] ** 2 == pytest.approx(8 / 3 * (rho - 1), abs=1e-6)
    (hopf,) = wing.of(Kind.HOPF)
    assert hopf.value == pytest.approx(470 / 19, abs=1e-8)
    assert hopf.criticality == "subcritical"  # Marsden and McCracken 1976


def test_the_lyapunov_coefficient_of_the_brusselator():
    """l₁ = -(2 + A²)/(2A (1 + A²)) up to a positive factor (Kuznetsov, Elements, 3.5): supercritical for all A."""
    for a in (0.5, 1.0, 2.0):
        model = kz.Model.from_equations(
            ["x' = A - (B + 1)*x + x**2*y", "y' = B*x - x**2*y"], parameters={"A": a, "B": 0.8 * (1 + a**2)}
        )
        start = {"x": a, "y": 0.8 * (1 + a**2) / a}
        (hopf,) = kz.follow(model, start, "B", (0.5, 8.0), equilibrium=True).of(Kind.HOPF)
        assert hopf.value == pytest.approx(1 + a**2, abs=1e-9)
        assert hopf.coefficient < 0


def test_the_lyapunov_coefficient_changes_with_the_cubic_term():
    """x' = px - y + s x r², y' = x + py + s y r²: l₁ has the sign of s, and is proportional to it."""
    found = []
    for s in (-1.0, 0.5):
        terms = ["x' = p*x - y + s*x*(x**2 + y**2)", "y' = x + p*y + s*y*(x**2 + y**2)"]
        model = kz.Model.from_equations(terms, parameters={"p": -0.5, "s": s})
        (hopf,) = kz.follow(model, {"x": 0.0, "y": 0.0}, "p", (-1.0, 1.0), equilibrium=True).bifurcations
        found.append(hopf.coefficient)
    assert found[0] == pytest.approx(-2 * found[1], rel=1e-8)
    assert found[0] < 0


def test_rest_states_under_dry_friction_are_a_set():
    model = kz.Model.from_equations("x'' + c*x' + x + mu*sign(x') = 0", parameters={"c": 0.1, "mu": 0.2})
    with pytest.raises(kz.KapitzaError, match="fill a set"):
        kz.follow(model, {"x": 0.0, "x'": 0.0}, "c", (0.01, 1.0), equilibrium=True)


def test_a_closed_loop_of_equilibria_is_traced_once():
    """Gray and Scott, k = 0.05: folds 4 (f + k)² = f join the two equilibria with y > 0; Hopf where y² = k."""
    model = kz.Model.from_equations(
        ["x' = -x*y**2 + f*(1 - x)", "y' = x*y**2 - (f + k)*y"], parameters={"f": 0.03, "k": 0.05}
    )
    branch = kz.follow(model, {"x": 0.3, "y": 0.27}, "f", (0.005, 0.2), equilibrium=True)
    assert branch.ends[1].name == "CLOSED"
    folds = np.roots([4, 8 * 0.05 - 1, 4 * 0.05**2])
    assert sorted(b.value for b in branch.of("fold")) == pytest.approx(sorted(folds), abs=1e-10)
    assert len(branch.of("Hopf")) == 1


def test_the_lyapunov_coefficient_of_a_state_far_smaller_than_one():
    """The Oregonator at x = z = 0.002: l₁ = -7.0e5 < 0 with exact derivatives; long differences made it positive."""
    model = kz.Model.from_equations(
        ["x' = (x*(1 - x) - f*z*(x - 8e-4)/(x + 8e-4))/0.04", "z' = x - z"], parameters={"f": 2.0}
    )
    rest = kz.follow(model, {"x": 0.0024, "z": 0.0024}, "f", (1.5, 3.0), equilibrium=True)
    (hopf,) = rest.of("Hopf")
    assert hopf.value == pytest.approx(2.3380401774, abs=1e-7)
    assert hopf.criticality == "supercritical"


def test_a_state_of_an_autonomous_model_is_refused_with_both_cures():
    model = kz.Model.from_equations("x' = p - x**2", parameters={"p": 1.0})
    with pytest.raises(kz.KapitzaError, match=r"equilibrium=True, or give the approximate period"):
        kz.follow(model, {"x": 1.0}, "p", (0.5, 2.0))
