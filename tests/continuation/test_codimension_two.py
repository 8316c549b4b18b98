"""Points of codimension two where closed forms put them.

A plane that turns by half a turn in each excitation period makes a flow (u, v)' = F(u, v), with F odd, the strobe map
-Φ: equilibria at the origin become orbits whose multipliers are -e^{2πλ}, so that every degeneracy of F is one of a
period doubling.
"""

import numpy as np
import pytest

import kapitza as kz
from kapitza.continuation import End, Kind


def turning(first, second, **parameters):
    """X + iy = e^{it/2} (u + iv) with u' = first, v' = second, and X = x + s x², where there is a parameter s."""
    bend, slope = ("(x + s*x**2)", "/(1 + 2*s*x)") if "s" in parameters else ("x", "")
    u, v = f"(cos(t/2)*{bend} + sin(t/2)*y)", f"(cos(t/2)*y - sin(t/2)*{bend})"
    du, dv = (text.replace("u", "{u}").replace("v", "{v}").format(u=u, v=v) for text in (first, second))
    return kz.Model.from_equations(
        [
            f"x' = (cos(t/2)*({du}) - sin(t/2)*({dv}) - y/2){slope}",
            f"y' = sin(t/2)*({du}) + cos(t/2)*({dv}) + {bend}/2",
        ],
        parameters=parameters, period="2*pi", start={"x": 0.0, "y": 0.0}, name="turning",
    )  # fmt: skip


@pytest.mark.parametrize("bent", [0.0, 0.6])
def test_a_doubling_whose_cubic_term_vanishes_is_generalised(bent):
    """Quadratic terms that bent coordinates bring into the map leave the point where it is.

    u' = pu + qu³ - u⁵: the doubled orbits leave to one side where q < 0, to the other where q > 0.
    """
    model = turning("p*u + q*u**3 - u**5", "-0.3*v", p=-0.1, q=-0.4, s=bent)
    (doubling,) = kz.follow(model, None, "p", (-0.1, 0.1)).of(Kind.DOUBLING)
    assert doubling.value == pytest.approx(0.0, abs=1e-10)
    curve = kz.follow(doubling, ("q", "p"), ((-0.5, 0.5), (-0.2, 0.2)))
    assert np.abs(curve.values[:, 1]).max() < 1e-9
    (point,) = curve.bifurcations
    assert point.kind is Kind.GENERALISED_DOUBLING
    assert point.value == pytest.approx(0.0, abs=1e-5)  # fourth-order differences with the step 1e-2


@pytest.fixture(scope="module")
def takens():
    """u' = v, v' = au + bv - u³ - u²v: eigenvalues λ² = bλ + a, a double zero at a = b = 0."""
    return turning("v", "a*u + b*v - u**3 - u**2*v", a=-0.04, b=-0.15)


def test_a_curve_of_doublings_passes_the_double_multiplier(takens):
    (doubling,) = kz.follow(takens, None, "a", (-0.04, 0.04)).of(Kind.DOUBLING)
    curve = kz.follow(doubling, ("b", "a"), ((-0.2, 0.2), (-0.1, 0.1)))
    assert np.abs(curve.values[:, 1]).max() < 1e-8
    (point,) = curve.of(Kind.RESONANCE_1_2)
    assert point.value == pytest.approx(0.0, abs=1e-6)
    assert np.abs(point.multipliers + 1).max() < 1e-2


def test_a_curve_of_tori_meets_the_strong_resonances(takens):
    """b = 0, a < 0: multipliers -e^{±2πi√-a}, which meet at -1 for a = 0 and at 1 for a = -1/4, where the map is 1."""
    (torus,) = kz.follow(takens, None, "b", (-0.15, 0.15)).of(Kind.NEIMARK_SACKER)
    assert torus.value == pytest.approx(0.0, abs=1e-10)
    assert torus.frequency == pytest.approx(np.pi - 2 * np.pi * 0.2)
    curve = kz.follow(torus, ("a", "b"), ((-0.3, 0.05), (-0.1, 0.1)))
    assert np.abs(curve.values[:, 1]).max() < 1e-9
    found = {(point.kind, round(point.value, 5)) for point in curve.bifurcations}
    assert found == {
        (Kind.RESONANCE_1_2, 0.0), (Kind.RESONANCE_1_3, -0.02778), (Kind.RESONANCE_1_4, -0.0625),
        (Kind.RESONANCE_1_1, -0.25),
    }  # fmt: skip
    assert all(point.verified for point in curve.bifurcations)
    assert len(curve.bifurcations) == 4
    assert curve.ends[1] is End.CODIMENSION_TWO


def test_a_hopf_curve_ends_at_bogdanov_and_takens():
    """x' = y, y' = p + qx + x² - xy: Hopf points at p = 0, q < 0 with the frequency √-q."""
    model = kz.Model.from_equations(
        ["x' = y", "y' = p + q*x + x**2 - x*y"], parameters={"p": -0.1, "q": -1.0}, name="Bogdanov-Takens"
    )
    rest = kz.follow(model, {"x": -0.0916, "y": 0.0}, "p", (-0.1, 0.1), equilibrium=True)
    (hopf,) = rest.of(Kind.HOPF)
    assert hopf.value == pytest.approx(0.0, abs=1e-10)
    assert hopf.frequency == pytest.approx(1.0)
    curve = kz.follow(hopf, ("q", "p"), ((-1.5, 0.5), (-0.5, 0.5)))
    assert np.abs(curve.values[:, 1]).max() < 1e-9
    (point,) = curve.of(Kind.BOGDANOV_TAKENS)
    assert point.value == pytest.approx(0.0, abs=1e-9)
    assert point.verified
    assert curve.ends[1] is End.CODIMENSION_TWO
    assert curve.values[:, 0].max() == pytest.approx(0.0, abs=1e-9)


def test_a_hopf_curve_ends_where_equilibria_meet_their_mirror_images():
    """x'' = px - x³ + (q - x²)x': Hopf points of x² = p at q = p with ω² = 2p, which touches 0 and turns back."""
    model = kz.Model.from_equations(["x' = y", "y' = p*x - x**3 + q*y - x**2*y"], parameters={"p": 1.0, "q": 0.5})
    rest = kz.follow(model, {"x": 1.0, "y": 0.0}, "q", (0.2, 2.0), equilibrium=True)
    curve = kz.follow(rest.of("Hopf")[0], ("p", "q"), {"p": (-1.0, 2.0), "q": (-1.0, 2.0)})
    assert [b.kind.value for b in curve.bifurcations] == ["Bogdanov-Takens"]
    assert curve.bifurcations[0].verified
    np.testing.assert_allclose(curve.bifurcations[0].values, 0.0, atol=1e-8)
    assert {end.name for end in curve.ends} == {"CODIMENSION_TWO", "BOUND"}
    np.testing.assert_allclose(curve.values[:, 0], curve.values[:, 1], atol=1e-8)
