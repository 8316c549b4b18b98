"""Orbits from records as starts for the solver: phase of the section, paths, windings, partners, visits."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.errors import DataError
from same_motion import same_motion


@pytest.fixture(scope="module")
def model():
    return kz.library.parametric_pendulum()


@pytest.fixture(scope="module")
def dense(model):
    period = float(model.period)
    return same_motion(model, 160001, period / 8, stretch=32, period=period)


@pytest.mark.parametrize("phase", [0.375, 0.75])
def test_orbits_cut_at_any_phase_lead_to_themselves(model, dense, phase):
    """Multipliers do not depend on the phase: the solver must end on the orbit that was found."""
    for orbit in kz.find_orbits(dense, max_period=1, phase=phase):
        solved = kz.solve_orbit(model, orbit)
        assert abs(solved.multipliers[0]) == pytest.approx(abs(orbit.multipliers[0]), rel=0.03)
        assert solved.winding[0] == orbit.winding[0]


def test_profiles_start_on_the_section(model):
    """20.3 samples per period: samples straddle the section, the profile does not."""
    record = kz.simulate(model, t=np.arange(0, 8000 * model.period, model.period / 20.3))
    orbits = kz.find_orbits(record, max_period=1, phase=0.37)
    size = np.array([2 * np.pi, np.ptp(record["phi'"])])
    for orbit in orbits:
        gap = (orbit.profile.states[0] - orbit.points[0]) / size
        gap[0] -= np.round(gap[0])
        assert np.abs(gap).max() < 0.012  # the closest visit is within the tolerance of 1 %


def test_windings_are_those_of_shooting_or_not_claimed(model, dense):
    shown = 0
    for record in (dense, dense.strobed()):
        for orbit in kz.find_orbits(record, max_period=3):
            if orbit.winding:
                assert orbit.winding[0] == kz.solve_orbit(model, orbit).winding[0]
                shown += 1
            else:
                assert "winding unknown" in orbit.notes[0]
    assert shown >= 5


def test_lorenz_orbits_are_starts_for_the_solver():
    lorenz = kz.library.lorenz()
    record = kz.simulate(lorenz, t=np.arange(60000) * 0.01).samples(slice(1000, None))
    orbits = kz.find_orbits(record, max_period=2)
    found = next(o for o in orbits if o.code == "AB")
    # Viswanath (2003): the period of AB
    assert kz.solve_orbit(lorenz, found).period == pytest.approx(1.5586522107, rel=1e-8)
    alone = kz.find_orbits(record.select(["x"]), max_period=2)
    with pytest.raises(DataError, match=r"recorded were \('x',\)"):
        kz.solve_orbit(lorenz, next(o for o in alone if o.code == "AB"))


def test_partners_are_mirror_images_and_follow_a_selection(dense):
    orbits = kz.find_orbits(dense.strobed(), max_period=2)
    turning = [k for k, o in enumerate(orbits) if o.code in ("A", "D", "AA", "DD")]
    assert len(turning) == 4
    for chosen in (orbits, orbits.select(period=2), orbits[1:]):
        paired = 0
        for index, orbit in enumerate(chosen):
            partner = orbit.partner
            if partner is not None:
                paired += 1
                assert chosen[partner].partner == index
                assert sorted(chosen[partner].points[:, 1]) == pytest.approx(sorted(-orbit.points[:, 1]), abs=0.05)
        assert paired >= 2
    left = orbits.select(code="A")
    assert left[0].partner is None


def test_visits_count_the_passes_of_the_record():
    """Known passes of a fixed point of x → 1 - 1.9 x² + …: rows within the tolerance that stay for one step."""
    x = np.empty(20000)
    x[0] = 0.3
    for i in range(len(x) - 1):
        x[i + 1] = 1 - 1.9 * x[i] ** 2
    record = kz.Record.from_arrays(np.arange(len(x)) * 1.0, {"x": x}, period=1.0)
    orbit = next(o for o in kz.find_orbits(record, max_period=1) if o.points[0, 0] > 0)
    fixed = (-1 + np.sqrt(1 + 4 * 1.9)) / (2 * 1.9)
    assert orbit.points[0, 0] == pytest.approx(fixed, abs=1e-6)
    near = np.abs(x - fixed) <= 0.01 * np.ptp(x)
    assert orbit.visits == pytest.approx(np.count_nonzero(near[:-1] & near[1:]), abs=1)
