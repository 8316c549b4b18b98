"""Tori: closed forms, circle maps, independent integration, and the folds at the edges of tongues."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq, fsolve

import kapitza as kz
from kapitza.continuation import End
from kapitza.continuation.tori.circle import evaluated, spectrum
from kapitza.errors import KapitzaError

TURN = 2 * np.pi


def turning(factor, advance, parameters):
    """z' = factor(R) exp(i advance) z in the plane, R = |z|²: both are written in x, y and parameters."""
    R = "(x**2 + y**2)"
    c, s, f = f"cos({advance})".replace("R", R), f"sin({advance})".replace("R", R), factor.replace("R", R)
    step = {"x": f"({f})*({c}*x - {s}*y)", "y": f"({f})*({s}*x + {c}*y)"}
    return kz.Model.from_map(step, parameters=parameters, start={"x": 0.0, "y": 0.0}, name="turning")


def born(model, name, bounds, torus_bounds=None, **settings):
    branch = kz.follow(model, model.start, name, bounds)
    return kz.tori(branch.of("Neimark-Sacker")[0], torus_bounds or bounds, **settings)


def rotation_of(steps):
    """Rotation number [turns] of successive steps in an angle: a mean with a smooth window (Das et al. 2017)."""
    t = (np.arange(len(steps)) + 0.5) / len(steps)
    weights = np.exp(-1 / (t * (1 - t)))
    return float(weights @ steps / weights.sum()) / TURN


@pytest.fixture(scope="module")
def circles():
    """R = mu on the circle, rotation number (a + b mu)/2π, radial multiplier 1 - 2 mu."""
    return born(turning("1 + mu - R", "a + b*R", {"mu": -0.1, "a": 0.9, "b": 0.7}), "mu", (-0.2, 0.4))


def test_circle_of_known_radius_and_rotation(circles):
    mu = circles.values[:, 0]
    assert circles.ends == (End.NEIMARK_SACKER, End.BOUND)
    assert mu[-1] == pytest.approx(0.4, abs=1e-12)
    np.testing.assert_allclose(circles.rotations, (0.9 + 0.7 * mu) / TURN, atol=1e-12)
    np.testing.assert_allclose(circles.exponents, np.log(1 - 2 * mu), atol=1e-9)
    radii = [np.linalg.norm(torus.states(np.linspace(0, 1, 7)), axis=1) for torus in circles]
    np.testing.assert_allclose(radii, np.sqrt(mu)[:, None] * np.ones(7), atol=1e-10)
    np.testing.assert_allclose(circles.amplitude("x"), np.sqrt(mu), rtol=1e-4)
    assert set(circles.stability) == {"stable"}


def test_curve_of_one_rotation_number_is_a_line(circles):
    torus = circles.torus(-1)
    family = kz.follow_torus(torus, ("a", "mu"), ((0.7, 1.2), (0.05, 0.45)))
    a, mu = family.values.T
    assert len(family) > 5
    np.testing.assert_allclose(a + 0.7 * mu, 0.9 + 0.7 * 0.4, atol=1e-10)
    assert {end.name for end in family.ends} == {"BOUND"}


def test_subcritical_tori_repel():
    family = born(turning("1 + mu + R", "a + 0*R", {"mu": -0.2, "a": 0.9}), "mu", (-0.3, 0.2))
    mu = family.values[:, 0]
    assert mu[-1] == pytest.approx(-0.3)
    np.testing.assert_allclose(family.exponents, np.log(1 - 2 * mu), atol=1e-9)
    assert set(family.stability) == {"unstable"}


def test_family_between_two_bifurcations_ends_at_the_second():
    # R = p (1 - p): the circle grows at p = 0 and is a point again at p = 1.
    family = born(turning("1 + p*(1 - p) - R", "1.1 + 0.2*R", {"p": -0.2}), "p", (-0.3, 1.5))
    assert family.ends[1] is End.NEIMARK_SACKER
    assert float(family.end_messages[1].split("=")[1]) == pytest.approx(1.0, abs=2e-2)
    assert len(family) < 150


