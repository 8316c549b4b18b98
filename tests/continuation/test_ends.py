"""Ends of families and of curves, where closed forms or AUTO-07p put them."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import kapitza as kz
from kapitza.continuation import End, Kind


def planar(first, second, name, **parameters):
    return kz.Model.from_equations([f"x' = {first}", f"y' = {second}"], parameters=parameters, name=name)


def test_a_family_between_two_hopf_points_stops_at_both():
    """r' = r (p (1 - p) - r²): orbits of radius √(p - p²) and period 2π between the Hopf points p = 0 and p = 1."""
    model = planar("p*(1 - p)*x - y - x*(x**2 + y**2)", "x + p*(1 - p)*y - y*(x**2 + y**2)", "two ends", p=0.3)
    branch = kz.follow(model, {"x": np.sqrt(0.21), "y": 0.0}, "p", (-1.0, 2.0), period=2 * np.pi)
    assert branch.ends == (End.HOPF, End.HOPF)
    assert [(b.kind, b.criticality) for b in branch.bifurcations] == [(Kind.HOPF, "supercritical")] * 2
    assert [b.value for b in branch.bifurcations] == pytest.approx([0.0, 1.0], abs=1e-9)
    assert branch.values[[0, -1], 0] == pytest.approx([0.0, 1.0], abs=1e-9)
    assert (np.diff(branch.values[:, 0]) > 0).all()  # no orbit twice
    assert np.hypot(*branch.points.T) == pytest.approx(
        np.sqrt(np.maximum(branch.values[:, 0] * (1 - branch.values[:, 0]), 0)), abs=1e-7
    )


def test_canards_are_passed_to_the_other_hopf_point():
    """FitzHugh-Nagumo is symmetric about I = 0.875: Hopf points, canards and folds come in pairs.

    Hopf points where v² = 1 - 0.8ε: v = ∓√(1 - 0.064) gives I = 0.875 ∓ 0.543718….
    """
    model = planar("x - x**3/3 - y + I", "0.08*(x + 0.7 - 0.8*y)", "FitzHugh-Nagumo", I=0.0)
    rest = kz.follow(model, {"x": -1.2, "y": -0.6}, "I", (0.0, 2.5), equilibrium=True)
    v = -np.sqrt(1 - 0.064)
    exact = (v + 0.7) / 0.8 - v + v**3 / 3
    hopf = rest.of(Kind.HOPF)
    assert [b.value for b in hopf] == pytest.approx([exact, 1.75 - exact], abs=1e-9)
    assert [b.criticality for b in hopf] == ["subcritical"] * 2
    assert len(rest) < 100  # although the parameter starts at 0
    cycles = kz.switch_branch(hopf[0], (0.0, 2.5))
    assert cycles.ends[1] is End.HOPF
    assert [b.kind for b in cycles.bifurcations] == [Kind.FOLD, Kind.FOLD, Kind.HOPF]
    first, second, last = (b.value for b in cycles.bifurcations)
    assert first + second == pytest.approx(1.75, abs=1e-8)
    assert last == pytest.approx(1.75 - exact, abs=1e-9)
    assert len(cycles) < 600
    # In the diagram the family is there once, although it leaves at both points.
    tree = kz.diagram(model, {"x": -1.2, "y": -0.6}, "I", (0.0, 2.5), depth=1, equilibrium=True)
    assert [branch.subject for branch in tree] == ["equilibrium", "orbit"]


def test_a_fold_inside_a_canard_explosion_is_located_by_its_multiplier():
    """Morris and Lecar with a slow recovery: AUTO-07p (200 × 4) has the fold at I = 84.733009722.

    The parameter stands still to rounding around it, while the multiplier falls from 1e20 to 1e-20.
    """
    model = planar(
        "(I - 2*(x + 60) - 2.2*(1 + tanh((x + 1.2)/18))*(x - 120) - 8*y*(x + 84))/20",
        "0.01*cosh((x - 2)/60)*((1 + tanh((x - 2)/30))/2 - y)", "Morris and Lecar", I=80.0,
    )  # fmt: skip
    rest = kz.follow(model, {"x": -32.0, "y": 0.094}, "I", (80.0, 95.0), equilibrium=True)
    assert rest.of(Kind.HOPF)[0].criticality == "subcritical"
    cycles = kz.switch_branch(rest.of(Kind.HOPF)[0], (80.0, 87.0))
    assert [b.kind for b in cycles.bifurcations] == [Kind.FOLD]
    assert cycles.bifurcations[0].verified
    assert cycles.bifurcations[0].value == pytest.approx(84.733009722, abs=1e-8)
    assert cycles.ends[1] is End.BOUND


