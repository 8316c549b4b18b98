"""Curves of folds that meet a doubling or a torus, of free and of driven orbits with multipliers in closed form."""

import numpy as np
import pytest

import kapitza as kz

ROUND = ("x' = x*(m - (x**2 + y**2 - 1)**2) - y", "y' = y*(m - (x**2 + y**2 - 1)**2) + x")
"""r' = r (m - (r² - 1)²), φ' = 1: orbits r² = 1 ± √m, which fold at m = 0."""

DRIVEN = ("z' = m - (z - cos(t))**2 - sin(t)",)
"""z = cos t ± √m, which fold at m = 0."""


def twisted(c, s):
    """Directions that turn by half a turn in one period: multipliers -e^{2πa} and -e^{-2π} where c² + s² = 1."""
    return (
        f"u' = (a - 1)/2*u + (a + 1)/2*({c}*u + {s}*v) - v/2",
        f"v' = (a - 1)/2*v + (a + 1)/2*({s}*u - {c}*v) + u/2",
    )


TURNING = ("u' = a*u - 0.3*v", "v' = 0.3*u + a*v")
"""Multipliers e^{2π(a ± 0.3i)}."""


def test_folds_at_the_origin_have_a_curve():
    """u' = m + u² and u = 0 at the fold: the states there are rounding errors, and no size for steps."""
    model = kz.Model.from_equations(
        ["u' = m + u**2 + 0.1*y**2 + 0*cos(t)", "y' = (a + u)*y - y**3"],
        parameters={"m": -0.04, "a": -0.3},
        period="2*pi",
    )
    branch = kz.follow(model, {"u": -0.2, "y": 0.0}, "m", (-0.2, 0.1))
    (fold,) = branch.of("fold")
    assert np.abs(fold.point).max() < 1e-9
    curve = kz.follow(fold, ("m", "a"), {"m": (-0.2, 0.1), "a": (-0.5, -0.1)})
    assert [end.name for end in curve.ends] == ["BOUND", "BOUND"]
    assert np.abs(curve.values[:, 0]).max() < 1e-12


@pytest.mark.parametrize(
    ("equations", "kind"),
    [
        ((*ROUND, *twisted("x", "y")), "fold-flip"),
        ((*ROUND, *TURNING), "fold-Neimark-Sacker"),
        ((*DRIVEN, *TURNING), "fold-Neimark-Sacker"),
    ],
)
def test_a_curve_of_folds_meets_a_doubling_or_a_torus(equations, kind):
    driven = equations[0].startswith("z")
    model = kz.Model.from_equations(
        list(equations), parameters={"m": 0.25, "a": -0.1}, **({"period": "2*pi"} if driven else {})
    )
    start = {"z": 1.5} if driven else {"x": float(np.sqrt(1.5)), "y": 0.0}
    start = {**dict.fromkeys(model.states, 0.0), **start}
    branch = kz.follow(model, start, "m", (-0.1, 0.3), period=1 if driven else 2 * np.pi, direction=-1)
    (fold,) = branch.of("fold")
    assert fold.value == pytest.approx(0.0, abs=1e-9)
    curve = kz.follow(fold, ("m", "a"), ((-0.2, 0.2), (-0.15, 0.1)))
    (point,) = curve.bifurcations
    assert point.kind.value == kind
    assert point.verified
    values = dict(zip(model.names, np.asarray(point.values).tolist(), strict=True))
    assert values["m"] == pytest.approx(0.0, abs=1e-7)
    assert values["a"] == pytest.approx(0.0, abs=1e-6)
