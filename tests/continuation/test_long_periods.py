"""Curves of homoclinic orbits by orbits of a long period."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.continuation import End


@pytest.fixture(scope="module")
def loops():
    """X'' = x - x² + x'(m + nx): a saddle at 0; cycles leave x = 1 at m = -n and end in its loop."""
    model = kz.Model.from_equations(["x' = y", "y' = x - x**2 + y*(m + n*x)"], parameters={"m": -0.6, "n": 0.5})
    rest = kz.follow(model, {"x": 1.0, "y": 0.0}, "m", (-0.7, 0.0), equilibrium=True)
    return kz.switch_branch(rest.of("Hopf")[0], (-0.7, 0.0))


def test_the_curve_of_saddle_loops_is_that_of_melnikov(loops):
    """∮ y (m + nx) dx = 0 on the loop of y² = x² - 2x³/3 gives m = -6n/7, and by symmetry the error is of order n³."""
    assert loops.ends[1] is End.HOMOCLINIC
    curve = kz.follow(loops, ("m", "n"), {"m": (-1.0, 0.0), "n": (0.02, 1.0)})
    m, n = curve.values.T
    assert n.min() == pytest.approx(0.02)
    assert n.max() == pytest.approx(1.0)
    assert (np.abs(m / (-6 / 7 * n) - 1) < 0.01 * n**2 + 1e-5).all()
    assert curve.subject == "long period"
    assert curve.orbit(0).period == pytest.approx(loops.periods[-1])
    assert len(curve) < 60


def test_other_branches_have_no_such_curve(loops):
    value = float(loops.values[10, 0])
    short = kz.follow(loops.model.with_values(m=value), loops.orbit(10), "m", (value - 1e-4, value + 1e-4))
    with pytest.raises(kz.KapitzaError, match="this one ends so: the parameter reached its bound"):
        kz.follow(short, ("m", "n"))
