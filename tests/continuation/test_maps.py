"""Cycles of maps along a parameter: values from closed forms."""

from math import sqrt
from types import SimpleNamespace

import numpy as np
import pytest

import kapitza as kz
from kapitza.continuation.normal_forms import off_pole
from kapitza.errors import KapitzaError


@pytest.fixture(scope="module")
def logistic():
    return kz.Model.from_map({"x": "r*x*(1 - x)"}, parameters={"r": 2.5}, start={"x": 0.3}, name="logistic")


def test_the_fixed_point_of_the_logistic_map_doubles(logistic):
    """x = 1 - 1/r meets x = 0 at r = 1 and doubles at 3; the cycle of two doubles at 1 + √6."""
    branch = kz.follow(logistic, None, "r", (0.5, 4.0))
    assert [(b.kind.value, b.verified) for b in branch.bifurcations] == [
        ("branch point", True), ("period doubling", True),
    ]  # fmt: skip
    assert branch.bifurcations[1].value == pytest.approx(3.0, abs=1e-12)
    np.testing.assert_allclose(branch.points[:, 0], 1 - 1 / branch.values[:, 0], atol=1e-10)
    doubled = kz.switch_branch(branch.of("period doubling")[0], (2.5, 4.0))
    assert doubled.repeats == 2
    assert [b.value for b in doubled.of("period doubling")] == pytest.approx([1 + sqrt(6)], abs=1e-11)


def test_the_cascade_of_the_logistic_map(logistic):
    """3, 1 + √6 and the doublings of Feigenbaum's cascade (OEIS A098587 for the third)."""
    tree = kz.diagram(logistic, None, "r", (2.0, 4.0), depth=3)
    np.testing.assert_allclose(tree.cascade(), [3, 1 + sqrt(6), 3.5440903595519, 3.5644072661], atol=1e-9)


def test_the_window_of_period_three(logistic):
    """It opens by a fold at 1 + √8 and doubles at 3.8414990075435 (Gordon, Math. Mag. 69 (1996) 118)."""
    branch = kz.follow(logistic.with_values(r=3.84), {"x": 0.149}, "r", (3.6, 4.0), period=3)
    assert branch.of("fold")[0].value == pytest.approx(1 + sqrt(8), abs=1e-12)
    assert branch.of("period doubling")[0].value == pytest.approx(3.8414990075435, abs=1e-11)
    assert branch.repeats == 3
    orbit = branch.orbit(0)
    assert orbit.points.shape == (3, 1)
    low, high = branch.extent("x")
    assert (high - low > 0.5).all()


def test_a_cubic_map_breaks_its_symmetry():
    """X → ax - x³: ±√(a - 1) leave 0 at a = 1 and double at a = 2; 0 itself doubles at a = -1."""
    model = kz.Model.from_map(
        {"x": "(a + b)*x - x**3"}, parameters={"a": 0.5, "b": 0.0}, symmetries=[{"map": {"x": "-x"}}], name="cubic"
    )
    branch = kz.follow(model, {"x": 0.0}, "a", (-1.5, 2.5))
    assert [b.kind.value for b in branch.bifurcations] == ["period doubling", "pitchfork"]
    assert branch.of("period doubling")[0].value == pytest.approx(-1.0, abs=1e-12)
    with pytest.raises(KapitzaError, match="half map of symmetric orbits"):
        kz.follow(branch.of("pitchfork")[0], ("a", "b"))  # b + a = -1, where 0 doubles, was followed instead
    for side in (1, -1):
        other = kz.switch_branch(branch.of("pitchfork")[0], (0.5, 2.5), side=side)
        np.testing.assert_allclose(other.points[:, 0] ** 2, other.values[:, 0] - 1, atol=1e-8)
        assert other.of("period doubling")[0].value == pytest.approx(2.0, abs=1e-11)


def test_a_switch_where_two_branches_cross_leaves_the_known_one():
    """Kopel's duopoly: x = y = 1 - 1/m crosses 0 at m = 1 along the critical direction; 0 doubles at m = 2/r - 1."""
    model = kz.Model.from_map(
        {"x": "(1 - r)*x + r*m*y*(1 - y)", "y": "(1 - r)*y + r*m*x*(1 - x)"}, parameters={"r": 0.9, "m": 2.0}
    )
    branch = kz.follow(model, {"x": 0.5, "y": 0.5}, "m", (0.5, 2.5))
    zero = kz.switch_branch(branch.of("branch point")[0], (0.5, 2.5), side=-1)
    np.testing.assert_allclose(zero.points, 0.0, atol=1e-12)
    assert zero.of("period doubling")[0].value == pytest.approx(2 / 0.9 - 1, abs=1e-10)


