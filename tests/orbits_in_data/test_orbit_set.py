"""OrbitSet: table, selection, files."""

import json

import numpy as np
import pytest

from kapitza.errors import DataError
from kapitza.orbit import Certificate, OrbitSet, PeriodicOrbit, Profile


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
        details={"partner": 0, "sample": 12, "odd": object()},
        visits=3,
    )
    return OrbitSet((orbit([[1.0, 1.0]], "A"), full), (True, False), ((orbit([[2.0, 2.0]], "B"), "too few"),), "two")


def test_saved_orbits_come_back_equal(orbits, tmp_path):
    orbits.save(tmp_path / "orbits.json")
    back = OrbitSet.load(tmp_path / "orbits.json")
    assert back.angles == orbits.angles
    assert back.message == orbits.message
    assert [reason for _, reason in back.rejected] == ["too few"]
    for first, second in zip(orbits, back, strict=True):
        assert np.array_equal(first.points, second.points)
        assert (first.code, first.winding, first.visits) == (second.code, second.winding, second.visits)
    assert np.array_equal(back[1].multipliers, orbits[1].multipliers)
    assert np.array_equal(back[1].profile.states, orbits[1].profile.states)
    assert back[1].certificate.trivial == orbits[1].certificate.trivial
    assert np.isnan(back[1].certificate.determinant)
    assert back[1].details == {"partner": 0, "sample": 12}


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


def test_other_files_are_refused(tmp_path):
    (tmp_path / "text.json").write_text("{")
    with pytest.raises(DataError, match=r"OrbitSet\.save"):
        OrbitSet.load(tmp_path / "text.json")
    (tmp_path / "other.json").write_text(json.dumps({"format": "something"}))
    with pytest.raises(DataError, match="kapitza orbits 1"):
        OrbitSet.load(tmp_path / "other.json")


def test_missing_places_and_damaged_files_are_named(orbits, tmp_path):
    orbits.save(tmp_path / "made" / "orbits.json")
    assert len(OrbitSet.load(tmp_path / "made" / "orbits.json")) == len(orbits)
    with pytest.raises(DataError, match="no file"):
        OrbitSet.load(tmp_path / "absent.json")
    orbits.save(tmp_path / "orbits.json")
    content = json.loads((tmp_path / "orbits.json").read_text())
    del content["orbits"][0]["points"]
    (tmp_path / "orbits.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match="damaged"):
        OrbitSet.load(tmp_path / "orbits.json")


def test_periods_of_the_table_select(orbits):
    assert len(orbits.select(period=orbits.table()["period"][1])) == 1
    assert list(orbits[:0].table()["period"]) == []
