"""Events along a branch: each is named, and the section moves out of their way."""

import numpy as np
import pytest
from scipy import optimize

import kapitza as kz
from kapitza.continuation import End, Kind


def friction():
    return kz.Model.from_equations(
        "x'' + mu*sign(x') + 0.1*x' + x = cos(omega*t)",
        parameters={"mu": 0.6, "omega": 0.8},
        period="2*pi/omega",
        start={"x": 1.0, "x'": 0.0},
        name="dry friction",
    )


def test_dry_friction_begins_to_stick_and_then_stops():
    """At μ = 1 the force no longer overcomes friction: the motion dies."""
    branch = kz.follow(friction(), None, "mu", (0.5, 1.2), direction=1)
    stick = branch.of(Kind.STICK)
    assert len(stick) == 1
    assert "c0+ c0-" in stick[0].note
    assert 0.70 < stick[0].value < 0.74
    assert branch.ends[1] is End.EXTINCT
    assert branch.values[-1, 0] == pytest.approx(1.0, abs=0.02)
    # While sticking one multiplier is zero.
    after = stick[0].position + 2
    assert np.abs(branch.multipliers[after]).min() < 1e-12


def test_the_section_moves_away_from_a_stick_phase():
    """At ω = 0.4732 a stick phase covers t = 0; the orbit is regular, and the branch goes on to the bound."""
    branch = kz.follow(friction().with_values(mu=0.3), None, "omega", (0.35, 0.85), direction=-1)
    assert branch.ends[1] is End.BOUND
    assert [b.kind for b in branch.bifurcations] == [Kind.STICK]


def test_pin_joint_passes_an_impact_at_the_section():
    model = kz.library.pin_joint().with_values(gamma=1.0, r=0.9)
    start = kz.solve_orbit(model.with_values(r=0.5), {"x": -0.51, "x'": 0.219})
    branch = kz.follow(model.with_values(r=0.5), start, "r", (0.5, 0.99), direction=1)
    assert branch.ends[1] is End.BOUND
    assert len(set(branch.sequences)) == 1


def test_pin_joint_grazes_where_the_closed_form_says():
    """Flights are x'' = γ sin t, so the orbit that touches a wall a third time at no speed has a closed form."""

    def flight(x, t, u, g, later):
        speed = u + g * np.cos(t)
        return x + speed * (later - t) - g * (np.sin(later) - np.sin(t)), speed - g * np.cos(later)

    def equations(z):
        t1, u1, t2, u2, g, touch = z
        left, right = flight(1.0, t1, u1, g, t2), flight(-1.0, t2, u2, g, t1 + 2 * np.pi)
        there = flight(1.0, t1, u1, g, touch)
        return [left[0] + 1, u2 + 0.8 * left[1], right[0] - 1, u1 + 0.8 * right[1], there[0] - 1, there[1]]

    exact = optimize.root(equations, [0.85, -1.64, 5.95, 1.64, 1.43, 4.2], tol=1e-13)
    assert exact.success
    model = kz.library.pin_joint().with_values(gamma=1.0, r=0.8)
    start = kz.solve_orbit(model, {"x": -0.29364841, "x'": 1.05513682})
    branch = kz.follow(model, start, "gamma", (0.95, 3.0), direction=1)
    (graze,) = branch.of(Kind.GRAZING)
    assert graze.value == pytest.approx(exact.x[4], abs=1e-8)
    assert branch.ends[1] is End.GRAZING