@pytest.fixture(scope="module")
def companion():
    """A fixed point x has the multipliers of λ² - sλ + d + 2x."""
    return kz.Model.from_map(
        {"x": "y", "y": "p - d*x + s*y - x**2"}, parameters={"p": 0.1, "d": 0.3, "s": 0.5}, name="companion"
    )


@pytest.fixture(scope="module")
def points(companion):
    return kz.follow(companion, {"x": 0.1, "y": 0.1}, "p", (-1.0, 4.0))


def _p(x, s, d=0.3):
    return x * (1 + d - s) + x**2


def test_fold_doubling_and_torus_of_a_plane_map(points):
    """1 - s + d + 2x = 0, 1 + s + d + 2x = 0 and d + 2x = 1."""
    expected = {"fold": _p(-0.4, 0.5), "period doubling": _p(-0.9, 0.5), "Neimark-Sacker": _p(0.35, 0.5)}
    assert {b.kind.value: b.value for b in points.bifurcations} == pytest.approx(expected, abs=1e-11)
    assert points.of("Neimark-Sacker")[0].frequency == pytest.approx(np.arccos(0.25), abs=1e-9)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("fold", {"fold-flip": (_p(-0.65, 0.0), 0.0), "1:1 resonance": (_p(0.35, 2.0), 2.0)}),
        ("period doubling", {"fold-flip": (_p(-0.65, 0.0), 0.0), "1:2 resonance": (_p(0.35, -2.0), -2.0)}),
        ("Neimark-Sacker", {f"1:{k} resonance": (_p(0.35, s), s) for k, s in ((1, 2), (2, -2), (3, -1), (4, 0))}),
    ],
)  # fmt: skip
def test_curves_of_a_plane_map_and_their_points(points, kind, expected):
    curve = kz.follow(points.of(kind)[0], ("p", "s"), ((-3.0, 6.0), (-3.0, 3.0)))
    found = {b.kind.value: (b.value, float(b.values[2])) for b in curve.bifurcations}
    assert set(found) == set(expected)
    for name, place in expected.items():
        assert found[name] == pytest.approx(place, abs=1e-8)
    assert all(b.verified for b in curve.bifurcations)


def test_a_doubling_of_a_map_whose_cubic_term_vanishes():
    """X → -(1 + p)x + x² + qx³ doubles at p = 0, to the other side beyond q = -1: f'''/6 + f''²/4 = q + 1."""
    model = kz.Model.from_map({"x": "-(1 + p)*x + x**2 + q*x**3"}, parameters={"p": -0.1, "q": -0.3})
    branch = kz.follow(model, {"x": 0.0}, "p", (-0.5, 0.5))
    curve = kz.follow(branch.of("period doubling")[0], ("p", "q"), ((-1.0, 1.0), (-2.0, 1.0)))
    (point,) = curve.bifurcations
    assert point.kind.value == "generalised period doubling"
    assert float(point.values[1]) == pytest.approx(-1.0, abs=1e-6)


def test_a_cycle_of_two_steps_has_its_curve():
    """X → rx(1 - x) + c is y → y² + k with k = r/2 - r²/4 - rc, whose cycle of two doubles at k = -5/4."""
    model = kz.Model.from_map({"x": "r*x*(1 - x) + c"}, parameters={"r": 3.2, "c": 0.0})
    doubled = kz.follow(model, {"x": 0.513}, "r", (3.1, 3.7), period=2)
    curve = kz.follow(doubled.of("period doubling")[0], ("r", "c"), ((3.0, 4.0), (-0.1, 0.1)))
    r, c = curve.values.T
    np.testing.assert_allclose(r / 2 - r**2 / 4 - r * c, -1.25, atol=1e-9)


@pytest.mark.parametrize(("sign", "kind"), [(1, "branch point"), (-1, "period doubling")])
def test_multipliers_that_cross_together_are_one_point(sign, kind):
    """Both multipliers are ±(1 + p): neither the product over them nor the tangent changes its sign."""
    model = kz.Model.from_map(
        {"x": f"{sign}*((1 + p)*x - x**3 - x*y**2)", "y": f"{sign}*((1 + p)*y - y**3 - 2*y*x**2)"},
        parameters={"p": -0.5}, start={"x": 0.0, "y": 0.0},
    )  # fmt: skip
    (point,) = kz.follow(model, [0.0, 0.0], "p", (-0.9, 0.5), period=1).bifurcations
    assert (point.kind.value, point.verified) == (kind, True)
    assert point.value == pytest.approx(0.0, abs=1e-8)


