"""Every periodic method under `follow` finds the same bifurcations; diagrams and branches that are not connected."""

import numpy as np
import pytest
from tests.continuation.systems import duffing

import kapitza as kz
from kapitza.continuation import End, Kind, walk_branch

FOLDS = (1.7797195242986, 1.3242362007706)


@pytest.mark.parametrize(
    "method",
    [kz.MultipleShooting(nodes=4), kz.Collocation(elements=30), kz.HarmonicBalance(), kz.Differences(points=301)],
    ids=lambda m: type(m).__name__,
)
def test_methods_agree_on_the_folds(method):
    branch = kz.follow(duffing(1.2), None, "omega", (1.1, 1.9), method=method, direction=1)
    assert [b.kind for b in branch.bifurcations] == [Kind.FOLD, Kind.FOLD]
    assert [b.value for b in branch.bifurcations] == pytest.approx(FOLDS, abs=1e-6)
    assert branch.method == type(method).__name__


def test_collocation_finds_the_doubling_of_the_hanging_pendulum():
    model = kz.library.pendulum_on_spring().with_values(a=2.4)
    rest = {"y": 0, "theta": 0, "y'": 0, "theta'": 0}
    branch = kz.follow(model, rest, "a", (2.3, 2.8), direction=1, method=kz.Collocation())
    assert branch.of(Kind.DOUBLING)[0].value / np.hypot(1.3, 200.0) == pytest.approx(0.01320818105, abs=1e-9)


def test_autonomous_orbits_by_three_methods():
    """The orbit born at Lorenz' Hopf point, at ρ = 20: one period whatever the method."""
    model = kz.library.lorenz().with_values(rho=23.0)
    x = np.sqrt(8 / 3 * 22)
    rest = kz.follow(model, {"x": x, "y": x, "z": 22.0}, "rho", (22, 26), equilibrium=True, direction=1)
    born = kz.switch_branch(rest.of(Kind.HOPF)[0], (20.0, 30.0))
    assert born.ends[1] is End.BOUND
    orbit, period = born.orbit(-1), born.periods[-1]
    at = model.with_values(rho=20.0)
    for method in (kz.Collocation(elements=40), kz.HarmonicBalance()):
        branch = kz.follow(at, orbit, "rho", (19.5, 20.0), method=method, direction=-1)
        assert branch.periods[0] == pytest.approx(period, rel=1e-7)
        assert branch.ends[1] is End.BOUND


@pytest.fixture(scope="module")
def relaxation():
    """Van der Pol's oscillator from a nearly harmonic orbit to one with steep flanks, by shooting."""
    model = kz.Model.from_equations(
        "x'' + mu*(x**2 - 1)*x' + x = 0", parameters={"mu": 0.3}, start={"x": 2.0, "x'": 0.0}, name="van der Pol"
    )
    orbit = kz.solve_orbit(model, period=6.3)
    return model, orbit, kz.follow(model, orbit, "mu", (0.2, 2.0), direction=1)


@pytest.mark.parametrize(
    "method", [kz.Collocation(elements=12), kz.HarmonicBalance(harmonics=8)], ids=["mesh", "modes"]
)
def test_meshes_and_harmonics_grow_with_the_flanks(relaxation, method):
    model, orbit, by_shooting = relaxation
    walker = walk_branch(model, orbit, "mu", (0.2, 2.0), direction=1, method=method)
    sizes = [node.z.size for node in walker]
    assert sizes[-1] > 2 * sizes[0]
    assert walker.branch.periods[-1] == pytest.approx(by_shooting.periods[-1], rel=1e-8)


def test_a_mesh_that_may_not_adapt_stays(relaxation):
    model, orbit, _ = relaxation
    walker = walk_branch(model, orbit, "mu", (0.2, 1.0), direction=1, method=kz.Collocation(elements=12, adapt=False))
    assert len({node.z.size for node in walker}) == 1


def test_shooting_gets_nodes_as_multipliers_grow():
    """Towards its homoclinic end Lorenz' orbit has multipliers of 1e4 and more, which one node cannot carry."""
    model = kz.library.lorenz().with_values(rho=23.0)
    x = np.sqrt(8 / 3 * 22)
    rest = kz.follow(model, {"x": x, "y": x, "z": 22.0}, "rho", (22, 26), equilibrium=True, direction=1)
    born = kz.switch_branch(rest.of(Kind.HOPF)[0], (13.94, 30.0))
    assert born.counts[0] == 1
    assert born.counts[-1] >= 4
    assert np.abs(born.multipliers[-1]).max() > 1e3
    assert np.abs(born.multipliers[-1] - 1).min() < 1e-6


def test_switches_and_half_maps_are_left_to_shooting():
    with pytest.raises(kz.KapitzaError, match="follows smooth models"):
        kz.follow(kz.library.colliding_cart(), {"x": -0.5, "x'": 0.5}, "gamma", (0.9, 1.1), method=kz.Collocation())
    with pytest.raises(kz.KapitzaError, match="by shooting"):
        kz.follow(duffing(), None, "omega", (0.4, 0.6), method=kz.HarmonicBalance(), half_map=True)


def test_a_diagram_goes_down_the_cascade():
    model = kz.library.parametric_pendulum().with_values(omega=12.5)
    start = kz.solve_orbit(model, {"phi": 2.98, "phi'": 11.0})
    found = kz.diagram(model, start, "omega", (9.2, 12.6), depth=2, direction=-1, max_points=60)
    assert found.cascade() == pytest.approx([12.1078218842, 9.4647067819, 9.3204145004], abs=1e-8)
    assert found.levels == (0, 1, 2)
    assert not found.failed
    assert len(found.table()) >= 3


def test_deflation_finds_the_orbits_that_are_not_connected_at_this_value():
    """Between the folds Duffing has three orbits of period one: the low, the high and the one between."""
    model = duffing(1.5)
    low = kz.solve_orbit(model, {"x": -0.2, "x'": 0.0})
    others = kz.other_orbits(model, [low])
    assert len(others) == 2
    assert sorted(o.stability for o in others) == ["stable", "unstable"]
    with pytest.raises(kz.KapitzaError, match="autonomous"):
        kz.other_orbits(kz.library.lorenz(), [])


@pytest.mark.parametrize(
    "method", [kz.Collocation(), kz.HarmonicBalance(), kz.Differences()], ids=lambda m: type(m).__name__
)
def test_a_parameter_that_starts_at_zero_does_not_keep_steps_short(method):
    """A force from 0: the same folds as by shooting, and the bound is reached."""
    model = kz.Model.from_equations(
        "x'' + 0.1*x' + x + x**3 = B*cos(1.5*t)", parameters={"B": 0.0}, period="2*pi/1.5", name="from rest"
    )
    rest = {"x": 0.0, "x'": 0.0}
    branch = kz.follow(model, rest, "B", (0.0, 1.0), method=method, direction=1)
    shot = kz.follow(model, rest, "B", (0.0, 1.0), direction=1)
    assert branch.ends[1] is End.BOUND
    assert len(branch) < 300
    assert [b.value for b in branch.of(Kind.FOLD)] == pytest.approx([b.value for b in shot.of(Kind.FOLD)], abs=1e-6)