def test_birth_at_a_weak_resonance():
    """The delayed logistic map has the rotation number 1/6 where its circle is born."""
    model = kz.Model.from_map(
        {"x": "r*x*(1 - y)", "y": "x"}, parameters={"r": 1.9}, start={"x": 0.45, "y": 0.45}, name="delayed logistic"
    )
    family = born(model, "r", (1.8, 2.3), (1.8, 2.1))
    torus = family.torus(-1)
    rest = 1 - 1 / 2.1
    x = torus.states([0.0])[0]
    points = []
    for _ in range(4000):
        points.append(x - rest)
        x = np.array([2.1 * x[0] * (1 - x[1]), x[0]])
    points = np.array(points)
    assert abs(rotation_of(np.diff(np.unwrap(np.arctan2(points[:, 1], points[:, 0]))))) == pytest.approx(
        torus.rotation, abs=1e-9
    )
    assert torus.defect < 1e-8
    # The modes of an analytic circle decay geometrically.
    modes = spectrum(torus.circle, np.ones(2))[1:]
    assert modes[40:60].max() < 1e-3 * modes[20:40].max() < 1e-5 * modes[:20].max()


def arnold(K, advance):
    """θ' = θ + Ω + K sin θ: the angle of z' = (1.25 - R) exp(i (Ω + 2 K y)) z on its circle R = 1/4."""
    return lambda angle: angle + advance + K * np.sin(angle)


@pytest.fixture(scope="module")
def arnold_tori():
    K = 0.3
    model = turning("1 + mu - R", "w + k*y", {"mu": -0.1, "w": 2.0, "k": 2 * K})
    torus = born(model, "mu", (-0.2, 0.25)).torus(-1)
    return K, kz.follow_torus(torus, "w", (1.95, 3.3), modes=64)