def test_a_sharp_tip_of_a_canard_explosion_is_passed():
    """Cubic autocatalator (Peng, Gáspár, Showalter 1991): the period turns at m = 4.0160168 within 1e-4 of the orbit.

    Its spikes have rates that stand for amplitudes of a thousand times theirs: with those as sizes the tip was a corner
    beyond which the tangent led back, and the end was called "merged".
    """
    model = planar("m - x*y**2 - k*x", "(x*y**2 + k*x - y)/e", "cubic autocatalator", m=4.6, k=0.01, e=0.05)
    rest = kz.follow(model, {"x": 0.217, "y": 4.6}, "m", (4.4, 5.0), equilibrium=True)
    cycles = kz.switch_branch(rest.of(Kind.HOPF)[0], (3.8, 6.0))
    assert cycles.ends[1] is End.BOUND
    assert cycles.values[-1, 0] == pytest.approx(3.8)
    assert cycles.values[:, 0].min() >= 3.8
    assert cycles.periods.max() > 1.97


def test_a_saddle_loop_is_named_with_its_place():
    """At p = 0 the orbit on the cubic x²(1 - x) = y² is homoclinic (Kuznetsov, Elements, 6.2)."""
    model = planar("-x + 2*y + x**2", "(2 - p)*x - y - 3*x**2 + 3*x*y/2", "saddle loop", p=0.2)
    rest = kz.follow(model, {"x": 0.6, "y": 0.1}, "p", (-0.5, 1.0), equilibrium=True)
    cycles = kz.switch_branch(rest.of(Kind.HOPF)[0], (-0.5, 1.0))
    assert cycles.ends[1] is End.HOMOCLINIC
    assert cycles.values[-1, 0] == pytest.approx(0.0, abs=1e-6)
    assert "saddle at x = " in cycles.end_messages[1]


@pytest.mark.parametrize(("angles", "end"), [(["x"], End.HOMOCLINIC), (None, End.HETEROCLINIC)])
def test_saddles_a_turn_apart_are_one_on_the_circle(angles, end):
    """x'' = -sin x + 0.3 x' (m - H) has the cycle H = m: from m = -1, the rest state, to the saddles at m = 1."""
    model = kz.Model.from_equations(
        "x'' = -sin(x) + 0.3*x'*(m - (x'**2/2 - cos(x)))", parameters={"m": 0.0}, angles=angles or [], name="swing"
    )
    branch = kz.follow(model, {"x": np.pi / 2, "x'": 0.0}, "m", (-1.5, 1.5), period=7.4)
    assert branch.ends == (End.HOPF, end)
    assert branch.values[[0, -1], 0] == pytest.approx([-1.0, 1.0], abs=1e-6)


def test_a_saddle_node_on_a_circle_is_not_a_saddle_loop():
    """r' = r (1 - r²), φ' = m - r sin φ: on r = 1 the period is 2π/√(m² - 1)."""
    model = planar("x*(1 - x**2 - y**2) - y*(m - y)", "y*(1 - x**2 - y**2) + x*(m - y)", "circle", m=1.5)
    branch = kz.follow(model, {"x": 1.0, "y": 0.0}, "m", (0.5, 2.0), period=2 * np.pi / np.sqrt(1.25), direction=-1)
    assert branch.ends[1] is End.SADDLE_NODE
    assert "m → 1," in branch.end_messages[1]
    assert branch.periods == pytest.approx(2 * np.pi / np.sqrt(branch.values[:, 0] ** 2 - 1), rel=1e-6)


def test_an_isola_is_walked_once():
    """x = ε sin t ± √(1 - p²): folds at p = ±1."""
    model = kz.Model.from_equations(
        "x' = 1 - (x - 0.3*sin(t))**2 - p**2 + 0.3*cos(t)", parameters={"p": 0.1}, period="2*pi", start={"x": 0.99}
    )
    branch = kz.follow(model, None, "p", (-2.0, 2.0))
    assert branch.ends == (End.CLOSED, End.CLOSED)
    assert sorted(b.value for b in branch.bifurcations) == pytest.approx([-1.0, 1.0], abs=1e-9)