def test_points_that_cross_a_border_are_named():
    """The tent min(rx, r(1 - x)) + c: its fixed point c/(1 - r) crosses x = 1/2 at c = (1 - r)/2."""
    model = kz.Model.from_map({"x": "r*Min(x, 1 - x) + c"}, parameters={"r": 0.5, "c": 0.1})
    branch = kz.follow(model, {"x": 0.2}, "c", (0.05, 0.5))
    (border,) = branch.bifurcations
    assert border.kind.value == "change of event sequence"
    assert border.value == pytest.approx(0.25, abs=1e-6)


def test_bands_of_a_fixed_point(logistic):
    """X = rx(1 - x) + c moves by 1/(1 - r(1 - 2x)) with c; it doubles where r(1 - 2x) = -1."""
    model = kz.Model.from_map({"x": "r*x*(1 - x) + c"}, parameters={"r": 2.5, "c": 0.0}, start={"x": 0.3})
    fit = SimpleNamespace(
        names=("c",), values={"c": 0.0}, covariance=np.array([[1e-4]]), status=kz.Status.CONVERGED, dof=float("inf")
    )
    branch = kz.follow(model, None, "r", (2.0, 3.5), posterior=fit)
    r, x = branch.values[:, 0], branch.points[:, 0]
    np.testing.assert_allclose(branch.deviations[:, 0], 1e-2 / (1 - r * (1 - 2 * x)), rtol=1e-6)
    # r/2 - r²/4 - rc = -3/4 on the curve of doublings: dr/dc = r/(1/2 - r/2) at r = 3.
    assert branch.of("period doubling")[0].deviation == pytest.approx(3e-2, rel=1e-6)


def test_a_branch_of_cycles_is_saved_and_followed_on(logistic, tmp_path):
    branch = kz.follow(logistic, None, "r", (2.0, 2.8))
    kz.save(branch, tmp_path / "branch.nc")
    more = kz.follow(kz.load(tmp_path / "branch.nc"), bounds=(2.0, 3.2))
    assert more.of("period doubling")[0].value == pytest.approx(3.0, abs=1e-11)
    assert "period [steps]" in more.table()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"period": 2}, "closes after 1 already: give period=1"),
        ({"period": 1.5}, "period counts its steps"),
        ({"equilibrium": True}, "follow its fixed points with equilibrium=False"),
        ({"method": kz.Collocation()}, "without method="),
    ],
)
def test_what_a_map_cannot_be_asked(logistic, settings, message):
    with pytest.raises(kz.KapitzaError, match=message):
        kz.follow(logistic, {"x": 0.6}, "r", (2.0, 3.2), **settings)


@pytest.mark.parametrize("matrix", [np.zeros((2, 2)), np.diag([1.0, 0.0]), np.array([[1.0, 1.0], [1.0, 1.0]])])
def test_a_coefficient_at_its_pole_is_large_not_an_error(matrix):
    """The last pivot of a singular matrix is 0 on one processor and a rounding error on another."""
    assert np.abs(np.linalg.solve(off_pole(matrix), np.array([1.0, 2.0]))).max() > 1e14


def test_a_cycle_ends_at_the_doubling_that_it_was_born_at():
    """Hénon's map: period 2 doubles at a = (1 - b)² + (1 + b)²/4, that is 0.9125 for b = 0.3."""
    henon = kz.Model.from_map({"x": "1 - a*x**2 + y", "y": "b*x"}, parameters={"a": 1.0, "b": 0.3}, start={"x": 0.6})
    region = {"x": (-1.5, 1.5), "y": (-0.5, 0.5)}
    cycle = kz.find_orbits(henon, max_period=4, region=region).select(period=4)[0]
    branch = kz.follow(henon, cycle, "a", bounds=(0.9, 1.1))
    assert branch.ends[0].name == "MERGED"
    born = branch.bifurcations[0]
    assert (born.kind.value, born.repeats, born.verified) == ("period doubling", 2, True)
    assert born.value == pytest.approx(0.7**2 + 1.3**2 / 4, abs=1e-8)
    assert born.critical == pytest.approx(-1.0, abs=1e-4)
