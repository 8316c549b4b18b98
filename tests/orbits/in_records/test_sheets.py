"""Delay coordinates must tell the whole state: where sheets lie over each other, returns are none."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.orbits.in_records.embedded import CutSettings, delay_of, make_cut
from kapitza.orbits.in_records.sheets import is_folded, without_folds
from same_motion import same_motion


@pytest.fixture(scope="module")
def beam():
    """A beam with two wells, chaotic: from x and one delay an orbit shows at x = 1.255 that it does not have."""
    model = kz.Model.from_equations(
        "x'' + c*x' - x + x**3 = F*cos(t)",
        parameters={"c": 0.15, "F": 0.3},
        period="2*pi",
        start={"x": 0.5, "x'": 0.0},
    )
    return kz.measure(kz.simulate(model, periods=6000, samples_per_period=12).select(["x"]), noise=0.002, seed=1)


def test_one_delay_leaves_folds_and_two_do_not(beam):
    for dimension, folded in ((2, True), (3, False)):
        section = make_cut(beam, ("x",), CutSettings(noise=0.0), dimension)
        assert is_folded(section, beam, ("x",), delay_of(section, beam, ("x",))) == folded


def test_no_orbit_is_claimed_where_sheets_cross(beam):
    orbits = kz.find_orbits(beam, max_period=1)
    assert "x(t+6)" in orbits.message
    assert not any(abs(orbit.points[0, 0] - 1.255) < 0.05 for orbit in orbits)


def test_orbits_on_two_sheets_are_refused():
    """Two circles over each other in x and y: what comes later takes two values."""
    rng = np.random.default_rng(1)
    turns = rng.uniform(0, 2 * np.pi, 3000)
    later = rng.choice([-1.0, 1.0], 3000)
    values = np.column_stack([np.cos(turns), np.sin(turns), later]).ravel()
    record = kz.Record.from_arrays(np.arange(values.size) / 3, {"x": values}, period=1.0, phase=0.0)
    section = make_cut(record, ("x",), CutSettings(noise=0.0, delay=1), 2)
    orbit = kz.PeriodicOrbit(section.states, np.array([[1.0, 0.0]]), 1.0)
    left = without_folds(kz.OrbitSet((orbit,), (False, False)), section, record, ("x",), 1)
    assert not len(left)
    assert "two sheets" in left.rejected[0][1]


def test_a_velocity_alone_shows_the_orbits_that_the_state_shows():
    model = kz.Model.from_equations(
        "x'' + k*x' + x**3 = B*cos(t)", parameters={"k": 0.05, "B": 7.5}, period="2*pi", start={"x": 3.02, "x'": 4.0}
    )
    period = float(model.period)
    motion = same_motion(model, 96001, period / 16, stretch=64, period=period)
    run = kz.measure(motion, noise=0.005, seed=1)
    whole = kz.find_orbits(run, max_period=1)
    alone = kz.find_orbits(run.select(["x'"]), max_period=1)
    assert len(whole) == len(alone) == 2
    speeds = [sorted(float(o.points[0, o.states.index("x'")]) for o in orbits) for orbits in (whole, alone)]
    np.testing.assert_allclose(*speeds, atol=0.02)
    assert all(orbit.profile is not None for orbit in alone)