def test_rotation_numbers_are_those_of_the_circle_map(arnold_tori):
    K, family = arnold_tori
    # Next to p/q the mean over all phases takes as many steps as the inverse distance.
    far = [i for i, r in enumerate(family.rotations) if all(abs(r * q - round(r * q)) > 2e-3 for q in range(1, 6))]
    chosen = far[:: max(len(far) // 8, 1)]
    assert len(chosen) >= 6
    for i in chosen:
        step, angles = arnold(K, family.values[i, 0]), [0.3]
        for _ in range(20000):
            angles.append(step(angles[-1]))
        assert rotation_of(np.diff(angles)) == pytest.approx(family.rotations[i], abs=1e-8)


def test_tongues_of_the_circle_map(arnold_tori):
    K, family = arnold_tori
    found = {tongue.ratio: tongue for tongue in kz.tongues(family, 5)}
    assert set(found) == {Fraction(1, 2), Fraction(1, 3), Fraction(2, 5)}
    angle = np.linspace(0, TURN, 4001)
    for ratio, tongue in found.items():
        q, p = ratio.denominator, ratio.numerator

        def gained(w, q=q, p=p):
            at = angle
            for _ in range(q):
                at = arnold(K, w)(at)
            return at - angle - TURN * p

        edges = [brentq(lambda w, e=e: e(gained(w)), tongue.low - 0.2, tongue.high + 0.2, xtol=1e-13)
                 for e in (np.max, np.min)]  # fmt: skip
        assert tongue.resolved
        # The grid of angles misses an extreme by half a step at most, to second order.
        np.testing.assert_allclose([tongue.low, tongue.high], edges, atol=2e-6 * tongue.width + 1e-11)
    half = found[Fraction(1, 2)]
    # First order: Ω = π ± K²/4.
    assert half.width == pytest.approx(K**2 / 2, rel=0.05)
    # Both kinds of orbits are on the closed family.
    assert {"stable", "unstable"} <= set(half.branch.stability)
    assert half.branch.ends[1] in (End.RETURNED, End.CLOSED)


def test_borders_of_a_tongue_in_two_parameters(arnold_tori):
    _, family = arnold_tori
    half = next(tongue for tongue in kz.tongues(family, 2) if tongue.ratio == Fraction(1, 2))
    border = kz.follow(half.edges[0], ("w", "k"), ((2.5, 3.4), (0.02, 0.8)))
    w, k = border.values.T
    small = k < 0.2
    assert small.sum() > 2
    # K = k/2, and the edge is at π - K²/4 to the fourth order in K.
    np.testing.assert_allclose(np.pi - w[small], k[small] ** 2 / 16, rtol=2e-2)


STRONG = {"w": 2.2}


def vdp_rates(t, x, F):
    return [x[1], (1 - x[0] ** 2) * x[1] - x[0] + F * np.cos(STRONG["w"] * t)]


@pytest.fixture(scope="module")
def van_der_pol():
    model = kz.Model.from_equations(
        "x'' - (1 - x**2)*x' + x = F*cos(w*t)", parameters={"F": 7.0, **STRONG}, period="2*pi/w",
        start={"x": 0.5, "x'": 0.0}, name="forced van der Pol",
    )  # fmt: skip
    branch = kz.follow(model, None, "F", (3.0, 7.5))
    return kz.tori(branch.of("Neimark-Sacker")[0], (3.0, 7.5))


def test_forced_van_der_pol_against_integration(van_der_pol):
    """An independent integrator stays on the circle, and turns with the rotation number."""
    torus = van_der_pol.torus(int(np.abs(van_der_pol.values[:, 0] - 5.3).argmin()))
    period, F, start = TURN / STRONG["w"], torus.model.values["F"], torus.states([0.0])[0]
    times = np.arange(301) * period
    run = solve_ivp(vdp_rates, (0, times[-1]), start, "DOP853", times, args=(F,), rtol=1e-12, atol=1e-13)
    expected = torus.states(np.arange(301) * torus.rotation)
    np.testing.assert_allclose(run.y.T, expected, atol=1e-8)
    assert torus.stability == "stable"
    # The motion between the instants is on the surface of the torus.
    surface = torus.surface(257, 8)
    between = solve_ivp(vdp_rates, (0, period * 3 / 8), start, "DOP853", rtol=1e-12, atol=1e-13, args=(F,)).y[:, -1]
    np.testing.assert_allclose(evaluated(surface[3], np.array([3 / 8 * torus.rotation]))[0], between, atol=1e-8)


def test_normal_exponent_is_the_contraction_of_area(van_der_pol):
    """In the plane the normal exponent is the mean of log det DP, as the circle itself is neutral: ∫∫ div f."""
    torus = van_der_pol.torus(int(np.abs(van_der_pol.values[:, 0] - 5.45).argmin()))
    x = torus.surface(129, 128)[:, :, 0]
    assert torus.exponent == pytest.approx(torus.period * float((1 - x**2).mean()), abs=1e-9)


def test_edges_of_a_tongue_are_folds_by_another_program(van_der_pol):
    """3/7: SciPy solves for the orbits of seven periods with a multiplier of 1."""
    found = {tongue.ratio: tongue for tongue in kz.tongues(van_der_pol, 7)}
    assert set(found) == {Fraction(3, 7)}
    span = 7 * TURN / STRONG["w"]

    def equations(t, z, F):
        slope = np.array([[0, 1], [-2 * z[0] * z[1] - 1, 1 - z[0] ** 2]])
        return np.concatenate([vdp_rates(t, z[:2], F), (slope @ z[2:].reshape(2, 2)).ravel()])

    def fold(unknown):
        start = np.concatenate([unknown[:2], np.eye(2).ravel()])
        end = solve_ivp(equations, (0, span), start, "DOP853", args=(unknown[2],), rtol=1e-11, atol=1e-12).y[:, -1]
        return np.append(end[:2] - unknown[:2], np.linalg.det(end[2:].reshape(2, 2) - np.eye(2)))

    for edge in found[Fraction(3, 7)].edges:
        start = [*edge.point, edge.value]
        exact = fsolve(fold, np.array(start) * [1 + 1e-4, 1 - 1e-4, 1 + 1e-5], xtol=1e-10)
        assert edge.value == pytest.approx(exact[2], abs=1e-7)


def test_torus_of_an_autonomous_model():
    """Two oscillators: frequencies 2 and 1.7 + 0.3 R exactly, R = mu."""
    model = kz.Model.from_equations(
        ["x' = x*(1 - x**2 - y**2) - 2*y", "y' = y*(1 - x**2 - y**2) + 2*x",
         "u' = u*(mu - u**2 - v**2) - v*(1.7 + 0.3*(u**2 + v**2))",
         "v' = v*(mu - u**2 - v**2) + u*(1.7 + 0.3*(u**2 + v**2))"],
        parameters={"mu": -0.1}, name="two oscillators",
    )  # fmt: skip
    branch = kz.follow(model, [1.0, 0.0, 0.0, 0.0], "mu", (-0.2, 0.4), period=np.pi)
    family = kz.tori(branch.of("Neimark-Sacker")[0], (-0.2, 0.3))
    mu = family.values[:, 0]
    assert mu[-1] == pytest.approx(0.3)
    # Which of the two directions round the circle is forward is not told by the multipliers: ρ or 1 - ρ.
    turns = (1.7 + 0.3 * mu) / 2
    np.testing.assert_allclose(
        np.minimum(family.rotations, 1 - family.rotations), np.minimum(turns, 1 - turns), atol=1e-9
    )
    np.testing.assert_allclose(family.periods, np.pi, rtol=1e-9)
    np.testing.assert_allclose(family.exponents, -2 * mu * np.pi, atol=1e-7)


def test_saved_and_drawn(circles, arnold_tori, tmp_path):
    kz.save(circles, tmp_path / "tori.nc")
    again = kz.load(tmp_path / "tori.nc")
    np.testing.assert_array_equal(again.nodes, circles.nodes)
    assert again.ends == circles.ends
    found = kz.tongues(arnold_tori[1], 2)
    kz.save(found[0], tmp_path / "tongue.nc")
    assert kz.load(tmp_path / "tongue.nc").ratio == found[0].ratio
    kz.save(circles.torus(3), tmp_path / "torus.nc")
    assert kz.load(tmp_path / "torus.nc").rotation == circles.rotations[3]
    for measure in ("rotation", "amplitude", "circles"):
        assert circles.plot(measure=measure).axes[0].lines
    assert arnold_tori[1].plot(tongues=found).axes[0].texts[0].get_text() == "1/2"
    assert circles.torus(-1).plot().axes[0].lines
    assert found[0].plot().axes[0].lines
    assert "rotation number" in circles.table().columns
    assert "turning" in str(circles)


def test_refusals(circles):
    model = turning("1 + mu - R", "0.9", {"mu": -0.1})
    point = kz.follow(model, model.start, "mu", (-0.2, 0.3)).of("Neimark-Sacker")[0]
    with pytest.raises(KapitzaError, match="Tori leave"):
        kz.switch_branch(point)
    with pytest.raises(KapitzaError, match="follow_torus"):
        kz.follow(circles.torus(0), None, "mu")
    with pytest.raises(KapitzaError, match="Bifurcation"):
        kz.tori(model)
    with pytest.raises(KapitzaError, match="one name, or two"):
        kz.follow_torus(circles.torus(0), ("mu", "mu"))
    with pytest.raises(KapitzaError, match="along one parameter"):
        kz.tongues(kz.follow_torus(circles.torus(20), ("a", "mu"), stepping=kz.Stepping(max_points=3)))
    with pytest.raises(KapitzaError, match="index"):
        circles.torus(10**6)
