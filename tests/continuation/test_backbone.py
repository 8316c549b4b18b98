"""Free vibrations as a family: the backbone of Duffing's oscillator has a closed form."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import ellipk

import kapitza as kz
from kapitza.continuation import End, Kind


def oscillator():
    return kz.Model.from_equations(
        "x'' + c*x' + x + x**3 = B*cos(omega*t)",
        parameters={"c": 0.1, "B": 0.3, "omega": 0.8},
        period="2*pi/omega",
        start={"x": 0.3, "x'": 0.0},
        name="duffing",
    )


def exact(amplitude):
    """ω(a) of x'' + x + x³ = 0: a quarter of the period is K(m)/√(1 + a²), m = a²/2(1 + a²)."""
    return np.pi / 2 * np.sqrt(1 + amplitude**2) / ellipk(amplitude**2 / (2 * (1 + amplitude**2)))


def test_the_backbone_is_the_elliptic_integral():
    curve = kz.backbone(oscillator(), "omega", force="B", damping="c", bounds=(0.9, 2.2))
    amplitude = curve.points[:, 0]
    assert amplitude[-1] > 2
    assert curve.values[:, 0] == pytest.approx(exact(amplitude), abs=1e-10)
    assert "of zero" in curve.notes[0]


def test_responses_peak_on_the_backbone(tmp_path):
    response = kz.frequency_response(oscillator(), "omega", (0.8, 2.2), force="B", damping="c", levels=(0.1, 0.3))
    kz.save(response, tmp_path / "response.nc")
    again = kz.load(tmp_path / "response.nc")
    assert again.forces == response.forces == (0.1, 0.3)
    assert np.array_equal(again.backbone.points, response.backbone.points)
    assert [len(b) for b in again.branches] == [len(b) for b in response.branches]
    for branch in response.branches:
        amplitude = branch.amplitude("x")
        peak = int(np.argmax(amplitude))
        assert branch.values[peak, 0] == pytest.approx(exact(amplitude[peak]), rel=0.02)


@pytest.mark.parametrize(
    ("mode", "stiffness", "hardening"), [(0, 1.0, 1.0), (1, 2.0, 1.8)], ids=["in phase", "against"]
)
def test_normal_modes_of_two_masses_are_elliptic_integrals(mode, stiffness, hardening):
    """Equal masses move alike or against each other: u'' + s u + h u³ = 0, s = h = 1 or s = 1 + 2k, h = 1 + 8 k3."""
    model = kz.Model.from_equations(
        [
            "x'' + c*x' + x + x**3 + 0.5*(x - y) + 0.1*(x - y)**3 = B*cos(omega*t)",
            "y'' + c*y' + y + y**3 + 0.5*(y - x) + 0.1*(y - x)**3 = 0",
        ],
        parameters={"c": 0.1, "B": 0.3, "omega": 0.8},
        period="2*pi/omega",
        name="two masses",
    )
    curve = kz.backbone(model, "omega", force="B", damping="c", bounds=(0.9, 2.2), mode=mode)
    u, sign = curve.points[:, 0], 1 - 2 * mode
    assert curve.points[:, 1] == pytest.approx(sign * u, abs=1e-8)
    total = stiffness + hardening * u**2
    frequency = np.pi / 2 * np.sqrt(total) / ellipk(hardening * u**2 / (2 * total))
    assert u[-1] > 1
    assert curve.values[:, 0] == pytest.approx(frequency, abs=1e-9)


def test_an_autonomous_oscillator_needs_no_excitation():
    curve = kz.backbone(kz.Model.from_equations("x'' + x + x**3 = 0"), bounds=(0.9, 2.2))
    assert curve.points[-1, 0] > 2
    assert curve.values[:, 0] == pytest.approx(exact(curve.points[:, 0]), abs=1e-10)
    assert curve.amplitude("x", 256) == pytest.approx(curve.points[:, 0], rel=1e-6)
    assert set(curve.stability) == {"stable"}


def test_a_hamiltonian_of_first_order_is_unfolded_by_its_energy():
    """The pendulum: ω = π/2K(sin²(a/2))."""
    model = kz.Model.from_hamiltonian("p**2/2 - cos(q)", ["q"], ["p"], name="pendulum")
    curve = kz.backbone(model, bounds=(0.5, 1.1))
    a = curve.amplitude("q", 512)
    assert a[-1] > 2
    assert curve.values[:, 0] == pytest.approx(np.pi / 2 / ellipk(np.sin(a / 2) ** 2), abs=1e-7)


@pytest.mark.parametrize("mode", [0, 1])
def test_normal_modes_of_unequal_masses_keep_their_energy(mode):
    energy = "x'**2/2 + y'**2 + x**2/2 + x**4/4 + y**2/2 + 0.25*(x - y)**2 + 0.1*(x - y)**4/4"
    model = kz.Model.from_equations(
        ["x'' + x + x**3 + 0.5*(x - y) + 0.1*(x - y)**3 = 0", "2*y'' + y + 0.5*(y - x) + 0.1*(y - x)**3 = 0"],
        invariants={"energy": energy},
        name="unequal masses",
    )
    few = kz.Stepping(max_points=15)
    curve = kz.backbone(model, "w", mode=mode, bounds=(0.5, 2.0), amplitude=0.1, stepping=few)
    x, y, vx, vy = np.moveaxis(curve.profiles(64), 2, 0)
    along = vx**2 / 2 + vy**2 + x**2 / 2 + x**4 / 4 + y**2 / 2 + 0.25 * (x - y) ** 2 + 0.1 * (x - y) ** 4 / 4
    assert np.abs(along / along[:, :1] - 1).max() < 1e-10
    assert np.ptp(along[:, 0]) > 0.05
    # Small vibrations are those of the linear model.
    stiffness, mass = np.array([[1.5, -0.5], [-0.5, 1.5]]), np.diag([1.0, 2.0])
    linear = np.sort(np.sqrt(np.linalg.eigvals(np.linalg.solve(mass, stiffness))))[mode]
    assert curve.values[0, 0] == pytest.approx(linear, rel=5e-3)
    orbit = curve.orbit(len(curve) - 1)
    assert orbit.period == pytest.approx(2 * np.pi / curve.values[-1, 0])


@pytest.mark.parametrize("equation", ["x'' + 0.1*x' + x = 0", "x'' + x**2*x' + x = 0"])
def test_what_is_not_conservative_is_named(equation):
    with pytest.raises(kz.KapitzaError, match="not conservative"):
        kz.backbone(kz.Model.from_equations(equation))


def test_what_an_autonomous_backbone_lacks_is_named():
    with pytest.raises(kz.KapitzaError, match="invariants="):
        kz.backbone(kz.Model.from_equations(["x' = y", "y' = -x"]))
    with pytest.raises(kz.KapitzaError, match="another name"):
        kz.backbone(kz.Model.from_equations("x'' + omega**2*x = 0", parameters={"omega": 1.0}))
    with pytest.raises(kz.KapitzaError, match="x = 0, x' = 0 is not an equilibrium"):
        kz.backbone(kz.Model.from_equations("x'' + x - 1 = 0"))
    spine = kz.backbone(kz.Model.from_equations("x'' + x + x**3 - 2 = 0"), rest={"x": 1.0}, bounds=(1, 2.5))
    assert spine.values[0, 0] == pytest.approx(2.0, rel=1e-3)
    with pytest.raises(kz.KapitzaError, match="Name a damping"):
        kz.backbone(oscillator(), "omega", force="B")


def test_what_has_no_backbone_is_refused():
    with pytest.raises(kz.KapitzaError, match="modes"):
        kz.backbone(oscillator(), "omega", force="B", damping="c", mode=1)
    with pytest.raises(kz.KapitzaError, match="no excitation"):
        kz.backbone(kz.library.lorenz(), "rho", force="sigma", damping="beta")
    with pytest.raises(kz.KapitzaError, match="no parameter"):
        kz.backbone(oscillator(), "omega", force="F", damping="c")


def test_the_mode_in_opposite_phase_branches_where_lames_equation_says():
    """x = -y = A cn(Ωt, m) leaves its symmetry at A² = 4k/3: the perturbation x + y is then cn·dn, a Lamé function.

    v'' + (1 + 3X²) v = 0 has v = cn dn for 1/Ω² + 6m = 1 + m, with Ω² = 1 + 2k + A² and m = A²/2Ω².
    """
    k = 0.15
    model = kz.Model.from_equations(
        ["x'' + x + x**3 + k*(x - y) = 0", "y'' + y + y**3 + k*(y - x) = 0"], parameters={"k": k}, name="pair"
    )
    amplitude = np.sqrt(4 * k / 3)
    square = 1 + 2 * k + amplitude**2
    omega = np.pi / 2 * np.sqrt(square) / ellipk(amplitude**2 / (2 * square))
    opposite = kz.backbone(model, mode=1, bounds=(0.9, 1.5))
    (point,) = opposite.bifurcations
    assert point.kind is Kind.BRANCH_POINT
    assert point.verified
    assert point.value == pytest.approx(omega, abs=1e-7)
    assert abs(point.point[0]) == pytest.approx(amplitude, abs=1e-4)
    # Motions that are larger on one side leave there, one the mirror image of the other; they exist without damping.
    left, right = (kz.switch_branch(point, (0.9, 1.5), side=side) for side in (1, -1))
    for name, other in (("x", "y"), ("y", "x")):
        np.testing.assert_allclose(left.amplitude(name)[-1], right.amplitude(other)[-1], rtol=1e-6)
    assert max(left.amplitude("x")[-1], left.amplitude("y")[-1]) > 5 * min(
        left.amplitude("x")[-1], left.amplitude("y")[-1]
    )
    run = solve_ivp(
        lambda t, s: [s[2], s[3], -s[0] - s[0] ** 3 - k * (s[0] - s[1]), -s[1] - s[1] ** 3 - k * (s[1] - s[0])],
        (0, left.periods[-1]), left.points[-1], method="DOP853", rtol=1e-12, atol=1e-12,
    )  # fmt: skip
    np.testing.assert_allclose(run.y[:, -1], left.points[-1], atol=1e-8)
    # In phase x - y follows v'' + (1 + 2k + 3X²) v = 0 and never meets an edge.
    assert not kz.backbone(model, mode=0, bounds=(0.9, 1.5)).bifurcations


def test_other_vibrations_are_not_traced_twice():
    """They end at the family on which they were born, and not after a second round on the same orbits."""
    model = kz.Model.from_equations(["x'' = -2*x + y - 0.5*x**3", "y'' = x - 2*y"], name="two masses")
    (point,) = kz.backbone(model, "w", bounds=(0.9, 1.3)).bifurcations
    other = kz.switch_branch(point, (0.9, 3.0), stepping=kz.Stepping(max_points=200))
    assert other.ends[1] is End.MERGED
    places = [round(b.value, 6) for b in other.bifurcations]
    assert len(places) == len(set(places)) == 2


def test_a_response_beside_its_natural_frequency_has_its_backbone():
    """The natural frequency 1 is below the range of the responses; the backbone begins there all the same."""
    model = kz.Model.from_equations(
        "x'' + c*x' + x + x**3 = B*cos(omega*t)", parameters={"c": 0.1, "B": 0.3, "omega": 1.0}, period="2*pi/omega"
    )
    response = kz.frequency_response(model, "omega", (1.5, 2.5), force="B", damping="c")
    assert response.backbone is not None
    assert response.backbone.values[[0, -1], 0] == pytest.approx([1.0, 2.5], abs=1e-3)


def test_two_equal_modes_of_a_round_potential_have_no_branch_points():
    """x'' + (1 + r²) x = 0 in the plane turns into itself: every multiplier is 1 on the whole family."""
    model = kz.Model.from_equations(["x'' + x + x**3 + x*y**2 = 0", "y'' + y + y**3 + y*x**2 = 0"], name="round")
    assert kz.backbone(model, bounds=(0.9, 2.0)).bifurcations == ()


def test_normal_modes_of_a_double_pendulum_end_with_a_reason():
    """Its multipliers grow beyond what doubles hold, and the family winds on: no error, whatever is found."""
    short = kz.Stepping(max_points=120)
    curve = kz.backbone(kz.library.planar_double_pendulum(), "w", mode=1, stepping=short)
    assert len(curve) > 20
    assert curve.end_messages[1]


def test_a_response_with_an_internal_resonance_is_followed():
    """Coupled oscillators near 1:√3: folds and branch points lie within one step of each other."""
    model = kz.Model.from_equations(
        ["x'' + c*x' + 2*x - y + 0.5*x**3 = B*cos(omega*t)", "y'' + c*y' + 2*y - x = 0"],
        parameters={"c": 0.02, "B": 0.1, "omega": 0.5}, period="2*pi/omega", name="two",
    )  # fmt: skip
    branch = kz.follow(model, None, "omega", (0.5, 2.5), direction=1)
    assert len(branch.of(Kind.FOLD)) >= 2
