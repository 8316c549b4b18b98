"""Basins of attraction against motions that are known."""

from importlib import import_module

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import kapitza as kz
from kapitza.errors import DataError, ModelError

# The verb of the same name hides the module.
basins_module = import_module("kapitza.orbits.of_models.basins")


def double_well() -> kz.Model:
    """Weakly driven: one small motion in either well."""
    return kz.Model.from_equations(
        "x'' + c*x' - x + x**3 = F*cos(w*t)", parameters={"c": 0.3, "F": 0.02, "w": 1.0}, period="2*pi/w", name="wells"
    )


@pytest.fixture(scope="module")
def found():
    return kz.basins(double_well(), {"x": (-2.0, 2.0), "x'": (-1.5, 1.5)}, grid=(21, 15), transient=20)


def test_two_wells_and_their_symmetry(found):
    assert sorted(a.period for a in found.attractors) == [1, 1]
    assert sorted(round(a.states[0, 0]) for a in found.attractors) == [-1, 1]
    assert set(np.unique(found.labels)) == {0, 1}
    # x -> -x, t -> t + T/2 maps one well onto the other: the shares are equal but for the phase.
    assert found.shares().to_numpy() == pytest.approx([0.5, 0.5], abs=0.1)


def test_starts_end_where_the_basins_say(found):
    model = double_well()
    flow = kz.Flow(model)
    for i, j in ((0, 3), (20, 11), (10, 7), (5, 14)):
        start = [found.axes["x"][i], found.axes["x'"][j]]
        end = flow.propagate(start, 0.0, 60 * model.period, tangents=False).state
        assert np.abs(end - found.attractors[found.labels[i, j]].states[0]).max() < 1e-4


def test_an_attractor_is_the_orbit_that_the_solver_finds(found):
    for attractor in found.attractors:
        orbit = kz.solve_orbit(double_well(), attractor.states[0])
        assert np.abs(orbit.points[0] - attractor.states[0]).max() < 1e-5


def test_a_motion_that_spirals_in_is_not_taken_for_a_longer_period():
    """Light damping, complex multipliers: four attractors of period 1, small and large in either well."""
    model = double_well().with_values(c=0.15, F=0.1)
    found = kz.basins(model, {"x": (-2.0, 2.0), "x'": (-1.5, 1.5)}, grid=16, transient=30)
    assert [a.period for a in found.attractors] == [1] * len(found.attractors)
    assert len(found.attractors) in (2, 3, 4)
    ends = np.array([a.states[0] for a in found.attractors])
    apart = np.abs(ends[:, None] - ends).max(axis=2) + 10 * np.eye(len(ends))
    assert apart.min() > 0.1
    assert (found.labels >= 0).all()


def test_a_map_with_a_known_basin():
    """z -> z²: the unit disc goes to 0, the rest diverges."""
    square = kz.Model.from_map({"x": "x**2 - y**2", "y": "2*x*y"})
    found = kz.basins(square, {"x": (-1.51, 1.52), "y": (-1.48, 1.49)}, grid=40)
    radius = np.hypot(*np.meshgrid(*found.axes.values(), indexing="ij"))
    assert [a.period for a in found.attractors] == [1]
    assert np.array_equal(found.labels, np.where(radius < 1, 0, -1))


def test_a_cycle_of_a_map_has_one_basin():
    """The logistic map at 3.2 doubles: both points of the cycle are one attractor."""
    logistic = kz.Model.from_map({"x": "a*x*(1 - x)", "y": "0.5*y"}, parameters={"a": 3.2})
    found = kz.basins(logistic, {"x": (0.05, 0.95), "y": (-1.0, 1.0)}, grid=(19, 5))
    assert [a.period for a in found.attractors] == [2]
    assert (found.labels == 0).all()


def test_wells_with_a_jumping_force():
    """Springs that pull to 1 and to -1: starts end where long runs do."""
    model = kz.Model.from_equations("x'' + 0.4*x' + x - sign(x) = 0.05*cos(t)", period="2*pi")
    found = kz.basins(model, {"x": (-2.0, 2.1), "x'": (-1.5, 1.6)}, grid=(12, 10), transient=20)
    assert sorted(round(a.states[0, 0]) for a in found.attractors) == [-1, 1]
    starts = np.stack(np.meshgrid(*found.axes.values(), indexing="ij"), axis=-1).reshape(-1, 2)
    ends = kz.Flow(model).propagate_many(starts, 0.0, 40 * model.period).state
    wells = np.array([a.states[0, 0] for a in found.attractors])
    assert np.array_equal(np.sign(ends[:, 0]), np.sign(wells[found.labels.ravel()]))


def test_divergence_and_refusals():
    model = kz.Model.from_equations("x'' + 0.2*x' + x - x**3 = F*cos(t)", parameters={"F": 0.05}, period="2*pi")
    found = kz.basins(model, {"x": (-2.0, 2.0), "x'": (-0.1, 0.1)}, grid=(9, 2), transient=20)
    assert (found.labels[[0, -1]] == -1).all()
    assert (found.labels[4] == 0).all()
    with pytest.raises(DataError, match="name two of the states"):
        kz.basins(model, {"x": (0, 1)})
    with pytest.raises(ModelError, match="not forced"):
        kz.basins(kz.library.lorenz(), {"x": (0, 1), "y": (0, 1)})


def test_sheared_attractors_absorb_their_neighbourhood():
    """Four attractors of the driven wells, two of them strongly sheared by a period: each has an ellipsoid of its own
    that a period takes into itself, by an independent integration.
    """
    wells = kz.Model.from_equations(
        "x'' + c*x' - x + x**3 = F*cos(w*t)", parameters={"c": 0.15, "F": 0.1, "w": 1.0}, period="2*pi/w"
    )
    found = kz.basins(wells, {"x": (-2.0, 2.0), "x'": (-1.5, 1.5)}, grid=16, transient=30)
    nets = basins_module._nets(wells, list(found.attractors), np.array([4.0, 3.0]))
    assert {net.number for net in nets} == set(range(len(found.attractors)))
    assert len(found.attractors) == 4
    for net in nets:
        half = np.linalg.inv(np.linalg.cholesky(net.weight)).T
        for angle in np.linspace(0.0, 2 * np.pi, 7):
            start = net.centre + half @ [np.cos(angle), np.sin(angle)]
            end = solve_ivp(
                lambda t, y: [y[1], -0.15 * y[1] + y[0] - y[0] ** 3 + 0.1 * np.cos(t)],
                (0.0, 2 * np.pi), start, "DOP853", rtol=1e-10, atol=1e-12,
            ).y[:, -1]  # fmt: skip
            off = end - net.centre
            assert off @ net.weight @ off < 1.0
