"""OrbitSet: table and selection."""

import numpy as np
import pytest

from kapitza.orbits import Certificate, OrbitSet, PeriodicOrbit, Profile, Stretch


def orbit(points, code, **more):
    points = np.asarray(points, float)
    return PeriodicOrbit(("phi", "phi'"), points, 0.7 * len(points), repeats=len(points), code=code, **more)


@pytest.fixture
def orbits():
    full = orbit(
        [[0.1, 2.0], [0.3, -1.0]],
        "AC",
        winding=(1, 0),
        multipliers=np.array([-2.5 + 0.5j, -2.5 - 0.5j]),
        multiplier_deviation=np.array([0.1, 0.1]),
        covariance=np.diag([1e-4, 4e-4, 1e-4, 4e-4]),
        profile=Profile(np.array([0.0, 0.5]), np.array([[0.1, 2.0], [0.2, 1.0]])),
        certificate=Certificate(trivial=1e-9),
        partner=0,
        stretch=Stretch(12, 40),
        visits=3,
    )
    return OrbitSet((orbit([[1.0, 1.0]], "A"), full), (True, False), ((orbit([[2.0, 2.0]], "B"), "too few"),), "two")


def test_selection_by_period_and_rotated_code(orbits):
    assert [o.code for o in orbits.select(period=2)] == ["AC"]
    assert [o.code for o in orbits.select(code="CA")] == ["AC"]
    assert len(orbits.select(period=[1, 2])) == 2
    assert len(orbits.select(period=2, code="A")) == 0


def test_table_has_one_row_per_orbit_with_deviations(orbits):
    table = orbits.table()
    assert list(table["period"]) == [1, 2]
    assert table["sd phi'"][1] == pytest.approx(0.02)
    assert table["multiplier 1"][1] == -2.5 + 0.5j


def test_periods_of_the_table_select(orbits):
    assert len(orbits.select(period=orbits.table()["period"][1])) == 1
    assert list(orbits[:0].table()["period"]) == []