def test_two_pairs_that_cross_together_are_two_hopf_points():
    equations = [
        "x' = p*x - y - x*(x**2 + y**2)", "y' = x + p*y - y*(x**2 + y**2)",
        "u' = p*u - 3*v - u*(u**2 + v**2)", "v' = 3*u + p*v - v*(u**2 + v**2)",
    ]  # fmt: skip
    model = kz.Model.from_equations(equations, parameters={"p": -0.5}, name="pairs")
    rest = kz.follow(model, dict.fromkeys("xyuv", 0.0), "p", (-1.0, 1.0), equilibrium=True)
    hopf = rest.of(Kind.HOPF)
    assert [b.value for b in hopf] == pytest.approx([0.0, 0.0], abs=1e-9)
    assert sorted(b.frequency for b in hopf) == pytest.approx([1.0, 3.0])
    assert all(b.criticality == "supercritical" for b in hopf)


def test_a_family_that_begins_at_parameter_zero_takes_usual_steps():
    """r' = r (p + 0.8 r² - r⁴): from the Hopf point p = 0 back to the fold p = -0.16 and on to the bound."""
    model = planar(
        "p*x - y + 0.8*x*(x**2 + y**2) - x*(x**2 + y**2)**2", "x + p*y + 0.8*y*(x**2 + y**2) - y*(x**2 + y**2)**2",
        "Bautin", p=-0.3,
    )  # fmt: skip
    (hopf,) = kz.follow(model, {"x": 0.0, "y": 0.0}, "p", (-0.5, 0.5), equilibrium=True).bifurcations
    cycles = kz.switch_branch(hopf, (-0.5, 0.5))
    (fold,) = cycles.bifurcations
    assert fold.value == pytest.approx(-0.16, abs=1e-9)
    assert cycles.ends[1] is End.BOUND
    assert len(cycles) < 150


def test_the_curve_of_tori_of_the_forced_van_der_pol_oscillator_ends_at_1_1():
    """Both 1:1 points as AUTO-07p gives them."""
    model = kz.Model.from_equations(
        "x'' - 0.1*(1 - x**2)*x' + x = F*cos(w*t)", parameters={"F": 0.3, "w": 1.0}, period="2*pi/w",
        start={"x": 2.0, "x'": 0.0}, name="forced van der Pol",
    )  # fmt: skip
    tori = kz.follow(model, None, "w", (0.8, 1.3)).of(Kind.NEIMARK_SACKER)
    assert len(tori) == 2
    for torus, (w, force) in zip(tori, [(0.97483973, 0.09811294), (1.02484755, 0.10186359)], strict=True):
        curve = kz.follow(torus, ("w", "F"), {"w": (0.5, 1.5), "F": (0.01, 1.0)})
        (point,) = curve.of(Kind.RESONANCE_1_1)
        assert (point.value, float(point.note.split("=")[1])) == pytest.approx((w, force), abs=2e-8)
        assert point.verified
        assert End.CODIMENSION_TWO in curve.ends
        assert all(b.verified for b in curve.bifurcations)
        assert curve.values[:, 1].min() == pytest.approx(force, abs=2e-8)  # nothing beyond the point


def test_the_curve_of_folds_of_cycles_ends_at_the_generalised_hopf_point():
    """r' = r (p + q r² - r⁴): cycles fold at p = -q²/4 for q > 0, and shrink to the equilibrium at p = q = 0."""
    model = planar(
        "p*x - y + q*x*(x**2 + y**2) - x*(x**2 + y**2)**2", "x + p*y + q*y*(x**2 + y**2) - y*(x**2 + y**2)**2",
        "Bautin with q", p=-0.1, q=1.0,
    )  # fmt: skip
    radius = np.sqrt((1 + np.sqrt(1 - 0.4)) / 2)
    branch = kz.follow(model, {"x": radius, "y": 0.0}, "p", (-0.5, 0.2), period=2 * np.pi, direction=-1)
    (fold,) = branch.of(Kind.FOLD)
    assert fold.value == pytest.approx(-0.25, abs=1e-10)
    assert branch.ends[1] is End.HOPF
    curve = kz.follow(fold, ("q", "p"), {"q": (-1.0, 1.2), "p": (-0.5, 0.2)})
    assert curve.values[:, 1] == pytest.approx(-(curve.values[:, 0] ** 2) / 4, abs=1e-8)
    (point,) = curve.bifurcations
    assert point.kind is Kind.GENERALISED_HOPF
    assert point.value == pytest.approx(0.0, abs=1e-6)
    assert End.CODIMENSION_TWO in curve.ends


