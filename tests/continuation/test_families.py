"""Every family of motions keeps what its protocol promises: derivatives, tangents, fresh coordinates, other meshes."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ellipk

import kapitza as kz
from kapitza.continuation.cycles import cycle_family
from kapitza.continuation.equilibria import resting_family
from kapitza.continuation.family import PlainPoint
from kapitza.continuation.follow import orbit_family
from kapitza.continuation.frame import FreeParameter, free_parameters, grown, parameter_size, state_sizes
from kapitza.continuation.node_mesh import better_mesh, total_growth
from kapitza.continuation.path import corrected_at

FORCED = kz.Model.from_equations(
    "x'' + c*x' + x + x**3 = B*cos(omega*t)", parameters={"c": 0.1, "B": 0.3, "omega": 0.9}, period="2*pi/omega"
)
CYCLES = kz.Model.from_equations(
    ["x' = r*x - x*(x**2 + y**2) - y", "y' = x + r*y - y*(x**2 + y**2)"], parameters={"r": 0.3}
)
HENON = kz.Model.from_map({"x": "1 - a*x**2 + y", "y": "b*x"}, parameters={"a": 0.3, "b": 0.3})
METHODS = {
    "shooting": None,
    "several nodes": kz.MultipleShooting(nodes=4),
    "collocation": kz.Collocation(),
    "harmonic balance": kz.HarmonicBalance(harmonics=24),
    "differences": kz.Differences(),
}


def forced(method):
    family, z = orbit_family(FORCED, None, "omega", (0.5, 2.0), None, method, False)
    return corrected(family, z)


def free_cycle(method):
    radius = 0.3**0.5
    family, z = orbit_family(CYCLES, {"x": radius, "y": 0.0}, "r", (0.1, 1.0), 2 * np.pi, method, False)
    return corrected(family, z)


def corrected(family, z):
    row = np.zeros((1, z.size))
    row[0, -1] = 1.0
    found = corrected_at(family, z, row, z[-1:].copy(), 1e-12).point
    assert found is not None
    return found


def equilibrium():
    model = kz.Model.from_equations(["x' = r - x**2 - y", "y' = x - y"], parameters={"r": 1.0})
    root = (5**0.5 - 1) / 2
    family = resting_family(model, ("r",), np.array([root, root]), (1.0,))
    return corrected(family, np.array([root, root, 1.0]))


def cycle_of_two():
    model = HENON.with_values(a=0.5)
    start = kz.Map(model).iterate(np.array([0.9, 0.1]), 2000)[-2:]
    return corrected(*cycle_family(model, start, free_parameters(model, ("a",), ((0.4, 0.6),))))


NODES = {
    **{f"forced, {name}": lambda m=method: forced(m) for name, method in METHODS.items()},
    "autonomous, shooting": lambda: free_cycle(None),
    "autonomous, collocation": lambda: free_cycle(kz.Collocation()),
    "equilibrium": equilibrium,
    "cycle of a map": cycle_of_two,
}


@pytest.fixture(scope="module")
def nodes():
    return {name: make() for name, make in NODES.items()}


@pytest.mark.parametrize("name", NODES)
def test_along_its_tangent_a_family_leaves_its_equations_by_the_square_of_the_step(nodes, name):
    node = nodes[name]
    scale = node.family.scale
    sizes = []
    for step in (2e-3, 1e-3):
        left = node.family.residual(node.z + step * node.tangent) - node.family.residual(node.z)
        sizes.append(np.linalg.norm(left))
    # A linear family has no second order at all.
    assert sizes[1] < 1e-12 or np.log2(sizes[0] / sizes[1]) == pytest.approx(2.0, abs=0.15)
    assert (node.tangent**2 * node.family.metric).sum() == pytest.approx(1.0, rel=1e-12)
    assert scale.shape == node.z.shape
    assert (scale > 0).all()


@pytest.mark.parametrize("name", NODES)
def test_a_bordered_matrix_moves_the_residual_as_newton_needs_it(nodes, name):
    node, family = nodes[name], nodes[name].family
    rows = (node.tangent * family.metric)[None]
    random = np.random.default_rng(1).standard_normal(node.z.size) * family.scale * 1e-6
    moved = family.residual(node.z + random) - family.residual(node.z)
    found = node.at.bordered(rows).solve(np.append(moved, rows @ random))
    assert np.abs((found - random) / family.scale).max() < 1e-3 * np.abs(random / family.scale).max()


@pytest.mark.parametrize("name", [name for name in NODES if name != "equilibrium"])
def test_orbits_close_on_their_own_loop_and_say_the_same_of_their_period(nodes, name):
    orbit = nodes[name].orbit
    assert orbit is not None
    if not orbit.frame.dynamics.is_map:
        ends = orbit.loop()(np.array([0.0, 1.0]))
        assert np.abs((ends[1] - ends[0]) / orbit.frame.sizes).max() < 1e-4
    assert orbit.full_period == pytest.approx(orbit.period, rel=1e-6)
    sample = nodes[name].at.sample(nodes[name].z, nodes[name].readings)
    assert sample.point == pytest.approx(orbit.section_point(), abs=1e-9)


def test_the_multipliers_of_a_forced_oscillator_have_the_product_of_its_damping(nodes):
    wanted = np.exp(-0.1 * 2 * np.pi / 0.9)
    for name, node in nodes.items():
        if name.startswith("forced"):
            assert np.prod(node.readings.multipliers).real == pytest.approx(wanted, rel=1e-5), name


def test_a_circle_has_the_multipliers_of_its_normal_form(nodes):
    for name in ("autonomous, shooting", "autonomous, collocation"):
        found = np.sort(nodes[name].readings.multipliers.real)
        assert found == pytest.approx([np.exp(-2 * 0.3 * 2 * np.pi), 1.0], rel=1e-5)
        assert nodes[name].motion is not None


def test_a_point_in_fresh_coordinates_is_the_same_motion(nodes):
    node = nodes["autonomous, shooting"]
    renewed = node.at.renewed(node.z)
    assert renewed is not None
    family, at = renewed
    assert np.abs(family.residual(node.z)).max() < 1e-9
    assert np.sort(np.abs(at.orbit(node.z).multipliers())) == pytest.approx(
        np.sort(np.abs(node.readings.multipliers)), rel=1e-9
    )


def test_an_orbit_on_other_nodes_is_the_same_orbit(nodes):
    node = nodes["forced, shooting"]
    at, z = node.at.on(np.array([0.0, 0.3, 0.6]), node.z)
    assert np.abs(at.residual).max() < 1e-9
    assert z.size == 3 * 2 + 1
    assert at.multipliers() == pytest.approx(node.readings.multipliers, rel=1e-8)
    back, again = at.on(np.zeros(1), z)
    assert again == pytest.approx(node.z, abs=1e-9)
    assert back.matrix() == pytest.approx(node.at.matrix(), abs=1e-7)


def test_a_backbone_has_the_frequency_of_elliptic_functions():
    curve = kz.backbone(FORCED, "omega", force="B", damping="c", bounds=(0.9, 1.2))
    assert curve.subject == "backbone"
    # The period of x'' + x + x³ = 0 is a complete elliptic integral: ω = π √(1 + a²)/(2 K(m)), m = a²/(2 + 2a²).
    a = curve.points[:, 0]
    wanted = np.pi * np.sqrt(1 + a**2) / (2 * ellipk(a**2 / (2 + 2 * a**2)))
    assert len(a) > 5
    assert curve.values[:, 0] == pytest.approx(wanted, rel=1e-9)


def test_a_plain_point_gives_no_part():
    point = PlainPoint()
    z = np.zeros(2)
    for part in (point.small_matrix(), point.renewed(z), point.remeshed(z), point.finer(z), point.orbit(z)):
        assert part is None
    assert point.motion() is None
    assert point.images(z) is None
    assert point.inner_orbit(z) is None
    assert point.tests == ()
    assert point.heading(z) is z


def test_growth_of_rotations_is_that_of_their_parts():
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    assert total_growth(np.array([turn] * 8)) == 1.0
    assert total_growth(np.array([np.diag([10.0, 0.1])] * 3)) == pytest.approx(1e3)
    # What one part stretches and the next shrinks has grown in between.
    assert total_growth(np.array([np.diag([100.0, 1.0]), np.diag([0.01, 1.0])])) == pytest.approx(100.0)


def test_nodes_are_placed_where_tangents_grow_and_given_up_where_they_do_not():
    gentle, steep = np.eye(2)[None], 1e4 * np.eye(2)[None]
    wanted = np.arange(5) / 5
    never = lambda: pytest.fail("not needed")  # noqa: E731
    assert better_mesh(gentle, np.zeros(1), lambda: False, never) is None
    assert better_mesh(steep, np.zeros(1), never, lambda: wanted) is wanted
    assert better_mesh(gentle, np.zeros(1), lambda: True, lambda: wanted) is wanted
    assert better_mesh(np.repeat(gentle, 4, 0), np.arange(4) / 4, never, never).tolist() == [0.0]
    # The same nodes again are no better.
    assert better_mesh(np.repeat(steep, 5, 0), wanted, never, lambda: wanted + 1e-4) is None


def test_a_speed_counts_as_that_of_a_vibration_of_its_coordinate():
    period, amplitude = 2 * np.pi / 3.0, 0.2
    nodes, rates = np.array([[amplitude, 0.0]]), np.array([[0.0, -9.0 * amplitude]])
    assert state_sizes(FORCED, nodes, rates, period) == pytest.approx([amplitude, 3.0 * amplitude])
    assert (state_sizes(FORCED, nodes, rates, period, np.array([5.0, 5.0])) == 5.0).all()
    assert (state_sizes(FORCED, np.zeros((1, 2)), np.zeros((1, 2)), 1.0) > 0).all()


def test_a_parameter_that_starts_at_zero_grows_to_its_reach():
    assert parameter_size(0.0, (-1.0, 1.0)) == pytest.approx(2e-3)
    assert parameter_size(5.0, (4.0, 5.0)) == 0.5
    assert grown((1e-3,), np.array([0.4]), (0.5,)) == (0.4,)
    assert grown((1e-3,), np.array([0.9]), (0.5,)) == (0.5,)
    assert grown((1.0,), np.array([1.05]), (5.0,)) == (1.0,)
    assert grown((1.0,), np.array([9.0]), ()) == (1.0,)


def test_frames_share_what_is_compiled(nodes):
    frame = nodes["forced, shooting"].orbit.frame
    other = frame.with_sizes(2 * frame.sizes, frame.parameter_sizes)
    assert other.dynamics is frame.dynamics
    assert other.flow is frame.flow
    assert replace(frame, reach=(1.0,)).problem.field is frame.problem.field
    assert FreeParameter(("c",), (1.0,)).reach == ()