def test_the_graze_that_stops_the_broken_symmetry_is_named():
    """r = 0.5: the wall that the orbit nears and leaves again, seen by its gap; the same closed form with r = 0.5."""

    def flight(x, t, u, g, later):
        speed = u + g * np.cos(t)
        return x + speed * (later - t) - g * (np.sin(later) - np.sin(t)), speed - g * np.cos(later)

    def equations(z):
        t1, u1, t2, u2, g, touch = z
        left, right = flight(1.0, t1, u1, g, t2), flight(-1.0, t2, u2, g, t1 + 2 * np.pi)
        there = flight(-1.0, t2, u2, g, touch)
        return [left[0] + 1, u2 + 0.5 * left[1], right[0] - 1, u1 + 0.5 * right[1], there[0] + 1, there[1]]

    model = kz.library.pin_joint().with_values(gamma=1.0, r=0.5)
    start = kz.solve_orbit(model, {"x": -0.51, "x'": 0.219})
    symmetric = kz.follow(model, start, "gamma", (0.7, 1.1))
    broken = kz.switch_branch(symmetric.bifurcations[0], (0.3, 3.0))
    (graze,) = broken.of(Kind.GRAZING)
    assert broken.ends[1] is End.GRAZING
    events = {e.index: e for e in broken.orbit(-4).solver.events}
    guess = [events[0].time, events[0].after[1], events[1].time, events[1].after[1]]
    if guess[2] - guess[0] > np.pi:
        # One of two mirror images, x → -x and t → t + π; the equations are those with the long flight from x = -1.
        guess = [guess[2] - np.pi, -guess[3], guess[0] + np.pi, -guess[1]]
    found = [
        optimize.root(equations, [*guess, graze.value, guess[2] + d], tol=1e-13) for d in np.linspace(0.3, 3.0, 10)
    ]
    exact = [f.x for f in found if f.success and abs(f.x[4] - graze.value) < 1e-3 and f.x[5] > f.x[2] + 0.05]
    assert exact
    assert min(abs(x[4] - graze.value) for x in exact) < 1e-6


def test_cart_doublings_and_the_touch_that_disappears():
    """Symmetry breaks at 1.1116; the doubled orbit doubles at 2.4439309 and 3.4491797, a touch ends at 3.4476."""
    cart = kz.library.colliding_cart()
    first = kz.follow(cart, {"x": -0.5, "x'": 0.5}, "gamma", (0.9, 1.3), direction=1)
    broken = kz.switch_branch(first.bifurcations[0], (0.5, 2.2))
    # A step that leapt over the change of sequence would miss the doubling before it and the folds behind it.
    # Right behind it the leading multiplier, -1.15 until then, rises past -1 and to 1 within 1e-4 of the parameter.
    kinds = [Kind.DOUBLING, Kind.SEQUENCE, Kind.DOUBLING, Kind.FOLD, Kind.FOLD, Kind.DOUBLING]
    assert [b.kind for b in broken.bifurcations] == kinds
    change, behind = broken.bifurcations[1:3]
    assert change.value < behind.value < change.value + 1e-5
    before, after = broken.multipliers[change.position, 0].real, broken.multipliers[change.position + 1, 0].real
    assert before < -1.1
    assert after > -1
    _each_point_closes(broken)
    doubled = kz.switch_branch(broken.of(Kind.DOUBLING)[-1], (0.5, 3.5))
    values = [b.value for b in doubled.of(Kind.DOUBLING)]
    assert values[:2] == pytest.approx([2.4439309, 3.4491797], abs=1e-7)
    assert doubled.of(Kind.SEQUENCE)[0].value == pytest.approx(3.4476, abs=1e-4)
    _each_point_closes(doubled)
    # Impacts and jumps aside, labels between events of one sequence are certified.
    assert all(b.verified for b in doubled.of(Kind.DOUBLING))


def _each_point_closes(branch):
    """Next to a graze the corrector may stop where nothing is solved: no such point may get into a branch."""
    assert len(branch) > 20
    for i in range(0, len(branch), 7):
        flow = kz.Flow(branch.model.with_values(gamma=float(branch.values[i, 0])))
        end = flow.propagate(branch.points[i], 0.0, float(branch.periods[i]), tangents=False).state
        assert end == pytest.approx(branch.points[i], abs=1e-9)