@pytest.fixture(scope="module")
def cusp():
    """x' = p + qx - x³ turns where 4q³ = 27p², with a cusp at 0; y' = -y is not involved."""
    model = planar("p + q*x - x**3", "-y", "cusp", p=-1.0, q=1.0)
    return kz.follow(model, {"x": -1.3, "y": 0.0}, "p", (-1.0, 1.0), equilibrium=True)


def test_folds_of_equilibria_have_a_curve_through_their_cusp(cusp):
    curve = kz.follow(cusp.of(Kind.FOLD)[0], ("q", "p"), {"q": (-0.5, 2.0), "p": (-1.0, 1.0)})
    assert 4 * curve.values[:, 0] ** 3 == pytest.approx(27 * curve.values[:, 1] ** 2, abs=1e-8)
    (point,) = curve.bifurcations
    assert point.kind is Kind.CUSP
    assert point.verified
    assert point.value == pytest.approx(0.0, abs=1e-7)


def test_a_fold_curve_of_equilibria_passes_bogdanov_and_takens():
    """x' = y, y' = p + qx + x² - xy: folds at p = q²/4, a double zero where the trace vanishes too, at q = 0."""
    model = planar("y", "p + q*x + x**2 - x*y", "takens", p=-0.1, q=-1.0)
    rest = kz.follow(model, {"x": -0.0916, "y": 0.0}, "p", (-0.2, 0.5), equilibrium=True)
    curve = kz.follow(rest.of(Kind.FOLD)[0], ("q", "p"), {"q": (-1.5, 1.0), "p": (-0.5, 0.6)})
    assert curve.values[:, 1] == pytest.approx(curve.values[:, 0] ** 2 / 4, abs=1e-8)
    assert [(b.kind, b.verified) for b in curve.bifurcations] == [(Kind.BOGDANOV_TAKENS, True)]
    assert curve.bifurcations[0].value == pytest.approx(0.0, abs=1e-7)


def test_a_hopf_curve_names_zero_hopf_and_nothing_else():
    """x' = p + x² - r², r' = r (q + x/2 + s r²): Hopf points of x = -√-p at q = √-p/2, zero-Hopf at 0."""
    equations = ["x' = p + x**2 - y**2 - z**2", "y' = (q + x/2)*y - z", "z' = y + (q + x/2)*z"]
    model = kz.Model.from_equations(equations, parameters={"p": -0.5, "q": 0.1}, name="fold and Hopf")
    rest = kz.follow(model, {"x": -0.7, "y": 0.0, "z": 0.0}, "q", (0.0, 1.0), equilibrium=True)
    (hopf,) = rest.of(Kind.HOPF)
    assert hopf.value == pytest.approx(np.sqrt(0.5) / 2, abs=1e-10)
    curve = kz.follow(hopf, ("p", "q"), {"p": (-1.0, 0.5), "q": (-1.0, 1.0)})
    # l₁ ∝ 1/x has a pole at the point, and no zero.
    (point,) = curve.bifurcations
    assert point.kind is Kind.ZERO_HOPF
    assert point.value == pytest.approx(0.0, abs=1e-7)
    assert point.verified


def test_the_cascade_of_roessler_from_its_equilibrium():
    """a = b = 0.2: doublings of the return map by DOP853 with variations, multiplier -1 to 1e-9."""
    model = kz.Model.from_equations(
        ["x' = -y - z", "y' = x + 0.2*y", "z' = 0.2 + z*(x - c)"], parameters={"c": 0.5}, name="Rössler"
    )
    tree = kz.diagram(model, {"x": 0.0, "y": 0.0, "z": 0.5}, "c", (0.3, 5.0), depth=3, max_branches=4, equilibrium=True)
    assert tree.cascade() == pytest.approx([2.832445, 3.837358, 4.124215], abs=1e-5)


def test_the_amplitude_of_a_relaxation_oscillation():
    """Its peaks are far narrower than the samples; DOP853 with dense output at 1e-12 gives the same extremes."""
    model = planar("(x - x**3/3 - y)/e", "x", "relaxation", e=0.02)
    branch = kz.follow(model, {"x": 2.0, "y": 0.0}, "e", (0.019, 0.021), period=1.9, direction=1)
    for i in (0, len(branch) - 1):
        e = branch.values[i, 0]
        run = solve_ivp(
            lambda t, z, e=e: [(z[0] - z[0] ** 3 / 3 - z[1]) / e, z[0]], (0, branch.periods[i]), branch.points[i],
            method="DOP853", rtol=1e-12, atol=1e-12, events=lambda t, z: z[0] - z[0] ** 3 / 3 - z[1],
        )  # fmt: skip
        peaks = run.y_events[0][:, 0]
        assert branch.amplitude("x")[i] == pytest.approx((peaks.max() - peaks.min()) / 2, rel=1e-8)


@pytest.mark.parametrize("start", [0.0, 0.199, -0.1999])
def test_isola_is_traced_once_from_any_start(start):
    """(r² - 1)² = 0.04 - p²: a loop with folds at ±0.2, whose tips are sharp in units of the parameter."""
    growth = "(0.04 - p**2 - (x**2 + y**2 - 1)**2)"
    model = kz.Model.from_equations([f"x' = x*{growth} - y", f"y' = y*{growth} + x"], parameters={"p": start})
    radius = np.sqrt(1 + np.sqrt(0.04 - start**2))
    branch = kz.follow(model, [radius, 0.0], "p", (-1, 1), period=2 * np.pi)
    assert sorted(b.value for b in branch.bifurcations) == pytest.approx([-0.2, 0.2], abs=1e-9)
    assert branch.ends == (End.CLOSED, End.CLOSED)
    # One turn round the centre of the loop, without a reversal.
    angle = np.unwrap(np.arctan2(branch.amplitude("x") ** 2 - 1, branch.values[:, 0]))
    assert (np.abs(np.diff(angle)) > 0).all()
    assert len(set(np.sign(np.diff(angle)).tolist())) == 1
    assert abs(angle[-1] - angle[0]) < 2.5 * np.pi


def test_orbits_of_hodgkin_and_huxley_go_from_one_hopf_point_to_the_other():
    """The rates of m and n are 0/0 at V = 25 and 10 mV, which every large orbit passes.

    References: AUTO-07p with the series of x/(exp(x) - 1) near 0, 150 intervals: Hopf points 9.77934, 154.526, folds
    7.84625 (period 16.7138), 7.92169 (20.7073).
    """
    equations = [
        "V' = I - 120*m**3*h*(V - 115) - 36*n**4*(V + 12) - 0.3*(V - 10.6)",
        "m' = 0.1*(25 - V)/(exp((25 - V)/10) - 1)*(1 - m) - 4*exp(-V/18)*m",
        "h' = 0.07*exp(-V/20)*(1 - h) - h/(exp((30 - V)/10) + 1)",
        "n' = 0.01*(10 - V)/(exp((10 - V)/10) - 1)*(1 - n) - 0.125*exp(-V/80)*n",
    ]
    model = kz.Model.from_equations(equations, parameters={"I": 0.0})
    rest = kz.follow(model, {"V": 0.0, "m": 0.05, "h": 0.6, "n": 0.32}, "I", (0.0, 200.0), equilibrium=True)
    low, high = rest.of(Kind.HOPF)
    assert [low.value, high.value] == pytest.approx([9.77934, 154.526], rel=1e-5)
    assert [low.criticality, high.criticality] == ["subcritical", "supercritical"]
    cycles = kz.switch_branch(high, (0.0, 200.0))
    assert cycles.ends[1] is End.HOPF
    assert cycles.bifurcations[-1].value == pytest.approx(low.value, abs=1e-9)
    folds = cycles.of(Kind.FOLD)
    assert len(folds) == 3
    assert [(b.value, b.period) for b in folds[:0:-1]] == [
        pytest.approx((7.84625, 16.7138), rel=1e-5), pytest.approx((7.92169, 20.7073), rel=1e-5),
    ]  # fmt: skip
    assert all(b.verified for b in cycles.bifurcations)


def test_orbits_are_born_at_a_hopf_point_whose_states_are_far_below_one():
    """Oregonator (Tyson and Fife 1980): x = z = 0.0049 at the upper Hopf point, where orbits of size 0.01 are none."""
    model = planar("(x*(1 - x) - f*y*(x - 0.002)/(x + 0.002))/0.02", "x - y", "Oregonator", f=2.3)
    rest = kz.follow(model, {"x": 0.0052, "y": 0.0052}, "f", (2.3, 2.6), equilibrium=True)
    hopf = rest.of(Kind.HOPF)[0]
    assert hopf.point.max() < 0.005
    cycles = kz.switch_branch(hopf, (2.355, 2.6))
    assert cycles.ends[1] is End.BOUND
    assert abs(cycles.values[0, 0] - hopf.value) < 1e-3
    assert cycles.periods[0] == pytest.approx(hopf.period, rel=1e-2)
